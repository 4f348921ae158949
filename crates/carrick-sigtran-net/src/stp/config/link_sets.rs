//! Link sets of the file: gateways and IP server processes.

use carrick_sigtran::m3ua::asp::AspApplicationServer;
use carrick_sigtran::m3ua::sgp::ApplicationServerConfig;
use carrick_sigtran::m3ua::{AspIdentifier, NetworkAppearance, RoutingContext};

use super::check::{Wrong, server, wrong};
use super::file::{Exchange, File, GatewayEntry, LinkSetEntry, Mode};
use super::{AspSet, LinkSetKind, LinkSetSettings, ServerSettings};
use crate::{IpspConfig, IpspPeer, RemoteGateway};

impl File {
    pub(super) fn link_sets(
        &self,
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
                kind: entry.kind()?,
                peer,
            });
        }
        Ok(link_sets)
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
