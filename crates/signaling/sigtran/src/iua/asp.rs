//! Application server process: the ASP's side of an association with an SG, with its data links (RFC 4233, section 4.3).
//!
//! States and requests are those of [`aspm::asp`](crate::aspm::asp); each data link of an interface has an [`AspDataLink`], through which
//! Q.931 uses it while the ASP is active for the interface.

use std::ops::RangeInclusive;

use super::link::{AspDataLink, AspDataLinkConfig, DataLinkIndication};
use super::{Dlci, ErrorCode, InterfaceIdentifier, Iua, Message};
use crate::aspm::asp::{self, AspEvent};
use crate::aspm::links::AspInterface;

pub use crate::aspm::asp::{AspState, RequestFailure};

/// Application server process on its association with an SG.
pub type Asp = asp::Asp<Iua>;
/// Configuration of an [`Asp`].
pub type AspConfig = asp::AspConfig<Iua>;
/// Interface that an ASP serves.
pub type Interface = AspInterface<AspDataLinkConfig>;
/// Configuration that is contradictory. The fault is the caller's.
pub type AspConfigError = asp::AspConfigError<InterfaceIdentifier>;
/// Request that is not possible in the current state. The fault is the caller's.
pub type AspRequestError = asp::AspRequestError<InterfaceIdentifier>;

/// Key of a data link: its interface and its DLCI.
pub type DataLinkKey = (InterfaceIdentifier, Dlci);

/// Maximum number of data links of an ASP, of which an SG can begin some.
const MAX_DATA_LINKS: usize = 16_384;

/// Primitive of an ASP to layer management or Q.931.
#[derive(Clone, PartialEq, Debug)]
pub enum AspIndication {
    /// Primitive to layer management.
    Asp(AspEvent<Iua>),
    /// Indication of a data link.
    DataLink(DataLinkKey, DataLinkIndication),
}

impl From<AspEvent<Iua>> for AspIndication {
    fn from(event: AspEvent<Iua>) -> Self {
        Self::Asp(event)
    }
}

/// Returns the keys of all data links of an interface.
pub(super) fn all_of(identifier: &InterfaceIdentifier) -> RangeInclusive<DataLinkKey> {
    (identifier.clone(), Dlci::MIN)..=(identifier.clone(), Dlci::MAX)
}

impl Asp {
    /// Makes a request of Q.931 on a data link, such as [`AspDataLink::establish`] or [`AspDataLink::send`].
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is not active for the interface, or has 16,384 data links already; nothing is
    /// requested then.
    pub fn data_link<R>(
        &mut self,
        key: &DataLinkKey,
        request: impl FnOnce(&mut AspDataLink) -> R,
    ) -> Result<R, AspRequestError> {
        self.add_data_link(key);
        self.change_link(key, request)
    }

    /// Adds a data link of an interface that the ASP serves, if it is new and there is room.
    fn add_data_link(&mut self, key: &DataLinkKey) {
        let (identifier, dlci) = key;
        let is_new = self.user.get(key).is_none() && self.user.len() < MAX_DATA_LINKS;
        let served = self.served(&Some(identifier.clone()));
        if let Some(config) = served.map(|served| served.link)
            && is_new
        {
            let link = AspDataLink::new(config, identifier.clone(), *dlci);
            self.user.insert(key.clone(), link);
        }
    }

    /// Ends the requests on the data links of an interface, and in ASP-DOWN the data links.
    pub(super) fn leave_data_links(&mut self, identifier: &InterfaceIdentifier, state: AspState) {
        let keys = self.user.keys(all_of(identifier));
        self.leave_links(&keys);
        for key in keys.iter().filter(|_| state == AspState::Down) {
            self.user.remove(key);
        }
    }

    /// Handles a message of the SG that is not for maintenance. A data link that the far end establishes begins with it.
    pub(super) fn on_user_message(&mut self, stream: u16, message: &Message) {
        let Some((identifier, dlci)) = message.data_link() else {
            return self.refuse(ErrorCode::UNEXPECTED_MESSAGE, message);
        };
        let key = dlci.map(|dlci| (identifier.clone(), dlci));
        let is_active = self.state(Some(identifier.clone())) == Some(AspState::Active);
        if let Some(key) = key.as_ref().filter(|_| is_active) {
            self.add_data_link(key);
        }
        self.receive_for_link(stream, identifier, key, message);
    }
}
