//! FORWARD-TSN at the sender (RFC 3758 section 3.5).

use carrick_proto::{AssociationConfig, Event, Reliability, SendOptions, StreamId};

use crate::common::*;
use crate::partial_reliability::support::*;

/// RFC 3758, section 3.5, rule C2
#[test]
fn the_ack_point_advances_over_abandoned_tsns_only() {
    let (mut w, peer, id) = puppet(true, 100_000);
    let no_retransmission = Reliability::Retransmissions(0);
    // 0, 1 and 3 may be abandoned, 2 may not.
    for (n, reliability) in [
        no_retransmission,
        no_retransmission,
        Reliability::Full,
        no_retransmission,
    ]
    .into_iter()
    .enumerate()
    {
        let options = SendOptions {
            stream: StreamId(n as u16),
            ..with(reliability, n as u64)
        };
        w.send_with(0, id, options, message(0, 100));
    }
    peer.receive(&mut w);
    w.run(secs(2));
    let sent = peer.receive(&mut w);
    assert_eq!(
        forwards(&sent),
        [(peer.endpoint_tsn(1), vec![(0, 0), (1, 0)])]
    );
    assert_eq!(peer.numbers(&sent), [2], "bundled, and sent again");
    assert_eq!(contexts(&w.events(0)), [0, 1, 3]);
    // C1 and C3: the cumulative TSN reaches the point, and 3 is next.
    let answers = peer.sack(&mut w, peer.endpoint_tsn(2), 100_000, &[]);
    assert_eq!(forwards(&answers), [(peer.endpoint_tsn(3), vec![(3, 0)])]);
    peer.sack(&mut w, peer.endpoint_tsn(3), 100_000, &[]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
}

/// RFC 3758, section 3.5, rule C4
#[test]
fn each_ordered_stream_is_named_once() {
    let (mut w, peer, id) = puppet(true, 100_000);
    for n in 0..24_u16 {
        let options = SendOptions {
            stream: StreamId(n % 3),
            unordered: n % 3 == 2,
            ..with(Reliability::Retransmissions(0), 0)
        };
        w.send_with(0, id, options, message(0, 40));
    }
    let sent = peer.receive(&mut w);
    assert_eq!(peer.numbers(&sent).len(), 24);
    w.run(secs(2));
    let sent = peer.receive(&mut w);
    let [(point, skipped)] = &forwards(&sent)[..] else {
        panic!("one FORWARD-TSN");
    };
    assert_eq!(*point, peer.endpoint_tsn(23));
    let mut skipped = skipped.clone();
    skipped.sort_unstable();
    assert_eq!(skipped, [(0, 7), (1, 7)]);
}

/// RFC 3758, section 3.5, rule C4
#[test]
fn a_forward_tsn_fits_into_a_packet() {
    let mut w = World::with(1, |_, c| c.local_addresses.truncate(1));
    w.config = AssociationConfig::rfc9260().with(|c| {
        c.extensions = PARTIAL;
        c.mtu.path_mtu = 576;
        c.streams.outbound_streams = 1000;
        c.transmission.max_burst = 1000;
    });
    let mut peer = Puppet::new();
    peer.streams = (1000, 1000);
    let id = peer.begin_accept(&mut w);
    peer.answer_init(&mut w, |p| {
        p.forward_tsn_supported();
        p.state_cookie(b"cookie");
    });
    peer.send(&mut w, |p| p.cookie_ack());
    // The congestion window grows.
    w.send(0, id, 0, pattern(200_000));
    let mut packets = peer.receive(&mut w);
    let mut cumulative = peer.endpoint_tsn(0).previous();
    while let Some(highest) = peer.numbers(&packets).into_iter().max() {
        cumulative = peer.endpoint_tsn(highest);
        packets = peer.sack(&mut w, cumulative, 100_000, &[]);
    }
    // More streams than a packet of 576 bytes can name.
    for stream in 0..500 {
        let options = SendOptions {
            stream: StreamId(stream),
            no_delay: true,
            ..with(Reliability::Retransmissions(0), 0)
        };
        w.send_with(0, id, options, message(0, 1));
    }
    let sent = peer.receive(&mut w);
    assert_eq!(peer.numbers(&sent).len(), 500);
    w.run(ms(2500));
    let mut named = Vec::new();
    let mut sent = peer.receive(&mut w);
    while let Some((point, skipped)) = forwards(&sent).pop() {
        assert!(
            skipped.len() <= (576 - 20 - 12 - 8) / 4,
            "{}",
            skipped.len()
        );
        assert_eq!(
            skipped.len() as u32,
            point.since(cumulative),
            "one a stream"
        );
        named.push(skipped.len());
        cumulative = point;
        sent = peer.sack(&mut w, cumulative, 100_000, &[]);
    }
    assert_eq!(named, [134, 134, 134, 98]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
}

/// RFC 3758, section 3.5, rule C5
#[test]
fn a_forward_tsn_is_repeated_until_acknowledged() {
    let (mut w, peer, id) = puppet(true, 100_000);
    w.send_with(
        0,
        id,
        with(Reliability::Retransmissions(0), 0),
        message(0, 100),
    );
    peer.receive(&mut w);
    w.run(secs(1));
    assert_eq!(forwards(&peer.receive(&mut w)).len(), 1);
    // Nothing else is outstanding; T3-rtx runs with its back-off.
    for pause in [2, 4, 8] {
        w.run(ms(pause * 1000 - 1));
        assert_eq!(forwards(&peer.receive(&mut w)).len(), 0);
        w.run(ms(1));
        assert_eq!(
            forwards(&peer.receive(&mut w)),
            [(peer.endpoint_tsn(0), vec![(0, 0)])]
        );
    }
    assert_eq!(w.path(0, id, 0).error_count, 4);
    peer.sack(&mut w, peer.endpoint_tsn(0), 100_000, &[]);
    assert_eq!(
        (w.path(0, id, 0).error_count, w.stats(0, id).error_count),
        (0, 0)
    );
    w.run(secs(600));
    assert_eq!(forwards(&peer.receive(&mut w)).len(), 0);
    assert_eq!(w.stats(0, id).counters.forward_tsns_sent, 4);
}

/// RFC 9260, section 8.1
#[test]
fn an_unanswered_forward_tsn_ends_the_association() {
    let (mut w, _peer, id) = puppet(true, 100_000);
    w.send_with(
        0,
        id,
        with(Reliability::Retransmissions(0), 0),
        message(0, 100),
    );
    w.run(secs(2000));
    let events = w.events(0);
    assert!(
        matches!(
            events.last(),
            Some(Event::Closed(carrick_proto::CloseReason::PeerUnreachable))
        ),
        "{events:?}"
    );
    assert_eq!(contexts(&events), [0], "reported once");
}

/// RFC 3758, section 3.5, rule F2
#[test]
fn a_forward_tsn_is_repeated_once_per_round_trip() {
    let (mut w, peer, id) = puppet(true, 100_000);
    let no_retransmission = with(Reliability::Retransmissions(0), 0);
    w.send_with(0, id, no_retransmission, message(0, FULL));
    peer.receive(&mut w);
    w.run(ms(100));
    // Smoothed, the round trip is a few milliseconds.
    peer.sack(&mut w, peer.endpoint_tsn(0), 100_000, &[]);
    for _ in 0..4 {
        w.send_with(0, id, no_retransmission, message(0, FULL));
    }
    w.run(ms(1));
    peer.receive(&mut w);
    let below = peer.endpoint_tsn(0);
    let mut packets = Vec::new();
    for last in 2..=4 {
        packets.extend(peer.sack(&mut w, below, 100_000, &[(2, last)]));
    }
    assert_eq!(
        forwards(&packets),
        [(peer.endpoint_tsn(1), vec![(0, 1)])],
        "three missing reports"
    );
    w.run(ms(5));
    assert_eq!(
        forwards(&peer.sack(&mut w, below, 100_000, &[(2, 4)])).len(),
        0
    );
    w.run(ms(60));
    assert_eq!(
        forwards(&peer.sack(&mut w, below, 100_000, &[(2, 4)])).len(),
        1
    );
}
