//! Checks of names, point codes and limits.

use std::ops::Range;

use carrick_sigtran::m3ua::sgp::ApplicationServerConfig;
use carrick_sigtran::m3ua::{
    AffectedPointCode, AspIdentifier, NetworkAppearance, PointCode, PointCodeFormat,
    RoutingContext, RoutingKeyDestination,
};
use toml::Spanned;

use super::file::{
    Code, CodeEntry, ConfigFile, KeyEntry, LogFormat, Mode, RouteEntry, ScreeningEntry,
    ServerEntry, Variant,
};
use super::{LinkSetSettings, ServerSettings, StpConfig};
use crate::AspSettings;
use crate::stp::router::{Route, Target};
use crate::stp::screening::ScreeningRule;

/// Maximum number of ASPs, and of application servers: the limits of [`carrick_sigtran::m3ua::sgp::SgpConfig`].
const MAX_ASPS: usize = 1024;

/// Error with the place in the file.
pub(super) struct Wrong {
    pub(super) at: Range<usize>,
    pub(super) reason: String,
}

impl Wrong {
    pub(super) fn new(at: Range<usize>, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { at, reason }
    }
}

pub(super) fn wrong<T>(at: Range<usize>, reason: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong::new(at, reason))
}

impl ConfigFile {
    /// Checks names, point codes and limits; each is an error at its place.
    pub(super) fn check(self) -> Result<StpConfig, Wrong> {
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
        let link_sets = self.link_sets(format, &servers)?;
        let names = Names {
            servers: &servers,
            link_sets: &link_sets,
        };
        self.check_peers()?;
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
            registration: self.registration.policy(),
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
                    let (minimum_of, most) = (minimum.get_ref(), entry.asps.len());
                    let reason = format!(
                        "{minimum_of} is invalid; expected 1 to the number of asps, {most}"
                    );
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
        let mut asps: Vec<AspSettings> = Vec::new();
        for asp in &self.asp {
            let name = asp.name.get_ref();
            if let Some(port) = &asp.port {
                if *port.get_ref() == 0 {
                    return wrong(
                        port.span(),
                        "0 is invalid; expected the SCTP port of the ASP, 1 to 65535",
                    );
                }
                let is_same = |other: &&AspSettings| {
                    let mut addresses = other.addresses.iter();
                    other.port == Some(*port.get_ref())
                        && other.identifier == asp.identifier.map(AspIdentifier)
                        && addresses.any(|address| asp.addresses.contains(address))
                };
                if let Some(other) = asps.iter().find(is_same) {
                    let reason = format!("ASP {:?} has the same address and port", other.name);
                    return wrong(port.span(), reason);
                }
            }
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
                port: asp.port.as_ref().map(|port| *port.get_ref()),
                identifier: asp.identifier.map(AspIdentifier),
                application_servers: members.map(|(_, s)| s.config.routing_context).collect(),
            });
        }
        Ok(asps)
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

pub(super) fn server<'a>(
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
            return wrong(
                name.span(),
                "\"\" is invalid; expected a name that is not empty",
            );
        }
        if known.contains(&text) {
            let reason = format!("another {what} has the name {text:?}");
            return wrong(name.span(), reason);
        }
        known.push(text);
    }
    Ok(())
}

pub(super) fn point_code(entry: &Code, format: PointCodeFormat) -> Result<PointCode, Wrong> {
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
            let reason = format!(
                "{} is invalid; expected the number of wildcarded low bits, 0 to {bits}",
                mask.get_ref()
            );
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
        Some(si) => wrong(
            si.span(),
            format!(
                "{} is invalid; expected a service indicator, 0 to 15",
                si.get_ref()
            ),
        ),
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
                (target, set.network_appearance)
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
