//! Streams, and limits of an endpoint (section 5.1.1).

use carrick_proto::{CloseReason, ConnectError, Event, SendError, SendOptions};
use carrick_wire::{CauseCode, ChunkType};

use crate::common::*;

#[test]
fn streams_are_the_smaller_of_wanted_and_offered_5_1_1() {
    let mut w = World::with(2, |i, c| {
        if i == 1 {
            c.association.outbound_streams = 50;
            c.association.max_inbound_streams = 5;
        }
    });
    w.config.outbound_streams = 65_535;
    w.config.max_inbound_streams = 40;
    let (a, b) = w.connect();
    let (sa, sb) = (w.stats(0, a), w.stats(1, b));
    assert_eq!((sa.outbound_streams, sa.inbound_streams), (5, 40));
    assert_eq!((sb.outbound_streams, sb.inbound_streams), (40, 5));
    assert_eq!(
        w.ends[0].send(w.now, a, SendOptions::on_stream(5), pattern(1)),
        Err(SendError::InvalidStream { streams: 5 })
    );
    // Section 3.3.3: never more than the INIT's MIS.
    let init_ack = w.sent(1, ChunkType::INIT_ACK)[0].clone();
    assert!(init_ack.init().outbound_streams <= 40);
}

#[test]
fn all_65535_streams_can_be_used_5_1_1() {
    let mut w = World::with(2, |_, c| c.association.outbound_streams = 65_535);
    w.config.outbound_streams = 65_535;
    let (a, b) = w.connect();
    for stream in [0, 65_534, 32_768] {
        w.send(0, a, stream, pattern(10));
    }
    w.run(secs(1));
    let streams: Vec<_> = w.receive(1, b).iter().map(|m| m.stream.0).collect();
    assert_eq!(streams, [0, 65_534, 32_768]);
}

#[test]
fn messages_queued_for_streams_that_the_peer_refuses_come_back_5_1_1() {
    let mut w = World::with(2, |i, c| {
        if i == 1 {
            c.association.max_inbound_streams = 2;
        }
    });
    let a = w.begin_connect(&[addresses(1)[0]]);
    for stream in 0..4 {
        let options = SendOptions {
            context: u64::from(stream),
            ..SendOptions::on_stream(stream)
        };
        w.send_with(0, a, options, pattern(100));
    }
    w.run(secs(5));
    let b = w.only(1);
    assert_eq!(w.receive_lengths(1, b), [100, 100]);
    let failed: Vec<_> = w
        .events(0)
        .into_iter()
        .filter_map(|e| match e {
            Event::SendFailed(f) => Some((f.context, f.sent, f.unsent.len())),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [(2, false, 100), (3, false, 100)]);
    assert_eq!(w.sent(1, ChunkType::ERROR).len(), 0);
}

#[test]
fn an_endpoint_that_does_not_accept_answers_with_abort_5_1() {
    let mut w = World::with(2, |i, c| c.accept = i == 0);
    w.begin_connect(&[addresses(1)[0]]);
    w.run(secs(1));
    let abort = w.sent(1, ChunkType::ABORT)[0];
    assert_eq!(abort.flags(ChunkType::ABORT), 0);
    assert!(matches!(
        w.events(0)[..],
        [Event::Closed(CloseReason::AbortedByPeer(_))]
    ));
    assert_eq!(w.ends[1].stats().inits_refused, 1);
}

#[test]
fn an_association_too_many_is_out_of_resource_5_1() {
    let mut w = World::with(1, |_, c| c.max_associations = 1);
    Puppet::new().connect(&mut w);
    let mut second = Puppet::new();
    second.port = 7001;
    let answers = second.init(&mut w, |_| {});
    if answers[0].has(ChunkType::INIT_ACK) {
        second.learn(&answers[0]);
        let answers = second.say(&mut w, |p| p.cookie_echo(&Puppet::cookie(&answers[0])));
        assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
        assert_eq!(answers[0].tag(), second.tag);
        assert_eq!(answers[0].causes()[0].0, CauseCode::OUT_OF_RESOURCE);
    }
    assert_eq!(w.ends[0].associations().count(), 1);
    assert_eq!(
        w.ends[0].connect(w.now, &[ip("10.0.0.55")], 1, None, w.config.clone()),
        Err(ConnectError::TooManyAssociations)
    );
}
