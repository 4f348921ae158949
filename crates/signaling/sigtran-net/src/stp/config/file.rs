//! Entries of the file as they are written.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use carrick_sigtran::m2pa;
use carrick_sigtran::m3ua::TrafficMode;
use carrick_sigtran::m3ua::ipsp::IpspExchange;
use carrick_sigtran::m3ua::sgp::RegistrationPolicy;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use toml::Spanned;

use super::{ListenSettings, default_port};
use crate::stp::screening::ScreeningAction;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ConfigFile {
    #[serde(default)]
    pub(super) variant: Variant,
    /// Own point code, for links over M2PA.
    pub(super) point_code: Option<Code>,
    pub(super) metrics: Option<SocketAddr>,
    #[serde(default)]
    pub(super) registration: Registration,
    #[serde(default)]
    pub(super) log: LogFormat,
    pub(super) listen: ListenSettings,
    #[serde(default)]
    pub(super) asp: Vec<AspEntry>,
    #[serde(default)]
    pub(super) application_server: Vec<ServerEntry>,
    #[serde(default)]
    pub(super) link_set: Vec<LinkSetEntry>,
    #[serde(default)]
    pub(super) route: Vec<RouteEntry>,
    #[serde(default)]
    pub(super) screening: Vec<ScreeningEntry>,
}

#[derive(Deserialize, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Routing keys that ASPs may register.
#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Registration {
    #[default]
    None,
    ConfiguredKeys,
    NewKeys,
}

impl Registration {
    pub(super) const fn policy(self) -> RegistrationPolicy {
        match self {
            Self::None => RegistrationPolicy::Unsupported,
            Self::ConfiguredKeys => RegistrationPolicy::ConfiguredKeys,
            Self::NewKeys => RegistrationPolicy::NewKeys,
        }
    }
}

/// Format of point codes.
#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Variant {
    #[default]
    Itu,
    Ansi,
    Ttc,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Mode {
    Override,
    Loadshare,
    Broadcast,
}

impl Mode {
    pub(super) const fn traffic_mode(self) -> TrafficMode {
        match self {
            Self::Override => TrafficMode::OVERRIDE,
            Self::Loadshare => TrafficMode::LOADSHARE,
            Self::Broadcast => TrafficMode::BROADCAST,
        }
    }
}

/// Exchange of ASPSM and ASPTM messages between IPSPs.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Exchange {
    Single,
    Double,
    DoubleWithSingleAspsm,
}

impl Exchange {
    pub(super) const fn model(self) -> IpspExchange {
        match self {
            Self::Single => IpspExchange::Single,
            Self::Double => IpspExchange::Double,
            Self::DoubleWithSingleAspsm => IpspExchange::DoubleWithSingleAspsm,
        }
    }
}

/// Point code as text such as `2-117-3`, or as a number.
pub(super) enum CodeEntry {
    Text(String),
    Number(u32),
}

pub(super) type Code = Spanned<CodeEntry>;

/// Reads a text or a number. An untagged enum would have no lines in its errors.
struct CodeVisitor;

impl Visitor<'_> for CodeVisitor {
    type Value = CodeEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a point code, as text such as \"2-117-3\" or as a number")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<CodeEntry, E> {
        let code = u32::try_from(number).ok().map(CodeEntry::Number);
        code.ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<CodeEntry, E> {
        Ok(CodeEntry::Text(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for CodeEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CodeVisitor)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct AspEntry {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) addresses: Vec<IpAddr>,
    /// SCTP port from which the ASP connects.
    pub(super) port: Option<Spanned<u16>>,
    pub(super) identifier: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ServerEntry {
    pub(super) name: Spanned<String>,
    pub(super) routing_context: Spanned<u32>,
    pub(super) network_appearance: Option<u32>,
    pub(super) traffic_mode: Option<Mode>,
    pub(super) minimum: Option<Spanned<usize>>,
    pub(super) asps: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) keys: Vec<KeyEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct KeyEntry {
    pub(super) dpc: Code,
    #[serde(default)]
    pub(super) opc: Vec<Code>,
    #[serde(default)]
    pub(super) si: Vec<Spanned<u8>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LinkSetEntry {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) gateways: Vec<GatewayEntry>,
    /// The peers are IP server processes.
    pub(super) ipsp: Option<Exchange>,
    #[serde(default)]
    pub(super) peers: Vec<GatewayEntry>,
    pub(super) local_routing_context: Option<Spanned<u32>>,
    /// The adjacent signalling point of links over M2PA.
    pub(super) point_code: Option<Code>,
    #[serde(default)]
    pub(super) links: Vec<M2paLinkEntry>,
    pub(super) network_indicator: Option<Spanned<u8>>,
    #[serde(default)]
    pub(super) emergency_alignment: bool,
    pub(super) routing_context: Option<u32>,
    pub(super) network_appearance: Option<u32>,
    pub(super) traffic_mode: Option<Mode>,
    pub(super) identifier: Option<u32>,
    pub(super) application_server: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct GatewayEntry {
    pub(super) addresses: Spanned<Vec<IpAddr>>,
    #[serde(default = "default_port")]
    pub(super) port: u16,
    pub(super) udp_port: Option<u16>,
    /// The peer sets the association up.
    #[serde(default)]
    pub(super) accept: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct M2paLinkEntry {
    pub(super) addresses: Spanned<Vec<IpAddr>>,
    #[serde(default = "default_m2pa_port")]
    pub(super) port: u16,
    pub(super) udp_port: Option<u16>,
    /// SCTP port of this end; by default M2PA's if it accepts, otherwise the system chooses.
    pub(super) local_port: Option<u16>,
    /// UDP port of this end; one that accepts needs it.
    pub(super) local_udp_port: Option<u16>,
    /// The peer sets the association up.
    #[serde(default)]
    pub(super) accept: bool,
}

fn default_m2pa_port() -> u16 {
    m2pa::PORT
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RouteEntry {
    pub(super) dpc: Code,
    #[serde(default)]
    pub(super) mask: Option<Spanned<u8>>,
    #[serde(default = "default_priority")]
    pub(super) priority: u8,
    pub(super) link_set: Option<Spanned<String>>,
    pub(super) application_server: Option<Spanned<String>>,
}

pub(super) fn default_priority() -> u8 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ScreeningEntry {
    pub(super) action: ScreeningAction,
    pub(super) link_set: Option<Spanned<String>>,
    pub(super) application_server: Option<Spanned<String>>,
    pub(super) opc: Option<Code>,
    pub(super) opc_mask: Option<Spanned<u8>>,
    pub(super) dpc: Option<Code>,
    pub(super) dpc_mask: Option<Spanned<u8>>,
    #[serde(default)]
    pub(super) si: Vec<Spanned<u8>>,
}
