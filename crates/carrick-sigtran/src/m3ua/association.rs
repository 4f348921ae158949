//! Boundary between M3UA and SCTP, for all state machines (RFC 4666, section 1.4.7).

use super::{ErrorCode, ErrorMessage, Message, RoutingContext, RoutingContexts};

/// Message to send over an association.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Outbound stream.
    pub stream: u16,
    /// Unordered delivery is possible: the message is a BEAT, BEAT Ack or DAUD.
    pub unordered: bool,
    /// Message.
    pub message: Message,
}

impl Transmit {
    /// Management message on stream 0.
    pub(super) const fn management(message: Message) -> Self {
        Self::on(0, message)
    }

    /// Message on a stream.
    pub(super) const fn on(stream: u16, message: Message) -> Self {
        let unordered = matches!(
            message,
            Message::Heartbeat(_) | Message::HeartbeatAck(_) | Message::DestinationStateAudit(_)
        );
        Self {
            stream,
            unordered,
            message,
        }
    }
}

/// Returns the stream of the DATA with a signalling link selection, `None` if there is only stream 0. Messages of
/// an SLS keep their order.
pub(super) fn data_stream(sls: u8, outbound_streams: u16) -> Option<u16> {
    let data_streams = outbound_streams.saturating_sub(1);
    (data_streams > 0).then(|| 1 + u16::from(sls) % data_streams)
}

/// Maximum routing contexts of an Error message. A received list can fill a message, in which an Error message has no
/// room for anything else.
pub(super) const MAX_ERROR_CONTEXTS: usize = 1024;

/// Returns the Error message for a received message: its routing contexts and its begin as diagnostic information.
pub(super) fn error_about(code: ErrorCode, message: &Message) -> ErrorMessage {
    let contexts = message.routing_contexts();
    error_about_contexts(
        code,
        contexts.iter().flat_map(|list| list.iter().copied()),
        message,
    )
}

/// Returns the Error message for a received message with these routing contexts, the first 1,024 of them.
pub(super) fn error_about_contexts(
    code: ErrorCode,
    contexts: impl IntoIterator<Item = RoutingContext>,
    message: &Message,
) -> ErrorMessage {
    let about = message
        .encode()
        .map(|octets| ErrorMessage::about(code, &octets));
    ErrorMessage {
        routing_contexts: RoutingContexts::new(contexts.into_iter().take(MAX_ERROR_CONTEXTS)),
        ..about.unwrap_or(ErrorMessage::new(code))
    }
}
