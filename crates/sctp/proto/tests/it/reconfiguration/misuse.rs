//! Invalid requests: nothing breaks, nothing grows, and the peer gets an error.

use carrick_proto::{Event, Grants, ReconfigOutcome, StreamDirection, StreamId, Tsn};
use carrick_wire::{AddStreams, ChunkType, ParameterType, ReconfigResult, ReconfigSerial};

use crate::common::*;
use crate::reconfiguration::support::*;

use StreamDirection::{Incoming, Outgoing};

const WRONG_NUMBER: &str = "response bad sequence number";
const DENIED: &str = "response denied";
const BUSY: &str = "response another request is in progress";
const PERFORMED: &str = "response performed";
const IN_PROGRESS: &str = "response in progress";

impl Partner {
    fn reset(
        &self,
        w: &mut World,
        number: ReconfigSerial,
        last: Tsn,
        streams: &[u16],
    ) -> Vec<String> {
        let streams = ids(streams);
        self.send(w, |p| {
            p.outgoing_ssn_reset(number, ReconfigSerial::new(0), last, &streams);
        })
    }

    fn ask_for_reset(&self, w: &mut World, number: ReconfigSerial, streams: &[u16]) -> Vec<String> {
        let streams = ids(streams);
        self.send(w, |p| p.incoming_ssn_reset(number, &streams))
    }

    fn add(&self, w: &mut World, request: ReconfigSerial, count: u16) -> Vec<String> {
        self.send(w, |p| p.add_outgoing_streams(AddStreams { request, count }))
    }

    /// The last TSN that the puppet used.
    fn last(&self) -> Tsn {
        self.puppet.tsn.previous()
    }
}

/// RFC 6525, section 4.4
#[test]
fn a_request_out_of_sequence_gets_an_error() {
    let (mut w, p) = with_partner(|_| {});
    for number in [p.number.next(), p.number.previous(), p.number.plus(1 << 31)] {
        assert_eq!(p.add(&mut w, number, 1), [WRONG_NUMBER]);
    }
    assert_eq!(w.stats(0, p.id).inbound_streams, 10);
    assert_eq!(p.add(&mut w, p.number, 1), [PERFORMED]);
    assert_eq!(p.add(&mut w, p.number.plus(1), 1), [PERFORMED]);
    assert_eq!(p.add(&mut w, p.number.plus(2), 1), [PERFORMED]);
    assert_eq!(
        p.add(&mut w, p.number, 1),
        [WRONG_NUMBER],
        "too old to be known"
    );
    assert_eq!(w.stats(0, p.id).inbound_streams, 13);
}

/// RFC 6525, section 5.2.1
#[test]
fn a_repeated_request_is_answered_not_performed() {
    let (mut w, mut p) = with_partner(|_| {});
    for _ in 0..3 {
        assert_eq!(p.add(&mut w, p.number, 2), [PERFORMED]);
    }
    assert_eq!(w.stats(0, p.id).inbound_streams, 12);
    assert_eq!(changes(&w.events(0)).len(), 1);
    // A late repetition of a reset changes no numbers.
    p.puppet.data(&mut w, 1, 0, b"a");
    let last = p.last();
    assert_eq!(p.reset(&mut w, p.number.next(), last, &[1]), [PERFORMED]);
    p.puppet.data(&mut w, 1, 0, b"b");
    assert_eq!(p.reset(&mut w, p.number.next(), last, &[1]), [PERFORMED]);
    p.puppet.data(&mut w, 1, 1, b"c");
    assert_eq!(w.receive(0, p.id).len(), 3);
}

/// RFC 6525, section 5.2.1
#[test]
fn requests_in_a_flood_are_answered_singly() {
    let (mut w, p) = with_partner(|_| {});
    for n in 0..5000 {
        let number = p.number.plus(n);
        assert_eq!(p.reset(&mut w, number, p.last(), &[1, 2]), [PERFORMED]);
        w.events(0);
    }
    let hold = p.number.plus(5000);
    let ahead = p.last().plus(3);
    assert_eq!(p.reset(&mut w, hold, ahead, &[1]), [IN_PROGRESS]);
    for n in 1..5000 {
        assert_eq!(p.reset(&mut w, hold.plus(n), ahead, &[1]), [BUSY]);
    }
    w.events(0);
}

/// RFC 9260, section 12.4
#[test]
fn a_packet_of_requests_gets_a_bounded_answer() {
    let (mut w, p) = with_partner(|_| {});
    let answers = p.puppet.send(&mut w, |packet| {
        for n in 0..1000 {
            packet.re_config(|parameters| {
                parameters.add_outgoing_streams(AddStreams {
                    request: p.number.plus(n),
                    count: 1,
                });
            });
        }
    });
    let bytes: usize = answers.iter().map(|a| a.bytes.len()).sum();
    assert!(bytes < 2000, "{bytes}");
    assert!(w.stats(0, p.id).counters.replies_dropped > 900);
    assert!(w.events(0).len() <= 64);
}

/// RFC 6525, section 4.4
#[test]
fn a_reset_of_invalid_streams_is_refused() {
    let (mut w, mut p) = with_partner(|_| {});
    let wrong = ["response wrong stream"];
    assert_eq!(p.reset(&mut w, p.number, p.last(), &[1, 10]), wrong);
    p.number = p.number.next();
    assert_eq!(p.ask_for_reset(&mut w, p.number, &[10]), wrong);
    assert_eq!(w.events(0), []);
}

/// RFC 6525, section 5.2.2
#[test]
fn a_reset_with_a_far_last_tsn_is_denied() {
    let (mut w, p) = with_partner(|_| {});
    for (n, ahead) in [0x1_0000, 1 << 20, (1 << 31) - 1, 1 << 31]
        .into_iter()
        .enumerate()
    {
        let number = p.number.plus(n as u32);
        assert_eq!(p.reset(&mut w, number, p.last().plus(ahead), &[]), [DENIED]);
    }
    let number = p.number.plus(4);
    assert_eq!(
        p.reset(&mut w, number, p.last().plus(0xffff), &[]),
        [IN_PROGRESS]
    );
}

/// RFC 6525, section 5.2.2
#[test]
fn data_beyond_a_deferred_reset_stays_bounded() {
    let (mut w, mut p) = with_partner(|config| {
        config.buffers.receive_buffer = 20_000;
        config.buffers.message_overhead = 0;
    });
    p.puppet.data(&mut w, 1, 0, b"old");
    let missing = p.puppet.tsn;
    p.puppet.tsn = missing.next();
    assert_eq!(p.reset(&mut w, p.number, missing, &[1]), [IN_PROGRESS]);
    // Ordered and unordered messages of the stream wait, those of others don't.
    for ssn in 0..30 {
        p.puppet.data(&mut w, 1, ssn, &[1; 1000]);
    }
    assert!(w.stats(0, p.id).receive_buffer_bytes <= 21_000);
    assert_eq!(w.receive(0, p.id).len(), 1);
    p.puppet.tsn = missing.plus(1);
    let header = Puppet::data_header(missing, 2, 0);
    let answers = p.puppet.send(&mut w, |packet| packet.data(&header, b"x"));
    let results: Vec<_> = answers.iter().flat_map(words).collect();
    assert_eq!(results, [PERFORMED], "by itself");
    let got = w.receive(0, p.id);
    assert!(got.len() > 15 && got[0].stream == StreamId(2));
    let numbers: Vec<u16> = got[1..]
        .iter()
        .map(|m| m.ssn.expect("ordered").value())
        .collect();
    assert!(numbers.iter().copied().eq(0..numbers.len() as u16));
    // Data continues at the end of the buffer.
    let next = numbers.len() as u16;
    p.puppet.tsn = missing.plus(1 + u32::from(next));
    p.puppet.data(&mut w, 1, next, b"y");
    assert_eq!(w.receive(0, p.id).len(), 1);
}

/// RFC 6525, section 5.2.2
#[test]
fn a_reset_delivers_messages_behind_a_missing_one() {
    let (mut w, mut p) = with_partner(|_| {});
    for ssn in [0, 2, 3] {
        p.puppet.data(&mut w, 1, ssn, b"m");
    }
    assert_eq!(w.receive(0, p.id).len(), 1);
    assert_eq!(p.reset(&mut w, p.number, p.last(), &[1]), [PERFORMED]);
    assert_eq!(w.receive(0, p.id).len(), 2);
    p.puppet.data(&mut w, 1, 0, b"n");
    assert_eq!(w.receive(0, p.id).len(), 1);
    assert_eq!(w.stats(0, p.id).receive_buffer_bytes, 0);
}

/// RFC 6525, section 6.3.1
#[test]
fn requests_without_permission_are_denied() {
    let none = Grants {
        reset_streams: false,
        reset_association: false,
        change_streams: false,
    };
    let (mut w, p) = with_partner(|config| config.streams.grants = none);
    let request = |n| p.number.plus(n);
    assert_eq!(p.reset(&mut w, request(0), p.last(), &[1]), [DENIED]);
    assert_eq!(p.ask_for_reset(&mut w, request(1), &[1]), [DENIED]);
    assert_eq!(p.send(&mut w, |q| q.ssn_tsn_reset(request(2))), [DENIED]);
    assert_eq!(p.add(&mut w, request(3), 1), [DENIED]);
    let (number, count) = (request(4), 1);
    let add = AddStreams {
        request: number,
        count,
    };
    assert_eq!(p.send(&mut w, |q| q.add_incoming_streams(add)), [DENIED]);
    assert_eq!(w.events(0), []);
}

/// RFC 6525, section 5.2.5
/// RFC 6525, section 5.2.6
#[test]
fn added_streams_stay_within_the_limits() {
    let (mut w, p) = with_partner(|config| {
        config.streams.max_inbound_streams = 12;
        config.streams.max_outbound_streams = 11;
    });
    let add_in = |w: &mut World, number, count| {
        let add = AddStreams {
            request: number,
            count,
        };
        p.send(w, |q| q.add_incoming_streams(add))
    };
    assert_eq!(p.add(&mut w, p.number, 3), [DENIED]);
    assert_eq!(p.add(&mut w, p.number.plus(1), u16::MAX), [DENIED]);
    assert_eq!(
        p.add(&mut w, p.number.plus(2), 0),
        ["response nothing to do"]
    );
    assert_eq!(p.add(&mut w, p.number.plus(3), 2), [PERFORMED]);
    assert_eq!(add_in(&mut w, p.number.plus(4), u16::MAX), [DENIED]);
    assert_eq!(add_in(&mut w, p.number.plus(5), 2), [DENIED]);
    assert_eq!(add_in(&mut w, p.number.plus(6), 1), ["add out 1"]);
    // The same again is answered by the same request.
    assert_eq!(add_in(&mut w, p.number.plus(6), 1), ["add out 1"]);
    p.answer(&mut w, p.theirs, ReconfigResult::PERFORMED, None);
    assert_eq!(add_in(&mut w, p.number.plus(6), 1), [PERFORMED]);
    assert_eq!(w.stats(0, p.id).outbound_streams, 11);
}

/// RFC 6525, section 5.2.5
#[test]
fn added_streams_cost_memory_when_used() {
    let (mut w, mut p) = with_partner(|_| {});
    assert_eq!(p.add(&mut w, p.number, u16::MAX - 10), [PERFORMED]);
    assert_eq!(p.add(&mut w, p.number.next(), 1), [DENIED]);
    p.puppet.data(&mut w, u16::MAX - 1, 0, b"last");
    assert_eq!(w.receive(0, p.id).len(), 1);
    p.puppet.data(&mut w, u16::MAX, 0, b"none");
    assert_eq!(w.receive(0, p.id).len(), 0);
}

/// RFC 6525, section 5.2.7
#[test]
fn an_unexpected_response_is_ignored() {
    let (mut w, p) = with_partner(|_| {});
    let all = (0..8).map(ReconfigResult);
    for result in all.clone() {
        assert!(p.answer(&mut w, p.theirs, result, None).is_empty());
    }
    // Nor while another one is under way, before it has left, or after its answer.
    w.send(0, p.id, 1, "not acknowledged yet");
    w.change(0, p.id)
        .reset_streams(Outgoing, &ids(&[1]))
        .expect("reset");
    for result in all.clone() {
        p.answer(&mut w, p.theirs, result, None);
    }
    assert_eq!(w.events(0), []);
    let first = p.puppet.endpoint_tsn(0);
    p.puppet.sack(&mut w, first, 1 << 20, &[]);
    for result in all.clone() {
        p.answer(&mut w, p.theirs.next(), result, None);
    }
    let mut events = w.events(0);
    events.retain(|e| *e != Event::AllAcknowledged);
    assert_eq!(events, []);
    p.answer(&mut w, p.theirs, ReconfigResult::DENIED, None);
    for result in all {
        p.answer(&mut w, p.theirs, result, None);
    }
    let reported = resets(&w.events(0), Outgoing);
    assert_eq!(reported, [(vec![1], ReconfigOutcome::Denied)]);
}

/// RFC 6525, section 5.2.7
#[test]
fn ssns_continue_after_a_denial() {
    let refusals = [
        (ReconfigResult::DENIED, ReconfigOutcome::Denied),
        (ReconfigResult::WRONG_STREAM, ReconfigOutcome::WrongStream),
        (
            ReconfigResult::REQUEST_IN_PROGRESS,
            ReconfigOutcome::RequestInProgress,
        ),
        (
            ReconfigResult::BAD_SEQUENCE_NUMBER,
            ReconfigOutcome::BadSequenceNumber,
        ),
        (ReconfigResult(4711), ReconfigOutcome::Unknown(4711)),
    ];
    for (result, outcome) in refusals {
        let (mut w, p) = with_partner(|_| {});
        w.send(0, p.id, 1, "first");
        let first = p.puppet.endpoint_tsn(0);
        p.puppet.sack(&mut w, first, 1 << 20, &[]);
        w.change(0, p.id)
            .reset_streams(Outgoing, &ids(&[1]))
            .expect("reset");
        w.send(0, p.id, 1, "second");
        p.puppet.receive(&mut w);
        let answers = p.puppet.send(&mut w, |packet| {
            packet.re_config(|q| {
                q.reconfig_response(carrick_wire::ReconfigResponse {
                    response: p.theirs,
                    result,
                    next_tsns: None,
                });
            });
        });
        let ssns: Vec<u16> = answers
            .iter()
            .flat_map(|a| a.data())
            .map(|d| d.ssn.value())
            .collect();
        assert_eq!(ssns, [1]);
        assert_eq!(resets(&w.events(0), Outgoing), [(vec![1], outcome)]);
    }
}

type Fill = Box<dyn Fn(&mut carrick_wire::ParameterWriter<'_>)>;

/// RFC 6525, section 3.1
#[test]
fn invalid_parameter_pairs_violate_the_protocol() {
    let (mut w, p) = with_partner(|_| {});
    let n = p.number;
    let add = AddStreams {
        request: n,
        count: 1,
    };
    let response = carrick_wire::ReconfigResponse {
        response: p.theirs,
        result: ReconfigResult::PERFORMED,
        next_tsns: None,
    };
    let wrong: Vec<Fill> = vec![
        Box::new(|_| {}),
        Box::new(move |q| {
            q.ssn_tsn_reset(n);
            q.ssn_tsn_reset(n.next());
        }),
        Box::new(move |q| {
            q.add_outgoing_streams(add);
            q.incoming_ssn_reset(n.next(), &[]);
        }),
        Box::new(move |q| {
            q.reconfig_response(response);
            q.incoming_ssn_reset(n, &[]);
        }),
        Box::new(move |q| (0..3).for_each(|_| q.reconfig_response(response))),
        Box::new(|q| q.raw(ParameterType::IPV4_ADDRESS, &[10, 0, 0, 1])),
        Box::new(|q| q.raw(ParameterType(0x3fff), &[1])),
    ];
    for fill in wrong {
        let answers = p.puppet.send(&mut w, |packet| packet.re_config(&fill));
        let causes: Vec<_> = answers
            .iter()
            .flat_map(|a| a.causes())
            .map(|c| c.0)
            .collect();
        assert_eq!(causes, [carrick_wire::CauseCode::PROTOCOL_VIOLATION]);
    }
    assert_eq!(w.stats(0, p.id).inbound_streams, 10);
    assert_eq!(p.add(&mut w, n, 1), [PERFORMED], "no number was used up");
}

/// RFC 6525, section 4
#[test]
fn invalid_lengths_are_malformed() {
    let (mut w, p) = with_partner(|_| {});
    let raw = |kind: u16, len: u16, value: &[u8]| {
        let mut bytes = [kind.to_be_bytes(), len.to_be_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes
    };
    let number = p.number.value().to_be_bytes();
    let shapes = [
        raw(13, 8, &number),
        raw(13, 17, &[0; 16]),
        raw(14, 7, &[0; 4]),
        raw(15, 12, &[0; 8]),
        raw(16, 16, &[0; 12]),
        raw(17, 8, &number),
        raw(17, 3, &[]),
        raw(18, 0, &[0; 8]),
        raw(13, 0xffff, &[0; 60]),
    ];
    for (n, shape) in shapes.iter().enumerate() {
        let answers = p
            .puppet
            .send(&mut w, |packet| packet.raw(ChunkType::RE_CONFIG, 0, shape));
        assert!(answers.is_empty(), "{n}");
        assert_eq!(w.ends[0].stats().malformed_chunks, n as u64 + 1);
    }
    // A list as long as a chunk can be.
    let all: Vec<StreamId> = (0..32_000).map(|n| StreamId(n % 10)).collect();
    let results = p.send(&mut w, |q| {
        q.outgoing_ssn_reset(p.number, p.theirs, p.last(), &all)
    });
    assert_eq!(results, [PERFORMED]);
    assert_eq!(resets(&w.events(0), Incoming)[0].0.len(), 10);
}

/// RFC 6525, section 5.2.3
#[test]
fn a_request_for_more_streams_than_fit_is_denied() {
    let (mut w, p) = with_partner(|config| config.streams.outbound_streams = u16::MAX);
    assert!(w.stats(0, p.id).outbound_streams == 10);
    let add = AddStreams {
        request: p.number,
        count: 30_000,
    };
    assert_eq!(
        p.send(&mut w, |q| q.add_incoming_streams(add)),
        ["add out 30000"]
    );
    p.answer(&mut w, p.theirs, ReconfigResult::PERFORMED, None);
    let many: Vec<u16> = (0..30_000).collect();
    assert_eq!(p.ask_for_reset(&mut w, p.number.next(), &many), [DENIED]);
}

/// RFC 6525, section 3
#[test]
fn re_config_is_ignored_without_the_extension() {
    let mut w = World::single_homed();
    let (p, id) = Puppet::new().connect(&mut w);
    let number = ReconfigSerial::new(p.tsn.value());
    let answers = p.send(&mut w, |packet| {
        packet.re_config(|q| {
            q.add_outgoing_streams(AddStreams {
                request: number,
                count: 1,
            })
        });
    });
    assert!(answers.is_empty());
    assert_eq!(w.stats(0, id).inbound_streams, 10);
}
