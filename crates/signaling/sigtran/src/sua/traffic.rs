//! Properties of the user's messages for their distribution: routing context, traffic flow, label and length (RFC 3868,
//! sections 1.4.7 and 4.7.3).

use super::{
    CorrelationId, DestinationReferenceNumber, LabelPosition, Labels, Message, RoutingContext,
};

/// Calls a closure with the body of a message that has a routing context.
macro_rules! with_body {
    ($message:expr, $body:ident => $result:expr, else $other:expr) => {
        match $message {
            Message::ConnectionlessDataTransfer($body) => $result,
            Message::ConnectionlessDataResponse($body) => $result,
            Message::ConnectionOrientedDataTransfer($body) => $result,
            Message::ConnectionOrientedDataAcknowledge($body) => $result,
            Message::ConnectionRequest($body) => $result,
            Message::ConnectionAcknowledge($body) => $result,
            Message::ConnectionRefused($body) => $result,
            Message::ReleaseRequest($body) => $result,
            Message::ReleaseComplete($body) => $result,
            Message::ResetRequest($body) => $result,
            Message::ResetConfirm($body) => $result,
            Message::ConnectionOrientedError($body) => $result,
            Message::InactivityTest($body) => $result,
            _ => $other,
        }
    };
}

impl Message {
    /// Returns the routing context of a connectionless or connection-oriented message, `None` for other messages.
    pub const fn routing_context(&self) -> Option<RoutingContext> {
        with_body!(self, body => Some(body.routing_context), else None)
    }

    /// Sets the routing context of a connectionless or connection-oriented message.
    pub(super) const fn set_routing_context(&mut self, context: RoutingContext) {
        with_body!(self, body => body.routing_context = context, else ());
    }

    /// Sets the Correlation Id of data.
    pub(super) const fn set_correlation_id(&mut self, correlation_id: Option<CorrelationId>) {
        match self {
            Self::ConnectionlessDataTransfer(body) => body.correlation_id = correlation_id,
            Self::ConnectionlessDataResponse(body) => body.correlation_id = correlation_id,
            Self::ConnectionOrientedDataTransfer(body) => body.correlation_id = correlation_id,
            _ => {}
        }
    }

    /// Returns the destination reference number of a connection-oriented message, `None` for a CORE and other messages.
    pub const fn destination_reference(&self) -> Option<DestinationReferenceNumber> {
        Some(match self {
            Self::ConnectionOrientedDataTransfer(body) => body.destination_reference,
            Self::ConnectionOrientedDataAcknowledge(body) => body.destination_reference,
            Self::ConnectionAcknowledge(body) => body.destination_reference,
            Self::ConnectionRefused(body) => body.destination_reference,
            Self::ReleaseRequest(body) => body.destination_reference,
            Self::ReleaseComplete(body) => body.destination_reference,
            Self::ResetRequest(body) => body.destination_reference,
            Self::ResetConfirm(body) => body.destination_reference,
            Self::ConnectionOrientedError(body) => body.destination_reference,
            Self::InactivityTest(body) => body.destination_reference,
            _ => return None,
        })
    }
}

/// Returns the traffic flow: the sequence control of connectionless messages, the destination reference number in a
/// connection, the source reference number of a CORE.
pub(super) const fn flow(message: &Message) -> u32 {
    match message {
        Message::ConnectionlessDataTransfer(body) => body.sequence_control.0,
        Message::ConnectionRequest(body) => body.source_reference.0,
        other => match other.destination_reference() {
            Some(reference) => reference.0,
            None => 0,
        },
    }
}

/// Returns the octets of the user's data.
pub(super) fn octets(message: &Message) -> usize {
    let data = match message {
        Message::ConnectionlessDataTransfer(body) => Some(&body.data),
        Message::ConnectionlessDataResponse(body) => body.data.as_ref(),
        Message::ConnectionOrientedDataTransfer(body) => Some(&body.data),
        Message::ConnectionRequest(body) => body.data.as_ref(),
        _ => None,
    };
    data.map_or(0, |data| data.0.len())
}

/// Returns whether a message has the label of an ASP: in its destination reference number, or in the destination
/// transaction identifier of TCAP. `None` if the ASP has no label in it, or the message begins a transaction or a
/// connection (section 4.7.3).
pub(super) fn is_labelled(message: &Message, labels: &Labels) -> Option<bool> {
    let (number, position, label) = match message {
        Message::ConnectionlessDataTransfer(body) => {
            let tid = labels.tid?;
            let number = destination_transaction(&body.data.0)?;
            (number, tid.position, tid.label)
        }
        other => {
            let drn = labels.drn?;
            let number = other.destination_reference()?.0;
            (number, drn.position, drn.label)
        }
    };
    Some(bits(number, position) == u32::from(label))
}

/// Returns the bits of a number at the position of a label.
const fn bits(number: u32, position: LabelPosition) -> u32 {
    let width = (position.start - position.end + 1) as u32;
    number >> position.end & ((1 << width) - 1)
}

/// Returns the destination transaction identifier of a TCAP message that continues, ends or aborts a transaction (Q.773,
/// section 4.2.2). Identifiers shorter than four octets are numbers.
fn destination_transaction(tcap: &[u8]) -> Option<u32> {
    const CONTINUE_END_ABORT: [u8; 3] = [0x65, 0x64, 0x67];
    const ORIGINATING: u8 = 0x48;
    const DESTINATION: u8 = 0x49;
    let (tag, mut content) = element(tcap)?;
    if !CONTINUE_END_ABORT.contains(&tag) {
        return None;
    }
    // An identifier is at most behind the other one.
    for _ in 0..2 {
        let (tag, value) = element(content)?;
        match tag {
            DESTINATION if value.len() <= 4 => {
                let octets = value.iter();
                return Some(octets.fold(0, |number, octet| number << 8 | u32::from(*octet)));
            }
            ORIGINATING => content = content.get(2 + value.len()..)?,
            _ => return None,
        }
    }
    None
}

/// Returns the tag and the content of the first element in BER, with a tag of one octet. A content that is cut by
/// segmentation is returned as far as it goes.
fn element(octets: &[u8]) -> Option<(u8, &[u8])> {
    let (&[tag, length], rest) = octets.split_first_chunk()?;
    // Long and indefinite form.
    let skipped = if length < 0x80 {
        0
    } else {
        usize::from(length & 0x7f)
    };
    let length = if length < 0x80 {
        usize::from(length)
    } else {
        rest.len()
    };
    let content = rest.get(skipped..)?;
    Some((tag, &content[..content.len().min(length)]))
}
