//! SSN/TSN resets by misbehaving peers, and packets from before a reset.

use carrick_proto::{
    CloseReason, Event, MessagePart, ReconfigOutcome, Ssn, StateName, StreamId, Tsn,
};
use carrick_wire::{Chunk, NextTsns, Parameter, ReconfigResult, ReconfigSerial};

use crate::common::*;
use crate::reconfiguration::support::*;

/// Requests an SSN/TSN reset; returns the next TSNs of the response.
fn ask(w: &mut World, p: &Partner, number: ReconfigSerial) -> Option<NextTsns> {
    let answers = p
        .puppet
        .send(w, |packet| packet.re_config(|q| q.ssn_tsn_reset(number)));
    let mut found = None;
    for answer in &answers {
        for chunk in answer.chunks() {
            let Chunk::ReConfig(chunk) = chunk else {
                continue;
            };
            for raw in chunk.parameters() {
                if let Ok(Parameter::ReconfigResponse(r)) = Parameter::parse(raw.expect("cut")) {
                    assert_eq!(r.response, number);
                    found = r.next_tsns;
                }
            }
        }
    }
    found
}

/// RFC 6525, section 5.2.4
#[test]
fn the_response_names_the_next_tsns_of_both() {
    let (mut w, mut p) = with_partner(|_| {});
    p.puppet.data(&mut w, 1, 0, b"a");
    p.puppet.data(&mut w, 1, 1, b"b");
    let smallest = p.puppet.tsn;
    let next = ask(&mut w, &p, p.number).expect("performed");
    assert_eq!(next.sender, p.puppet.endpoint_tsn(0));
    assert_eq!(next.receiver, smallest.plus(1 << 31));
    let reported = w.events(0);
    let expected = Event::AssociationReset {
        local_tsn: next.sender,
        peer_tsn: next.receiver,
        outcome: ReconfigOutcome::Performed,
    };
    assert!(reported.contains(&expected));
    // Repeated, it is the same, and nothing moves again.
    assert_eq!(ask(&mut w, &p, p.number), Some(next));
    assert_eq!(renumberings(&w.events(0)), []);
    p.puppet.tsn = next.receiver;
    p.puppet.data(&mut w, 1, 0, b"c");
    assert_eq!(w.receive(0, p.id).len(), 3);
}

/// RFC 6525, section 5.2.4
#[test]
fn data_from_before_the_reset_is_not_new() {
    let (mut w, mut p) = with_partner(|_| {});
    let before: Vec<Tsn> = (0..5).map(|n| p.puppet.tsn.plus(n)).collect();
    for ssn in 0..5 {
        p.puppet.data(&mut w, 1, ssn, b"old");
    }
    w.receive(0, p.id);
    let next = ask(&mut w, &p, p.number).expect("performed");
    for (ssn, tsn) in before.into_iter().enumerate() {
        let header = Puppet::data_header(tsn, 1, ssn as u16);
        p.puppet.send(&mut w, |packet| packet.data(&header, b"old"));
    }
    assert!(w.receive(0, p.id).is_empty());
    p.puppet.tsn = next.receiver;
    p.puppet.data(&mut w, 1, 0, b"new");
    assert_eq!(w.receive(0, p.id).len(), 1);
    assert_eq!(w.stats(0, p.id).state, StateName::Established);
}

/// RFC 6525, section 5.2.4
#[test]
fn a_reset_discards_incomplete_messages() {
    let (mut w, mut p) = with_partner(|_| {});
    let mut header = Puppet::data_header(p.puppet.tsn, 1, 0);
    header.flags.ending = false;
    p.puppet
        .send(&mut w, |packet| packet.data(&header, b"beginning"));
    p.puppet.tsn = p.puppet.tsn.plus(2);
    p.puppet.data(&mut w, 2, 1, b"waits for SSN 0");
    let next = ask(&mut w, &p, p.number).expect("performed");
    let got = w.receive(0, p.id);
    assert_eq!(got.len(), 1, "whole messages are the user's");
    assert_eq!(w.stats(0, p.id).receive_buffer_bytes, 0);
    p.puppet.tsn = next.receiver;
    p.puppet.data(&mut w, 1, 0, b"new");
    assert_eq!(w.receive(0, p.id).len(), 1);
}

/// The user has read the beginning of the message; the rest is skipped as after a FORWARD-TSN.
///
/// RFC 6525, section 5.2.4, rule G4
#[test]
fn a_partial_delivery_ended_by_a_reset_is_notified() {
    let (mut w, mut p) = with_partner(|config| config.buffers.receive_buffer = 8000);
    let tsn = p.puppet.tsn;
    for number in 0..7 {
        let mut flags = Puppet::data_header(tsn, 1, 0).flags;
        (flags.beginning, flags.ending) = (number == 0, false);
        p.puppet.fragment(&mut w, number, (1, 0), flags, 1000);
    }
    let read = w.receive(0, p.id);
    assert_eq!(read.first().map(|m| m.part), Some(MessagePart::First));
    w.events(0);
    let next = ask(&mut w, &p, p.number).expect("performed");
    let aborted = Event::MessageAborted {
        stream: StreamId(1),
        ssn: Some(Ssn::new(0)),
        tsn,
    };
    assert!(w.events(0).contains(&aborted));
    p.puppet.tsn = next.receiver;
    p.puppet.data(&mut w, 1, 0, b"new");
    let read = w.receive(0, p.id).into_iter();
    let read: Vec<_> = read.map(|m| (m.part, m.tsn)).collect();
    assert_eq!(
        read,
        [
            (MessagePart::Aborted, tsn),
            (MessagePart::Whole, next.receiver)
        ]
    );
}

/// RFC 6525, section 5.2.7
#[test]
fn sacks_from_before_a_tsn_reset_are_ignored() {
    let (mut w, p) = with_partner(|_| {});
    for _ in 0..3 {
        let options = carrick_proto::SendOptions {
            no_delay: true,
            ..carrick_proto::SendOptions::on_stream(1)
        };
        w.send_with(0, p.id, options, "old");
        w.run(ms(1));
    }
    let last = p.puppet.endpoint_tsn(2);
    p.puppet.sack(&mut w, last, 1 << 20, &[]);
    w.change(0, p.id).reset_association().expect("reset");
    w.send(0, p.id, 1, "new");
    p.receive(&mut w);
    for (sender, receiver) in [(p.puppet.tsn, last.plus(1 << 31).next())] {
        // One that knows the new numbers overtakes the answer.
        p.puppet.sack(&mut w, receiver.previous(), 1 << 20, &[]);
        let next_tsns = Some(NextTsns { sender, receiver });
        p.answer(&mut w, p.theirs, ReconfigResult::PERFORMED, next_tsns);
        for number in 0..3 {
            let old = p.puppet.endpoint_tsn(number);
            p.puppet.sack(&mut w, old, 1 << 20, &[(1, 1)]);
        }
        assert_eq!(w.stats(0, p.id).state, StateName::Established);
        assert_eq!(w.stats(0, p.id).outstanding_chunks, 1);
        p.puppet.sack(&mut w, receiver, 1 << 20, &[]);
        assert_eq!(w.stats(0, p.id).outstanding_chunks, 0);
        // Acknowledging an unsent TSN is still a violation.
        p.puppet.sack(&mut w, receiver.plus(9), 1 << 20, &[]);
    }
    assert!(matches!(
        w.events(0).last(),
        Some(Event::Closed(CloseReason::AbortedByProtocol(_)))
    ));
}

/// RFC 6525, section 5.2.7
#[test]
fn a_small_step_of_tsns_is_followed() {
    let (mut w, mut p) = with_partner(|_| {});
    w.send(0, p.id, 1, "old");
    p.puppet.data(&mut w, 1, 0, b"old");
    let last = p.puppet.endpoint_tsn(0);
    p.puppet.sack(&mut w, last, 1 << 20, &[]);
    w.change(0, p.id).reset_association().expect("reset");
    p.receive(&mut w);
    let next_tsns = Some(NextTsns {
        sender: p.puppet.tsn.plus(0x10_0000),
        receiver: last.plus(0x1000),
    });
    // Their SACK overtakes their answer.
    p.puppet.sack(&mut w, last.plus(0xfff), 1 << 20, &[]);
    p.answer(&mut w, p.theirs, ReconfigResult::PERFORMED, next_tsns);
    w.send(0, p.id, 1, "new");
    let sent = p.puppet.receive(&mut w);
    assert_eq!(p.puppet.numbers(&sent), [0x1000]);
    p.puppet.tsn = p.puppet.tsn.plus(0x10_0000);
    p.puppet.data(&mut w, 1, 0, b"new");
    assert_eq!(w.receive(0, p.id).len(), 2);
}

/// RFC 6525, section 4.4
#[test]
fn a_response_without_next_tsns_aborts() {
    let (mut w, p) = with_partner(|_| {});
    w.change(0, p.id).reset_association().expect("reset");
    p.receive(&mut w);
    p.answer(&mut w, p.theirs, ReconfigResult::PERFORMED, None);
    assert!(matches!(
        w.events(0).last(),
        Some(Event::Closed(CloseReason::AbortedByProtocol(_)))
    ));
}

/// RFC 6525, section 5.2.4
#[test]
fn a_peer_that_does_not_retry_is_not_awaited() {
    // The peer keeps sending, requests something else, or is silent.
    for way in 0..3 {
        let (mut w, mut p) = with_partner(|config| config.timers.rto_max = secs(20));
        w.send(0, p.id, 1, "unacknowledged");
        p.receive(&mut w);
        assert_eq!(ask(&mut w, &p, p.number), None, "in progress");
        w.send(0, p.id, 1, "waits");
        let first = p.puppet.endpoint_tsn(0);
        let sent = p.puppet.sack(&mut w, first, 1 << 20, &[]);
        assert!(p.puppet.numbers(&sent).is_empty());
        let sent = match way {
            0 => p.puppet.data(&mut w, 1, 0, b"on"),
            1 => {
                let last = p.puppet.tsn.previous();
                let number = p.number.next();
                p.puppet.send(&mut w, |packet| {
                    packet.re_config(|q| q.outgoing_ssn_reset(number, p.theirs, last, &[]));
                })
            }
            _ => {
                w.run(secs(19));
                assert!(p.puppet.receive(&mut w).is_empty());
                w.run(secs(1));
                p.puppet.receive(&mut w)
            }
        };
        assert_eq!(p.puppet.numbers(&sent), [1], "way {way}");
    }
}

/// RFC 6525, section 5.2.4
#[test]
fn a_retry_after_data_gets_its_reset() {
    let (mut w, mut p) = with_partner(|_| {});
    w.send(0, p.id, 1, "unacknowledged");
    p.receive(&mut w);
    assert_eq!(ask(&mut w, &p, p.number), None, "in progress");
    p.puppet.data(&mut w, 1, 0, b"was late");
    assert_eq!(ask(&mut w, &p, p.number), None, "in progress");
    let first = p.puppet.endpoint_tsn(0);
    p.puppet.sack(&mut w, first, 1 << 20, &[]);
    assert!(ask(&mut w, &p, p.number).is_some());
}
