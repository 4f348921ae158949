//! Non-renegable acknowledgements (draft-natarajan-tsvwg-sctp-nrsack).

use crate::common;

use std::collections::BTreeSet;

use carrick_proto::{
    AssociationId, CloseReason, Event, Extensions, Reliability, SendFailure, SendOptions, StreamId,
};
use carrick_wire::{CauseCode, Chunk, ChunkType, GapAckBlock, Tsn};
use common::*;
use proptest::prelude::*;

const OFFERED: Extensions = Extensions {
    nr_sack: true,
    partial_reliability: true,
    ..Extensions::NONE
};

/// The payload that fills a packet.
const FULL: usize = 1452;

fn endpoint(buffer: usize) -> World {
    World::single(|config| {
        config.extensions = OFFERED;
        config.buffers.receive_buffer = buffer;
    })
}

/// An endpoint with a puppet that sends data.
fn nr_receiver(buffer: usize) -> (World, Puppet, AssociationId) {
    let mut w = endpoint(buffer);
    let types = [ChunkType::NR_SACK];
    let (peer, id) = Puppet::new().connect_with(&mut w, |p| p.supported_extensions(&types));
    assert!(w.stats(0, id).extensions.nr_sack);
    (w, peer, id)
}

/// An endpoint with a puppet that takes data.
fn nr_sender() -> (World, Puppet, AssociationId) {
    nr_sender_of(None)
}

/// The same with this maximum payload of chunks.
fn nr_sender_of(max_payload: Option<usize>) -> (World, Puppet, AssociationId) {
    let mut w = endpoint(1 << 20);
    w.config.mtu.max_payload = max_payload;
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    peer.answer_init(&mut w, |p| {
        p.supported_extensions(&[ChunkType::NR_SACK]);
        p.forward_tsn_supported();
        p.state_cookie(b"cookie");
    });
    peer.send(&mut w, |p| p.cookie_ack());
    w.change(0, id)
        .set_heartbeat(carrick_proto::PathId(0), false)
        .unwrap();
    w.events(0);
    assert!(w.stats(0, id).extensions.nr_sack);
    (w, peer, id)
}

type Blocks = Vec<(u16, u16)>;

/// Content of the last NR-SACK: its cumulative TSN, and both kinds of blocks.
fn nr_sack(answers: &[SentPacket]) -> Option<(Tsn, Blocks, Blocks)> {
    let list = |blocks: &mut dyn Iterator<Item = GapAckBlock>| -> Blocks {
        blocks.map(|b| (b.start, b.end)).collect()
    };
    let mut chunks = answers.iter().flat_map(SentPacket::chunks).rev();
    chunks.find_map(|chunk| match chunk {
        Chunk::NrSack(sack) => Some((
            sack.cumulative_tsn_ack,
            list(&mut sack.gap_ack_blocks()),
            list(&mut sack.non_renegable_blocks()),
        )),
        _ => None,
    })
}

/// Blocks count from the cumulative TSN, which has this number, 0 for none.
fn send_nr_sack(
    w: &mut World,
    peer: &Puppet,
    cumulative: u32,
    gaps: &[(u16, u16)],
    kept: &[(u16, u16)],
) -> Vec<SentPacket> {
    let blocks = |all: &[(u16, u16)]| -> Vec<GapAckBlock> {
        let all = all.iter();
        all.map(|&(start, end)| GapAckBlock { start, end })
            .collect()
    };
    let (gaps, kept) = (blocks(gaps).into_iter(), blocks(kept).into_iter());
    let point = peer.peer_tsn.plus(cumulative).previous();
    peer.send(w, |p| {
        p.nr_sack(point, 1 << 20, false, gaps, kept, std::iter::empty());
    })
}

fn assert_violation(w: &mut World, answers: &[SentPacket]) {
    expect_abort(answers, CauseCode::PROTOCOL_VIOLATION);
    let events = w.events(0);
    let closed = |e: &Event| matches!(e, Event::Closed(CloseReason::AbortedByProtocol(_)));
    assert!(events.iter().any(closed));
}

/// draft-natarajan-tsvwg-sctp-nrsack, section 4
#[test]
fn data_given_to_the_user_is_not_reneged() {
    let (mut w, peer, id) = nr_receiver(1 << 20);
    let below = peer.tsn.previous();
    let answers = peer.message(&mut w, 1, (0, None), 10);
    assert_eq!(nr_sack(&answers), Some((below, vec![], vec![(2, 2)])));
    // Ordered messages wait: they can be dropped.
    peer.message(&mut w, 3, (0, Some(1)), 10);
    let answers = peer.message(&mut w, 4, (0, Some(2)), 10);
    assert_eq!(nr_sack(&answers), Some((below, vec![(4, 5)], vec![(2, 2)])));
    let answers = peer.message(&mut w, 5, (0, None), 10);
    let expected = Some((below, vec![(4, 5)], vec![(2, 2), (6, 6)]));
    assert_eq!(nr_sack(&answers), expected);
    // The gap in front of one of them, though not the first, is filled.
    peer.message(&mut w, 7, (0, None), 10);
    let answers = peer.message(&mut w, 2, (0, Some(0)), 10);
    let expected = Some((below, vec![], vec![(2, 6), (8, 8)]));
    assert_eq!(
        nr_sack(&answers),
        expected,
        "the buffered messages were delivered"
    );
    let answers = peer.message(&mut w, 0, (0, None), 10);
    let expected = Some((peer.tsn.plus(5), vec![], vec![(2, 2)]));
    assert_eq!(nr_sack(&answers), expected);
    assert_eq!(w.receive(0, id).len(), 7);
    let counters = w.stats(0, id).counters;
    assert_eq!(counters.nr_sacks_sent, counters.sacks_sent);
}

/// RFC 9260, section 6.2
#[test]
fn a_full_buffer_reneges_on_gap_blocks_only() {
    let (mut w, peer, _) = nr_receiver(6000);
    let below = peer.tsn.previous();
    for number in [2, 4] {
        peer.message(&mut w, number, (0, None), 1000);
    }
    for number in [6, 7] {
        peer.message(&mut w, number, (0, Some(number as u16)), 1000);
    }
    let mut last = None;
    for number in [5, 3] {
        let answers = peer.message(&mut w, number, (0, Some(number as u16)), 1400);
        last = nr_sack(&answers);
    }
    let (cumulative, gaps, kept) = last.expect("an NR-SACK");
    assert_eq!(cumulative, below);
    assert_eq!(kept, [(3, 3), (5, 5)]);
    assert!(!gaps.contains(&(7, 8)), "one was dropped: {gaps:?}");
}

/// draft-natarajan-tsvwg-sctp-nrsack, section 4
#[test]
fn a_full_packet_gets_a_sack_instead() {
    let (mut w, peer, id) = nr_receiver(1 << 20);
    let mut answers = Vec::new();
    for number in 0..500 {
        answers = peer.message(&mut w, 2 * number + 1, (0, None), 10);
    }
    assert_eq!(nr_sack(&answers), None);
    let sack = answers.iter().find_map(SentPacket::sack).expect("a SACK");
    assert!(sack.gap_ack_blocks().len() > 300);
    let counters = w.stats(0, id).counters;
    assert!(counters.nr_sacks_sent > 300 && counters.nr_sacks_sent < counters.sacks_sent);
}

/// draft-natarajan-tsvwg-sctp-nrsack, section 4
#[test]
fn an_nr_sack_frees_the_send_buffer_at_once() {
    let (mut w, peer, id) = nr_sender();
    for _ in 0..3 {
        w.send(0, id, 0, pattern(FULL));
    }
    peer.receive(&mut w);
    assert_eq!(w.stats(0, id).send_buffer_bytes, 3 * FULL);
    // A gap block does not.
    send_nr_sack(&mut w, &peer, 0, &[(2, 2)], &[]);
    assert_eq!(w.stats(0, id).send_buffer_bytes, 3 * FULL);
    send_nr_sack(&mut w, &peer, 0, &[], &[(2, 2)]);
    let stats = w.stats(0, id);
    assert_eq!(stats.send_buffer_bytes, 2 * FULL);
    assert_eq!(
        (stats.outstanding_chunks, stats.outstanding_bytes),
        (3, 2 * FULL)
    );
    // Overlapping blocks have the same meaning.
    send_nr_sack(&mut w, &peer, 0, &[(2, 3)], &[(2, 2), (2, 3)]);
    send_nr_sack(&mut w, &peer, 0, &[(2, 3)], &[(3, 3)]);
    assert_eq!(w.stats(0, id).send_buffer_bytes, FULL);
    send_nr_sack(&mut w, &peer, 3, &[], &[]);
    let stats = w.stats(0, id);
    assert_eq!((stats.outstanding_chunks, stats.send_buffer_bytes), (0, 0));
    assert_eq!(w.path(0, id, 0).flight_size, 0);
    assert_eq!(stats.counters.nr_sacks_received, 5);
}

/// draft-natarajan-tsvwg-sctp-nrsack, section 4
#[test]
fn non_renegable_chunks_are_never_retransmitted() {
    let (mut w, peer, id) = nr_sender();
    for _ in 0..3 {
        w.send(0, id, 0, pattern(100));
    }
    peer.receive(&mut w);
    send_nr_sack(&mut w, &peer, 0, &[(3, 3)], &[(2, 2)]);
    // The peer reneges on both, one of which is renegable.
    peer.sack(&mut w, peer.endpoint_tsn(0).previous(), 1 << 20, &[]);
    w.run(secs(20));
    let again = peer.numbers(&peer.receive(&mut w));
    let again: BTreeSet<u32> = again.into_iter().collect();
    assert_eq!(again, BTreeSet::from([0, 2]));
    assert_eq!(w.stats(0, id).counters.reneged, 1);
    peer.sack(&mut w, peer.endpoint_tsn(2), 1 << 20, &[]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
}

/// A peer that reneges on tens of thousands of chunks and reports them again causes bounded work.
///
/// RFC 9260, section 6.2.1
#[test]
fn reneging_without_end_is_limited_by_what_was_sent() {
    const CHUNKS: u16 = 200;
    let (mut w, peer, id) = nr_sender();
    let at_once = SendOptions {
        no_delay: true,
        ..SendOptions::default()
    };
    for _ in 0..CHUNKS {
        w.send_with(0, id, at_once, pattern(1));
    }
    peer.receive(&mut w);
    let all = [(2, CHUNKS)];
    let reneged = |w: &World| w.stats(0, id).counters.reneged;
    let sent = |w: &World| {
        let c = w.stats(0, id).counters;
        c.data_chunks_sent + c.fast_retransmissions + c.timeout_retransmissions
    };
    let none = peer.endpoint_tsn(0).previous();
    for _ in 0..400 {
        peer.sack(&mut w, none, 1 << 20, &all);
        peer.sack(&mut w, none, 1 << 20, &[]);
    }
    // The transmission, a few unneeded retransmissions, and one before they are detected.
    let bound = sent(&w) + 2 * u64::from(CHUNKS);
    assert!((1..=bound).contains(&reneged(&w)), "{bound}");
    // Non-renegable blocks and the cumulative TSN still count.
    send_nr_sack(&mut w, &peer, 0, &all, &[(3, 3)]);
    let held = w.stats(0, id).send_buffer_bytes;
    assert_eq!(held, usize::from(CHUNKS) - 1);
    peer.sack(
        &mut w,
        peer.endpoint_tsn(u32::from(CHUNKS) - 1),
        1 << 20,
        &[],
    );
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
    // And then gap blocks do.
    for _ in 0..3 {
        w.send_with(0, id, at_once, pattern(1));
    }
    peer.receive(&mut w);
    let last = peer.endpoint_tsn(u32::from(CHUNKS) - 1);
    peer.sack(&mut w, last, 1 << 20, &[(2, 3)]);
    assert_eq!(w.stats(0, id).outstanding_bytes, 1);
}

/// draft-natarajan-tsvwg-sctp-nrsack, section 4
#[test]
fn a_peer_reneging_on_nr_blocks_is_distrusted() {
    for by_shutdown in [false, true] {
        let (mut w, peer, id) = nr_sender();
        for _ in 0..3 {
            w.send(0, id, 0, pattern(FULL));
        }
        peer.receive(&mut w);
        send_nr_sack(&mut w, &peer, 0, &[], &[(2, 2)]);
        // With the first it would have acknowledged the second.
        let point = peer.endpoint_tsn(0);
        let answers = if by_shutdown {
            peer.send(&mut w, |p| p.shutdown(point))
        } else {
            peer.sack(&mut w, point, 1 << 20, &[])
        };
        assert_violation(&mut w, &answers);
    }
}

/// A non-renegable block right above the cumulative TSN takes nothing back, nor does a later SACK
/// with the same cumulative TSN that leaves it out.
///
/// draft-natarajan-tsvwg-sctp-nrsack, section 4
#[test]
fn a_block_above_the_cumulative_tsn_is_no_violation() {
    let (mut w, peer, id) = nr_sender();
    for _ in 0..3 {
        w.send(0, id, 0, pattern(FULL));
    }
    peer.receive(&mut w);
    for kept in [&[(1, 1)][..], &[], &[(1, 2)]] {
        send_nr_sack(&mut w, &peer, 0, &[], kept);
    }
    peer.sack(&mut w, peer.endpoint_tsn(0).previous(), 1 << 20, &[]);
    assert_eq!(w.stats(0, id).send_buffer_bytes, FULL);
    // The cumulative TSN may stop there as long as the chunk is listed.
    send_nr_sack(&mut w, &peer, 1, &[], &[(1, 1)]);
    peer.sack(&mut w, peer.endpoint_tsn(2), 1 << 20, &[]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
    assert!(!w.events(0).iter().any(|e| matches!(e, Event::Closed(_))));
}

/// Lost messages, with non-renegable messages between them.
fn forwards_over(sizes: &[usize], lost: &[u64]) -> (World, Puppet, AssociationId, Vec<Tsn>) {
    let (mut w, peer, id) = nr_sender();
    for (n, size) in (0..).zip(sizes) {
        let options = SendOptions {
            reliability: if lost.contains(&n) {
                Reliability::Retransmissions(0)
            } else {
                Reliability::Full
            },
            no_delay: true,
            ..SendOptions::default()
        };
        w.send_with(0, id, options, pattern(*size));
    }
    peer.receive(&mut w);
    send_nr_sack(&mut w, &peer, 0, &[], &[(2, 2)]);
    w.run(secs(1));
    let packets = peer.receive(&mut w);
    let points = packets
        .iter()
        .flat_map(SentPacket::chunks)
        .filter_map(|c| match c {
            Chunk::ForwardTsn(forward) => Some(forward.new_cumulative_tsn),
            _ => None,
        });
    let points = points.collect();
    (w, peer, id, points)
}

/// One FORWARD-TSN covers all lost messages, including a delivered message between them.
///
/// RFC 3758, section 3.5, rule C2
#[test]
fn a_forward_tsn_passes_non_renegable_tsns() {
    let (mut w, peer, id, points) = forwards_over(&[100, 100, 100], &[0, 2]);
    assert_eq!(points, [peer.endpoint_tsn(2)]);
    assert_eq!(w.stats(0, id).abandoned.total().sent, 2);
    // All of it counts as acknowledged.
    w.ends[0].shutdown(w.now, id).unwrap();
    let sent = peer.receive(&mut w);
    let kinds = [ChunkType::FORWARD_TSN, ChunkType::SHUTDOWN];
    assert_eq!(sent[0].kinds(), kinds);
}

/// A peer that skips one fragment drops the rest of its message.
///
/// RFC 3758, section 3.6
#[test]
fn a_forward_tsn_does_not_pass_a_fragment() {
    let (_, peer, _, points) = forwards_over(&[100, 2 * FULL], &[0]);
    assert_eq!(points, [peer.endpoint_tsn(0)]);
}

/// RFC 9260, section 3.3.4
#[test]
fn invalid_blocks_abort_or_change_nothing() {
    let (mut w, peer, id) = nr_sender();
    for _ in 0..3 {
        w.send(0, id, 0, pattern(FULL));
    }
    peer.receive(&mut w);
    send_nr_sack(&mut w, &peer, 0, &[(3, 2)], &[(0, 9), (3, 2), (0, 0)]);
    assert_eq!(w.stats(0, id).send_buffer_bytes, 3 * FULL);
    // Counts that are not those of the chunk.
    let before = w.ends[0].stats().malformed_chunks;
    let mut value = vec![0; 16];
    value[..4].copy_from_slice(&peer.endpoint_tsn(0).value().to_be_bytes());
    value[10] = 0xff;
    peer.send(&mut w, |p| p.raw(ChunkType::NR_SACK, 0, &value));
    assert_eq!(w.ends[0].stats().malformed_chunks, before + 1);
    let answers = send_nr_sack(&mut w, &peer, 0, &[], &[(2, 4)]);
    assert_violation(&mut w, &answers);
}

/// RFC 9260, section 3.2
#[test]
fn without_negotiation_nr_sack_is_unknown() {
    let mut w = World::single_homed();
    w.config.extensions = OFFERED;
    let (peer, id) = Puppet::new().accept(&mut w);
    assert!(!w.stats(0, id).extensions.nr_sack);
    w.send(0, id, 0, pattern(100));
    peer.receive(&mut w);
    assert!(send_nr_sack(&mut w, &peer, 1, &[], &[]).is_empty());
    assert_eq!(
        w.stats(0, id).outstanding_chunks,
        1,
        "nothing was acknowledged"
    );
    let answers = peer.message(&mut w, 1, (0, None), 10);
    assert!(answers.iter().any(|p| p.has(ChunkType::SACK)));
    assert_eq!(nr_sack(&answers), None);
}

/// RFC 9260, section 11.2.2
#[test]
fn a_non_renegable_message_is_no_failure() {
    let (mut w, peer, id) = nr_sender();
    for (context, size) in [(0, FULL), (1, FULL), (2, 2 * FULL)] {
        let options = SendOptions {
            context,
            ..SendOptions::default()
        };
        w.send_with(0, id, options, pattern(size));
    }
    peer.receive(&mut w);
    // All of the second message, and the beginning of the third, of which the rest waits.
    send_nr_sack(&mut w, &peer, 0, &[], &[(2, 3)]);
    w.ends[0].abort(w.now, id, b"").unwrap();
    let failed: Vec<(u64, usize)> = w
        .events(0)
        .iter()
        .filter_map(|e| match e {
            Event::SendFailed(f) => Some((f.context, f.unsent.len())),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [(0, FULL), (2, FULL)]);
}

/// Failures in these events, with the returned payload at its position in the message.
fn failures(events: Vec<Event>, sizes: &[usize]) -> Vec<SendFailure> {
    let failed = events.into_iter().filter_map(|e| match e {
        Event::SendFailed(failure) => Some(*failure),
        _ => None,
    });
    let failed: Vec<SendFailure> = failed.collect();
    for failure in &failed {
        let message = pattern(sizes[failure.context as usize]);
        let rest = &message[message.len() - failure.rest_len()..];
        assert!(failure.unsent.0.iter().all(|piece| !piece.is_empty()));
        for (place, piece) in failure.pieces() {
            assert_eq!(rest[place..place + piece.len()], piece[..], "{place}");
        }
    }
    failed
}

/// Sends messages of these sizes, with their numbers as contexts.
fn send_all(w: &mut World, id: AssociationId, sizes: &[usize], reliability: Reliability) {
    for (context, size) in (0..).zip(sizes) {
        let options = SendOptions {
            context,
            reliability,
            ..SendOptions::default()
        };
        w.send_with(0, id, options, pattern(*size));
    }
}

/// RFC 9260, section 11.2.2
#[test]
fn a_failure_reports_non_renegable_parts() {
    const CHUNK: usize = 100;
    let (mut w, peer, id) = nr_sender_of(Some(CHUNK));
    let sizes = [1, 2, 2, 5].map(|chunks| chunks * CHUNK);
    send_all(&mut w, id, &sizes, Reliability::Full);
    assert_eq!(peer.numbers(&peer.receive(&mut w)).len(), 10);
    // Of the second the beginning, of the third the end, of the fourth two in the middle and the
    // last.
    send_nr_sack(&mut w, &peer, 0, &[], &[(2, 2), (5, 5), (7, 8), (10, 10)]);
    w.ends[0].abort(w.now, id, b"").unwrap();
    let failed = failures(w.events(0), &sizes);
    let reported: Vec<_> = failed
        .iter()
        .map(|f| (f.context, f.unsent.len(), f.delivered.clone()))
        .collect();
    let chunks = |from: usize, to: usize| from * CHUNK..to * CHUNK;
    let expected = [
        (0, CHUNK, vec![]),
        (1, CHUNK, vec![]),
        (2, CHUNK, vec![chunks(1, 2)]),
        (3, 2 * CHUNK, vec![chunks(1, 3), chunks(4, 5)]),
    ];
    assert_eq!(reported, expected);
}

/// RFC 9260, section 11.2.2
#[test]
fn a_failure_of_a_queued_message_reports_its_gaps() {
    let (mut w, peer, id) = nr_sender();
    let sizes = [20 * FULL];
    send_all(&mut w, id, &sizes, Reliability::Full);
    send_nr_sack(&mut w, &peer, 1, &[], &[(2, 2)]);
    w.ends[0].abort(w.now, id, b"").unwrap();
    let failed = failures(w.events(0), &sizes);
    assert_eq!(failed[0].rest_len(), 19 * FULL);
    assert_eq!(failed[0].delivered.first(), Some(&(FULL..2 * FULL)));
    assert_eq!(failed[0].delivered.len(), 1);
}

/// RFC 9260, section 11.2.2
#[test]
fn an_abandoned_message_reports_its_gaps() {
    let (mut w, peer, id) = nr_sender();
    let sizes = [3 * FULL];
    send_all(&mut w, id, &sizes, Reliability::Retransmissions(0));
    peer.receive(&mut w);
    send_nr_sack(&mut w, &peer, 0, &[], &[(2, 2)]);
    w.run(secs(5));
    let failed = failures(w.events(0), &sizes);
    assert_eq!(failed.len(), 1);
    assert!(failed[0].abandoned.is_some() && failed[0].sent);
    assert_eq!(failed[0].rest_len(), 3 * FULL);
    assert_eq!(failed[0].delivered.first(), Some(&(FULL..2 * FULL)));
    assert_eq!(failed[0].delivered.len(), 1);
}

/// RFC 7496, section 3.2
#[test]
fn non_renegable_messages_are_not_abandoned() {
    let (mut w, peer, id) = nr_sender();
    for context in 0..2 {
        let options = SendOptions {
            context,
            reliability: Reliability::Timed(secs(2)),
            ..SendOptions::default()
        };
        w.send_with(0, id, options, pattern(100));
    }
    peer.receive(&mut w);
    send_nr_sack(&mut w, &peer, 0, &[], &[(2, 2)]);
    w.run(secs(10));
    assert_eq!(w.stats(0, id).abandoned.total().sent, 1, "the first only");
    peer.sack(&mut w, peer.endpoint_tsn(1), 1 << 20, &[]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
}

/// RFC 9260, section 6.3.3
#[test]
fn a_lost_nr_sack_only_delays() {
    for lost in 1..6 {
        let mut w = World::with(2, |_, config| config.association.extensions = OFFERED);
        w.config.extensions = OFFERED;
        let (a, b) = w.connect();
        w.lose(1, ChunkType::NR_SACK, lost);
        w.lose_data(0, &[1, 4]);
        for stream in 0..8 {
            w.send(0, a, stream, pattern(FULL));
        }
        w.run(secs(60));
        assert_eq!(w.receive_lengths(1, b), [FULL; 8]);
        assert_eq!(w.stats(0, a).outstanding_chunks, 0);
        assert!(w.sent(1, ChunkType::SACK).is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// draft-natarajan-tsvwg-sctp-nrsack, section 4
    #[test]
    fn nr_sack_promises_hold_under_random_loss(
        verdicts in prop::collection::vec(0_u8..20, 50..400),
        buffer in 3000_usize..40_000,
        interleaving: bool,
        sizes in prop::collection::vec((0_u16..6, any::<bool>(), 1_usize..5000), 5..60),
    ) {
        let offered = Extensions { interleaving, ..OFFERED };
        let mut w = World::with(2, |_, c| {
            c.association.buffers.receive_buffer = buffer;
            c.association.extensions = offered;
        });
        w.config.extensions = offered;
        w.config.paths.association_max_retrans = 1000;
        // Losses in a row would let T3-rtx wait for longer than this test does.
        w.config.timers.rto_max = secs(5);
        let (a, b) = w.connect();
        let mut n = 0;
        w.rule(move |_| {
            n += 1;
            match verdicts.get(n).copied() {
                Some(0..=4) => Verdict::Drop,
                Some(5) => Verdict::Duplicate,
                Some(verdict @ 6..=9) => Verdict::Delay(ms(u64::from(verdict) * 17)),
                _ => Verdict::Pass,
            }
        });
        let mut arrived = 0;
        let mut sent = 0;
        for &(stream, unordered, size) in &sizes {
            let options = SendOptions { stream: StreamId(stream), unordered, ..SendOptions::default() };
            w.send_with(0, a, options, pattern(size));
            sent += size;
            w.run(ms(5));
        }
        for _ in 0..2000 {
            w.run(ms(300));
            arrived += w.receive(1, b).iter().map(|m| m.payload.len()).sum::<usize>();
            if arrived == sent {
                break;
            }
        }
        prop_assert_eq!(arrived, sent);
        // In the order in which they left, NR-SACKs never forget.
        let mut promised: BTreeSet<u32> = BTreeSet::new();
        let mut offset = None;
        for seen in w.log.iter().filter(|s| s.from == 1) {
            let Some((point, _, kept)) = nr_sack(std::slice::from_ref(seen)) else {
                continue;
            };
            let offset = *offset.get_or_insert(point);
            let point = point.since(offset);
            let now: BTreeSet<u32> = kept
                .iter()
                .flat_map(|&(from, to)| u32::from(from)..=u32::from(to))
                .map(|n| point + n)
                .collect();
            let broken = promised.iter().find(|t| **t > point && !now.contains(t));
            prop_assert_eq!(broken, None);
            promised = now;
        }
        prop_assert!(w.states().iter().all(|s| *s == Some("Established")));
    }
}
