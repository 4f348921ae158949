//! Signalling gateway process: the SGP's side of the associations with ASPs, with its links (RFC 3331, sections 4.3 and
//! 4.4).
//!
//! States are those of [`aspm::sgp`](crate::aspm::sgp); each interface has an [`SgpLink`] between the ASPs and MTP2.

use std::collections::BTreeMap;

use carrick_proto::Time;

use super::link::{Mtp2Request, SgpLink, SgpLinkConfig};
use super::{
    DeregistrationResponse, DeregistrationResult, DeregistrationStatus, ErrorCode,
    InterfaceIdentifier, LinkKey, M2ua, Message, RegistrationResponse, RegistrationResult,
    RegistrationStatus, SdlIdentifier, SdtIdentifier, TrafficMode,
};
use crate::aspm::Layer;
use crate::aspm::links::{InterfaceConfig, Links};
use crate::aspm::sgp::{
    self, DeliveryError, GatewayEvent, KeyResult, Registering, RegistrationOutcome,
};

pub use crate::aspm::sgp::{AsState, AspKey, RegistrationPolicy};

/// Signalling gateway process with its interfaces and ASPs.
pub type Sgp = sgp::Gateway<M2ua>;
/// Configuration of an [`Sgp`].
pub type SgpConfig = sgp::GatewayConfig<M2ua>;
/// Interface of an SGP.
pub type SgpInterface = InterfaceConfig<SgpLinkSettings>;
/// Change of the configuration that is not possible. The fault is the caller's.
pub type SgpConfigError = sgp::GatewayConfigError<InterfaceIdentifier>;
/// ASP that may connect to an SGP.
pub type SgpAspConfig = sgp::SgpAspConfig<InterfaceIdentifier>;

/// Terminal and data link of a link key.
pub type LinkTerminal = (SdtIdentifier, SdlIdentifier);

/// Configuration of the link of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SgpLinkSettings {
    /// Configuration of the link.
    pub link: SgpLinkConfig,
    /// Link key by which ASPs register for the interface, unique at the SGP.
    pub key: Option<LinkTerminal>,
}

/// Primitive of an SGP to layer management or MTP2.
#[derive(Clone, PartialEq, Debug)]
pub enum SgpIndication {
    /// Primitive to layer management.
    Gateway(GatewayEvent<M2ua>),
    /// Request to MTP2 on the link of an interface.
    Mtp2(InterfaceIdentifier, Mtp2Request),
}

impl From<GatewayEvent<M2ua>> for SgpIndication {
    fn from(event: GatewayEvent<M2ua>) -> Self {
        Self::Gateway(event)
    }
}

/// Links and link keys of an SGP.
#[derive(Debug, Default)]
pub struct SgpUser {
    pub(super) links: Links<InterfaceIdentifier, SgpLink>,
    keys: BTreeMap<LinkTerminal, InterfaceIdentifier>,
    /// ASP that requested a retrieval last, on each link.
    pub(super) retrievers: BTreeMap<InterfaceIdentifier, AspKey>,
    /// Interface identifier that a registration was assigned last.
    last_identifier: u32,
}

impl SgpUser {
    /// Returns the interface with the same link key.
    pub(super) fn overlapping(&self, server: &SgpInterface) -> Option<InterfaceIdentifier> {
        self.keys.get(&server.link.key?).cloned()
    }

    pub(super) fn add(&mut self, server: &SgpInterface) {
        let identifier = server.identifier.clone();
        let link = SgpLink::new(server.link.link, identifier.clone());
        self.links.insert(identifier.clone(), link);
        self.keys
            .extend(server.link.key.map(|key| (key, identifier)));
    }

    pub(super) fn remove(&mut self, server: &SgpInterface) {
        self.links.remove(&server.identifier);
        self.retrievers.remove(&server.identifier);
        if let Some(key) = server.link.key {
            self.keys.remove(&key);
        }
    }
}

impl Sgp {
    /// Handles an indication or answer of MTP2 on the link of an interface, such as [`SgpLink::in_service`] or
    /// [`SgpLink::send`].
    ///
    /// # Errors
    /// [`DeliveryError`] if no ASP gets a message; the link has the new state nevertheless, of which an ASP learns by an
    /// audit.
    pub fn link<R>(
        &mut self,
        identifier: &InterfaceIdentifier,
        event: impl FnOnce(&mut SgpLink) -> R,
    ) -> Result<R, DeliveryError<InterfaceIdentifier>> {
        self.change_link(identifier, event)
    }

    /// Returns an integer that identifies no interface, after that of the last registration. The search ends, because there
    /// are fewer interfaces than numbers.
    pub(super) fn free_identifier(&mut self) -> InterfaceIdentifier {
        loop {
            let last = &mut self.user.last_identifier;
            *last = last.wrapping_add(1).max(1);
            let identifier = InterfaceIdentifier::Integer(*last);
            if !self.has_server(&identifier) {
                return identifier;
            }
        }
    }

    /// Handles a message of an ASP that is not for maintenance.
    pub(super) fn on_user_message(
        &mut self,
        now: Time,
        asp: AspKey,
        stream: u16,
        message: &Message,
    ) {
        let up = self.is_up(asp);
        match message {
            Message::RegistrationRequest(body) if up => {
                self.on_registration(now, asp, &body.link_keys, message);
            }
            Message::DeregistrationRequest(_) if up => {
                self.on_deregistration(now, asp, M2ua::ids(message).as_ref(), message);
            }
            maup => match maup.identifier() {
                Some(id) if self.admits(asp, stream, id, message) => {
                    if matches!(message, Message::RetrievalRequest(_)) {
                        self.user.retrievers.insert(id.clone(), asp);
                    }
                    self.serve_link(asp, id, message);
                }
                Some(_) => {}
                None => self.refuse(asp, ErrorCode::UNEXPECTED_MESSAGE, message),
            },
        }
    }
}

/// Interface identifier of results that have none, and of interfaces before one is assigned.
const NO_IDENTIFIER: InterfaceIdentifier = InterfaceIdentifier::Integer(0);

impl Registering for M2ua {
    type Key = LinkKey;

    const UNSUPPORTED: ErrorCode = ErrorCode::UNSUPPORTED_MESSAGE_CLASS;
    /// M2UA has no status for it: the key exists, and no other interface may have it.
    const ALREADY_REGISTERED: u32 = RegistrationStatus::OVERLAPPING_LINK_KEY.0;
    const ACTIVE: u32 = DeregistrationStatus::PERMISSION_DENIED.0;
    const ACTIVE_ERROR: Option<ErrorCode> = Some(ErrorCode::ASP_ACTIVE_FOR_INTERFACE_IDENTIFIER);

    fn key_mode(_key: &LinkKey) -> Option<TrafficMode> {
        None
    }

    fn compare(gateway: &Sgp, key: &LinkKey) -> RegistrationOutcome<Self> {
        let terminal = (key.sdt, key.sdl);
        if let Some(identifier) = gateway.user.keys.get(&terminal) {
            return RegistrationOutcome::Same(identifier.clone());
        }
        let mut interface = SgpInterface::new(NO_IDENTIFIER);
        interface.link.key = Some(terminal);
        RegistrationOutcome::New(interface)
    }

    fn response(results: &[KeyResult<'_, Self>]) -> Message {
        let results = results
            .iter()
            .map(|(key, status, identifier)| RegistrationResult {
                local_id: key.local_id,
                status: RegistrationStatus(*status),
                identifier: identifier.clone().unwrap_or(NO_IDENTIFIER),
            });
        let results = results.collect();
        Message::RegistrationResponse(RegistrationResponse { results })
    }

    fn deregistration_response(results: &[(InterfaceIdentifier, u32)]) -> Message {
        let results = results
            .iter()
            .map(|(identifier, status)| DeregistrationResult {
                identifier: identifier.clone(),
                status: DeregistrationStatus(*status),
            });
        let results = results.collect();
        Message::DeregistrationResponse(DeregistrationResponse { results })
    }
}
