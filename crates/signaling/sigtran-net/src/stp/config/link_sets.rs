//! Link sets of the file: gateways, IP server processes and links over M2PA.

use carrick_sigtran::m2pa;
use carrick_sigtran::m3ua::asp::AspApplicationServer;
use carrick_sigtran::m3ua::sgp::ApplicationServerConfig;
use carrick_sigtran::m3ua::{AspIdentifier, NetworkAppearance, PointCodeFormat, RoutingContext};

use super::check::{Wrong, point_code, server, wrong};
use super::file::{Code, ConfigFile, Exchange, GatewayEntry, LinkSetEntry, Mode};
use super::{
    AspSet, LinkSetKind, LinkSetSettings, ListenSettings, M2paLinkSettings, M2paSet, ServerSettings,
};
use crate::{IpspConfig, IpspPeer, RemoteGateway};

/// Maximum number of links of a link set: the values of the Signalling Link Code.
const MAX_LINKS: usize = 16;

/// Streams of the association of a link, in each direction (RFC 4165, section 4.1.2).
const M2PA_STREAMS: u16 = 2;

/// Network indicator of national networks.
const NATIONAL: u8 = 2;

impl ConfigFile {
    pub(super) fn link_sets(
        &self,
        format: PointCodeFormat,
        servers: &[ServerSettings],
    ) -> Result<Vec<LinkSetSettings>, Wrong> {
        let mut link_sets: Vec<LinkSetSettings> = Vec::new();
        for entry in &self.link_set {
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
            link_sets.push(LinkSetSettings {
                name: entry.name.get_ref().clone(),
                network_appearance: entry.network_appearance.map(NetworkAppearance),
                kind: match &entry.point_code {
                    Some(adjacent) => self.m2pa(entry, adjacent, format)?,
                    None => entry.kind()?,
                },
                peer,
            });
        }
        Ok(link_sets)
    }

    fn m2pa(
        &self,
        entry: &LinkSetEntry,
        adjacent: &Code,
        format: PointCodeFormat,
    ) -> Result<LinkSetKind, Wrong> {
        let Some(own) = &self.point_code else {
            let reason = "links over M2PA need the own point-code at the begin of the file";
            return wrong(adjacent.span(), reason);
        };
        if !entry.gateways.is_empty() || entry.ipsp.is_some() {
            let reason = "a link set with point-code has links, no gateways or ipsp";
            return wrong(entry.name.span(), reason);
        }
        if !(1..=MAX_LINKS).contains(&entry.links.len()) {
            let reason = format!("a link set over M2PA has 1 to {MAX_LINKS} links");
            return wrong(entry.name.span(), reason);
        }
        let network_indicator = match &entry.network_indicator {
            Some(ni) if *ni.get_ref() > 3 => {
                let reason = format!(
                    "{} is invalid; expected a network indicator, 0 to 3",
                    ni.get_ref()
                );
                return wrong(ni.span(), reason);
            }
            Some(ni) => *ni.get_ref(),
            None => NATIONAL,
        };
        let mut links = Vec::new();
        for (index, link) in entry.links.iter().enumerate() {
            let at = link.addresses.span();
            if link.addresses.get_ref().is_empty() {
                return wrong(at, "a link needs an address of its peer");
            }
            if link.accept && !self.listen.raw && link.local_udp_port.is_none() {
                return wrong(at, "a link that accepts needs local-udp-port");
            }
            let name = format!("{}/{index}", entry.name.get_ref());
            let port = if link.accept { m2pa::PORT } else { 0 };
            links.push(M2paLinkSettings {
                remote: RemoteGateway {
                    port: link.port,
                    udp_port: link.udp_port,
                    ..RemoteGateway::new(name, link.addresses.get_ref().clone())
                },
                accept: link.accept,
                listen: ListenSettings {
                    port: link.local_port.unwrap_or(port),
                    udp_port: (!self.listen.raw).then(|| link.local_udp_port.unwrap_or(0)),
                    streams: M2PA_STREAMS,
                    ..self.listen.clone()
                },
            });
        }
        Ok(LinkSetKind::M2pa(M2paSet {
            point_code_bits: format.bits(),
            own: point_code(own, format)?,
            adjacent: point_code(adjacent, format)?,
            network_indicator,
            network_appearance: entry.network_appearance.map(NetworkAppearance),
            emergency: entry.emergency_alignment,
            links,
        }))
    }

    /// Checks that an association from an address belongs either to an ASP or to one peer of a link set.
    pub(super) fn check_peers(&self) -> Result<(), Wrong> {
        let peers = self.link_set.iter().flat_map(|set| &set.peers);
        let mut taken = Vec::new();
        for peer in peers.filter(|peer| peer.accept) {
            for address in peer.addresses.get_ref() {
                let mut asps = self.asp.iter();
                if taken.contains(address) || asps.any(|asp| asp.addresses.contains(address)) {
                    let reason = format!("another peer or ASP connects from {address}");
                    return wrong(peer.addresses.span(), reason);
                }
            }
            taken.extend(peer.addresses.get_ref());
        }
        Ok(())
    }
}

impl LinkSetEntry {
    fn kind(&self) -> Result<LinkSetKind, Wrong> {
        match self.ipsp {
            Some(exchange) => Ok(LinkSetKind::Ipsp(self.ipsp(exchange)?)),
            None => self.asp(),
        }
    }

    fn asp(&self) -> Result<LinkSetKind, Wrong> {
        if let Some(context) = &self.local_routing_context {
            return wrong(context.span(), "local-routing-context needs ipsp");
        }
        if !self.links.is_empty() {
            let reason = "links are those of M2PA and need point-code, that of the adjacent node";
            return wrong(self.name.span(), reason);
        }
        if !self.peers.is_empty() {
            return wrong(self.name.span(), "peers need ipsp; an ASP has gateways");
        }
        if let Some(gateway) = self.gateways.iter().find(|gateway| gateway.accept) {
            let reason = "an ASP connects to its gateways: accept needs ipsp and peers";
            return wrong(gateway.addresses.span(), reason);
        }
        Ok(LinkSetKind::Asp(AspSet {
            gateways: self.remotes(&self.gateways)?,
            identifier: self.identifier.map(AspIdentifier),
            server: self.server(self.routing_context.map(RoutingContext)),
        }))
    }

    fn ipsp(&self, exchange: Exchange) -> Result<IpspConfig, Wrong> {
        if !self.gateways.is_empty() {
            return wrong(self.name.span(), "an IPSP has peers, no gateways");
        }
        let Some(remote) = self.routing_context else {
            return wrong(self.name.span(), "an IPSP needs routing-context");
        };
        let local = match (exchange, &self.local_routing_context) {
            (Exchange::Single, None) => remote,
            (Exchange::Single, Some(local)) => {
                let reason = "single exchange has one routing context for both ends";
                return wrong(local.span(), reason);
            }
            (_, Some(local)) => *local.get_ref(),
            (_, None) => {
                let reason = "double exchange needs local-routing-context, that of this end";
                return wrong(self.name.span(), reason);
            }
        };
        let remotes = self.remotes(&self.peers)?;
        let accept = self.peers.iter().map(|peer| peer.accept);
        let peers = remotes.into_iter().zip(accept);
        Ok(IpspConfig {
            exchange: exchange.model(),
            remote: ApplicationServerConfig {
                network_appearance: self.network_appearance.map(NetworkAppearance),
                traffic_mode: self.traffic_mode.map(Mode::traffic_mode),
                ..ApplicationServerConfig::new(RoutingContext(remote), Vec::new())
            },
            local: self.server(Some(RoutingContext(local))),
            identifier: self.identifier.map(AspIdentifier),
            peers: peers
                .map(|(remote, accept)| IpspPeer {
                    remote,
                    connects: !accept,
                })
                .collect(),
        })
    }

    fn server(&self, routing_context: Option<RoutingContext>) -> AspApplicationServer {
        AspApplicationServer {
            routing_context,
            traffic_mode: self.traffic_mode.map(Mode::traffic_mode),
            network_appearance: self.network_appearance.map(NetworkAppearance),
        }
    }

    /// Returns the gateways or peers with their names in events.
    fn remotes(&self, entries: &[GatewayEntry]) -> Result<Vec<RemoteGateway>, Wrong> {
        let name = self.name.get_ref();
        if entries.is_empty() {
            let reason = format!("link set {name:?} needs at least one gateway or peer");
            return wrong(self.name.span(), reason);
        }
        let named = entries.iter().enumerate().map(|(index, entry)| {
            let addresses = entry.addresses.get_ref().clone();
            if addresses.is_empty() {
                return wrong(entry.addresses.span(), "a gateway or peer needs an address");
            }
            let name = match entries.len() {
                1 => name.clone(),
                _ => format!("{name}/{}", index + 1),
            };
            Ok(RemoteGateway {
                port: entry.port,
                udp_port: entry.udp_port,
                ..RemoteGateway::new(name, addresses)
            })
        });
        named.collect()
    }
}
