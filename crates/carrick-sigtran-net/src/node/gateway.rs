//! Gateway's side: ASPs with their associations, and how a peer is recognized as an ASP.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::m3ua::sgp::{
    AspKey, SgpAspConfig, SgpConfig, SgpConfigError, SgpIndication, SignallingGatewayProcess,
    TransferError,
};
use carrick_sigtran::m3ua::{
    AspIdentifier, DecodeError, ErrorCode, ErrorMessage, Message, ProtocolData, RoutingContext,
    SctpNotification,
};

use super::{Node, NodeTransfer, Origin, Role};
use crate::association::{AssociationId, OpenAssociation};
use crate::event::EventKind;

/// ASP that may connect to a gateway. Its address, its ASP Identifier or both identify it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AspSettings {
    /// Name in events.
    pub name: String,
    /// Addresses from which the ASP connects; any if the list is empty. Then the ASP needs an identifier.
    pub addresses: Vec<IpAddr>,
    /// ASP Identifier that the ASP sends.
    pub identifier: Option<AspIdentifier>,
    /// Application servers of which the ASP is a member.
    pub application_servers: Vec<RoutingContext>,
}

/// ASP at the gateway.
pub(crate) struct GatewayAsp {
    pub(crate) settings: AspSettings,
    pub(crate) name: Arc<str>,
    pub(crate) association: Option<AssociationId>,
}

/// Signalling gateway process with the associations of its ASPs.
pub(crate) struct GatewaySide {
    pub(crate) sgp: SignallingGatewayProcess,
    pub(crate) asps: BTreeMap<AspKey, GatewayAsp>,
}

impl GatewaySide {
    pub(crate) fn new(config: SgpConfig) -> Self {
        Self {
            sgp: SignallingGatewayProcess::new(config),
            asps: BTreeMap::new(),
        }
    }

    pub(crate) fn add_asp(&mut self, settings: AspSettings) -> Result<AspKey, SgpConfigError> {
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

    /// Returns the ASPs that a peer with this address can be.
    pub(crate) fn candidates(&self, address: Option<&IpAddr>) -> Vec<AspKey> {
        let matches = |asp: &GatewayAsp| {
            let addresses = &asp.settings.addresses;
            addresses.is_empty() || address.is_some_and(|address| addresses.contains(address))
        };
        let asps = self.asps.iter();
        asps.filter(|(_, asp)| matches(asp))
            .map(|(key, _)| *key)
            .collect()
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
        message: &Message,
    ) -> Result<AspKey, ErrorCode> {
        let Message::AspUp(up) = message else {
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

impl Node {
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

    /// Sends a message as SGP to an application server.
    pub(crate) fn transfer_to_server(
        &mut self,
        context: RoutingContext,
        data: ProtocolData,
    ) -> Result<(), TransferError> {
        self.gateway.sgp.transfer_to(context, data)
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

    pub(super) fn on_sgp_indication(&mut self, indication: SgpIndication) {
        let asp = indication.asp().and_then(|key| self.gateway.asps.get(&key));
        let name = asp.map(|asp| Arc::clone(&asp.name));
        let id = asp.and_then(|asp| asp.association);
        if let SgpIndication::Transfer(key, context, data) = indication {
            let origin = Origin::Asp(key, context);
            self.transfers.push(NodeTransfer { origin, data });
            return;
        }
        self.count_discarded(&indication);
        if let SgpIndication::PeerUnresponsive(_) = &indication {
            self.abort_unresponsive(id);
        }
        self.notify(
            name.unwrap_or_else(|| "".into()),
            EventKind::Sgp(indication),
        );
    }

    pub(super) fn count_discarded(&mut self, indication: &SgpIndication) {
        if let SgpIndication::Discarded(_, count) = indication {
            self.counters.recovery_expired += *count as u64;
        }
    }
}

/// Answers a peer that is no known ASP yet.
pub(super) fn answer_unidentified(
    open: &mut OpenAssociation,
    code: ErrorCode,
    error: Option<DecodeError>,
    octets: &Bytes,
) {
    let answer = match error {
        Some(error) => ErrorMessage::answering(&error, octets),
        None => Some(ErrorMessage::new(code)),
    };
    if let Some(octets) = answer.and_then(|answer| Message::Error(answer).encode().ok()) {
        open.stage(0, false, octets);
    }
}
