//! Data link between Q.931 at an ASP and Q.921 at an SG (RFC 4233, sections 3.3.1, 3.3.3.3, 4.1 and 5.3).
//!
//! An [`AspDataLink`] turns the requests of Q.931 into messages and the SG's messages into indications; an [`SgDataLink`]
//! turns the ASP's messages into requests to Q.921 and Q.921's indications into messages. Both are sans I/O. The driver
//! finds a data link by interface identifier and DLCI, uses a stream for each D channel, and stream 0 for management
//! messages. The states of ASPs are not part of a data link: its messages are exchanged while the ASP is active.

mod asp;
mod sg;

pub use asp::{
    AspDataLink, AspDataLinkConfig, DataLinkIndication, DataLinkRequestError, DataLinkState,
};
pub use sg::{Q921Request, SgDataLink};

use super::{ErrorCode, ErrorMessage, Message};

/// Returns the Error message for a message with its headers as diagnostic information (section 3.3.3.1).
fn error_about(code: ErrorCode, message: &Message) -> Message {
    let octets = message.encode().unwrap_or_default();
    Message::Error(ErrorMessage::about(code, &octets))
}
