//! Configuration file of a signal transfer point: TOML with known keys only. Errors name the line.
//!
//! `file` has the entries as they are written; `check` and `link_sets` turn them into settings.

mod check;
mod file;
mod link_sets;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use carrick::{Config, EventLog, Preset};
use carrick_metrics::{ConfigText, LocatedError};
use carrick_sigtran::m3ua::asp::{AspApplicationServer, AspConfig};
use carrick_sigtran::m3ua::sgp::{ApplicationServerConfig, RegistrationPolicy};
use carrick_sigtran::m3ua::{
    AspIdentifier, NetworkAppearance, PORT, PointCode, PointCodeFormat, RoutingContext,
};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use self::check::Wrong;
use self::file::ConfigFile;
use super::router::Route;
use super::screening::ScreeningRule;
use crate::association::endpoint_config;
use crate::mtp3::AdjacentPoint;
use crate::mtp3::label::LabelFormat;
use crate::node::{M2paConfig, M2paLinkConfig};
use crate::{AspSettings, IpspConfig, RemoteGateway};

/// Default number of streams in each direction: 16 for DATA, because an SLS of ITU networks has 16 values.
const STREAMS: u16 = 17;

/// Largest file that is read, in octets.
const MAX_FILE: u64 = 8 << 20;

/// Error of a configuration file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A key or value is invalid, or contradicts another one.
    #[error(transparent)]
    Invalid(#[from] LocatedError),
}

/// Configuration of a signal transfer point.
#[derive(Clone, PartialEq, Debug)]
pub struct StpConfig {
    /// Address for metrics over HTTP.
    pub metrics: Option<SocketAddr>,
    /// The log has a JSON object a line.
    pub json_log: bool,
    /// Endpoint.
    pub listen: ListenSettings,
    /// Display form of point codes.
    pub format: PointCodeFormat,
    /// Registration of routing keys by ASPs.
    pub registration: RegistrationPolicy,
    pub(in crate::stp) servers: Vec<ServerSettings>,
    pub(in crate::stp) asps: Vec<AspSettings>,
    pub(in crate::stp) link_sets: Vec<LinkSetSettings>,
    pub(in crate::stp) routes: Vec<Route>,
    pub(in crate::stp) screening: Vec<ScreeningRule>,
}

/// Application server with its name.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::stp) struct ServerSettings {
    pub(in crate::stp) name: String,
    pub(in crate::stp) config: ApplicationServerConfig,
}

/// Link set: associations with the same adjacent node or pair of nodes.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::stp) struct LinkSetSettings {
    pub(in crate::stp) name: String,
    pub(in crate::stp) network_appearance: Option<NetworkAppearance>,
    pub(in crate::stp) kind: LinkSetKind,
    /// Application server whose ASPs are the same peers.
    pub(in crate::stp) peer: Option<RoutingContext>,
}

/// Kind of a link set.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::stp) enum LinkSetKind {
    /// To gateways, as ASP.
    Asp(AspSet),
    /// To IP server processes.
    Ipsp(IpspConfig),
    /// MTP3 over M2PA.
    M2pa(M2paSet),
}

/// Link set of MTP3 over M2PA.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::stp) struct M2paSet {
    point_code_bits: u8,
    own: PointCode,
    adjacent: PointCode,
    network_indicator: u8,
    network_appearance: Option<NetworkAppearance>,
    emergency: bool,
    links: Vec<M2paLinkSettings>,
}

/// Link with its own endpoint.
#[derive(Clone, PartialEq, Debug)]
struct M2paLinkSettings {
    remote: RemoteGateway,
    accept: bool,
    listen: ListenSettings,
}

impl M2paSet {
    pub(in crate::stp) const fn point(&self) -> AdjacentPoint {
        AdjacentPoint {
            format: LabelFormat::new(self.point_code_bits),
            own: self.own,
            adjacent: self.adjacent,
            network_indicator: self.network_indicator,
        }
    }

    pub(in crate::stp) fn config(&self) -> M2paConfig {
        let links = self.links.iter().map(|link| M2paLinkConfig {
            remote: link.remote.clone(),
            connects: !link.accept,
            endpoint: link.listen.endpoint().accept(link.accept),
        });
        M2paConfig {
            point_code_bits: self.point_code_bits,
            own: self.own,
            adjacent: self.adjacent,
            network_indicator: self.network_indicator,
            network_appearance: self.network_appearance,
            emergency: self.emergency,
            links: links.collect(),
        }
    }
}

/// Gateways, and the application server in which this process is an ASP there.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::stp) struct AspSet {
    pub(in crate::stp) gateways: Vec<RemoteGateway>,
    pub(in crate::stp) identifier: Option<AspIdentifier>,
    pub(in crate::stp) server: AspApplicationServer,
}

impl AspSet {
    pub(in crate::stp) fn asp_config(&self) -> AspConfig {
        AspConfig {
            identifier: self.identifier,
            application_servers: vec![self.server],
            ..AspConfig::default()
        }
    }
}

/// SCTP endpoint with one or more addresses.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ListenSettings {
    /// Its addresses; empty for all of the host.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// The SCTP port.
    #[serde(default = "default_port")]
    pub port: u16,
    /// UDP port for SCTP in UDP (RFC 6951); 0 lets the system choose. 9899 without `raw`.
    pub udp_port: Option<u16>,
    /// SCTP directly over IP, which needs `CAP_NET_RAW`; combined with `udp-port`, both.
    #[serde(default)]
    pub raw: bool,
    /// Number of streams in each direction.
    #[serde(default = "default_streams")]
    pub streams: u16,
    /// Parameters of the associations.
    #[serde(default, deserialize_with = "preset")]
    pub preset: Preset,
    /// Log of what the endpoint decides. Not read from the file.
    #[serde(skip)]
    pub event_log: Option<EventLog>,
}

fn preset<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Preset, D::Error> {
    let name = String::deserialize(deserializer)?;
    name.parse().map_err(D::Error::custom)
}

fn default_port() -> u16 {
    PORT
}

fn default_streams() -> u16 {
    STREAMS
}

impl ListenSettings {
    /// Returns the configuration of the endpoint.
    pub fn endpoint(&self) -> Config {
        let config = if self.raw {
            Config::raw(self.addresses.iter().copied())
        } else {
            Config::udp(self.addresses.iter().copied())
        };
        let config = match (self.raw, self.udp_port) {
            (true, Some(port)) => config.and_plain_ip().encapsulation_port(port),
            (false, Some(port)) => config.encapsulation_port(port),
            (_, None) => config,
        };
        let mut config = config.association(self.preset.config());
        config.event_log.clone_from(&self.event_log);
        endpoint_config(config.port(self.port), self.streams)
    }
}

impl StpConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError`] with the line.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        match read_limited(path) {
            Ok(text) => Self::parse(&name, &text),
            Err(source) => Err(ConfigError::Read { path: name, source }),
        }
    }

    /// Returns what is valid and probably not intended, a line each.
    pub fn warnings(&self) -> Vec<String> {
        let by_number = self.asps.iter().filter(|asp| asp.addresses.is_empty());
        let warnings = by_number.map(|asp| {
            format!(
                "ASP {:?} is recognized by its identifier alone, which is no secret: any peer that sends it takes over \
                 the traffic; give its addresses",
                asp.name
            )
        });
        warnings.collect()
    }

    /// Replaces the preset of all associations, those of links over M2PA included.
    pub fn set_preset(&mut self, preset: Preset) {
        self.change_endpoints(|endpoint| endpoint.preset = preset);
    }

    /// Logs what all endpoints decide.
    pub fn set_event_log(&mut self, log: &EventLog) {
        self.change_endpoints(|endpoint| endpoint.event_log = Some(log.clone()));
    }

    /// Changes the settings of the endpoint, and of those of links over M2PA.
    fn change_endpoints(&mut self, change: impl Fn(&mut ListenSettings)) {
        change(&mut self.listen);
        for set in &mut self.link_sets {
            if let LinkSetKind::M2pa(set) = &mut set.kind {
                set.links
                    .iter_mut()
                    .for_each(|link| change(&mut link.listen));
            }
        }
    }

    /// Parses the text of a file with this name.
    ///
    /// # Errors
    /// [`ConfigError`] with the line.
    pub fn parse(path: &str, text: &str) -> Result<Self, ConfigError> {
        let config = ConfigText::new(path, text);
        let file: ConfigFile = config.parse()?;
        let checked = file.check();
        checked.map_err(|Wrong { at, reason }| config.at(at, reason).into())
    }
}

/// Reads a file that is not larger than [`MAX_FILE`].
fn read_limited(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(MAX_FILE + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        let reason = format!("larger than {} MiB", MAX_FILE >> 20);
        return Err(std::io::Error::new(ErrorKind::FileTooLarge, reason));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_files_are_refused() {
        let error = StpConfig::read(Path::new("/dev/zero")).unwrap_err();
        let text = "cannot read /dev/zero: larger than 8 MiB";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn identity_by_number_alone_is_warned_of() {
        let config = StpConfig::parse("f", FILE).unwrap();
        let [warning] = &config.warnings()[..] else {
            panic!("{:?}", config.warnings());
        };
        assert!(warning.contains("ASP \"a\""), "{warning}");
        let text = FILE.replacen(
            "identifier = 1",
            "identifier = 1\naddresses = [\"127.0.0.1\"]",
            1,
        );
        let config = StpConfig::parse("f", &text).unwrap();
        assert!(config.warnings().is_empty());
    }

    const FILE: &str = r#"
[listen]
addresses = ["127.0.0.1"]
[[asp]]
name = "a"
identifier = 1
[[application-server]]
name = "one"
routing-context = 1
asps = ["a"]
keys = [{ dpc = "2-117-3", si = [3] }]
[[link-set]]
name = "mate"
routing-context = 9
gateways = [{ addresses = ["127.0.0.2", "127.0.0.3"] }]
[[route]]
dpc = "2-117-0"
mask = 3
link-set = "mate"
[[screening]]
action = "deny"
link-set = "mate"
opc = 5
"#;

    fn error(from: &str, to: &str) -> String {
        assert!(FILE.contains(from), "{from}");
        let text = FILE.replacen(from, to, 1);
        StpConfig::parse("f", &text).expect_err(to).to_string()
    }

    #[test]
    fn a_file_is_read() {
        let config = StpConfig::parse("f", FILE).unwrap();
        assert_eq!(config.listen.port, 2905);
        assert_eq!(config.asps[0].application_servers, [RoutingContext(1)]);
        let LinkSetKind::Asp(set) = &config.link_sets[0].kind else {
            panic!("{config:?}");
        };
        assert_eq!(set.gateways[0].addresses.len(), 2);
        assert_eq!(config.routes[0].destination.mask, 3);
        assert_eq!(config.screening.len(), 1);
    }

    #[test]
    fn a_preset_has_the_timers_of_all_associations() {
        let text = FILE.replacen("[listen]\n", "[listen]\npreset = \"signaling\"\n", 1);
        let mut config = StpConfig::parse("f", &text).unwrap();
        let timers = |config: &StpConfig| config.listen.endpoint().association.timers;
        let signaling = carrick::AssociationConfig::signaling().timers;
        assert_eq!(timers(&config).rto_min, signaling.rto_min);
        config.set_preset(Preset::Recommended);
        assert_eq!(timers(&config).rto_min, std::time::Duration::from_secs(1));
        let why = error("[listen]", "[listen]\npreset = \"fast\"");
        assert!(why.contains("line 3") && why.contains("signaling"), "{why}");
    }

    #[test]
    fn errors_of_the_form_are_one_line_with_the_key() {
        for (good, bad, expected) in [
            (
                "addresses = [\"127.0.0.1\"]",
                "adresses = []",
                "f, line 3: adresses: unknown key; expected",
            ),
            (
                "addresses = [\"127.0.0.1\"]",
                "port = x",
                "f, line 3: port: a text needs quotes",
            ),
            ("[listen]", "[lsten]", "f, line 2: [lsten]: unknown key"),
        ] {
            let why = error(good, bad);
            assert!(why.starts_with(expected), "{why}");
            assert!(!why.contains('\n'), "{why}");
        }
        let why = StpConfig::parse("f", "variant = \"itu\"\n").unwrap_err();
        let expected = "f: listen: missing: the file needs this key or table";
        assert_eq!(why.to_string(), expected);
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
        let example = include_str!("../../../../../../docs/examples/carrick-stp.toml");
        let lines: Vec<&str> = example.lines().collect();
        let mut count = 0;
        for (place, line) in lines.iter().enumerate() {
            let Some((key, _)) = line
                .split_once(" = ")
                .filter(|(key, _)| !key.starts_with('#'))
            else {
                continue;
            };
            for value in values {
                let mut changed = lines.clone();
                let own = format!("{key} = {value}");
                changed[place] = &own;
                let Err(error) = StpConfig::parse("f", &changed.join("\n")) else {
                    continue;
                };
                let error = error.to_string();
                let reason = error
                    .split_once(&format!("{key}: "))
                    .map_or(&*error, |(_, reason)| reason);
                let found = words.iter().find(|word| reason.contains(**word));
                assert_eq!(found, None, "{own}: {error}");
                // A name may be valid here, and missing elsewhere.
                if !value.contains("no such") {
                    let start = format!("f, line {}: {key}: ", place + 1);
                    assert!(error.starts_with(&start), "{own}: {error}");
                    assert!(
                        error.contains(value.trim_matches(['[', ']'])),
                        "{own}: {error}"
                    );
                }
                count += 1;
            }
        }
        assert!(count > 150, "{count}");
    }

    #[test]
    fn missing_keys_have_the_line_of_their_table() {
        for (from, to, expected) in [
            (
                "name = \"a\"\n",
                "",
                "f, line 4: [[asp]]: key name is missing",
            ),
            (
                "dpc = \"2-117-3\", ",
                "",
                "f, line 11: keys: key dpc is missing",
            ),
            (
                "addresses = [\"127.0.0.2\", \"127.0.0.3\"]",
                "port = 1",
                "f, line 15: gateways: key addresses is missing",
            ),
            (
                "action = \"deny\"\n",
                "",
                "f, line 20: [[screening]]: key action is missing",
            ),
        ] {
            assert_eq!(error(from, to), expected);
        }
    }

    #[test]
    fn errors_name_the_line() {
        for (from, to, line, words) in [
            ("identifier = 1", "", 5, "needs addresses"),
            ("asps = [\"a\"]", "asps = [\"b\"]", 10, "\"b\""),
            ("\"2-117-3\"", "\"2-117-8\"", 11, "2-117-8"),
            ("si = [3]", "si = [16]", 11, "0 to 15"),
            ("mask = 3", "mask = 15", 18, "0 to 14"),
            ("mask = 3", "mask = 4", 17, "must be 0"),
            (
                "link-set = \"mate\"\n[[s",
                "link-set = \"x\"\n[[s",
                19,
                "\"x\"",
            ),
            ("name = \"mate\"", "name = \"one\"", 13, "another"),
            ("opc = 5", "opc-mask = 1", 23, "point code"),
        ] {
            let why = error(from, to);
            assert!(
                why.contains(&format!("line {line}:")) && why.contains(words),
                "{why}"
            );
        }
    }
}
