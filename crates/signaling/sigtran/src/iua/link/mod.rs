//! Data link between Q.931 at an ASP and Q.921 at an SG (RFC 4233, sections 3.3.1, 3.3.3.3, 4.1 and 5.3).
//!
//! An [`AspDataLink`] turns the requests of Q.931 into messages and the SG's messages into indications; an [`SgDataLink`]
//! turns the ASP's messages into requests to Q.921 and Q.921's indications into messages. Both are sans I/O. [`Asp`](super::asp::Asp)
//! and [`Sg`](super::sg::Sg) have them by interface identifier and DLCI, and exchange their messages while an ASP is active for
//! the interface, on a stream for each D channel, and stream 0 for management messages.

mod asp;
mod sg;

pub use asp::{
    AspDataLink, AspDataLinkConfig, DataLinkIndication, DataLinkRequestError, DataLinkState,
};
pub use sg::{Q921Request, SgDataLink};

use super::{Dlci, ErrorCode, ErrorMessage, InterfaceIdentifier, Message};

impl Message {
    /// Returns the interface and the data link of a QPTM message or of a message about a TEI. A TEI Query Request is for all
    /// data links of its interface.
    pub const fn data_link(&self) -> Option<(&InterfaceIdentifier, Option<Dlci>)> {
        let (identifier, dlci) = match self {
            Self::DataRequest(body)
            | Self::DataIndication(body)
            | Self::UnitDataRequest(body)
            | Self::UnitDataIndication(body) => (&body.identifier, body.dlci),
            Self::EstablishRequest(body)
            | Self::EstablishConfirm(body)
            | Self::EstablishIndication(body)
            | Self::ReleaseConfirm(body) => (&body.identifier, body.dlci),
            Self::ReleaseRequest(body) => (&body.identifier, body.dlci),
            Self::ReleaseIndication(body) => (&body.identifier, body.dlci),
            Self::TeiStatusRequest(body) => (&body.identifier, body.dlci),
            Self::TeiStatusConfirm(body) | Self::TeiStatusIndication(body) => {
                (&body.identifier, body.dlci)
            }
            Self::TeiQuery(body) => return Some((&body.identifier, None)),
            _ => return None,
        };
        Some((identifier, Some(dlci)))
    }
}

/// Returns the Error message for a message with its headers as diagnostic information (section 3.3.3.1).
fn error_about(code: ErrorCode, message: &Message) -> Message {
    let octets = message.encode().unwrap_or_default();
    Message::Error(ErrorMessage::about(code, &octets))
}
