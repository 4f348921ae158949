//! Signalling gateway: the SG's side of the associations with ASPs, with its data links (RFC 4233, section 4.3).
//!
//! States are those of [`aspm::sgp`](crate::aspm::sgp); each data link of an interface has an [`SgDataLink`] between the ASPs and Q.921.

use super::asp::{DataLinkKey, all_of};
use super::link::{Q921Request, SgDataLink};
use super::{Dlci, ErrorCode, InterfaceIdentifier, Iua, Message, TeiStatus};
use crate::aspm::links::InterfaceConfig;
use crate::aspm::sgp::{self, DeliveryError, GatewayEvent};

pub use crate::aspm::sgp::{AsState, AspKey};

/// Signalling gateway with its interfaces and ASPs.
pub type Sg = sgp::Gateway<Iua>;
/// Configuration of an [`Sg`].
pub type SgConfig = sgp::GatewayConfig<Iua>;
/// Interface of an SG.
pub type SgInterface = InterfaceConfig<()>;
/// Change of the configuration that is not possible. The fault is the caller's.
pub type SgConfigError = sgp::GatewayConfigError<InterfaceIdentifier>;
/// ASP that may connect to an SG.
pub type SgAspConfig = sgp::SgpAspConfig<InterfaceIdentifier>;

/// Primitive of an SG to layer management or Q.921.
#[derive(Clone, PartialEq, Debug)]
pub enum SgIndication {
    /// Primitive to layer management.
    Gateway(GatewayEvent<Iua>),
    /// Request to Q.921 on a data link.
    Q921(DataLinkKey, Q921Request),
}

impl From<GatewayEvent<Iua>> for SgIndication {
    fn from(event: GatewayEvent<Iua>) -> Self {
        Self::Gateway(event)
    }
}

impl Sg {
    /// Sets the status of a TEI; the first time adds its data link. A change is indicated to the ASPs that are active for
    /// the interface (RFC 4233, section 3.3.3.3).
    ///
    /// # Errors
    /// [`DeliveryError`] if there is no such interface, or no ASP gets the indication.
    pub fn set_tei_status(
        &mut self,
        key: &DataLinkKey,
        status: TeiStatus,
    ) -> Result<(), DeliveryError<InterfaceIdentifier>> {
        let (identifier, dlci) = key;
        if !self.has_server(identifier) {
            return Err(DeliveryError::Unknown(identifier.clone()));
        }
        if self.user.get(key).is_none() {
            // Another status, so that the first one is indicated.
            let previous = match status {
                TeiStatus::Assigned => TeiStatus::Unassigned,
                TeiStatus::Unassigned => TeiStatus::Assigned,
            };
            let link = SgDataLink::new(identifier.clone(), *dlci, previous);
            self.user.insert(key.clone(), link);
        }
        self.change_link(key, |link| link.set_tei_status(status))
    }

    /// Handles an indication or answer of Q.921 on a data link, such as [`SgDataLink::establish_confirm`] or
    /// [`SgDataLink::data`].
    ///
    /// # Errors
    /// [`DeliveryError`] if there is no such data link, or no ASP gets a message.
    pub fn data_link<R>(
        &mut self,
        key: &DataLinkKey,
        event: impl FnOnce(&mut SgDataLink) -> R,
    ) -> Result<R, DeliveryError<InterfaceIdentifier>> {
        self.change_link(key, event)
    }

    /// Handles a message of an ASP that is not for maintenance.
    pub(super) fn on_user_message(&mut self, asp: AspKey, stream: u16, message: &Message) {
        let Some((identifier, dlci)) = message.data_link() else {
            return self.refuse(asp, ErrorCode::UNEXPECTED_MESSAGE, message);
        };
        if !self.admits(asp, stream, identifier, message) {
            return;
        }
        match dlci {
            None => {
                for key in self.user.keys(all_of(identifier)) {
                    self.serve_link(asp, &key, message);
                }
            }
            Some(dlci) => {
                if !self.serve_link(asp, &(identifier.clone(), dlci), message) {
                    let code = self.unknown_data_link(identifier, dlci);
                    self.refuse(asp, code, message);
                }
            }
        }
    }

    /// Returns the error code about a data link that does not exist: its SAPI is not that of any on the interface, its TEI
    /// is not, or the combination of both (RFC 4233, section 3.3.3.1).
    fn unknown_data_link(&self, identifier: &InterfaceIdentifier, dlci: Dlci) -> ErrorCode {
        let key = |sapi, tei| Some((identifier.clone(), Dlci::new(sapi, tei)?));
        let has_sapi = key(dlci.sapi(), 0).zip(key(dlci.sapi(), Dlci::MAX.tei()));
        let has_sapi = has_sapi.is_some_and(|(first, last)| self.user.has(first..=last));
        let mut with_tei = (0..=Dlci::MAX.sapi()).filter_map(|sapi| key(sapi, dlci.tei()));
        if !has_sapi {
            ErrorCode::UNRECOGNIZED_SAPI
        } else if !with_tei.any(|key| self.user.get(&key).is_some()) {
            ErrorCode::UNASSIGNED_TEI
        } else {
            ErrorCode::INVALID_TEI_SAPI_COMBINATION
        }
    }
}
