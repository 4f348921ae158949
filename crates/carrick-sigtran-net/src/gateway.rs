//! Gateway's side: ASPs with their associations, and how a peer is recognized as an ASP.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use carrick_sigtran::m3ua::sgp::{
    AspKey, SgpAspConfig, SgpConfig, SgpConfigError, SignallingGatewayProcess,
};
use carrick_sigtran::m3ua::{AspIdentifier, ErrorCode, Message, RoutingContext};

use crate::association::AssociationId;

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
