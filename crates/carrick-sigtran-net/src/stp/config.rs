//! Configuration file of a signal transfer point: TOML with known keys only. Errors name the line.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::Path;

use carrick::Config;
use carrick_sigtran::m3ua::asp::{AspApplicationServer, AspConfig};
use carrick_sigtran::m3ua::sgp::ApplicationServerConfig;
use carrick_sigtran::m3ua::{
    AffectedPointCode, AspIdentifier, NetworkAppearance, PORT, PointCode, PointCodeFormat,
    RoutingContext, RoutingKeyDestination, TrafficMode,
};
use serde::Deserialize;
use toml::Spanned;

use super::router::{Route, Target};
use super::screening::{ScreeningAction, ScreeningRule};
use crate::association::endpoint_config;
use crate::{AspSettings, RemoteGateway};

/// Default number of streams in each direction: 16 for DATA, because an SLS of ITU networks has 16 values.
const STREAMS: u16 = 17;

/// Maximum number of ASPs, and of application servers: the limits of [`carrick_sigtran::m3ua::sgp::SgpConfig`].
const MAX_ASPS: usize = 1024;

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
    /// Not TOML, or an unknown key or value.
    #[error("{path}: {reason}")]
    Form {
        /// The file.
        path: String,
        /// Line and error.
        reason: String,
    },
    /// A value is out of range or contradicts another one.
    #[error("{path}, line {line}: {reason}")]
    Value {
        /// The file.
        path: String,
        /// The line.
        line: usize,
        /// The error and how to correct it.
        reason: String,
    },
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
    pub(super) servers: Vec<ServerSettings>,
    pub(super) asps: Vec<AspSettings>,
    pub(super) link_sets: Vec<LinkSetSettings>,
    pub(super) routes: Vec<Route>,
    pub(super) screening: Vec<ScreeningRule>,
}

/// Application server with its name.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ServerSettings {
    pub(super) name: String,
    pub(super) config: ApplicationServerConfig,
}

/// Link set: associations with gateways, as ASP of one application server there.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct LinkSetSettings {
    pub(super) name: String,
    pub(super) gateways: Vec<RemoteGateway>,
    pub(super) identifier: Option<AspIdentifier>,
    pub(super) server: AspApplicationServer,
    /// Application server whose ASPs are the same peers.
    pub(super) peer: Option<RoutingContext>,
}

impl LinkSetSettings {
    pub(super) fn asp_config(&self) -> AspConfig {
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
        endpoint_config(config.port(self.port), self.streams)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    variant: Variant,
    metrics: Option<SocketAddr>,
    #[serde(default)]
    log: LogFormat,
    listen: ListenSettings,
    #[serde(default)]
    asp: Vec<AspEntry>,
    #[serde(default)]
    application_server: Vec<ServerEntry>,
    #[serde(default)]
    link_set: Vec<LinkSetEntry>,
    #[serde(default)]
    route: Vec<RouteEntry>,
    #[serde(default)]
    screening: Vec<ScreeningEntry>,
}

#[derive(Deserialize, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Format of point codes.
#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Variant {
    #[default]
    Itu,
    Ansi,
    Ttc,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    Override,
    Loadshare,
    Broadcast,
}

impl Mode {
    const fn traffic_mode(self) -> TrafficMode {
        match self {
            Self::Override => TrafficMode::OVERRIDE,
            Self::Loadshare => TrafficMode::LOADSHARE,
            Self::Broadcast => TrafficMode::BROADCAST,
        }
    }
}

/// Point code as text such as `2-117-3`, or as a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum CodeEntry {
    Text(String),
    Number(u32),
}

type Code = Spanned<CodeEntry>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct AspEntry {
    name: Spanned<String>,
    #[serde(default)]
    addresses: Vec<IpAddr>,
    identifier: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ServerEntry {
    name: Spanned<String>,
    routing_context: Spanned<u32>,
    network_appearance: Option<u32>,
    traffic_mode: Option<Mode>,
    minimum: Option<Spanned<usize>>,
    asps: Vec<Spanned<String>>,
    #[serde(default)]
    keys: Vec<KeyEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct KeyEntry {
    dpc: Code,
    #[serde(default)]
    opc: Vec<Code>,
    #[serde(default)]
    si: Vec<Spanned<u8>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct LinkSetEntry {
    name: Spanned<String>,
    gateways: Vec<GatewayEntry>,
    routing_context: Option<u32>,
    network_appearance: Option<u32>,
    traffic_mode: Option<Mode>,
    identifier: Option<u32>,
    application_server: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct GatewayEntry {
    addresses: Spanned<Vec<IpAddr>>,
    #[serde(default = "default_port")]
    port: u16,
    udp_port: Option<u16>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RouteEntry {
    dpc: Code,
    #[serde(default)]
    mask: Option<Spanned<u8>>,
    #[serde(default = "default_priority")]
    priority: u8,
    link_set: Option<Spanned<String>>,
    application_server: Option<Spanned<String>>,
}

fn default_priority() -> u8 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ScreeningEntry {
    action: ScreeningAction,
    link_set: Option<Spanned<String>>,
    application_server: Option<Spanned<String>>,
    opc: Option<Code>,
    opc_mask: Option<Spanned<u8>>,
    dpc: Option<Code>,
    dpc_mask: Option<Spanned<u8>>,
    #[serde(default)]
    si: Vec<Spanned<u8>>,
}

/// Error with the place in the file.
struct Wrong {
    at: Range<usize>,
    reason: String,
}

impl Wrong {
    fn new(at: Range<usize>, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { at, reason }
    }
}

fn wrong<T>(at: Range<usize>, reason: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong::new(at, reason))
}

impl StpConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError`] with the line.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&name, &text),
            Err(source) => Err(ConfigError::Read { path: name, source }),
        }
    }

    /// Parses the text of a file with this name.
    ///
    /// # Errors
    /// [`ConfigError`] with the line.
    pub fn parse(path: &str, text: &str) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text).map_err(|error| ConfigError::Form {
            path: path.to_owned(),
            reason: error.to_string().trim_end().to_owned(),
        })?;
        file.check().map_err(|Wrong { at, reason }| {
            let before = text.get(..at.start).unwrap_or_default();
            ConfigError::Value {
                path: path.to_owned(),
                line: before.matches('\n').count() + 1,
                reason,
            }
        })
    }
}

impl File {
    /// Checks names, point codes and limits; each is an error at its place.
    fn check(self) -> Result<StpConfig, Wrong> {
        let format = match self.variant {
            Variant::Itu => PointCodeFormat::ITU,
            Variant::Ansi => PointCodeFormat::ANSI,
            Variant::Ttc => PointCodeFormat::TTC,
        };
        unique("ASP", self.asp.iter().map(|asp| &asp.name))?;
        let servers = self.application_server.iter().map(|server| &server.name);
        unique(
            "application server or link set",
            servers.chain(self.link_set.iter().map(|set| &set.name)),
        )?;
        let names = self.asp.iter().map(|asp| &asp.name);
        at_most(MAX_ASPS, "ASPs", names)?;
        let names = self.application_server.iter().map(|server| &server.name);
        at_most(MAX_ASPS, "application servers", names)?;
        let servers = self.servers(format)?;
        let asps = self.asps(&servers)?;
        let link_sets = self.link_sets(&servers)?;
        let names = Names {
            servers: &servers,
            link_sets: &link_sets,
        };
        let routes = self.route.iter().map(|route| route.check(format, &names));
        let routes = routes.collect::<Result<_, _>>()?;
        let rules = self.screening.iter();
        let screening = rules.map(|rule| rule.check(format, &names));
        let screening = screening.collect::<Result<_, _>>()?;
        Ok(StpConfig {
            metrics: self.metrics,
            json_log: self.log == LogFormat::Json,
            listen: self.listen,
            format,
            servers,
            asps,
            link_sets,
            routes,
            screening,
        })
    }

    fn servers(&self, format: PointCodeFormat) -> Result<Vec<ServerSettings>, Wrong> {
        let mut servers: Vec<ServerSettings> = Vec::new();
        for entry in &self.application_server {
            let context = RoutingContext(*entry.routing_context.get_ref());
            let at = entry.routing_context.span();
            let mut others = servers.iter();
            if others.any(|other| other.config.routing_context == context) {
                return wrong(at, format!("routing context {} occurs twice", context.0));
            }
            let destinations = entry.keys.iter().map(|key| key.check(format));
            let destinations: Vec<_> = destinations.collect::<Result<_, _>>()?;
            let appearance = entry.network_appearance.map(NetworkAppearance);
            for (key, destination) in entry.keys.iter().zip(&destinations) {
                let mut others = servers
                    .iter()
                    .filter(|other| other.config.network_appearance == appearance);
                let overlaps = |other: &&ServerSettings| {
                    let mut keys = other.config.destinations.iter();
                    keys.any(|other| other.overlaps(destination))
                };
                if let Some(other) = others.find(overlaps) {
                    let reason = format!("the routing key overlaps that of {:?}", other.name);
                    return wrong(key.dpc.span(), reason);
                }
            }
            let minimum = match &entry.minimum {
                Some(minimum) if !(1..=entry.asps.len()).contains(minimum.get_ref()) => {
                    let reason = "minimum must be 1 to the number of asps";
                    return wrong(minimum.span(), reason);
                }
                Some(minimum) => *minimum.get_ref(),
                None => 1,
            };
            servers.push(ServerSettings {
                name: entry.name.get_ref().clone(),
                config: ApplicationServerConfig {
                    network_appearance: appearance,
                    traffic_mode: entry.traffic_mode.map(Mode::traffic_mode),
                    minimum_asps: minimum,
                    ..ApplicationServerConfig::new(context, destinations)
                },
            });
        }
        Ok(servers)
    }

    /// Returns the ASPs with the application servers that list them.
    fn asps(&self, servers: &[ServerSettings]) -> Result<Vec<AspSettings>, Wrong> {
        let listed = self.application_server.iter().flat_map(|entry| &entry.asps);
        for name in listed {
            let mut asps = self.asp.iter();
            if !asps.any(|asp| asp.name.get_ref() == name.get_ref()) {
                let reason = format!("no [[asp]] has the name {:?}", name.get_ref());
                return wrong(name.span(), reason);
            }
        }
        let mut asps = Vec::new();
        for asp in &self.asp {
            let name = asp.name.get_ref();
            if asp.addresses.is_empty() && asp.identifier.is_none() {
                let reason = format!("ASP {name:?} needs addresses, an identifier or both");
                return wrong(asp.name.span(), reason);
            }
            let entries = self.application_server.iter().zip(servers);
            let is_member = |entry: &ServerEntry| entry.asps.iter().any(|n| n.get_ref() == name);
            let members = entries.filter(|(entry, _)| is_member(entry));
            asps.push(AspSettings {
                name: name.clone(),
                addresses: asp.addresses.clone(),
                identifier: asp.identifier.map(AspIdentifier),
                application_servers: members.map(|(_, s)| s.config.routing_context).collect(),
            });
        }
        Ok(asps)
    }

    fn link_sets(&self, servers: &[ServerSettings]) -> Result<Vec<LinkSetSettings>, Wrong> {
        let mut link_sets: Vec<LinkSetSettings> = Vec::new();
        for entry in &self.link_set {
            let name = entry.name.get_ref();
            if entry.gateways.is_empty() {
                let reason = format!("link set {name:?} needs at least one gateway");
                return wrong(entry.name.span(), reason);
            }
            let peer = match &entry.application_server {
                Some(name) => {
                    let context = server(servers, name)?.config.routing_context;
                    if link_sets.iter().any(|other| other.peer == Some(context)) {
                        let reason = "another link set has this application server";
                        return wrong(name.span(), reason);
                    }
                    Some(context)
                }
                None => None,
            };
            let mut gateways = Vec::new();
            for (index, gateway) in entry.gateways.iter().enumerate() {
                let addresses = gateway.addresses.get_ref().clone();
                if addresses.is_empty() {
                    return wrong(gateway.addresses.span(), "a gateway needs an address");
                }
                let name = match entry.gateways.len() {
                    1 => name.clone(),
                    _ => format!("{name}/{}", index + 1),
                };
                gateways.push(RemoteGateway {
                    port: gateway.port,
                    udp_port: gateway.udp_port,
                    ..RemoteGateway::new(name, addresses)
                });
            }
            link_sets.push(LinkSetSettings {
                name: name.clone(),
                gateways,
                identifier: entry.identifier.map(AspIdentifier),
                server: AspApplicationServer {
                    routing_context: entry.routing_context.map(RoutingContext),
                    traffic_mode: entry.traffic_mode.map(Mode::traffic_mode),
                    network_appearance: entry.network_appearance.map(NetworkAppearance),
                },
                peer,
            });
        }
        Ok(link_sets)
    }
}

/// Application servers and link sets by name.
struct Names<'a> {
    servers: &'a [ServerSettings],
    link_sets: &'a [LinkSetSettings],
}

impl Names<'_> {
    fn link_set(&self, name: &Spanned<String>) -> Result<&LinkSetSettings, Wrong> {
        let name_of = name.get_ref();
        let found = self.link_sets.iter().find(|set| set.name == *name_of);
        let reason = || format!("no [[link-set]] has the name {name_of:?}");
        found.ok_or_else(|| Wrong::new(name.span(), reason()))
    }

    fn server(&self, name: &Spanned<String>) -> Result<&ServerSettings, Wrong> {
        server(self.servers, name)
    }
}

fn server<'a>(
    servers: &'a [ServerSettings],
    name: &Spanned<String>,
) -> Result<&'a ServerSettings, Wrong> {
    let name_of = name.get_ref();
    let found = servers.iter().find(|server| server.name == *name_of);
    let reason = || format!("no [[application-server]] has the name {name_of:?}");
    found.ok_or_else(|| Wrong::new(name.span(), reason()))
}

fn at_most<'a>(
    limit: usize,
    what: &str,
    mut names: impl Iterator<Item = &'a Spanned<String>>,
) -> Result<(), Wrong> {
    match names.nth(limit) {
        Some(name) => wrong(name.span(), format!("{limit} {what} are the limit")),
        None => Ok(()),
    }
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a Spanned<String>>) -> Result<(), Wrong> {
    let mut known: Vec<&str> = Vec::new();
    for name in names {
        let text = name.get_ref().as_str();
        if text.is_empty() {
            return wrong(name.span(), "the name is empty");
        }
        if known.contains(&text) {
            let reason = format!("another {what} has the name {text:?}");
            return wrong(name.span(), reason);
        }
        known.push(text);
    }
    Ok(())
}

fn point_code(entry: &Code, format: PointCodeFormat) -> Result<PointCode, Wrong> {
    let text = match entry.get_ref() {
        CodeEntry::Text(text) => text.clone(),
        CodeEntry::Number(number) => number.to_string(),
    };
    format
        .parse(&text)
        .or_else(|error| wrong(entry.span(), error.to_string()))
}

fn range(
    code: &Code,
    mask: Option<&Spanned<u8>>,
    format: PointCodeFormat,
) -> Result<AffectedPointCode, Wrong> {
    let point_code = point_code(code, format)?;
    let mask = match mask {
        None => 0,
        Some(mask) if *mask.get_ref() <= format.bits() => *mask.get_ref(),
        Some(mask) => {
            let bits = format.bits();
            let reason = format!("the mask is the number of wildcarded low bits, 0 to {bits}");
            return wrong(mask.span(), reason);
        }
    };
    if point_code.value() & ((1 << mask) - 1) != 0 {
        let reason = "the bits below the mask must be 0";
        return wrong(code.span(), reason);
    }
    Ok(AffectedPointCode { mask, point_code })
}

fn service_indicators(list: &[Spanned<u8>]) -> Result<Vec<u8>, Wrong> {
    match list.iter().find(|si| *si.get_ref() > 15) {
        Some(si) => wrong(si.span(), "a service indicator is 0 to 15"),
        None => Ok(list.iter().map(|si| *si.get_ref()).collect()),
    }
}

impl KeyEntry {
    fn check(&self, format: PointCodeFormat) -> Result<RoutingKeyDestination, Wrong> {
        let opcs = self.opc.iter().map(|opc| point_code(opc, format));
        let opcs = opcs.map(|opc| opc.map(AffectedPointCode::single));
        Ok(RoutingKeyDestination {
            dpc: point_code(&self.dpc, format)?,
            service_indicators: service_indicators(&self.si)?,
            opcs: opcs.collect::<Result<_, _>>()?,
        })
    }
}

impl RouteEntry {
    fn check(&self, format: PointCodeFormat, names: &Names<'_>) -> Result<Route, Wrong> {
        let (target, network_appearance) = match (&self.link_set, &self.application_server) {
            (Some(name), None) => {
                let set = names.link_set(name)?;
                let target = Target::LinkSet(set.name.as_str().into());
                (target, set.server.network_appearance)
            }
            (None, Some(name)) => {
                let server = names.server(name)?;
                let target = Target::Server(server.config.routing_context);
                (target, server.config.network_appearance)
            }
            _ => {
                let reason = "a route has either link-set or application-server";
                return wrong(self.dpc.span(), reason);
            }
        };
        Ok(Route {
            destination: range(&self.dpc, self.mask.as_ref(), format)?,
            network_appearance,
            priority: self.priority,
            target,
        })
    }
}

impl ScreeningEntry {
    fn check(&self, format: PointCodeFormat, names: &Names<'_>) -> Result<ScreeningRule, Wrong> {
        let from = match (&self.link_set, &self.application_server) {
            (None, None) => None,
            (Some(name), None) => Some(Target::LinkSet(names.link_set(name)?.name.as_str().into())),
            (None, Some(name)) => {
                let server = names.server(name)?;
                Some(Target::Server(server.config.routing_context))
            }
            (Some(name), Some(_)) => {
                let reason = "a screening rule has either link-set or application-server";
                return wrong(name.span(), reason);
            }
        };
        let code = |code: &Option<Code>, mask: &Option<Spanned<u8>>| match (code, mask) {
            (Some(code), mask) => range(code, mask.as_ref(), format).map(Some),
            (None, None) => Ok(None),
            (None, Some(mask)) => wrong(mask.span(), "a mask needs its point code"),
        };
        Ok(ScreeningRule {
            action: self.action,
            from,
            opc: code(&self.opc, &self.opc_mask)?,
            dpc: code(&self.dpc, &self.dpc_mask)?,
            service_indicators: service_indicators(&self.si)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(config.link_sets[0].gateways[0].addresses.len(), 2);
        assert_eq!(config.routes[0].destination.mask, 3);
        assert_eq!(config.screening.len(), 1);
    }

    #[test]
    fn an_unknown_key_is_an_error_with_its_line() {
        let why = error("addresses = [\"127.0.0.1\"]", "adresses = []");
        assert!(
            why.contains("line 3") && why.contains("`adresses`"),
            "{why}"
        );
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
