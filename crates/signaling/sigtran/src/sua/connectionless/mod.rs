//! Connectionless service, protocol classes 0 and 1: return on error, hop counter, streams, segmentation and reassembly
//! (RFC 3868, sections 1.5.3, 1.5.4 and 4.7.1).
//!
//! RFC 3868 has SCCP's procedures of Q.714 with its own messages. A message of the user that exceeds the transport of a
//! network is sent in up to 16 segments ([`segment`]); a [`Reassembler`] joins them.

mod reassembly;

pub use reassembly::{Reassembler, ReassemblyConfig, ReassemblyResult};

use super::{
    ConnectionRefused, ConnectionRequest, ConnectionlessDataResponse, ConnectionlessDataTransfer,
    DestinationAddress, DestinationReferenceNumber, HopCounter, RefusalCause, ReturnCause,
    Segmentation, SegmentationReference, ServiceClass, SourceAddress, UserData,
};

/// Maximum number of segments of a message (section 3.10.23).
pub const MAX_SEGMENTS: usize = 1 + Segmentation::MAX_REMAINING as usize;

/// Message that can't be segmented. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentationError {
    /// More than 16 segments would be needed.
    #[error("data have {length} octets, at most {limit} are possible in 16 segments: shorten them")]
    TooLong {
        /// Number of octets.
        length: usize,
        /// Limit.
        limit: usize,
    },
    /// The message is a segment already.
    #[error("the message is a segment already: reassemble it first")]
    Segment,
}

/// Splits a message into segments with at most `max_data` octets of data, at least one octet. A message that needs no
/// segmentation is returned as it is. The reference is to be different for the messages that are on their way from one
/// source. Only the first segment has the return option.
///
/// # Errors
/// [`SegmentationError`] if the message needs more than 16 segments, or is a segment.
pub fn segment(
    message: ConnectionlessDataTransfer,
    max_data: usize,
    reference: SegmentationReference,
) -> Result<Vec<ConnectionlessDataTransfer>, SegmentationError> {
    let (length, max_data) = (message.data.0.len(), max_data.max(1));
    if length <= max_data {
        return Ok(vec![message]);
    }
    if message.segmentation.is_some() {
        return Err(SegmentationError::Segment);
    }
    let count = length.div_ceil(max_data);
    if count > MAX_SEGMENTS {
        let limit = max_data * MAX_SEGMENTS;
        return Err(SegmentationError::TooLong { length, limit });
    }
    let segments = (0..count).map(|index| {
        let mut segment = message.clone();
        let start = index * max_data;
        let end = length.min(start + max_data);
        segment.data = UserData(message.data.0.slice(start..end));
        segment.protocol_class.return_on_error &= index == 0;
        segment.segmentation = Some(Segmentation {
            first: index == 0,
            remaining: (count - 1 - index) as u8,
            reference,
        });
        segment
    });
    Ok(segments.collect())
}

/// Returns a message to its sender, if it has the return option: a CLDR with exchanged addresses (section 3.2.2).
pub fn return_message(
    message: &ConnectionlessDataTransfer,
    cause: ReturnCause,
) -> Option<ConnectionlessDataResponse> {
    message.protocol_class.return_on_error.then(|| {
        let message = message.clone();
        ConnectionlessDataResponse {
            routing_context: message.routing_context,
            cause,
            source: SourceAddress(message.destination.0),
            destination: DestinationAddress(message.source.0),
            hop_counter: None,
            importance: message.importance,
            priority: message.priority,
            correlation_id: None,
            segmentation: message.segmentation,
            data: Some(message.data),
        }
    })
}

/// Decrements the hop counter of a relayed message, if it has one (section 1.5.3).
///
/// # Errors
/// Hop counter violation if the counter reaches zero: the message is not relayed, and the answer, if it has the return
/// option, goes to its sender.
pub fn relay(
    mut message: ConnectionlessDataTransfer,
) -> Result<ConnectionlessDataTransfer, Option<Box<ConnectionlessDataResponse>>> {
    if decrement(&mut message.hop_counter) {
        return Ok(message);
    }
    Err(return_message(&message, ReturnCause::HOP_COUNTER_VIOLATION).map(Box::new))
}

/// Decrements the hop counter of a relayed CORE, if it has one (section 1.5.3).
///
/// # Errors
/// Hop counter violation if the counter reaches zero: the CORE is not relayed, and the COREF goes to its sender.
pub fn relay_request(
    mut message: ConnectionRequest,
) -> Result<ConnectionRequest, Box<ConnectionRefused>> {
    if decrement(&mut message.hop_counter) {
        return Ok(message);
    }
    Err(Box::new(refuse(
        &message,
        RefusalCause::HOP_COUNTER_VIOLATION,
    )))
}

/// Refuses a CORE that can't be relayed: a COREF for its sender.
pub(super) fn refuse(message: &ConnectionRequest, cause: RefusalCause) -> ConnectionRefused {
    let message = message.clone();
    ConnectionRefused {
        routing_context: message.routing_context,
        destination_reference: DestinationReferenceNumber(message.source_reference.0),
        cause,
        source: None,
        destination: message.source.map(|source| DestinationAddress(source.0)),
        importance: message.importance,
        data: message.data,
    }
}

/// Decrements a counter, if there is one; returns false if it would reach zero.
pub(super) fn decrement(hop_counter: &mut Option<HopCounter>) -> bool {
    let Some(counter) = hop_counter else {
        return true;
    };
    let next = HopCounter::new(counter.value() - 1);
    if next.is_some() {
        *hop_counter = next;
    }
    next.is_some()
}

/// Returns the stream of a message (section 1.5.4): by its sequence control, stream 0 only if there is no other.
pub const fn stream(message: &ConnectionlessDataTransfer, outbound_streams: u16) -> u16 {
    match outbound_streams {
        0 | 1 => 0,
        streams => 1 + (message.sequence_control.0 % (streams as u32 - 1)) as u16,
    }
}

/// Returns whether a message may be delivered unordered (section 1.5.4): it is of protocol class 0, and no segment, because
/// a [`Reassembler`] expects segments in their order.
pub const fn may_be_unordered(message: &ConnectionlessDataTransfer) -> bool {
    matches!(message.protocol_class.class, ServiceClass::Class0) && message.segmentation.is_none()
}
