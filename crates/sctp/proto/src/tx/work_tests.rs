//! Bounds of the work that a peer's packets cause, with many chunks outstanding and many addresses.

use alloc::vec::Vec;

use carrick_wire::{Chunk as Wire, CommonHeader, Packet, PacketBuilder, VerificationTag};
use core::net::IpAddr;

use super::queue::NewChunk;
use super::*;
use crate::reliability::Reliability;
use crate::research::Policies;
use crate::route::Route;
use crate::tx::LossSignal;

const PATHS: u8 = 16;
const CHUNKS: u64 = 20_000;

/// Sender with chunks on the first of its paths.
struct Bench {
    sender: Sender,
    paths: Paths,
    config: AssociationConfig,
    observation: Observation,
}

impl Bench {
    fn new() -> Self {
        Self::with(Policies::default())
    }

    fn with(policies: Policies) -> Self {
        let config = AssociationConfig::rfc9260().with(|c| c.research.policies = policies);
        let mut paths = Paths::new();
        for n in 1..=PATHS {
            let remote = IpAddr::from([10, 0, 0, n]);
            let route = Route::plain([10, 0, 1, 1].into(), remote);
            paths.add(route, true, &config).expect("a new path");
        }
        let mut sender = Sender::new(Tsn::new(1), &config);
        let extensions = Extensions {
            partial_reliability: true,
            ..Extensions::NONE
        };
        sender.negotiated(1 << 20, 10, extensions);
        Self {
            sender,
            paths,
            config,
            observation: Observation::default(),
        }
    }

    /// Sends a message of one chunk on the first path.
    fn push(&mut self, options: SendOptions) -> u64 {
        let message = self.sender.abandonment.add(&options, 1, Time::ZERO);
        let chunk = NewChunk::whole(message, options.stream);
        let (outstanding, paths) = (&mut self.sender.outstanding, &mut self.paths);
        let index = outstanding.push(chunk, PathId(0), true, Time::ZERO, paths);
        self.sender.abandonment.on_sent(message, index, true);
        index
    }

    /// Processes a SACK with these Gap Ack Blocks.
    fn sack(&mut self, cumulative: u64, gaps: &[(u64, u64)]) -> Acked {
        let header = CommonHeader {
            source_port: 1,
            destination_port: 2,
            tag: VerificationTag(1),
        };
        let mut buf = Vec::new();
        let mut packet = PacketBuilder::new(&mut buf, header, 1400);
        let offset = |index: u64| (index - cumulative) as u16;
        let blocks = gaps.iter().map(|(first, last)| carrick_wire::GapAckBlock {
            start: offset(*first),
            end: offset(*last),
        });
        let point = self.sender.outstanding.tsn(cumulative);
        packet.sack(point, 1 << 20, blocks, core::iter::empty());
        packet.finish();
        let packet = Packet::parse(&buf).expect("a packet");
        let chunk = packet.chunks().next().expect("a chunk").expect("a SACK");
        let Wire::Sack(sack) = Wire::parse(chunk).expect("a SACK") else {
            panic!("not a SACK");
        };
        let mut cx = SackContext {
            now: Time::ZERO,
            arrived_on: None,
            paths: &mut self.paths,
            config: &self.config,
            observation: &self.observation,
        };
        self.sender.on_sack(&sack, &mut cx).expect("not stale")
    }

    /// Number of chunks examined since the last call in search of the lowest in flight.
    fn searched(&self) -> usize {
        self.sender.outstanding.searched.take()
    }

    /// Steps of the work on SACKs since the last call: chunks acknowledged, reneged on, examined.
    fn steps(&self) -> usize {
        let outstanding = &self.sender.outstanding;
        let changed = outstanding.searched.take() + outstanding.changed.take();
        changed + self.sender.detector.take_work()
    }

    /// Sends this many chunks.
    fn fill(&mut self, count: u64) {
        for _ in 0..count {
            self.push(SendOptions::default());
        }
    }
}

/// The first message is abandoned; the peer never acknowledges that, and deletes one address after the
/// other on which nothing is in flight.
///
/// RFC 3758, section 3.5, C2
#[test]
fn paths_with_nothing_in_flight_are_not_searched() {
    let mut bench = Bench::new();
    let once = SendOptions {
        reliability: Reliability::Retransmissions(0),
        ..SendOptions::default()
    };
    let first = bench.push(once);
    for _ in 0..CHUNKS {
        bench.push(SendOptions::default());
    }
    let lost = LossSignal::MissingReports;
    bench.sender.outstanding.mark(first, lost, &mut bench.paths);
    bench
        .sender
        .process_abandonment(Time::ZERO, &mut bench.paths);
    assert_eq!(bench.sender.abandoned().total().sent, 1);
    bench.searched();
    for n in 0..100 {
        let outcome = bench.sack(0, &[(first + 2, first + 2 + n)]);
        assert!(outcome.acknowledged, "{n}");
    }
    let work = bench.searched();
    assert!((100..=400).contains(&work), "{work} chunks for 100 SACKs");
    for n in 1..PATHS {
        let (from, to) = (PathId(n), PathId(0));
        assert!(bench.sender.permits_move(from, &bench.paths));
        let (now, paths) = (Time::ZERO, &mut bench.paths);
        bench.sender.move_path(from, to, now, paths);
    }
    let work = bench.searched();
    assert!(work <= 4 * usize::from(PATHS), "{work} chunks for moves");
}

/// Number of steps that a single SACK may take beyond those for the chunks that were sent.
const STEPS_OF_A_SACK: usize = 250;

/// Loss detection of RFC 9260, and that of the crate `carrick`.
fn detections() -> [Policies; 2] {
    [Policies::default(), Policies::modern()]
}

/// A peer reports everything in one Gap Ack Block and nothing, alternately: the work is in proportion to
/// what was sent, and no SACK costs more for it in a large window.
///
/// RFC 9260, section 6.2.1
#[test]
fn reneging_work_is_bounded_by_transmissions() {
    for (policies, window) in detections()
        .into_iter()
        .zip([[1000, 10_800, 60_000]; 2])
        .flat_map(|(p, windows)| windows.map(|w| (p.clone(), w)))
    {
        let mut bench = Bench::with(policies);
        bench.fill(window);
        let mut total = 0;
        for n in 0..1000 {
            bench.sack(0, &[(2, window)]);
            bench.sack(0, &[]);
            let last = bench.steps();
            total += last;
            assert!(
                n < 4 || last <= 2 * STEPS_OF_A_SACK,
                "{last} steps, {window}"
            );
        }
        let bound = 6 * window as usize + 2000 * STEPS_OF_A_SACK;
        assert!(total <= bound, "{total} steps with {window} chunks");
    }
}

/// Each time its Gap Ack Blocks are ignored, the peer acknowledges everything to end that.
///
/// RFC 9260, section 6.2.1
#[test]
fn reneging_work_is_bounded_by_acknowledged_chunks() {
    const WINDOW: u64 = 5000;
    const ROUNDS: u64 = 20;
    for policies in detections() {
        let mut bench = Bench::with(policies);
        let mut total = 0;
        let mut sacks = 0;
        for round in 0..ROUNDS {
            bench.fill(WINDOW);
            let (below, all) = (round * WINDOW, (round * WINDOW + 2, (round + 1) * WINDOW));
            for _ in 0..30 {
                bench.sack(below, &[all]);
                bench.sack(below, &[]);
                sacks += 2;
            }
            bench.sack(all.1, &[]);
            total += bench.steps();
        }
        let bound = 6 * (ROUNDS * WINDOW) as usize + sacks * STEPS_OF_A_SACK;
        assert!(total <= bound, "{total} steps for {sacks} SACKs");
    }
}

/// One chunk at the end of the window stays in flight, and one at its beginning is reneged on again
/// and again: in between nothing is in flight, and that is not searched each time.
///
/// RFC 9260, section 6.3.2, R3
#[test]
fn one_chunk_reneged_on_costs_no_search_of_the_window() {
    for policies in detections() {
        let mut bench = Bench::with(policies);
        bench.fill(CHUNKS);
        bench.sack(0, &[(2, CHUNKS - 1)]);
        bench
            .sender
            .outstanding
            .mark(1, LossSignal::Timeout, &mut bench.paths);
        bench.steps();
        for _ in 0..500 {
            bench.sack(0, &[(3, CHUNKS - 1)]);
            bench.sack(0, &[(2, CHUNKS - 1)]);
        }
        let steps = bench.steps();
        assert!(steps <= CHUNKS as usize + 1000 * 10, "{steps} steps");
    }
}

/// A receiver that is short of memory once drops all that it has only reported in Gap Ack Blocks: it
/// reneges on each chunk once, and its blocks are not ignored.
///
/// RFC 9260, section 6.2.1
#[test]
fn a_peer_may_renege_once_on_each_transmission() {
    for policies in detections() {
        let mut bench = Bench::with(policies);
        bench.fill(CHUNKS);
        for _ in 0..2 {
            assert!(bench.sack(0, &[(2, CHUNKS)]).acknowledged);
            assert!(bench.sender.outstanding.in_flight() <= 1);
            assert_eq!(bench.sack(0, &[]).reneged, CHUNKS - 1);
            // All of them are retransmitted.
            for index in 1..=CHUNKS {
                bench
                    .sender
                    .outstanding
                    .mark(index, LossSignal::Timeout, &mut bench.paths);
                let (to, now) = (PathId(0), Time::ZERO);
                let paths = &mut bench.paths;
                bench
                    .sender
                    .outstanding
                    .retransmit(index, to, true, now, paths);
            }
        }
        bench.sack(0, &[(2, CHUNKS)]);
        assert_eq!(*bench.sender.outstanding.reported(), [(2, CHUNKS)]);
    }
}

/// SACKs that overtake each other renege on a few chunks each, which is never limited.
///
/// RFC 9260, section 6.2.1
#[test]
fn reordered_sacks_do_not_limit_gap_ack_blocks() {
    let mut bench = Bench::new();
    bench.fill(100);
    for _ in 0..10_000 {
        assert!(bench.sack(0, &[(2, 80)]).acknowledged);
        assert_eq!(bench.sack(0, &[(2, 70)]).reneged, 10);
    }
}

/// Chunks return to flight because the peer's Gap Ack Blocks are ignored: that is no reneging, and does not
/// prolong it.
///
/// RFC 9260, section 6.2.1
#[test]
fn ignored_gap_ack_blocks_are_no_reneging() {
    const COUNT: u64 = 4000;
    let mut bench = Bench::new();
    bench.fill(COUNT + 1);
    let (low, high) = ((2, COUNT / 2), (COUNT / 2 + 2, COUNT + 1));
    let mut reneged = 0;
    while !bench.sender.ignores_gaps(0) {
        for gap in [low, high] {
            reneged += bench.sack(0, &[gap]).reneged;
        }
        assert!(reneged < 1 << 20, "an end");
    }
    for _ in 0..3 {
        assert_eq!(bench.sack(0, &[high]).reneged, 0);
    }
    bench.sack(COUNT + 1, &[]);
    bench.fill(8);
    let gap = (COUNT + 4, COUNT + 9);
    for _ in 0..2 {
        let outcome = bench.sack(COUNT + 1, &[gap]);
        assert_eq!(outcome.reneged, 0);
        assert!(!bench.sender.ignores_gaps(COUNT + 1));
    }
    assert_eq!(*bench.sender.outstanding.reported(), [gap]);
}
