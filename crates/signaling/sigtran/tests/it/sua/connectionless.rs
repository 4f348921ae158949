//! Connectionless service: return, hop counter, streams, segmentation and reassembly.

use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::sua::connectionless::*;
use carrick_sigtran::sua::*;
use proptest::collection::vec;
use proptest::prelude::*;

use super::connection::{START, request};
use super::samples::full;
use crate::samples::code;

/// CLDT with the return option, from a source with this point code.
fn message(source: u32, data: &[u8]) -> ConnectionlessDataTransfer {
    let found = full().into_iter().find_map(|message| match message {
        Message::ConnectionlessDataTransfer(body) => Some(body),
        _ => None,
    });
    ConnectionlessDataTransfer {
        source: SourceAddress(Address::point_code(code(source), SubsystemNumber(8))),
        segmentation: None,
        data: UserData(Bytes::copy_from_slice(data)),
        ..found.expect("a CLDT")
    }
}

fn segments(source: u32, data: &[u8], max_data: usize) -> Vec<ConnectionlessDataTransfer> {
    let reference = SegmentationReference::new(5);
    segment(message(source, data), max_data, reference).expect("at most 16 segments")
}

fn complete(message: ConnectionlessDataTransfer) -> ReassemblyResult {
    ReassemblyResult::Complete(Box::new(message))
}

fn failed(message: &ConnectionlessDataTransfer, cause: ReturnCause) -> ReassemblyResult {
    let answer = return_message(message, cause);
    assert!(answer.is_some());
    ReassemblyResult::Failed(answer.map(Box::new))
}

/// RFC 3868, section 3.10.23
#[test]
fn long_messages_are_segmented() {
    let segments = segments(1, b"0123456789", 4);
    let expected = [
        (true, 2, &b"0123"[..]),
        (false, 1, b"4567"),
        (false, 0, b"89"),
    ];
    assert_eq!(segments.len(), expected.len());
    for (segment, (first, remaining, data)) in segments.iter().zip(expected) {
        let segmentation = Segmentation {
            first,
            remaining,
            reference: SegmentationReference::new(5),
        };
        assert_eq!(segment.segmentation, Some(segmentation));
        assert_eq!(segment.data.0, data);
        assert_eq!(segment.protocol_class.return_on_error, first);
        let encoded = Message::ConnectionlessDataTransfer(segment.clone()).encode();
        encoded.expect("a valid segment");
    }
}

/// RFC 3868, section 3.10.23: 16 segments
#[test]
fn segments_are_limited() {
    let reference = SegmentationReference::new(5);
    assert_eq!(segments(1, &[7; 64], 4).len(), MAX_SEGMENTS);
    let error = SegmentationError::TooLong {
        length: 65,
        limit: 64,
    };
    assert_eq!(segment(message(1, &[7; 65]), 4, reference), Err(error));
    let short = message(1, b"1234");
    assert_eq!(segment(short.clone(), 4, reference), Ok(vec![short]));
    let first = segments(1, b"12345678", 4).remove(0);
    assert_eq!(
        segment(first, 2, reference),
        Err(SegmentationError::Segment)
    );
}

/// RFC 3868, section 4.7.1: messages of several sources may alternate
#[test]
fn segments_are_joined() {
    let mut reassembler = Reassembler::new(ReassemblyConfig::default());
    let (one, two) = (
        segments(1, b"0123456789", 4),
        segments(2, b"abcdefghijkl", 4),
    );
    for index in 0..2 {
        for sender in [&one, &two] {
            let result = reassembler.handle_message(START, sender[index].clone());
            assert_eq!(result, ReassemblyResult::Incomplete);
        }
    }
    assert_eq!(reassembler.incomplete(), 2);
    let result = reassembler.handle_message(START, two[2].clone());
    assert_eq!(result, complete(message(2, b"abcdefghijkl")));
    let result = reassembler.handle_message(START, one[2].clone());
    assert_eq!(result, complete(message(1, b"0123456789")));
    assert_eq!(
        (reassembler.incomplete(), reassembler.poll_timeout()),
        (0, None)
    );
    // What is no segment, or the only one, is complete.
    let whole = message(1, b"whole");
    assert_eq!(
        reassembler.handle_message(START, whole.clone()),
        complete(whole.clone())
    );
    let mut single = whole.clone();
    single.segmentation = Some(Segmentation {
        first: true,
        remaining: 0,
        reference: SegmentationReference::new(5),
    });
    assert_eq!(reassembler.handle_message(START, single), complete(whole));
}

/// RFC 3868, section 4.7.1: failures are returned to the sender
#[test]
fn gaps_fail_the_reassembly() {
    let one = segments(1, b"0123456789abcdef", 4);
    for wrong in [0, 2, 3] {
        let mut reassembler = Reassembler::default();
        reassembler.handle_message(START, one[0].clone());
        reassembler.handle_message(START, one[1].clone());
        let again = ConnectionlessDataTransfer {
            segmentation: one[1].segmentation,
            ..one[1].clone()
        };
        let received = if wrong == 0 {
            again
        } else {
            one[wrong].clone()
        };
        let result = reassembler.handle_message(START, received);
        if wrong == 2 {
            assert_eq!(result, ReassemblyResult::Incomplete);
            continue;
        }
        assert_eq!(result, failed(&one[0], ReturnCause::TRANSPORT_ERROR));
        assert_eq!(reassembler.poll_timeout(), None);
        // Further segments have no first one, and no return option.
        let result = reassembler.handle_message(START, one[2].clone());
        assert_eq!(result, ReassemblyResult::Failed(None));
    }
}

/// RFC 3868, section 4.7.1: T(reassembly) of Q.714
#[test]
fn late_segments_fail_the_reassembly() {
    let mut reassembler = Reassembler::default();
    let (one, two) = (segments(1, b"01234567", 4), segments(2, b"01234567", 4));
    let later = START + Duration::from_secs(1);
    reassembler.handle_message(START, one[0].clone());
    reassembler.handle_message(later, two[0].clone());
    let expiry = START + Duration::from_secs(10);
    assert_eq!(reassembler.poll_timeout(), Some(expiry));
    assert_eq!(
        reassembler.handle_timeout(START + Duration::from_millis(9_999)),
        []
    );
    let answer = return_message(&one[0], ReturnCause::TRANSPORT_ERROR).expect("the return option");
    assert_eq!(reassembler.handle_timeout(expiry), [answer]);
    assert_eq!(
        reassembler.poll_timeout(),
        Some(expiry + Duration::from_secs(1))
    );
    let result = reassembler.handle_message(expiry, two[1].clone());
    assert_eq!(result, complete(message(2, b"01234567")));
}

/// RFC 3868, section 4.7.1: a node that can't reassemble returns the message
#[test]
fn incomplete_messages_are_bounded() {
    let mut reassembler = Reassembler::new(ReassemblyConfig {
        max_messages: 2,
        max_octets: 12,
        ..ReassemblyConfig::default()
    });
    let [one, two, three] = [1, 2, 3].map(|source| segments(source, b"01234567", 4));
    reassembler.handle_message(START, one[0].clone());
    reassembler.handle_message(START, two[0].clone());
    let result = reassembler.handle_message(START, three[0].clone());
    assert_eq!(result, failed(&three[0], ReturnCause::NO_REASSEMBLY));
    // A first segment replaces one with its reference.
    let result = reassembler.handle_message(START, one[0].clone());
    assert_eq!(result, ReassemblyResult::Incomplete);
    assert_eq!(reassembler.incomplete(), 2);
    let long = segments(2, b"0123456789ab", 4);
    reassembler.handle_message(START, long[0].clone());
    let result = reassembler.handle_message(START, long[1].clone());
    assert_eq!(result, ReassemblyResult::Incomplete);
    let result = reassembler.handle_message(START, long[2].clone());
    assert_eq!(result, failed(&long[0], ReturnCause::NO_REASSEMBLY));
    assert_eq!(reassembler.incomplete(), 1);
}

/// RFC 3868, section 3.2.2
#[test]
fn messages_are_returned_with_the_option() {
    let mut sent = message(1, b"data");
    let cause = ReturnCause::SUBSYSTEM_FAILURE;
    let answer = return_message(&sent, cause).expect("the return option");
    assert_eq!(answer.cause, cause);
    assert_eq!(answer.source.0, sent.destination.0);
    assert_eq!(answer.destination.0, sent.source.0);
    assert_eq!(answer.data, Some(sent.data.clone()));
    let encoded = Message::ConnectionlessDataResponse(answer).encode();
    encoded.expect("a valid CLDR");
    sent.protocol_class.return_on_error = false;
    assert_eq!(return_message(&sent, cause), None);
}

/// RFC 3868, section 1.5.3
#[test]
fn hop_counters_end_loops() {
    let mut relayed = message(1, b"data");
    for hops in (1..15).rev() {
        relayed = relay(relayed).expect("hops that are left");
        assert_eq!(relayed.hop_counter, HopCounter::new(hops));
    }
    let answer = return_message(&relayed, ReturnCause::HOP_COUNTER_VIOLATION).map(Box::new);
    assert!(answer.is_some());
    assert_eq!(relay(relayed.clone()), Err(answer));
    relayed.protocol_class.return_on_error = false;
    assert_eq!(relay(relayed.clone()), Err(None));
    // A message without a counter, such as a UDT, is relayed.
    relayed.hop_counter = None;
    assert_eq!(relay(relayed.clone()), Ok(relayed));
}

/// RFC 3868, section 1.5.3: the refusal procedure
#[test]
fn hop_counters_end_loops_of_requests() {
    let connection = connection::Connection::request(
        START,
        connection::ConnectionConfig::default(),
        request(ServiceClass::Class2),
    );
    let Some(Message::ConnectionRequest(mut core)) =
        connection.expect("a valid request").poll_transmit()
    else {
        panic!("a CORE");
    };
    core.hop_counter = HopCounter::new(2);
    let core = relay_request(core).expect("a hop that is left");
    assert_eq!(core.hop_counter, HopCounter::new(1));
    let source = core
        .source
        .clone()
        .map(|source| DestinationAddress(source.0));
    let reference = core.source_reference.0;
    let refused = relay_request(core).expect_err("no hop that is left");
    assert_eq!(refused.cause, RefusalCause::HOP_COUNTER_VIOLATION);
    assert_eq!(refused.destination_reference.0, reference);
    assert_eq!(refused.destination, source);
}

/// RFC 3868, section 1.5.4
#[test]
fn streams_follow_the_sequence_control() {
    let mut sent = message(1, b"data");
    let streams = [0, 1, 2, 3, 8].map(|count| stream(&sent, count));
    assert_eq!(streams, [0, 0, 1, 2, 3]);
    assert!(!may_be_unordered(&sent));
    sent.protocol_class.class = ServiceClass::Class0;
    assert!(may_be_unordered(&sent));
    let segments = segment(sent, 2, SegmentationReference::new(1)).expect("two segments");
    assert!(!segments.iter().any(may_be_unordered));
}

proptest! {
    /// RFC 3868, section 4.7.1
    #[test]
    fn segmented_messages_are_equal_after_reassembly(
        data in vec(any::<u8>(), 0..300),
        max_data in 19..400_usize,
    ) {
        let mut reassembler = Reassembler::default();
        let mut results: Vec<_> = segments(1, &data, max_data)
            .into_iter()
            .map(|segment| reassembler.handle_message(START, segment))
            .collect();
        prop_assert_eq!(results.pop(), Some(complete(message(1, &data))));
        prop_assert!(results.iter().all(|result| *result == ReassemblyResult::Incomplete));
    }

    #[test]
    fn any_segments_are_bounded(
        segments in vec((0..3_u32, any::<bool>(), 0..4_u8, 0..2_u32, 0..30_usize, 0..5_u64), 0..200),
    ) {
        let mut reassembler = Reassembler::new(ReassemblyConfig {
            max_messages: 4,
            max_octets: 100,
            ..ReassemblyConfig::default()
        });
        let mut now: Time = START;
        for (source, first, remaining, reference, octets, seconds) in segments {
            let mut segment = message(source, &vec![7; octets]);
            segment.segmentation = Some(Segmentation {
                first,
                remaining,
                reference: SegmentationReference::new(reference),
            });
            reassembler.handle_message(now, segment);
            prop_assert!(reassembler.incomplete() <= 4);
            now += Duration::from_secs(seconds);
            reassembler.handle_timeout(now);
            prop_assert!(reassembler.poll_timeout().is_none_or(|next| next > now));
        }
        reassembler.handle_timeout(now + Duration::from_secs(10));
        prop_assert_eq!((reassembler.incomplete(), reassembler.poll_timeout()), (0, None));
    }
}
