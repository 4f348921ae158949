//! Priorities, counters of abandoned messages, and a peer without the extension (RFC 7496).

use carrick_proto::{
    Abandoned, AbandonedCount, AbandonmentPolicy, Extensions, Reliability, SendError, SendOptions,
    StreamId,
};

use crate::common::*;
use crate::partial_reliability::support::*;

/// RFC 3758, section 3.3.2
#[test]
fn without_forward_tsn_begun_messages_are_reliable() {
    let (mut w, peer, id) = puppet(false, 3000);
    assert_eq!(w.stats(0, id).extensions, Extensions::NONE);
    let policies = [
        timed(500),
        Reliability::Retransmissions(0),
        Reliability::Priority(9),
    ];
    w.send_with(0, id, with(policies[0], 0), message(0, 1000));
    w.send_with(0, id, with(policies[1], 1), message(1, 1000));
    w.send_with(0, id, with(policies[0], 2), message(2, 1000));
    w.send_with(0, id, with(policies[0], 3), message(3, 1000));
    let sent = peer.receive(&mut w);
    assert_eq!(peer.numbers(&sent), [0, 1]);
    w.run(secs(2));
    let events = w.events(0);
    assert_eq!(
        contexts(&events),
        [2, 3],
        "only messages that were not sent in part"
    );
    w.run(secs(120));
    let sent = peer.receive(&mut w);
    let again = peer.numbers(&sent).iter().filter(|n| **n == 0).count();
    assert!(again >= 5, "again and again: {again}");
    assert_eq!(forwards(&sent), []);
    assert_eq!(w.stats(0, id).abandoned.total().sent, 0);
}

/// RFC 7496, section 3.2
#[test]
fn a_higher_priority_displaces_lower_ones() {
    let (mut w, peer, id) = {
        let mut w = World::with(1, |_, c| c.local_addresses.truncate(1));
        w.config.extensions = PARTIAL;
        w.config.buffers.send_buffer = 10_000;
        let mut peer = Puppet::new();
        peer.a_rwnd = 1500;
        let id = peer.begin_accept(&mut w);
        peer.answer_init(&mut w, |p| {
            p.forward_tsn_supported();
            p.state_cookie(b"cookie");
        });
        peer.send(&mut w, |p| p.cookie_ack());
        w.events(0);
        (w, peer, id)
    };
    let give = |w: &mut World, reliability, context| {
        w.ends[0].send(
            w.now,
            id,
            with(reliability, context),
            message(context as u8, 1000).into(),
        )
    };
    // One is sent, nine wait.
    for (context, priority) in [(0, 5), (1, 5), (2, 7), (3, 3), (4, 7), (5, 5)] {
        give(&mut w, Reliability::Priority(priority), context).unwrap();
    }
    for context in 6..10 {
        give(&mut w, Reliability::Full, context).unwrap();
    }
    peer.receive(&mut w);
    // The lowest priority first, the oldest first among equals.
    give(&mut w, Reliability::Priority(6), 10).unwrap();
    assert_eq!(contexts(&w.events(0)), [2]);
    assert_eq!(
        give(&mut w, Reliability::Priority(7), 11),
        Err(SendError::BufferFull)
    );
    assert_eq!(
        give(&mut w, Reliability::Priority(9), 11),
        Err(SendError::BufferFull)
    );
    assert_eq!(
        contexts(&w.events(0)),
        [0; 0],
        "no message has a lower priority"
    );
    give(&mut w, Reliability::Full, 12).unwrap();
    give(&mut w, timed(100_000), 13).unwrap();
    assert_eq!(contexts(&w.events(0)), [4, 10]);
    // Unsent messages are abandoned before sent ones.
    give(&mut w, Reliability::Priority(4), 14).unwrap();
    give(&mut w, Reliability::Full, 15).unwrap();
    give(&mut w, Reliability::Full, 16).unwrap();
    let events = w.events(0);
    assert_eq!(contexts(&events), [1, 5, 0]);
    assert_eq!(
        failures(&events).iter().map(|f| f.sent).collect::<Vec<_>>(),
        [false, false, true]
    );
    assert_eq!(
        forwards(&peer.receive(&mut w)),
        [(peer.endpoint_tsn(0), vec![(0, 0)])]
    );
    give(&mut w, Reliability::Full, 17).unwrap();
    give(&mut w, Reliability::Full, 18).unwrap();
    assert_eq!(contexts(&w.events(0)), [14, 3]);
    assert_eq!(
        give(&mut w, Reliability::Full, 19),
        Err(SendError::BufferFull)
    );
    assert_eq!(
        give(&mut w, Reliability::Priority(0), 19),
        Err(SendError::BufferFull)
    );
    let stats = w.stats(0, id);
    assert_eq!(stats.send_buffer_bytes, 10_000);
    assert_eq!(
        stats.abandoned.priority,
        AbandonedCount { unsent: 6, sent: 2 }
    );
    // The rest leaves in order, behind the second message, which was sent and abandoned.
    let payloads = |packets: &[SentPacket]| -> Vec<u8> {
        let data = |p: &SentPacket| p.data().iter().map(|d| d.payload[0]).collect::<Vec<_>>();
        packets.iter().flat_map(data).collect()
    };
    let mut order = payloads(&peer.receive(&mut w));
    for _ in 0..12 {
        let cumulative = peer.endpoint_tsn(1 + order.len() as u32);
        order.extend(payloads(&peer.sack(&mut w, cumulative, 1500, &[])));
    }
    assert_eq!(order, [6, 7, 8, 9, 12, 13, 15, 16, 17, 18]);
}

/// RFC 7496, section 3.2
#[test]
fn nothing_is_abandoned_without_gaining_room() {
    let (mut w, peer, id) = puppet(true, 1500);
    let _ = &peer;
    w.send(0, id, 0, message(0, 1_000_000));
    w.send_with(0, id, with(Reliability::Priority(1), 1), message(1, 10_000));
    let refused = w.ends[0].send(
        w.now,
        id,
        with(Reliability::Priority(0), 2),
        message(2, 60_000).into(),
    );
    assert_eq!(refused, Err(SendError::BufferFull));
    assert_eq!(contexts(&w.events(0)), [0; 0]);
    w.send_with(0, id, with(Reliability::Priority(0), 2), message(2, 30_000));
    assert_eq!(
        contexts(&w.events(0)),
        [1; 0],
        "the message fits into the send buffer"
    );
    w.send_with(0, id, with(Reliability::Priority(0), 3), message(2, 10_000));
    assert_eq!(contexts(&w.events(0)), [1]);
}

/// RFC 7496, section 4.3
#[test]
fn abandoned_messages_are_counted() {
    let (mut w, peer, id) = puppet(true, 100_000);
    for stream in [1, 1, 4] {
        let options = SendOptions {
            stream: StreamId(stream),
            ..with(Reliability::Retransmissions(0), 0)
        };
        w.send_with(0, id, options, message(0, 100));
    }
    peer.receive(&mut w);
    w.run(secs(2));
    peer.sack(&mut w, peer.endpoint_tsn(2), 0, &[]);
    // The window is closed: this one waits.
    w.send(0, id, 0, message(0, 100));
    let options = SendOptions {
        stream: StreamId(4),
        ..with(timed(100), 0)
    };
    w.send_with(0, id, options, message(0, 100));
    w.run(ms(200));
    let of = |stream| {
        w.read(0, id)
            .stream_stats(StreamId(stream))
            .map(|s| s.abandoned)
    };
    let twice = Abandoned {
        retransmissions: AbandonedCount { unsent: 0, sent: 2 },
        ..Abandoned::default()
    };
    let mixed = Abandoned {
        timed: AbandonedCount { unsent: 1, sent: 0 },
        retransmissions: AbandonedCount { unsent: 0, sent: 1 },
        ..Abandoned::default()
    };
    assert_eq!((of(1), of(4)), (Some(twice), Some(mixed)));
    assert_eq!((of(0), of(10)), (Some(Abandoned::default()), None));
    let all = w.stats(0, id).abandoned;
    assert_eq!(all.total(), AbandonedCount { unsent: 1, sent: 3 });
    assert_eq!(all.by(AbandonmentPolicy::Retransmissions).sent, 3);
}
