//! Gateway's side: ASPs with their associations, and how a peer is recognized as an ASP.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use carrick_sigtran::aspm::sgp::{
    AspKey, Gateway, GatewayConfig, GatewayConfigError, GatewayEvent, SgpAspConfig,
};
use carrick_sigtran::m3ua::sgp::TransferError;
use carrick_sigtran::m3ua::{M3ua, ProtocolData};
use carrick_sigtran::message::{AspIdentifier, RoutingContext};

use super::{Node, Role};
use crate::association::AssociationId;
use crate::event::EventKind;
use crate::layer::SocketLayer;

/// ASP that may connect to a gateway. Its address, its ASP Identifier or both identify it; several ASPs with one address
/// and no identifier are distinguished by their port, or by the application servers for which they become active. `I` identifies
/// an application server in the layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AspSettings<I = RoutingContext> {
    /// Name in events.
    pub name: String,
    /// Addresses from which the ASP connects; any if the list is empty. Then the ASP needs an identifier.
    pub addresses: Vec<IpAddr>,
    /// SCTP port from which the ASP connects; any if absent.
    pub port: Option<u16>,
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

impl<I> GatewayAsp<I> {
    pub(super) const fn is_free(&self) -> bool {
        self.association.is_none()
    }
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
