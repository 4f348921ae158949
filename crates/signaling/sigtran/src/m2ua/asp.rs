//! Application server process: the ASP's side of an association with an SGP, with its links (RFC 3331, section 4.3).
//!
//! States and requests are those of [`aspm::asp`](crate::aspm::asp); each interface has an [`AspLink`], through which MTP3 uses it while
//! the ASP is active for it.

use carrick_proto::Time;

use super::link::{AspLink, AspLinkConfig, LinkIndication};
use super::{
    DeregistrationRequest, ErrorCode, InterfaceIdentifier, LinkKey, M2ua, Message,
    RegistrationRequest,
};
use crate::aspm::AsIds;
use crate::aspm::asp::{self, AspEvent};
use crate::aspm::links::AspInterface;

pub use crate::aspm::asp::{AspState, RequestFailure};

/// Application server process on its association with an SGP.
pub type Asp = asp::Asp<M2ua>;
/// Configuration of an [`Asp`].
pub type AspConfig = asp::AspConfig<M2ua>;
/// Interface that an ASP serves.
pub type Interface = AspInterface<AspLinkConfig>;
/// Configuration that is contradictory. The fault is the caller's.
pub type AspConfigError = asp::AspConfigError<InterfaceIdentifier>;
/// Request that is not possible in the current state. The fault is the caller's.
pub type AspRequestError = asp::AspRequestError<InterfaceIdentifier>;

/// Primitive of an ASP to layer management or MTP3.
#[derive(Clone, PartialEq, Debug)]
pub enum AspIndication {
    /// Primitive to layer management.
    Asp(AspEvent<M2ua>),
    /// Indication of a link.
    Link(InterfaceIdentifier, LinkIndication),
}

impl From<AspEvent<M2ua>> for AspIndication {
    fn from(event: AspEvent<M2ua>) -> Self {
        Self::Asp(event)
    }
}

impl Asp {
    /// Makes a request of MTP3 on the link of an interface, such as [`AspLink::request`] or [`AspLink::send`].
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is not active for the interface; nothing is requested then.
    pub fn link<R>(
        &mut self,
        identifier: &InterfaceIdentifier,
        request: impl FnOnce(&mut AspLink) -> R,
    ) -> Result<R, AspRequestError> {
        self.change_link(identifier, request)
    }

    /// Requests registrations of link keys (RFC 3331, section 4.4.1). A confirm follows for each key; after a success the
    /// ASP serves the interface in ASP-INACTIVE.
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is in ASP-DOWN, an identifier is in use or the limit is reached; nothing is
    /// requested then.
    pub fn register(&mut self, now: Time, link_keys: Vec<LinkKey>) -> Result<(), AspRequestError> {
        let keys = link_keys.iter().map(|key| {
            // Replaced by that of the response.
            let interface = Interface::new(InterfaceIdentifier::Integer(0));
            (key.local_id.0, interface)
        });
        let keys = keys.collect();
        let request = RegistrationRequest { link_keys };
        self.request_registration(now, keys, Message::RegistrationRequest(request))
    }

    /// Requests deregistrations. A confirm follows for each interface.
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is in ASP-DOWN or does not serve an interface; nothing is requested then.
    pub fn deregister(
        &mut self,
        now: Time,
        identifiers: Vec<InterfaceIdentifier>,
    ) -> Result<(), AspRequestError> {
        let ids = AsIds::new(identifiers.iter().cloned());
        let request = DeregistrationRequest { identifiers };
        self.request_deregistration(now, ids.as_ref(), Message::DeregistrationRequest(request))
    }

    /// The link of an interface begins out of service when the ASP becomes active. Its requests end with the activity, and
    /// its state with ASP-DOWN.
    pub(super) fn on_state(&mut self, identifier: &InterfaceIdentifier, state: AspState) {
        if state == AspState::Active {
            let served = self.served(&Some(identifier.clone()));
            if let Some(config) = served.map(|served| served.link)
                && self.user.get(identifier).is_none()
            {
                let link = AspLink::new(config, identifier.clone());
                self.user.insert(identifier.clone(), link);
            }
        } else {
            self.leave_links(std::slice::from_ref(identifier));
        }
        if state == AspState::Down {
            self.user.remove(identifier);
        }
    }

    /// Handles a message of the SGP that is not for maintenance.
    pub(super) fn on_user_message(&mut self, stream: u16, message: &Message) {
        match message {
            Message::RegistrationResponse(body) if self.is_up() => {
                for result in &body.results {
                    let (local_id, id) = (result.local_id.0, result.identifier.clone());
                    self.on_registration(local_id, result.status.0, id, false);
                }
            }
            Message::DeregistrationResponse(body) if self.is_up() => {
                for result in &body.results {
                    self.on_deregistration(result.identifier.clone(), result.status.0);
                }
            }
            maup => match maup.identifier() {
                Some(id) => self.receive_for_link(stream, id, Some(id.clone()), message),
                None => self.refuse(ErrorCode::UNEXPECTED_MESSAGE, message),
            },
        }
    }
}
