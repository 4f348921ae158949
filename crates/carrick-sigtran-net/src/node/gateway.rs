//! Gateway's side: ASPs with their associations, and how a peer is recognized as an ASP.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use carrick_proto::{SourceKey, Time};
use carrick_sigtran::SctpNotification;
use carrick_sigtran::aspm::sgp::{
    AspKey, Gateway, GatewayConfig, GatewayConfigError, GatewayEvent, SgpAspConfig,
};
use carrick_sigtran::aspm::{LayerMessage, Maintenance};
use carrick_sigtran::m3ua::sgp::TransferError;
use carrick_sigtran::m3ua::{M3ua, ProtocolData};
use carrick_sigtran::message::{AspIdentifier, DecodeError, ErrorCode, RoutingContext};

use super::admission::PeerSource;
use super::{Node, Role};
use crate::association::{AssociationId, OpenAssociation};
use crate::event::EventKind;
use crate::layer::SocketLayer;

/// ASP that may connect to a gateway. Its address, its ASP Identifier or both identify it. `I` identifies an application
/// server in the layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AspSettings<I = RoutingContext> {
    /// Name in events.
    pub name: String,
    /// Addresses from which the ASP connects; any if the list is empty. Then the ASP needs an identifier.
    pub addresses: Vec<IpAddr>,
    /// ASP Identifier that the ASP sends.
    pub identifier: Option<AspIdentifier>,
    /// Application servers of which the ASP is a member.
    pub application_servers: Vec<I>,
}

/// ASP at the gateway.
pub(crate) struct GatewayAsp<I> {
    pub(crate) settings: AspSettings<I>,
    pub(crate) name: Arc<str>,
    pub(crate) association: Option<AssociationId>,
}

/// Signalling gateway process with the associations of its ASPs.
pub(crate) struct GatewaySide<L: SocketLayer = M3ua> {
    pub(crate) sgp: Gateway<L>,
    pub(crate) asps: BTreeMap<AspKey, GatewayAsp<L::AsId>>,
}

impl<L: SocketLayer> GatewaySide<L> {
    pub(crate) fn new(config: GatewayConfig<L>) -> Self {
        Self {
            sgp: Gateway::new(config),
            asps: BTreeMap::new(),
        }
    }

    pub(crate) fn add_asp(
        &mut self,
        settings: AspSettings<L::AsId>,
    ) -> Result<AspKey, GatewayConfigError<L::AsId>> {
        let key = self.sgp.add_asp(SgpAspConfig {
            identifier: settings.identifier,
            application_servers: settings.application_servers.clone(),
        })?;
        let name = settings.name.as_str().into();
        let association = None;
        self.asps.insert(
            key,
            GatewayAsp {
                settings,
                name,
                association,
            },
        );
        Ok(key)
    }

    /// Returns the name of the ASP that a primitive concerns, an empty one if it concerns an application server.
    pub(crate) fn name(&self, indication: &L::SgpIndication) -> Arc<str> {
        let asp = L::asp_of(indication).and_then(|key| self.asps.get(&key));
        asp.map_or_else(|| "".into(), |asp| Arc::clone(&asp.name))
    }

    /// Returns the ASPs that a peer with this address can be.
    pub(crate) fn candidates(&self, address: Option<&IpAddr>) -> Vec<AspKey> {
        let matches = |asp: &GatewayAsp<_>| {
            let addresses = &asp.settings.addresses;
            addresses.is_empty() || address.is_some_and(|address| addresses.contains(address))
        };
        let asps = self.asps.iter();
        asps.filter(|(_, asp)| matches(asp))
            .map(|(key, _)| *key)
            .collect()
    }

    /// Returns the source of an association from this address, and the number of ASPs with the address.
    pub(super) fn source(&self, address: IpAddr) -> (PeerSource, usize) {
        let asps = self.asps.values();
        let with_address = asps.filter(|asp| asp.settings.addresses.contains(&address));
        match with_address.count() {
            0 => (PeerSource::Other(SourceKey::of(address)), 0),
            asps => (PeerSource::Configured(address), asps),
        }
    }

    /// Returns the ASP if its address alone identifies it.
    pub(crate) fn identified_by_address(&self, candidates: &[AspKey]) -> Option<AspKey> {
        let [only] = candidates else {
            return None;
        };
        let asp = self.asps.get(only)?;
        let by_address = asp.settings.identifier.is_none();
        by_address.then_some(*only)
    }

    /// Returns which of the candidates sent a message, or the error code that answers it (RFC 4666, section 3.8.1).
    pub(crate) fn identify(
        &self,
        candidates: &[AspKey],
        message: &L::Message,
    ) -> Result<AspKey, ErrorCode> {
        let Some(Maintenance::AspUp(up)) = L::read(message) else {
            return Err(ErrorCode::UNEXPECTED_MESSAGE);
        };
        let identifier = up
            .asp_identifier
            .ok_or(ErrorCode::ASP_IDENTIFIER_REQUIRED)?;
        let mut candidates = candidates.iter();
        let found = candidates.find(|key| {
            let asp = self.asps.get(key);
            asp.is_some_and(|asp| asp.settings.identifier == Some(identifier))
        });
        found.copied().ok_or(ErrorCode::INVALID_ASP_IDENTIFIER)
    }
}

impl<L: SocketLayer> Node<L> {
    /// Removes an ASP of the gateway and shuts its association down.
    pub(crate) fn remove_asp(&mut self, key: AspKey) {
        let now = self.clock.now();
        // ASP Down Ack first, if the ASP is up.
        let _ = self.gateway.sgp.set_asp_blocked(now, key, true);
        self.drain();
        let removed = self.gateway.asps.remove(&key);
        if let Some(id) = removed.and_then(|asp| asp.association)
            && let Some(association) = self.associations.get_mut(&id)
        {
            association.role = Role::Closing;
            association.open.close();
        }
        let _ = self.gateway.sgp.remove_asp(now, key);
        self.drain();
    }

    /// An association is that of an ASP. It replaces an earlier one, whose end the peer may have lost.
    pub(super) fn identify(&mut self, now: Time, id: AssociationId, key: AspKey) {
        let Some(asp) = self.gateway.asps.get_mut(&key) else {
            return;
        };
        let name = Arc::clone(&asp.name);
        if let Some(earlier) = asp.association.replace(id) {
            self.replace(earlier);
            let sgp = &mut self.gateway.sgp;
            sgp.handle_sctp(now, key, SctpNotification::Down);
        }
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        association.role = Role::Asp(key);
        let outbound_streams = association.open.sender.outbound_streams();
        let addresses = association.open.sender.peer_addresses().to_vec();
        let up = SctpNotification::Up { outbound_streams };
        self.gateway.sgp.handle_sctp(now, key, up);
        self.notify(name, EventKind::Connected(addresses));
    }

    pub(super) fn on_sgp_indication(&mut self, indication: L::SgpIndication) {
        let Some(indication) = L::take_sgp(self, indication) else {
            return;
        };
        match L::gateway_event(&indication) {
            Some(GatewayEvent::PeerUnresponsive(key)) => {
                let asp = self.gateway.asps.get(&key);
                self.abort_unresponsive(asp.and_then(|asp| asp.association));
            }
            Some(GatewayEvent::Discarded(_, count)) => {
                self.counters.recovery_expired += count as u64;
            }
            _ => {}
        }
        let name = self.gateway.name(&indication);
        self.notify(name, EventKind::Sgp(indication));
    }
}

impl Node<M3ua> {
    /// Sends a message as SGP to an application server.
    pub(crate) fn transfer_to_server(
        &mut self,
        context: RoutingContext,
        data: ProtocolData,
    ) -> Result<(), TransferError> {
        self.gateway.sgp.transfer_to(context, data)
    }
}

/// Answers a peer that is no known ASP yet.
pub(super) fn answer_unidentified<L: SocketLayer>(
    open: &mut OpenAssociation,
    code: ErrorCode,
    error: Option<DecodeError>,
    octets: &Bytes,
) {
    let answer = match error {
        Some(error) => L::answering(&error, octets),
        None => Some(L::error(code, None, octets)),
    };
    let answer = answer.map(|answer| L::write(Maintenance::Error(answer)));
    if let Some(octets) = answer.and_then(|answer| answer.encode().ok()) {
        open.stage(0, false, octets);
    }
}
