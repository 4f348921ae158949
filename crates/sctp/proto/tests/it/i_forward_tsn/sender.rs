//! Time and content of I-FORWARD-TSN.

use carrick_proto::{
    Abandoned, AbandonedCount, AssociationConfig, AssociationId, Reliability, SendOptions, StreamId,
};
use carrick_wire::{Chunk, ChunkType, GapAckBlock, Tsn};

use super::OFFERED;
use crate::common::*;

/// The payload that fills a packet.
const FULL: usize = 1448;

/// An endpoint with a puppet as its peer, whose heartbeats are off.
fn puppet(change: impl Fn(&mut AssociationConfig)) -> (World, Puppet, AssociationId) {
    let mut w = World::with(1, |_, config| config.local_addresses.truncate(1));
    w.config.extensions = OFFERED;
    change(&mut w.config);
    let mut peer = Puppet::new();
    peer.streams = (1000, 1000);
    let id = peer.begin_accept(&mut w);
    peer.answer_init(&mut w, |p| {
        p.supported_extensions(&[ChunkType::I_DATA, ChunkType::I_FORWARD_TSN]);
        p.state_cookie(b"cookie");
    });
    peer.send(&mut w, |p| p.cookie_ack());
    w.change(0, id)
        .set_heartbeat(carrick_proto::PathId(0), false)
        .unwrap();
    w.events(0);
    assert!(w.stats(0, id).extensions.partial_reliability);
    (w, peer, id)
}

/// Options of a message on this stream that is sent once.
fn once(stream: u16, unordered: bool) -> SendOptions {
    SendOptions {
        stream: StreamId(stream),
        unordered,
        no_delay: true,
        reliability: Reliability::Retransmissions(0),
        ..SendOptions::default()
    }
}

type Skipped = (u16, bool, u32);

fn forwards(packets: &[SentPacket]) -> Vec<(Tsn, Vec<Skipped>)> {
    let chunks = packets.iter().flat_map(SentPacket::chunks);
    let all = chunks.filter_map(|chunk| match chunk {
        Chunk::IForwardTsn(forward) => {
            let skipped = forward.skipped();
            let skipped = skipped.map(|s| (s.stream.0, s.unordered, s.mid.value()));
            let mut skipped: Vec<Skipped> = skipped.collect();
            skipped.sort_unstable();
            Some((forward.new_cumulative_tsn, skipped))
        }
        Chunk::ForwardTsn(_) => panic!("FORWARD-TSN instead of I-FORWARD-TSN"),
        _ => None,
    });
    all.collect()
}

/// RFC 8260, section 2.3.1
#[test]
fn the_highest_mid_is_named_by_stream_and_order() {
    let (mut w, peer, id) = puppet(|_| {});
    for n in 0..24_u16 {
        w.send_with(0, id, once(n % 3, n % 2 == 0), vec![0; 40]);
    }
    assert_eq!(
        peer.receive(&mut w)
            .iter()
            .flat_map(SentPacket::user_data)
            .count(),
        24
    );
    w.run(secs(2));
    let sent = peer.receive(&mut w);
    let [(point, skipped)] = &forwards(&sent)[..] else {
        panic!("one I-FORWARD-TSN");
    };
    assert_eq!(*point, peer.endpoint_tsn(23));
    let expected: Vec<Skipped> = (0..3)
        .flat_map(|stream| [(stream, false, 3), (stream, true, 3)])
        .collect();
    assert_eq!(*skipped, expected);
    peer.sack(&mut w, *point, 100_000, &[]);
    let stats = w.stats(0, id);
    assert_eq!((stats.outstanding_chunks, stats.outstanding_bytes), (0, 0));
    assert_eq!(stats.counters.forward_tsns_sent, 1);
}

/// RFC 8260, section 2.3.1
#[test]
fn an_abandoned_message_is_skipped_with_its_rest() {
    let (mut w, peer, id) = puppet(|_| {});
    // The window takes a part of it; a message of another stream goes between its fragments.
    w.send_with(0, id, once(1, false), vec![1; 30 * FULL]);
    w.send(0, id, 2, vec![2; 100]);
    let sent = peer.receive(&mut w);
    let first: Vec<_> = sent.iter().flat_map(SentPacket::user_data).collect();
    assert!(first.len() < 20 && first.iter().any(|d| d.stream == 1));
    w.run(secs(10));
    let counted = Abandoned {
        retransmissions: AbandonedCount { sent: 1, unsent: 0 },
        ..Abandoned::default()
    };
    assert_eq!(w.stats(0, id).abandoned, counted);
    let mut named = Vec::new();
    let mut replies = peer.receive(&mut w);
    for _ in 0..20 {
        // All that was sent arrives from now on.
        let data = replies
            .iter()
            .flat_map(SentPacket::user_data)
            .map(|d| d.tsn);
        let points = forwards(&replies);
        let points: Vec<_> = points
            .into_iter()
            .map(|(point, skipped)| {
                named.extend(skipped);
                point
            })
            .collect();
        let Some(highest) = data
            .chain(points)
            .max_by_key(|t| t.since(peer.endpoint_tsn(0)))
        else {
            break;
        };
        replies = peer.sack(&mut w, highest, 100_000, &[]);
    }
    assert!(
        !named.is_empty() && named.iter().all(|s| *s == (1, false, 0)),
        "{named:?}"
    );
    let stats = w.stats(0, id);
    assert_eq!((stats.outstanding_chunks, stats.send_buffer_bytes), (0, 0));
    // The next message of the stream has the next number.
    w.send(0, id, 1, vec![3; 10]);
    let next = peer.receive(&mut w);
    let next = next
        .iter()
        .flat_map(SentPacket::user_data)
        .next()
        .expect("data");
    assert_eq!((next.stream, next.number, next.fsn), (1, 1, Some(0)));
}

/// RFC 3758, section 3.5, rule C4
#[test]
fn entries_that_do_not_fit_follow_in_the_next_packet() {
    let (mut w, peer, id) = puppet(|config| {
        config.mtu.path_mtu = 576;
        config.streams.outbound_streams = 1000;
        config.transmission.max_burst = 1000;
    });
    // The congestion window grows.
    w.send(0, id, 0, pattern(200_000));
    let mut cumulative = peer.endpoint_tsn(0).previous();
    let mut replies = peer.receive(&mut w);
    while let Some(last) = replies.iter().flat_map(SentPacket::user_data).last() {
        cumulative = last.tsn;
        replies = peer.sack(&mut w, cumulative, 100_000, &[]);
    }
    for stream in 0..200 {
        w.send_with(0, id, once(stream, stream % 2 == 1), vec![0; 1]);
    }
    assert_eq!(
        peer.receive(&mut w)
            .iter()
            .flat_map(SentPacket::user_data)
            .count(),
        200
    );
    w.run(ms(2500));
    let mut named = Vec::new();
    let mut sent = peer.receive(&mut w);
    while let Some((point, skipped)) = forwards(&sent).pop() {
        assert_eq!(
            skipped.len() as u32,
            point.since(cumulative),
            "one a stream"
        );
        named.push(skipped.len());
        cumulative = point;
        sent = peer.sack(&mut w, cumulative, 100_000, &[]);
    }
    let most = (576 - 20 - 12 - 8) / 8;
    assert_eq!(named, [most, most, 200 - 2 * most]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
}

/// RFC 3758, section 3.5, rule C5
#[test]
fn i_forward_tsn_is_repeated_until_acknowledged() {
    let (mut w, peer, id) = puppet(|_| {});
    w.send_with(0, id, once(0, true), vec![0; 100]);
    peer.receive(&mut w);
    w.run(secs(1));
    let expected = [(peer.endpoint_tsn(0), vec![(0, true, 0)])];
    assert_eq!(forwards(&peer.receive(&mut w)), expected);
    for pause in [2, 4, 8] {
        w.run(ms(pause * 1000 - 1));
        assert_eq!(forwards(&peer.receive(&mut w)).len(), 0);
        w.run(ms(1));
        assert_eq!(forwards(&peer.receive(&mut w)), expected);
    }
    peer.sack(&mut w, peer.endpoint_tsn(0), 100_000, &[]);
    w.run(secs(600));
    assert_eq!(forwards(&peer.receive(&mut w)).len(), 0);
}

/// RFC 3758, section 3.5, rule C2
#[test]
fn the_ack_point_advances_over_abandoned_tsns_only() {
    let (mut w, peer, id) = puppet(|_| {});
    for (stream, reliable) in [(0, false), (1, false), (2, true), (3, false)] {
        let reliability = if reliable {
            Reliability::Full
        } else {
            Reliability::Retransmissions(0)
        };
        let options = SendOptions {
            reliability,
            ..once(stream, true)
        };
        w.send_with(0, id, options, vec![0; 100]);
    }
    peer.receive(&mut w);
    w.run(secs(2));
    let sent = peer.receive(&mut w);
    assert_eq!(
        forwards(&sent),
        [(peer.endpoint_tsn(1), vec![(0, true, 0), (1, true, 0)])]
    );
    let again: Vec<_> = sent.iter().flat_map(SentPacket::user_data).collect();
    assert_eq!(again.len(), 1, "the reliable one");
    // The peer acknowledges it in a Gap Ack Block first: the ack point does not advance over it.
    let gap = GapAckBlock { start: 3, end: 3 };
    let below = peer.endpoint_tsn(0).previous();
    let answers = peer.sack(&mut w, below, 100_000, &[(gap.start, gap.end)]);
    assert!(
        forwards(&answers)
            .iter()
            .all(|f| f.0 == peer.endpoint_tsn(1))
    );
    let answers = peer.sack(&mut w, peer.endpoint_tsn(2), 100_000, &[]);
    assert_eq!(
        forwards(&answers),
        [(peer.endpoint_tsn(3), vec![(3, true, 0)])]
    );
    peer.sack(&mut w, peer.endpoint_tsn(3), 100_000, &[]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
}
