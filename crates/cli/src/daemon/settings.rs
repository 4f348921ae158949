//! Configuration file of the daemon: TOML with known keys only. Errors name the line and its key.

use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU16, NonZeroUsize};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use carrick_daemon::{Config, ReservedPorts, SocketsConfig};
use carrick_metrics::located_error;
use nix::unistd::User;
use serde::{Deserialize, Deserializer, de::Error};

use crate::endpoint::address;
use crate::failure::Failure;
use crate::log::LogFormat;
use crate::parameters::{ParameterPlace, Parameters, validate};
use crate::units;

/// Content of the configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct Settings {
    /// Path of the control socket.
    pub(super) socket: Option<PathBuf>,
    /// TCP address for metrics over HTTP.
    pub(super) metrics: Option<SocketAddr>,
    /// Number of associations with metrics of their own.
    pub(super) metrics_associations: Option<usize>,
    /// File of the event log.
    pub(super) event_log: Option<PathBuf>,
    /// Format of the log.
    pub(super) log: Option<LogFormat>,
    /// Time for the shutdown of associations when the daemon ends, such as "5s".
    linger: Option<LingerTime>,
    /// The network below the sockets.
    pub(super) network: NetworkSettings,
    /// Limits of users and of the host.
    pub(super) limits: LimitSettings,
    /// Parameters and extensions of sockets until a program changes them.
    pub(super) defaults: Parameters,
    /// Ports that are reserved for users.
    ports: Vec<PortSettings>,
}

/// SCTP ports that are reserved for a user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortSettings {
    user: UserNumber,
    ports: PortList,
}

/// User, by name or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UserNumber(u32);

impl<'de> Deserialize<'de> for UserNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if let Ok(number) = text.parse() {
            return Ok(Self(number));
        }
        match User::from_name(&text) {
            Ok(Some(user)) => Ok(Self(user.uid.as_raw())),
            _ => Err(D::Error::custom(format!(
                "this host has no user {text:?}: give the name or number of a user"
            ))),
        }
    }
}

/// Ports such as "2905,3868-3870".
#[derive(Clone, Debug, PartialEq, Eq)]
struct PortList(Vec<RangeInclusive<u16>>);

impl PortList {
    fn parse(text: &str) -> Option<Self> {
        let ranges = text.split(',').map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: NonZeroU16 = first.trim().parse().ok()?;
            let last: NonZeroU16 = last.trim().parse().ok()?;
            (first <= last).then(|| first.get()..=last.get())
        });
        ranges.collect::<Option<_>>().map(Self)
    }
}

impl<'de> Deserialize<'de> for PortList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            D::Error::custom(format!(
                "{text:?} are no ports: give numbers and ranges such as \"2905,3868-3870\""
            ))
        })
    }
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
    /// Associations of one user.
    associations_per_user: Option<NonZeroUsize>,
    /// Associations initiated by peers at one address.
    associations_per_source: Option<NonZeroUsize>,
    /// Associations of one address that wait in a backlog while others compete for it.
    backlog_per_source: Option<NonZeroUsize>,
    /// Received data of all users that programs have not read, in bytes.
    receive_memory: Option<NonZeroUsize>,
    /// Received data of one user.
    receive_memory_per_user: Option<NonZeroUsize>,
    /// Bytes in send buffers of one user.
    send_memory_per_user: Option<NonZeroUsize>,
    /// Lowest SCTP port that users other than root may bind.
    first_unprivileged_port: Option<u16>,
}

/// Time such as "5s".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LingerTime(Duration);

impl<'de> Deserialize<'de> for LingerTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        units::time_of_file(deserializer, units::duration).map(Self)
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
        let settings: Self = toml::from_str(text)
            .map_err(|error| located_error(text, error.span(), error.message()))?;
        let network = &settings.network;
        let has_port = network.udp_port.or(network.peer_udp_port).is_some();
        if network.transport == TransportSetting::Raw && has_port {
            return Err(
                "network.udp-port, network.peer-udp-port: transport \"raw\" has no UDP port; use \"both\", or \
                 remove the port"
                    .into(),
            );
        }
        let mut association = SocketsConfig::for_programs(settings.defaults.base());
        settings.defaults.apply(&mut association);
        validate(&association, ParameterPlace::File).map_err(|why| located(text, &why))?;
        Ok(settings)
    }

    pub(super) fn reserved_ports(&self) -> Vec<ReservedPorts> {
        let reserved = self.ports.iter().flat_map(|entry| {
            let owner = entry.user.0;
            let ranges = entry.ports.0.iter().cloned();
            ranges.map(move |ports| ReservedPorts { owner, ports })
        });
        reserved.collect()
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
            (&mut config.send_memory_per_user, self.send_memory_per_user),
        ] {
            *limit = given.map_or(*limit, NonZeroUsize::get);
        }
        for (limit, given) in [
            (
                &mut config.max_associations_per_user,
                self.associations_per_user,
            ),
            (
                &mut config.max_associations_per_source,
                self.associations_per_source,
            ),
            (&mut config.backlog_per_source, self.backlog_per_source),
            (
                &mut config.receive_memory_per_user,
                self.receive_memory_per_user,
            ),
        ] {
            *limit = given.map(NonZeroUsize::get).or(*limit);
        }
        config.first_unprivileged_port = self
            .first_unprivileged_port
            .unwrap_or(config.first_unprivileged_port);
    }
}

/// Returns an error of `[defaults]` with the line of the first key in it that the file has.
fn located(text: &str, why: &str) -> String {
    let lines = (1..).zip(text.lines());
    let section = lines
        .skip_while(|(_, line)| line.trim() != "[defaults]")
        .skip(1)
        .take_while(|(_, line)| !line.trim_start().starts_with('['));
    let keys: Vec<(usize, &str)> = section
        .filter_map(|(number, line)| Some((number, line.split_once('=')?.0.trim())))
        .collect();
    let mut words = why.split(|c: char| c != '-' && !c.is_ascii_alphanumeric());
    let named = words.find_map(|word| keys.iter().find(|(_, key)| *key == word));
    match named {
        Some((number, key)) => format!("line {number}, {key}: {why}"),
        None => format!("[defaults]: {why}"),
    }
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
                "[defaults]\nauth-enable = 1\n",
                "line 2, auth-enable: invalid type",
            ),
            (
                "[defaults]\nrto-min = 1000\n",
                "line 2, rto-min: a time is a text with its unit: write \"1000ms\"",
            ),
            (
                "[defaults]\nrto-mni = \"1s\"\n",
                "line 2, rto-mni: unknown field `rto-mni`",
            ),
            (
                "[defaults]\npreset = \"fast\"\n",
                "line 2, preset: expected recommended, signaling or rfc9260",
            ),
            (
                "[defaults]\npf-retrans = \"none\"\n",
                "line 2, pf-retrans: expected a number of retransmissions, or",
            ),
            (
                "# A limit.\n[defaults]\n\nrto-max = \"500ms\"\n",
                "line 4, rto-max: rto-min of 1s exceeds rto-max, which is 500ms",
            ),
            (
                "[defaults]\naddip-enable = true\n",
                "line 2, addip-enable: addip-enable needs auth-enable",
            ),
            (
                "[[ports]]\nuser = \"no such user\"\nports = \"1\"\n",
                "line 2, user: this host has no user",
            ),
            (
                "[[ports]]\nuser = \"7\"\nports = \"3870-3868\"\n",
                "line 3, ports: \"3870-3868\" are no ports",
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
            first-unprivileged-port = 5\nassociations-per-user = 6\nassociations-per-source = 7\n\
            receive-memory-per-user = 8\nsend-memory-per-user = 9\nbacklog-per-source = 10\n[[ports]]\nuser = \"9\"\nports = \"10, 11-12\"\n";
        let settings = Settings::parse(file).unwrap();
        let mut config = Config::new(carrick::Transport::Raw);
        settings.limits.apply(&mut config);
        let limits = config.limits;
        assert_eq!((limits.clients, limits.descriptors), (1, 2));
        assert_eq!((config.max_associations, config.receive_memory), (3, 4));
        assert_eq!(config.first_unprivileged_port, 5);
        assert_eq!(config.max_associations_per_user, Some(6));
        assert_eq!(config.max_associations_per_source, Some(7));
        assert_eq!(config.backlog_per_source, Some(10));
        assert_eq!(config.receive_memory_per_user, Some(8));
        assert_eq!(config.send_memory_per_user, 9);
        let reserved = [10..=10, 11..=12].map(|ports| ReservedPorts { owner: 9, ports });
        assert_eq!(settings.reserved_ports(), reserved);
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
        assert_eq!(uncommented.len(), 50, "{uncommented:#?}");
        let mut config = Config::new(carrick::Transport::Raw);
        all.limits.apply(&mut config);
        config.association = SocketsConfig::for_programs(all.defaults.base());
        all.defaults.apply(&mut config.association);
        let default = Config::new(carrick::Transport::Raw);
        assert_eq!(config.limits, default.limits);
        assert_eq!(config.max_associations, default.max_associations);
        assert_eq!(config.receive_memory, default.receive_memory);
        assert_eq!(config.send_memory_per_user, default.send_memory_per_user);
        // Shares that the daemon derives from the limits of all.
        let (half, eighth) = (config.max_associations / 2, config.max_associations / 8);
        assert_eq!(config.max_associations_per_user, Some(half));
        assert_eq!(config.max_associations_per_source, Some(eighth));
        let half = config.receive_memory / 2;
        assert_eq!(config.receive_memory_per_user, Some(half));
        assert_eq!(
            config.first_unprivileged_port,
            default.first_unprivileged_port
        );
        let all_values = |config: &Config| format!("{:?}", config.association);
        assert_eq!(all_values(&config), all_values(&default));
        assert_eq!(all.log, Some(LogFormat::Text));
    }
}
