//! Configuration file of the daemon: TOML with known keys only. Errors name the line and its key.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use carrick_daemon::Config;
use serde::{Deserialize, Deserializer, de::Error};

use crate::endpoint::address;
use crate::failure::Failure;
use crate::log::LogFormat;
use crate::units;

use super::protocol::ProtocolSettings;

/// Content of the configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct Settings {
    /// Path of the control socket.
    pub(super) socket: Option<PathBuf>,
    /// TCP address for metrics over HTTP.
    pub(super) metrics: Option<SocketAddr>,
    /// Format of the log.
    pub(super) log: Option<LogFormat>,
    /// Time for the shutdown of associations when the daemon ends, such as "5s".
    linger: Option<LingerTime>,
    /// The network below the sockets.
    pub(super) network: NetworkSettings,
    /// Limits of users and of the host.
    pub(super) limits: LimitSettings,
    /// Extensions that are offered to peers.
    pub(super) protocol: ProtocolSettings,
}

/// The network below the sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct NetworkSettings {
    /// Transport of the packets.
    pub(super) transport: TransportSetting,
    /// Local addresses; all of the host if empty.
    addresses: Vec<LocalAddress>,
    /// Local UDP port of the encapsulation.
    pub(super) udp_port: Option<u16>,
    /// UDP port of peers.
    pub(super) peer_udp_port: Option<u16>,
}

/// Transport of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TransportSetting {
    /// UDP (RFC 6951).
    #[default]
    Udp,
    /// IP protocol 132.
    Raw,
    /// UDP and IP protocol 132.
    Both,
}

/// Limits of users and of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct LimitSettings {
    /// Connections of one user to the control socket.
    clients: Option<NonZeroUsize>,
    /// Descriptors of one user.
    descriptors: Option<NonZeroUsize>,
    /// Associations of all users.
    associations: Option<NonZeroUsize>,
    /// Received data of all users that programs have not read, in bytes.
    receive_memory: Option<NonZeroUsize>,
    /// Lowest SCTP port that users other than root may bind.
    first_unprivileged_port: Option<u16>,
}

/// Time such as "5s".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LingerTime(Duration);

impl<'de> Deserialize<'de> for LingerTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        units::duration(&text).map(Self).map_err(D::Error::custom)
    }
}

/// Address without a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LocalAddress(IpAddr);

impl<'de> Deserialize<'de> for LocalAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        address(&text).map(Self).map_err(D::Error::custom)
    }
}

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or has an unknown key or an invalid value.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path);
        let text =
            text.map_err(|error| Failure::Run(format!("cannot read {}: {error}", path.display())))?;
        Self::parse(&text).map_err(|why| Failure::Run(format!("{}: {why}", path.display())))
    }

    /// Parses the content of a file. The error names the line and the key.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let settings: Self = toml::from_str(text).map_err(|error| described(text, &error))?;
        let network = &settings.network;
        let has_port = network.udp_port.or(network.peer_udp_port).is_some();
        if network.transport == TransportSetting::Raw && has_port {
            return Err(
                "network.udp-port, network.peer-udp-port: transport \"raw\" has no UDP port; use \"both\", or \
                 remove the port"
                    .into(),
            );
        }
        Ok(settings)
    }

    pub(super) fn linger(&self) -> Option<Duration> {
        self.linger.map(|time| time.0)
    }
}

impl NetworkSettings {
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        self.addresses.iter().map(|address| address.0).collect()
    }
}

impl LimitSettings {
    /// Sets the limits that are given.
    pub(super) fn apply(&self, config: &mut Config) {
        for (limit, given) in [
            (&mut config.limits.clients, self.clients),
            (&mut config.limits.descriptors, self.descriptors),
            (&mut config.max_associations, self.associations),
            (&mut config.receive_memory, self.receive_memory),
        ] {
            *limit = given.map_or(*limit, NonZeroUsize::get);
        }
        config.first_unprivileged_port = self
            .first_unprivileged_port
            .unwrap_or(config.first_unprivileged_port);
    }
}

/// Returns an error in one line, with the number of the line and its text up to the value.
fn described(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    let Some(span) = error.span() else {
        return message;
    };
    let before = text.get(..span.start).unwrap_or(text);
    let number = before.matches('\n').count() + 1;
    let line = text.lines().nth(number - 1).unwrap_or_default();
    let key = line.split('=').next().unwrap_or_default().trim();
    format!("line {number}, {key}: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_line_and_key() {
        for (text, expected) in [
            (
                "soket = \"/run/a\"\n",
                "line 1, soket: unknown field `soket`",
            ),
            (
                "[network]\n\nudp-port = \"x\"\n",
                "line 3, udp-port: invalid type",
            ),
            (
                "[network]\nudp-prt = 1\n",
                "line 2, udp-prt: unknown field `udp-prt`",
            ),
            ("[netwrk]\n", "line 1, [netwrk]: unknown field `netwrk`"),
            ("linger = \"soon\"\n", "line 1, linger: "),
            (
                "[network]\naddresses = [\"fe80::1\"]\n",
                "line 2, addresses: link-local",
            ),
            ("[limits]\nclients = 0\n", "line 2, clients: "),
            (
                "[protocol]\nauthentication = 1\n",
                "line 2, authentication: invalid type",
            ),
            ("log = \"xml\"\n", "line 1, log: unknown variant `xml`"),
            (
                "[network]\ntransport = \"raw\"\nudp-port = 1\n",
                "network.udp-port",
            ),
        ] {
            let error = Settings::parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn limits_are_applied() {
        let file = "[limits]\nclients = 1\ndescriptors = 2\nassociations = 3\nreceive-memory = 4\n\
            first-unprivileged-port = 5\n";
        let settings = Settings::parse(file).unwrap();
        let mut config = Config::new(carrick::Transport::Raw);
        settings.limits.apply(&mut config);
        let limits = config.limits;
        assert_eq!((limits.clients, limits.descriptors), (1, 2));
        assert_eq!((config.max_associations, config.receive_memory), (3, 4));
        assert_eq!(config.first_unprivileged_port, 5);
        let mut unchanged = Config::new(carrick::Transport::Raw);
        LimitSettings::default().apply(&mut unchanged);
        assert_eq!(unchanged.max_associations, 8192);
    }

    /// The example has every key, commented out, with its default.
    #[test]
    fn the_example_is_valid() {
        let example = include_str!("../../../../docs/examples/carrick-daemon.toml");
        assert_eq!(Settings::parse(example), Ok(Settings::default()));
        let keys = |line: &&str| line.starts_with("#[") || line.contains(" = ");
        let uncommented: Vec<&str> = example
            .lines()
            .filter(keys)
            .map(|line| line.trim_start_matches('#'))
            .collect();
        let all = Settings::parse(&uncommented.join("\n")).unwrap();
        assert_eq!(uncommented.len(), 23, "{uncommented:#?}");
        let mut config = Config::new(carrick::Transport::Raw);
        all.limits.apply(&mut config);
        all.protocol.apply(&mut config.association);
        let default = Config::new(carrick::Transport::Raw);
        assert_eq!(config.limits, default.limits);
        assert_eq!(config.max_associations, default.max_associations);
        assert_eq!(config.receive_memory, default.receive_memory);
        assert_eq!(
            config.first_unprivileged_port,
            default.first_unprivileged_port
        );
        assert_eq!(
            config.association.extensions,
            default.association.extensions
        );
        assert_eq!(all.log, Some(LogFormat::Text));
    }
}
