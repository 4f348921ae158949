//! Configuration file of the daemon: TOML with known keys only. Errors name the line and its key.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU16, NonZeroUsize};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use carrick_daemon::{Config, MAX_STORED_LISTENERS, ReservedPorts, SocketsConfig};
use carrick_metrics::{ConfigText, LocatedError};
use nix::unistd::User;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use crate::endpoint::address;
use crate::failure::Failure;
use crate::log::LogFormat;
use crate::parameters::{ParameterPlace, Parameters, validate};
use crate::security::ProtectionFile;
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
    /// Encryption of the associations of all programs.
    pub(super) protection: Option<ProtectionFile>,
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
    /// Listening sockets of all users that the service manager holds.
    #[serde(deserialize_with = "stored_listeners")]
    stored_listeners: Option<usize>,
    /// Lowest SCTP port that users other than root may bind.
    first_unprivileged_port: Option<u16>,
}

fn stored_listeners<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let number = usize::deserialize(deserializer)?;
    if number > MAX_STORED_LISTENERS {
        return Err(D::Error::custom(format!(
            "expected a whole number from 0 to {MAX_STORED_LISTENERS}"
        )));
    }
    Ok(Some(number))
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
        deserializer.deserialize_str(AddressVisitor)
    }
}

/// Reads an address. Its error has the line of the address, also in a list of several lines.
struct AddressVisitor;

impl Visitor<'_> for AddressVisitor {
    type Value = LocalAddress;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IP address")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<LocalAddress, E> {
        address(text).map(LocalAddress).map_err(E::custom)
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
        let parsed = Self::parse(&path.display().to_string(), &text);
        parsed.map_err(|error| Failure::Run(error.to_string()))
    }

    /// Parses the text of the file of this path.
    pub(super) fn parse(path: &str, text: &str) -> Result<Self, LocatedError> {
        let config = ConfigText::new(path, text);
        let settings: Self = config.parse()?;
        let network = &settings.network;
        let has_port = network.udp_port.or(network.peer_udp_port).is_some();
        if network.transport == TransportSetting::Raw && has_port {
            let key = match network.udp_port {
                Some(_) => "network.udp-port",
                None => "network.peer-udp-port",
            };
            let reason = "transport \"raw\" has no UDP port; use \"both\", or remove the port";
            return Err(config.of_key(key, reason));
        }
        let mut association = SocketsConfig::for_programs(settings.defaults.base());
        settings.defaults.apply(&mut association);
        validate(&association, ParameterPlace::File).map_err(|why| located(&config, text, &why))?;
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
        config.stored_listeners = self.stored_listeners.unwrap_or(config.stored_listeners);
        config.first_unprivileged_port = self
            .first_unprivileged_port
            .unwrap_or(config.first_unprivileged_port);
    }
}

/// Returns an error of `[defaults]` with the line of the first key that it names and the file has.
fn located(config: &ConfigText<'_>, text: &str, why: &str) -> LocatedError {
    let section = text
        .lines()
        .skip_while(|line| line.trim() != "[defaults]")
        .skip(1)
        .take_while(|line| !line.trim_start().starts_with('['));
    let keys: Vec<&str> = section
        .filter_map(|line| Some(line.split_once('=')?.0.trim()))
        .collect();
    let mut words = why.split(|c: char| c != '-' && !c.is_ascii_alphanumeric());
    let named = words.find(|word| keys.contains(word));
    let path = named.map_or_else(|| "defaults".into(), |key| format!("defaults.{key}"));
    config.of_key(&path, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes of a file, or files, that are wrong, and the beginnings of their errors.
    const WRONG: &[(&str, &str)] = &[
        (
            "soket = \"/run/a\"\n",
            "f, line 1: soket: unknown key; expected one of socket, metrics, ",
        ),
        (
            "metrics = \"127.0.0.1\"\n",
            "f, line 1: metrics: \"127.0.0.1\" is invalid; expected an address with its port",
        ),
        (
            "[network]\n\nudp-port = \"x\"\n",
            "f, line 3: udp-port: \"x\" is invalid; expected a whole number from 0 to 65535",
        ),
        (
            "[network]\nudp-prt = 1\n",
            "f, line 2: udp-prt: unknown key",
        ),
        ("[netwrk]\n", "f, line 1: [netwrk]: unknown key"),
        (
            "linger = \"soon\"\n",
            "f, line 1: linger: \"soon\" is invalid; expected a time with its unit",
        ),
        (
            "linger = 5\n",
            "f, line 1: linger: 5 is invalid; a time is a text with its unit: write \"5ms\" or \"5s\"",
        ),
        (
            "linger = \"5\"\n",
            "f, line 1: linger: \"5\" is invalid; a time needs its unit: write 5ms or 5s",
        ),
        (
            "[network]\naddresses = [\"fe80::1\"]\n",
            "f, line 2: addresses: \"fe80::1\" is invalid; link-local",
        ),
        (
            "[limits]\nclients = 0\n",
            "f, line 2: clients: 0 is invalid; expected a whole number, at least 1",
        ),
        (
            "[limits]\nstored-listeners = 1025",
            "f, line 2: stored-listeners: 1025 is invalid; expected a whole number from 0 to 1024",
        ),
        (
            "[defaults]\nauth-enable = 1\n",
            "f, line 2: auth-enable: 1 is invalid; expected true or false",
        ),
        (
            "[defaults]\nrto-min = 1000\n",
            "f, line 2: rto-min: 1000 is invalid; a time is a text with its unit: write \"1000ms\"",
        ),
        (
            "[defaults]\nrto-mni = \"1s\"\n",
            "f, line 2: rto-mni: unknown key",
        ),
        (
            "[defaults]\npreset = \"fast\"\n",
            "f, line 2: preset: \"fast\" is invalid; expected recommended, signaling or rfc9260",
        ),
        (
            "[defaults]\npf-retrans = \"none\"\n",
            "f, line 2: pf-retrans: \"none\" is invalid; expected a number of retransmissions, or",
        ),
        (
            "# A limit.\n[defaults]\n\nrto-max = \"500ms\"\n",
            "f, line 4: rto-max: rto-min of 1s exceeds rto-max, which is 500ms",
        ),
        (
            "[defaults]\naddip-enable = true\n",
            "f, line 2: addip-enable: addip-enable needs auth-enable",
        ),
        (
            "[[ports]]\nuser = \"no such user\"\nports = \"1\"\n",
            "f, line 2: user: this host has no user \"no such user\"",
        ),
        (
            "[[ports]]\nuser = \"7\"\nports = \"3870-3868\"\n",
            "f, line 3: ports: \"3870-3868\" are no ports",
        ),
        (
            "\n[[ports]]\nuser = \"7\"\n",
            "f, line 2: [[ports]]: key ports is missing",
        ),
        (
            "log = \"xml\"\n",
            "f, line 1: log: \"xml\" is invalid; expected \"text\" or \"json\"",
        ),
        (
            "[network]\ntransport = \"raw\"\nudp-port = 1\n",
            "f, line 3: udp-port: transport \"raw\" has no UDP port",
        ),
    ];

    #[test]
    fn errors_name_line_key_and_value() {
        for (text, expected) in WRONG {
            let error = Settings::parse("f", text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    /// Each key of the example with values of other types.
    #[test]
    fn no_error_has_words_of_the_parser() {
        let values = [
            "[[1]]",
            "{ x = 1 }",
            "-1",
            "1.5",
            "true",
            "\"no such\"",
            "99999999999999999999",
        ];
        let words = [
            "u8",
            "u16",
            "u32",
            "usize",
            "enum",
            "struct",
            "variant",
            "nonzero",
            "syntax",
            "integer",
            "invalid type",
            "sequence",
            "`",
        ];
        let example = include_str!("../../../../docs/examples/carrick-daemon.toml");
        let is_key = |line: &&str| line.starts_with("#[") || line.contains(" = ");
        let lines = example.lines().filter(is_key);
        let lines: Vec<&str> = lines.map(|line| line.trim_start_matches('#')).collect();
        let mut count = 0;
        for (place, line) in lines.iter().enumerate() {
            let Some((key, _)) = line.split_once(" = ") else {
                continue;
            };
            for value in values {
                let mut changed = lines.clone();
                let own = format!("{key} = {value}");
                changed[place] = &own;
                let Err(error) = Settings::parse("f", &changed.join("\n")) else {
                    continue;
                };
                let error = error.to_string();
                let start = format!("f, line {}: {key}: ", place + 1);
                let shown = value.trim_matches(['[', ']']);
                // A switch may contradict another one.
                let has_value = error.contains(shown) || value == "true";
                assert!(error.starts_with(&start) && has_value, "{own}: {error}");
                let reason = error
                    .split_once(&format!("{key}: "))
                    .map_or(&*error, |(_, reason)| reason);
                let found = words.iter().find(|word| reason.contains(**word));
                assert_eq!(found, None, "{own}: {error}");
                count += 1;
            }
        }
        assert!(count > 200, "{count}");
    }

    #[test]
    fn limits_are_applied() {
        let file = "[limits]\nclients = 1\ndescriptors = 2\nassociations = 3\nreceive-memory = 4\n\
            first-unprivileged-port = 5\nassociations-per-user = 6\nassociations-per-source = 7\n\
            receive-memory-per-user = 8\nsend-memory-per-user = 9\nbacklog-per-source = 10\nstored-listeners = 0\n[[ports]]\nuser = \"9\"\nports = \"10, 11-12\"\n";
        let settings = Settings::parse("f", file).unwrap();
        let mut config = Config::new(carrick::Transport::Raw);
        settings.limits.apply(&mut config);
        let limits = config.limits;
        assert_eq!((limits.clients, limits.descriptors), (1, 2));
        assert_eq!((config.max_associations, config.receive_memory), (3, 4));
        assert_eq!(config.first_unprivileged_port, 5);
        assert_eq!(config.max_associations_per_user, Some(6));
        assert_eq!(config.max_associations_per_source, Some(7));
        assert_eq!(config.backlog_per_source, Some(10));
        assert_eq!(config.stored_listeners, 0);
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
        assert_eq!(Settings::parse("f", example), Ok(Settings::default()));
        let keys = |line: &&str| line.starts_with("#[") || line.contains(" = ");
        let uncommented: Vec<&str> = example
            .lines()
            .filter(keys)
            .map(|line| line.trim_start_matches('#'))
            .collect();
        let all = Settings::parse("f", &uncommented.join("\n")).unwrap();
        assert_eq!(uncommented.len(), 58, "{uncommented:#?}");
        let mut config = Config::new(carrick::Transport::Raw);
        all.limits.apply(&mut config);
        config.association = SocketsConfig::for_programs(all.defaults.base());
        all.defaults.apply(&mut config.association);
        let default = Config::new(carrick::Transport::Raw);
        assert_eq!(config.limits, default.limits);
        assert_eq!(config.stored_listeners, default.stored_listeners);
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
