//! Acknowledgements that are not taken back (draft-natarajan-tsvwg-sctp-nrsack).

use crate::common;

use std::collections::BTreeSet;

use carrick_proto::{
    AssociationId, CloseReason, Event, Extensions, Reliability, SendFailure, SendOptions, StreamId,
};
use carrick_wire::{CauseCode, Chunk, ChunkType, DataFlags, DataHeader, GapAckBlock, Tsn};
use common::*;
use proptest::prelude::*;

const OFFERED: Extensions = Extensions {
    nr_sack: true,
    partial_reliability: true,
    ..Extensions::NONE
};

/// The payload that fills a packet.
const FULL: usize = 1452;

fn one_end(buffer: usize) -> World {
    let mut w = World::with(1, |_, config| {
        config.local_addresses.truncate(1);
        config.association.extensions = OFFERED;
        config.association.receive_buffer = buffer;
    });
    w.config.extensions = OFFERED;
    w
}

/// An endpoint with a puppet that sends data.
fn receiver(buffer: usize) -> (World, Puppet, AssociationId) {
    let mut w = one_end(buffer);
    let types = [ChunkType::NR_SACK];
    let (peer, id) = Puppet::new().connect_with(&mut w, |p| p.supported_extensions(&types));
    assert!(w.stats(0, id).extensions.nr_sack);
    (w, peer, id)
}

/// An endpoint with a puppet that takes data.
fn sender() -> (World, Puppet, AssociationId) {
    sender_of(None)
}

/// One whose chunks have so many bytes at most.
fn sender_of(max_payload: Option<usize>) -> (World, Puppet, AssociationId) {
    let mut w = one_end(1 << 20);
    w.config.max_payload = max_payload;
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    peer.answer_init(&mut w, |p| {
        p.supported_extensions(&[ChunkType::NR_SACK]);
        p.forward_tsn_supported();
        p.state_cookie(b"cookie");
    });
    peer.say(&mut w, |p| p.cookie_ack());
    w.ends[0]
        .set_heartbeat(w.now, id, carrick_proto::PathId(0), false)
        .unwrap();
    w.events(0);
    assert!(w.stats(0, id).extensions.nr_sack);
    (w, peer, id)
}

type Blocks = Vec<(u16, u16)>;

/// What the last NR-SACK says: its cumulative TSN, and both kinds of blocks.
fn nr_sack(answers: &[Seen]) -> Option<(Tsn, Blocks, Blocks)> {
    let list = |blocks: &mut dyn Iterator<Item = GapAckBlock>| -> Blocks {
        blocks.map(|b| (b.start, b.end)).collect()
    };
    let mut chunks = answers.iter().flat_map(Seen::chunks).rev();
    chunks.find_map(|chunk| match chunk {
        Chunk::NrSack(sack) => Some((
            sack.cumulative_tsn_ack,
            list(&mut sack.gap_ack_blocks()),
            list(&mut sack.non_renegable_blocks()),
        )),
        _ => None,
    })
}

/// A message with the puppet's TSN of this number; `ssn` is `None` for an unordered one.
fn give(w: &mut World, peer: &Puppet, number: u32, ssn: Option<u16>, size: usize) -> Vec<Seen> {
    let flags = DataFlags {
        unordered: ssn.is_none(),
        ..DataFlags::WHOLE
    };
    let header = DataHeader {
        flags,
        ..Puppet::data_header(peer.tsn.plus(number), 0, ssn.unwrap_or(0))
    };
    peer.say(w, |p| p.data(&header, &vec![0; size]))
}

/// Blocks count from the cumulative TSN, which has this number, 0 for none.
fn report(
    w: &mut World,
    peer: &Puppet,
    cumulative: u32,
    gaps: &[(u16, u16)],
    kept: &[(u16, u16)],
) -> Vec<Seen> {
    let blocks = |all: &[(u16, u16)]| -> Vec<GapAckBlock> {
        let all = all.iter();
        all.map(|&(start, end)| GapAckBlock { start, end })
            .collect()
    };
    let (gaps, kept) = (blocks(gaps).into_iter(), blocks(kept).into_iter());
    let point = peer.peer_tsn.plus(cumulative).previous();
    peer.say(w, |p| {
        p.nr_sack(point, 1 << 20, false, gaps, kept, std::iter::empty());
    })
}

fn assert_violation(w: &mut World, answers: &[Seen]) {
    let abort = answers.iter().find(|p| p.has(ChunkType::ABORT));
    let causes = abort.expect("an ABORT").causes();
    assert_eq!(causes[0].0, CauseCode::PROTOCOL_VIOLATION);
    let events = w.events(0);
    let closed = |e: &Event| matches!(e, Event::Closed(CloseReason::AbortedByProtocol(_)));
    assert!(events.iter().any(closed));
}

#[test]
fn what_the_user_was_given_is_not_taken_back_nrsack_4() {
    let (mut w, peer, id) = receiver(1 << 20);
    let below = peer.tsn.previous();
    let answers = give(&mut w, &peer, 1, None, 10);
    assert_eq!(nr_sack(&answers), Some((below, vec![], vec![(2, 2)])));
    // Ordered messages wait: they can be dropped.
    give(&mut w, &peer, 3, Some(1), 10);
    let answers = give(&mut w, &peer, 4, Some(2), 10);
    assert_eq!(nr_sack(&answers), Some((below, vec![(4, 5)], vec![(2, 2)])));
    let answers = give(&mut w, &peer, 5, None, 10);
    let expected = Some((below, vec![(4, 5)], vec![(2, 2), (6, 6)]));
    assert_eq!(nr_sack(&answers), expected);
    // The gap in front of one of them, though not the first, is filled.
    give(&mut w, &peer, 7, None, 10);
    let answers = give(&mut w, &peer, 2, Some(0), 10);
    let expected = Some((below, vec![], vec![(2, 6), (8, 8)]));
    assert_eq!(
        nr_sack(&answers),
        expected,
        "those that waited were delivered"
    );
    let answers = give(&mut w, &peer, 0, None, 10);
    let expected = Some((peer.tsn.plus(5), vec![], vec![(2, 2)]));
    assert_eq!(nr_sack(&answers), expected);
    assert_eq!(w.receive(0, id).len(), 7);
    let counters = w.stats(0, id).counters;
    assert_eq!(counters.nr_sacks_sent, counters.sacks_sent);
}

#[test]
fn a_full_buffer_drops_what_was_reported_in_gap_blocks_only_6_2() {
    let (mut w, peer, _) = receiver(6000);
    let below = peer.tsn.previous();
    for number in [2, 4] {
        give(&mut w, &peer, number, None, 1000);
    }
    for number in [6, 7] {
        give(&mut w, &peer, number, Some(number as u16), 1000);
    }
    let mut last = None;
    for number in [5, 3] {
        let answers = give(&mut w, &peer, number, Some(number as u16), 1400);
        last = nr_sack(&answers);
    }
    let (cumulative, gaps, kept) = last.expect("an NR-SACK");
    assert_eq!(cumulative, below);
    assert_eq!(kept, [(3, 3), (5, 5)]);
    assert!(!gaps.contains(&(7, 8)), "one was dropped: {gaps:?}");
}

#[test]
fn one_that_would_leave_something_out_is_a_sack_instead() {
    let (mut w, peer, id) = receiver(1 << 20);
    let mut answers = Vec::new();
    for number in 0..500 {
        answers = give(&mut w, &peer, 2 * number + 1, None, 10);
    }
    assert_eq!(nr_sack(&answers), None);
    let sack = answers.iter().find_map(Seen::sack).expect("a SACK");
    assert!(sack.gap_ack_blocks().len() > 300);
    let counters = w.stats(0, id).counters;
    assert!(counters.nr_sacks_sent > 300 && counters.nr_sacks_sent < counters.sacks_sent);
}

#[test]
fn it_makes_room_in_the_send_buffer_at_once_nrsack_4() {
    let (mut w, peer, id) = sender();
    for _ in 0..3 {
        w.send(0, id, 0, pattern(FULL));
    }
    peer.hear(&mut w);
    assert_eq!(w.stats(0, id).send_buffer_bytes, 3 * FULL);
    // A gap block does not.
    report(&mut w, &peer, 0, &[(2, 2)], &[]);
    assert_eq!(w.stats(0, id).send_buffer_bytes, 3 * FULL);
    report(&mut w, &peer, 0, &[], &[(2, 2)]);
    let stats = w.stats(0, id);
    assert_eq!(stats.send_buffer_bytes, 2 * FULL);
    assert_eq!(
        (stats.outstanding_chunks, stats.outstanding_bytes),
        (3, 2 * FULL)
    );
    // Overlapping blocks say the same.
    report(&mut w, &peer, 0, &[(2, 3)], &[(2, 2), (2, 3)]);
    report(&mut w, &peer, 0, &[(2, 3)], &[(3, 3)]);
    assert_eq!(w.stats(0, id).send_buffer_bytes, FULL);
    report(&mut w, &peer, 3, &[], &[]);
    let stats = w.stats(0, id);
    assert_eq!((stats.outstanding_chunks, stats.send_buffer_bytes), (0, 0));
    assert_eq!(w.path(0, id, 0).flight_size, 0);
    assert_eq!(stats.counters.nr_sacks_received, 5);
}

#[test]
fn what_was_promised_is_never_sent_again_nrsack_4() {
    let (mut w, peer, id) = sender();
    for _ in 0..3 {
        w.send(0, id, 0, pattern(100));
    }
    peer.hear(&mut w);
    report(&mut w, &peer, 0, &[(3, 3)], &[(2, 2)]);
    // The peer takes back both, one of which it may.
    peer.sack(&mut w, peer.theirs(0).previous(), 1 << 20, &[]);
    w.run(secs(20));
    let again = peer.numbers(&peer.hear(&mut w));
    let again: BTreeSet<u32> = again.into_iter().collect();
    assert_eq!(again, BTreeSet::from([0, 2]));
    assert_eq!(w.stats(0, id).counters.reneged, 1);
    peer.sack(&mut w, peer.theirs(2), 1 << 20, &[]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
}

/// Tens of thousands of chunks that are reneged on and reported again would be work without end.
///
/// RFC 9260, section 6.2.1
#[test]
fn reneging_without_end_is_limited_by_what_was_sent() {
    const CHUNKS: u16 = 200;
    let (mut w, peer, id) = sender();
    let at_once = SendOptions {
        no_delay: true,
        ..SendOptions::default()
    };
    for _ in 0..CHUNKS {
        w.send_with(0, id, at_once, pattern(1));
    }
    peer.hear(&mut w);
    let all = [(2, CHUNKS)];
    let taken_back = |w: &World| w.stats(0, id).counters.reneged;
    let sent = |w: &World| {
        let c = w.stats(0, id).counters;
        c.data_chunks_sent + c.fast_retransmissions + c.timeout_retransmissions
    };
    let none = peer.theirs(0).previous();
    for _ in 0..400 {
        peer.sack(&mut w, none, 1 << 20, &all);
        peer.sack(&mut w, none, 1 << 20, &[]);
    }
    // Once a transmission, a few for nothing, and once more before that is noticed.
    let bound = sent(&w) + 2 * u64::from(CHUNKS);
    assert!((1..=bound).contains(&taken_back(&w)), "{bound}");
    // What it promises to keep and what it acknowledges cumulatively still counts.
    report(&mut w, &peer, 0, &all, &[(3, 3)]);
    let held = w.stats(0, id).send_buffer_bytes;
    assert_eq!(held, usize::from(CHUNKS) - 1);
    peer.sack(&mut w, peer.theirs(u32::from(CHUNKS) - 1), 1 << 20, &[]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
    // And then gap blocks do.
    for _ in 0..3 {
        w.send_with(0, id, at_once, pattern(1));
    }
    peer.hear(&mut w);
    let last = peer.theirs(u32::from(CHUNKS) - 1);
    peer.sack(&mut w, last, 1 << 20, &[(2, 3)]);
    assert_eq!(w.stats(0, id).outstanding_bytes, 1);
}

#[test]
fn a_peer_that_breaks_its_promise_is_not_trusted_any_more() {
    for by_shutdown in [false, true] {
        let (mut w, peer, id) = sender();
        for _ in 0..3 {
            w.send(0, id, 0, pattern(FULL));
        }
        peer.hear(&mut w);
        report(&mut w, &peer, 0, &[], &[(2, 2)]);
        // With the first it would have acknowledged the second.
        let point = peer.theirs(0);
        let answers = if by_shutdown {
            peer.say(&mut w, |p| p.shutdown(point))
        } else {
            peer.sack(&mut w, point, 1 << 20, &[])
        };
        assert_violation(&mut w, &answers);
    }
}

/// A non-renegable block right above the cumulative TSN takes nothing back, nor does a later SACK with the
/// same cumulative TSN that leaves it out.
#[test]
fn a_block_above_the_cumulative_tsn_is_no_violation() {
    let (mut w, peer, id) = sender();
    for _ in 0..3 {
        w.send(0, id, 0, pattern(FULL));
    }
    peer.hear(&mut w);
    for kept in [&[(1, 1)][..], &[], &[(1, 2)]] {
        report(&mut w, &peer, 0, &[], kept);
    }
    peer.sack(&mut w, peer.theirs(0).previous(), 1 << 20, &[]);
    assert_eq!(w.stats(0, id).send_buffer_bytes, FULL);
    // The cumulative TSN may stop there as long as the chunk is listed.
    report(&mut w, &peer, 1, &[], &[(1, 1)]);
    peer.sack(&mut w, peer.theirs(2), 1 << 20, &[]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
    assert!(!w.events(0).iter().any(|e| matches!(e, Event::Closed(_))));
}

/// Messages that are lost, with messages between that the peer has for good.
fn forwards_over(sizes: &[usize], lost: &[u64]) -> (World, Puppet, AssociationId, Vec<Tsn>) {
    let (mut w, peer, id) = sender();
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
    peer.hear(&mut w);
    report(&mut w, &peer, 0, &[], &[(2, 2)]);
    w.run(secs(1));
    let heard = peer.hear(&mut w);
    let points = heard.iter().flat_map(Seen::chunks).filter_map(|c| match c {
        Chunk::ForwardTsn(forward) => Some(forward.new_cumulative_tsn),
        _ => None,
    });
    let points = points.collect();
    (w, peer, id, points)
}

/// One FORWARD-TSN names all that was lost, over a message that was delivered in between.
///
/// RFC 3758, section 3.5, C2
#[test]
fn a_forward_tsn_passes_what_the_peer_keeps() {
    let (mut w, peer, id, points) = forwards_over(&[100, 100, 100], &[0, 2]);
    assert_eq!(points, [peer.theirs(2)]);
    assert_eq!(w.stats(0, id).abandoned.total().sent, 2);
    // All of it counts as acknowledged.
    w.ends[0].shutdown(w.now, id).unwrap();
    let sent = peer.hear(&mut w);
    let kinds = [ChunkType::FORWARD_TSN, ChunkType::SHUTDOWN];
    assert_eq!(sent[0].kinds(), kinds);
}

/// A peer drops the rest of a message with a fragment that it is made to pass.
///
/// RFC 3758, section 3.6
#[test]
fn a_forward_tsn_does_not_pass_a_fragment() {
    let (_, peer, _, points) = forwards_over(&[100, 2 * FULL], &[0]);
    assert_eq!(points, [peer.theirs(0)]);
}

#[test]
fn blocks_that_lie_end_the_association_or_say_nothing_3_3_4() {
    let (mut w, peer, id) = sender();
    for _ in 0..3 {
        w.send(0, id, 0, pattern(FULL));
    }
    peer.hear(&mut w);
    report(&mut w, &peer, 0, &[(3, 2)], &[(0, 9), (3, 2), (0, 0)]);
    assert_eq!(w.stats(0, id).send_buffer_bytes, 3 * FULL);
    // Counts that are not those of the chunk.
    let before = w.ends[0].stats().malformed_chunks;
    let mut value = vec![0; 16];
    value[..4].copy_from_slice(&peer.theirs(0).value().to_be_bytes());
    value[10] = 0xff;
    peer.say(&mut w, |p| p.raw(ChunkType::NR_SACK, 0, &value));
    assert_eq!(w.ends[0].stats().malformed_chunks, before + 1);
    let answers = report(&mut w, &peer, 0, &[], &[(2, 4)]);
    assert_violation(&mut w, &answers);
}

#[test]
fn without_negotiation_it_is_an_unknown_chunk_3_2() {
    let mut w = World::single_homed();
    w.config.extensions = OFFERED;
    let (peer, id) = Puppet::new().accept(&mut w);
    assert!(!w.stats(0, id).extensions.nr_sack);
    w.send(0, id, 0, pattern(100));
    peer.hear(&mut w);
    assert!(report(&mut w, &peer, 1, &[], &[]).is_empty());
    assert_eq!(
        w.stats(0, id).outstanding_chunks,
        1,
        "nothing was acknowledged"
    );
    let answers = give(&mut w, &peer, 1, None, 10);
    assert!(answers.iter().any(|p| p.has(ChunkType::SACK)));
    assert_eq!(nr_sack(&answers), None);
}

#[test]
fn a_message_that_the_peer_has_for_good_is_no_failure_11_1_5() {
    let (mut w, peer, id) = sender();
    for (context, size) in [(0, FULL), (1, FULL), (2, 2 * FULL)] {
        let options = SendOptions {
            context,
            ..SendOptions::default()
        };
        w.send_with(0, id, options, pattern(size));
    }
    peer.hear(&mut w);
    // All of the second message, and the beginning of the third, of which the rest waits.
    report(&mut w, &peer, 0, &[], &[(2, 3)]);
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

/// The failures in these events; what came back of each is at its place in its message.
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

#[test]
fn a_failure_tells_where_the_peer_has_parts_of_it_for_good_11_2() {
    const CHUNK: usize = 100;
    let (mut w, peer, id) = sender_of(Some(CHUNK));
    let sizes = [1, 2, 2, 5].map(|chunks| chunks * CHUNK);
    send_all(&mut w, id, &sizes, Reliability::Full);
    assert_eq!(peer.numbers(&peer.hear(&mut w)).len(), 10);
    // Of the second the beginning, of the third the end, of the fourth two in the middle and the last.
    report(&mut w, &peer, 0, &[], &[(2, 2), (5, 5), (7, 8), (10, 10)]);
    w.ends[0].abort(w.now, id, b"").unwrap();
    let failed = failures(w.events(0), &sizes);
    let told: Vec<_> = failed
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
    assert_eq!(told, expected);
}

#[test]
fn a_failure_of_a_message_that_waits_in_part_has_its_holes_11_2() {
    let (mut w, peer, id) = sender();
    let sizes = [20 * FULL];
    send_all(&mut w, id, &sizes, Reliability::Full);
    report(&mut w, &peer, 1, &[], &[(2, 2)]);
    w.ends[0].abort(w.now, id, b"").unwrap();
    let failed = failures(w.events(0), &sizes);
    assert_eq!(failed[0].rest_len(), 19 * FULL);
    assert_eq!(failed[0].delivered.first(), Some(&(FULL..2 * FULL)));
    assert_eq!(failed[0].delivered.len(), 1);
}

#[test]
fn a_message_that_was_given_up_is_told_with_its_holes_11_2() {
    let (mut w, peer, id) = sender();
    let sizes = [3 * FULL];
    send_all(&mut w, id, &sizes, Reliability::Retransmissions(0));
    peer.hear(&mut w);
    report(&mut w, &peer, 0, &[], &[(2, 2)]);
    w.run(secs(5));
    let failed = failures(w.events(0), &sizes);
    assert_eq!(failed.len(), 1);
    assert!(failed[0].abandoned.is_some() && failed[0].sent);
    assert_eq!(failed[0].rest_len(), 3 * FULL);
    assert_eq!(failed[0].delivered.first(), Some(&(FULL..2 * FULL)));
    assert_eq!(failed[0].delivered.len(), 1);
}

#[test]
fn what_the_peer_has_for_good_is_not_given_up_7496_3_2() {
    let (mut w, peer, id) = sender();
    for context in 0..2 {
        let options = SendOptions {
            context,
            reliability: Reliability::Timed(secs(2)),
            ..SendOptions::default()
        };
        w.send_with(0, id, options, pattern(100));
    }
    peer.hear(&mut w);
    report(&mut w, &peer, 0, &[], &[(2, 2)]);
    w.run(secs(10));
    assert_eq!(w.stats(0, id).abandoned.total().sent, 1, "the first only");
    peer.sack(&mut w, peer.theirs(1), 1 << 20, &[]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
}

#[test]
fn its_loss_only_delays_6_3_3() {
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

    #[test]
    fn a_promise_is_kept_and_all_arrives(
        fates in prop::collection::vec(0_u8..20, 50..400),
        buffer in 3000_usize..40_000,
        interleaving: bool,
        sizes in prop::collection::vec((0_u16..6, any::<bool>(), 1_usize..5000), 5..60),
    ) {
        let offered = Extensions { interleaving, ..OFFERED };
        let mut w = World::with(2, |_, c| {
            c.association.receive_buffer = buffer;
            c.association.extensions = offered;
        });
        w.config.extensions = offered;
        w.config.association_max_retrans = 1000;
        // Losses in a row would let T3-rtx wait for longer than this test does.
        w.config.rto_max = secs(5);
        let (a, b) = w.connect();
        let mut n = 0;
        w.rule(move |_| {
            n += 1;
            match fates.get(n).copied() {
                Some(0..=4) => Fate::Drop,
                Some(5) => Fate::Duplicate,
                Some(fate @ 6..=9) => Fate::Delay(ms(u64::from(fate) * 17)),
                _ => Fate::Pass,
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
