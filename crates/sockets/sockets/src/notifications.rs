//! Notifications (RFC 6458, section 6.1; RFC 6525, section 6.1) in Linux's layout.

use std::net::SocketAddr;

use bytes::Bytes;
use carrick_proto::{AbortCause, ReconfigOutcome, SendFailure, StreamDirection, StreamId};

use crate::ids::AssocId;
use crate::linux::*;

/// Number of notifications, of which the first is `SCTP_DATA_IO_EVENT`.
pub(crate) const KINDS: usize = 14;

/// Returns the bit of a notification type in the set of subscriptions; `None` for an unknown type.
pub(crate) fn subscription(kind: u16) -> Option<u16> {
    let number = kind.checked_sub(SCTP_SN_TYPE_BASE as u16)?;
    (usize::from(number) < KINDS).then(|| 1 << number)
}

/// Returns whether a set of subscriptions has the type of a notification.
pub(crate) fn is_subscribed(events: u16, notification: &[u8]) -> bool {
    let kind = notification
        .get(..2)
        .map(|b| u16::from_ne_bytes([b[0], b[1]]));
    kind.and_then(subscription)
        .is_some_and(|bit| events & bit != 0)
}

/// Appends the variable part to an encoded struct.
fn join(layout: &impl Layout, rest: &[u8]) -> Bytes {
    let mut bytes = layout.encode();
    bytes.extend_from_slice(rest);
    bytes.into()
}

/// Returns an error cause as it is in chunks (RFC 9260, section 3.3.10), without padding.
pub(crate) fn cause(code: u16, information: &[u8]) -> Vec<u8> {
    let len = u16::try_from(4 + information.len()).unwrap_or(u16::MAX);
    let mut bytes = code.to_be_bytes().to_vec();
    bytes.extend(len.to_be_bytes());
    bytes.extend(information);
    bytes
}

/// `SCTP_ASSOC_CHANGE` (section 6.1.1). `streams` are outbound and inbound.
pub(crate) fn assoc_change(
    id: AssocId,
    state: i32,
    error: u16,
    streams: (u16, u16),
    information: &[u8],
) -> Bytes {
    let change = AssocChange {
        kind: SCTP_ASSOC_CHANGE as u16,
        flags: 0,
        length: (AssocChange::SIZE + information.len()) as u32,
        state: state as u16,
        error,
        outbound_streams: streams.0,
        inbound_streams: streams.1,
        assoc_id: id.0,
    };
    join(&change, information)
}

/// `SCTP_PEER_ADDR_CHANGE` (section 6.1.2).
pub(crate) fn peer_address(id: AssocId, address: SocketAddr, state: i32) -> Bytes {
    let change = PaddrChange {
        kind: SCTP_PEER_ADDR_CHANGE as u16,
        flags: 0,
        length: PaddrChange::SIZE as u32,
        address: address.into(),
        state,
        error: if state == SCTP_ADDR_CONFIRMED {
            SCTP_HEARTBEAT_SUCCESS
        } else {
            0
        },
        assoc_id: id.0,
    };
    join(&change, &[])
}

/// `SCTP_REMOTE_ERROR` (section 6.1.3) for one cause of an ERROR chunk. As on Linux, `sre_data` is the information of
/// the cause without its header, and with the padding.
pub(crate) fn remote_error(id: AssocId, error: &AbortCause) -> Bytes {
    let mut data = error.information.clone();
    data.resize(data.len().next_multiple_of(4), 0);
    let event = RemoteError {
        kind: SCTP_REMOTE_ERROR as u16,
        flags: 0,
        length: (RemoteError::SIZE + data.len()) as u32,
        error: error.code.to_be(),
        assoc_id: id.0,
    };
    join(&event, &data)
}

/// The deprecated `SCTP_SEND_FAILED` (section 6.1.4) and `SCTP_SEND_FAILED_EVENT` (section 6.1.11). The
/// upper half of the context has the flags of the message. `error` is an error cause in network byte order, as
/// Linux has it, or 0.
pub(crate) fn send_failed(id: AssocId, failure: &SendFailure, error: u16) -> [Bytes; 2] {
    let data: Vec<u8> = failure.unsent.0.iter().flatten().copied().collect();
    let flags = if failure.sent {
        SCTP_DATA_SENT
    } else {
        SCTP_DATA_UNSENT
    } as u16;
    let (context, info_flags) = (failure.context as u32, (failure.context >> 32) as u16);
    let new = SendFailedEvent {
        kind: SCTP_SEND_FAILED_EVENT as u16,
        flags,
        length: (SendFailedEvent::SIZE + data.len()) as u32,
        error: error.into(),
        sid: failure.stream.0,
        info_flags,
        ppid: failure.ppid.0.to_be(),
        context,
        info_assoc_id: id.0,
        assoc_id: id.0,
    };
    let old = SendFailed {
        kind: SCTP_SEND_FAILED as u16,
        flags,
        length: (SendFailed::SIZE + data.len()) as u32,
        error: error.into(),
        stream: failure.stream.0,
        info_flags,
        ppid: failure.ppid.0.to_be(),
        context,
        info_assoc_id: id.0,
        assoc_id: id.0,
    };
    [join(&old, &data), join(&new, &data)]
}

/// `SCTP_SHUTDOWN_EVENT` (section 6.1.5).
pub(crate) fn shutdown(id: AssocId) -> Bytes {
    let event = ShutdownEvent {
        kind: SCTP_SHUTDOWN_EVENT as u16,
        flags: 0,
        length: ShutdownEvent::SIZE as u32,
        assoc_id: id.0,
    };
    join(&event, &[])
}

/// `SCTP_ADAPTATION_INDICATION` (section 6.1.6).
pub(crate) fn adaptation(id: AssocId, indication: u32) -> Bytes {
    let event = AdaptationEvent {
        kind: SCTP_ADAPTATION_INDICATION as u16,
        flags: 0,
        length: AdaptationEvent::SIZE as u32,
        indication,
        assoc_id: id.0,
    };
    join(&event, &[])
}

/// `SCTP_PARTIAL_DELIVERY_EVENT` (section 6.1.7): the message is not completed.
pub(crate) fn partial_delivery_aborted(id: AssocId, stream: u16, ssn: u16) -> Bytes {
    let event = PdapiEvent {
        kind: SCTP_PARTIAL_DELIVERY_EVENT as u16,
        flags: 0,
        length: PdapiEvent::SIZE as u32,
        indication: SCTP_PARTIAL_DELIVERY_ABORTED as u32,
        assoc_id: id.0,
        stream: stream.into(),
        seq: ssn.into(),
    };
    join(&event, &[])
}

/// `SCTP_AUTHENTICATION_EVENT` (section 6.1.8).
pub(crate) fn authentication(id: AssocId, key: u16, indication: i32) -> Bytes {
    let event = AuthkeyEvent {
        kind: SCTP_AUTHENTICATION_EVENT as u16,
        flags: 0,
        length: AuthkeyEvent::SIZE as u32,
        key_number: key,
        alt_key_number: 0,
        indication: indication as u32,
        assoc_id: id.0,
    };
    join(&event, &[])
}

/// `SCTP_SENDER_DRY_EVENT` (section 6.1.9).
pub(crate) fn sender_dry(id: AssocId) -> Bytes {
    let event = SenderDryEvent {
        kind: SCTP_SENDER_DRY_EVENT as u16,
        flags: 0,
        length: SenderDryEvent::SIZE as u32,
        assoc_id: id.0,
    };
    join(&event, &[])
}

/// `SCTP_STREAM_RESET_EVENT` (RFC 6525, section 6.1.1).
pub(crate) fn stream_reset(
    id: AssocId,
    direction: StreamDirection,
    streams: &[StreamId],
    outcome: ReconfigOutcome,
) -> Bytes {
    let direction = match direction {
        StreamDirection::Outgoing => SCTP_STREAM_RESET_OUTGOING_SSN,
        StreamDirection::Incoming => SCTP_STREAM_RESET_INCOMING_SSN,
        StreamDirection::Both => SCTP_STREAM_RESET_OUTGOING_SSN | SCTP_STREAM_RESET_INCOMING_SSN,
    };
    let list: Vec<u8> = streams.iter().flat_map(|s| s.0.to_ne_bytes()).collect();
    let event = StreamResetEvent {
        kind: SCTP_STREAM_RESET_EVENT as u16,
        flags: direction as u16 | reconfig_flags(outcome),
        length: (StreamResetEvent::SIZE + list.len()) as u32,
        assoc_id: id.0,
    };
    join(&event, &list)
}

/// `SCTP_ASSOC_RESET_EVENT` (RFC 6525, section 6.1.2). `tsns` are the next ones of both sides.
pub(crate) fn assoc_reset(id: AssocId, tsns: (u32, u32), outcome: ReconfigOutcome) -> Bytes {
    let event = AssocResetEvent {
        kind: SCTP_ASSOC_RESET_EVENT as u16,
        flags: reconfig_flags(outcome),
        length: AssocResetEvent::SIZE as u32,
        assoc_id: id.0,
        local_tsn: tsns.0,
        remote_tsn: tsns.1,
    };
    join(&event, &[])
}

/// `SCTP_STREAM_CHANGE_EVENT` (RFC 6525, section 6.1.3). `added` are outbound and inbound streams.
pub(crate) fn stream_change(id: AssocId, added: (u16, u16), outcome: ReconfigOutcome) -> Bytes {
    let event = StreamChangeEvent {
        kind: SCTP_STREAM_CHANGE_EVENT as u16,
        flags: reconfig_flags(outcome),
        length: StreamChangeEvent::SIZE as u32,
        assoc_id: id.0,
        inbound_streams: added.1,
        outbound_streams: added.0,
    };
    join(&event, &[])
}

/// Flags of the three notifications of RFC 6525, which have the same values.
fn reconfig_flags(outcome: ReconfigOutcome) -> u16 {
    match outcome {
        ReconfigOutcome::Performed | ReconfigOutcome::NothingToDo => 0,
        ReconfigOutcome::Denied => SCTP_STREAM_RESET_DENIED as u16,
        _ => SCTP_STREAM_RESET_FAILED as u16,
    }
}
