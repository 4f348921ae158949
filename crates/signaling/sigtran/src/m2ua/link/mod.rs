//! SS7 link between MTP3 at an ASP and MTP2 at an SGP (RFC 3331, sections 3.3.1, 4.1 and 5.3).
//!
//! An [`AspLink`] turns MTP3's requests into MAUP messages and the SGP's messages into indications; an [`SgpLink`] turns the
//! ASP's messages into requests to MTP2 and MTP2's indications into MAUP messages. Both are sans I/O. [`Asp`](super::asp::Asp) and
//! [`Sgp`](super::sgp::Sgp) have one for each interface, and exchange its messages while an ASP is active for it, on a stream
//! for each link, not stream 0 (section 1.5.4.1).

mod asp;
mod sgp;

pub use asp::{AspLink, AspLinkConfig, LinkIndication, LinkRequest};
pub use sgp::{Mtp2Request, SgpLink, SgpLinkConfig};

use super::{ErrorCode, ErrorMessage, InterfaceIdentifier, InterfaceIdentifiers, Message};

impl Message {
    /// Returns the interface identifier of a MAUP message.
    pub const fn identifier(&self) -> Option<&InterfaceIdentifier> {
        Some(match self {
            Self::Data(body) => &body.identifier,
            Self::DataAcknowledge(body) => &body.identifier,
            Self::EstablishRequest(body)
            | Self::EstablishConfirm(body)
            | Self::ReleaseRequest(body)
            | Self::ReleaseConfirm(body)
            | Self::ReleaseIndication(body) => &body.identifier,
            Self::StateRequest(body) | Self::StateConfirm(body) => &body.identifier,
            Self::StateIndication(body) => &body.identifier,
            Self::CongestionIndication(body) => &body.identifier,
            Self::RetrievalRequest(body) => &body.identifier,
            Self::RetrievalConfirm(body) => &body.identifier,
            Self::RetrievalIndication(body) => &body.identifier,
            Self::RetrievalComplete(body) => &body.identifier,
            _ => return None,
        })
    }
}

/// Returns the Error message for a message that the other side should not send (section 3.3.3.1).
fn unexpected(identifier: &InterfaceIdentifier, message: &Message) -> Message {
    let identifiers = match identifier {
        InterfaceIdentifier::Integer(number) => InterfaceIdentifiers::integers([*number]),
        InterfaceIdentifier::Text(text) => Some(InterfaceIdentifiers::Texts(vec![text.clone()])),
    };
    let octets = message.encode().unwrap_or_default();
    Message::Error(ErrorMessage {
        identifiers,
        ..ErrorMessage::about(ErrorCode::UNEXPECTED_MESSAGE, &octets)
    })
}
