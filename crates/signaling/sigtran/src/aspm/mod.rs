//! ASP maintenance (ASPM): the states of application server processes and application servers, which M3UA, SUA, M2UA and
//! IUA share (RFC 4666, RFC 3868 and RFC 3331, section 4.3; RFC 4233, section 4.3).
//!
//! [`asp::Asp`] is the ASP's side of an association, [`sgp::Gateway`] the side of a gateway with all its ASPs, and
//! [`ipsp::Ipsp`] both in one. They are the same for each [`Layer`], which defines the identifiers of application servers, the layer's messages, and what the layer
//! does with messages beyond maintenance.

pub mod asp;
mod deadlines;
mod heartbeat_timer;
mod identifiers;
pub mod ipsp;
mod layer;
pub mod links;
pub mod sgp;

pub use asp::AspState;
pub(crate) use deadlines::Deadlines;
pub use identifiers::AsIds;
pub use layer::{Activation, Layer, LayerMessage, Maintenance};
pub(crate) use layer::{maintenance, unlabelled};

use crate::message::ErrorCode;
use crate::message::kinds::{common, ss7};

/// Message to send over an association.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit<M> {
    /// Outbound stream.
    pub stream: u16,
    /// Unordered delivery is possible: the message is a BEAT, BEAT Ack or DAUD.
    pub unordered: bool,
    /// Message.
    pub message: M,
}

impl<M: LayerMessage> Transmit<M> {
    /// Management message on stream 0.
    pub(crate) fn management(message: M) -> Self {
        Self::on(0, message)
    }

    /// Message on a stream.
    pub(crate) fn on(stream: u16, message: M) -> Self {
        let kind = message.kind();
        Self {
            stream,
            unordered: [common::BEAT, common::BEAT_ACK, ss7::DAUD].contains(&kind),
            message,
        }
    }
}

/// Returns the stream of the messages of a traffic flow, `None` if there is only stream 0. Messages of a flow keep their
/// order.
pub(crate) fn data_stream(flow: u32, outbound_streams: u16) -> Option<u16> {
    let data_streams = outbound_streams.saturating_sub(1);
    let index = flow.checked_rem(data_streams.into())?;
    u16::try_from(index).ok().map(|index| 1 + index)
}

/// Maximum identifiers of application servers in an Error message. A received list can fill a message, in which an Error
/// message has no room for anything else.
const MAX_ERROR_IDS: usize = 1024;

/// Returns the Error message for a received message: these application servers, the first 1,024 of them, and the begin of
/// the message as diagnostic information.
pub(crate) fn error_about<L: Layer>(
    code: ErrorCode,
    ids: Option<AsIds<L::AsId>>,
    message: &L::Message,
) -> L::ErrorMessage {
    let octets = message.encode().unwrap_or_default();
    let limited = |ids: AsIds<L::AsId>| {
        let limits = ids.ranges().iter().map(|(first, _)| L::list_limit(first));
        let limit = limits.min().unwrap_or_default();
        ids.truncated(limit.min(MAX_ERROR_IDS))
    };
    L::error(code, ids.map(limited), &octets)
}
