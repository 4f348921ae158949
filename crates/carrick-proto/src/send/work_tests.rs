//! What a peer's packets cost the sender, by counts: many chunks are outstanding, and it has many
//! addresses.

use alloc::vec::Vec;

use carrick_wire::{Chunk as Wire, CommonHeader, Packet, PacketBuilder, VerificationTag};
use core::net::IpAddr;

use super::queue::Piece;
use super::*;
use crate::policy::LossSignal;
use crate::reliability::Reliability;
use crate::route::Route;

const PATHS: u8 = 16;
const CHUNKS: u64 = 20_000;

/// A sender with chunks on the first of its paths.
struct Bench {
    sender: Sender,
    paths: Paths,
    config: AssociationConfig,
    trace: Trace,
}

impl Bench {
    fn new() -> Self {
        let config = AssociationConfig::default();
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
            trace: Trace::new(false),
        }
    }

    /// A message of one chunk leaves to the first path.
    fn push(&mut self, options: SendOptions) -> u64 {
        let message = self.sender.abandonment.add(&options, 1, Time::ZERO);
        let piece = Piece::whole(message, options.stream);
        let (outstanding, paths) = (&mut self.sender.outstanding, &mut self.paths);
        let index = outstanding.push(piece, PathId(0), true, Time::ZERO, paths);
        self.sender.abandonment.on_sent(message, index, true);
        index
    }

    /// Takes a SACK with these gap blocks.
    fn sack(&mut self, cumulative: u64, gaps: &[(u64, u64)]) -> SackOutcome {
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
            trace: &mut self.trace,
        };
        self.sender.on_sack(&sack, &mut cx)
    }

    /// Chunks that were looked at since the last call, in search of the lowest in flight.
    fn searched(&self) -> usize {
        self.sender.outstanding.searched.take()
    }
}

/// The first message is given up; the peer never acknowledges that, and deletes one address after the
/// other on which nothing is.
#[test]
fn paths_with_nothing_in_flight_are_not_searched_for_3758_3_5_c2() {
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
    bench.sender.settle(Time::ZERO, &mut bench.paths);
    assert_eq!(bench.sender.abandoned().total().sent, 1);
    bench.searched();
    for n in 0..100 {
        let outcome = bench.sack(0, &[(first + 2, first + 2 + n)]);
        assert!(outcome.acknowledged && !outcome.stale, "{n}");
    }
    let looks = bench.searched();
    assert!((100..=400).contains(&looks), "{looks} looks for 100 SACKs");
    for n in 1..PATHS {
        let (from, to) = (PathId(n), PathId(0));
        assert!(bench.sender.affords_move(from, &bench.paths));
        let (now, paths) = (Time::ZERO, &mut bench.paths);
        bench.sender.move_path(from, to, now, paths);
    }
    let looks = bench.searched();
    assert!(looks <= 4 * usize::from(PATHS), "{looks} looks for moves");
}

/// What is not believed any more is not taken back by the peer.
#[test]
fn our_own_disbelief_does_not_cost_the_trust_once_more_6_2_1() {
    const COUNT: u64 = 4000;
    let mut bench = Bench::new();
    for _ in 0..=COUNT {
        bench.push(SendOptions::default());
    }
    let (low, high) = ((2, COUNT / 2), (COUNT / 2 + 2, COUNT + 1));
    let mut reneged = 0;
    while bench.sender.is_peer_trusted(0) {
        for gap in [low, high] {
            reneged += bench.sack(0, &[gap]).reneged;
        }
        assert!(reneged < 1 << 20, "an end");
    }
    // Nothing of it is believed, and nothing of that is the peer's fault.
    for _ in 0..3 {
        assert_eq!(bench.sack(0, &[high]).reneged, 0);
    }
    bench.sack(COUNT + 1, &[]);
    for _ in 0..8 {
        bench.push(SendOptions::default());
    }
    let gap = (COUNT + 4, COUNT + 9);
    for _ in 0..2 {
        let outcome = bench.sack(COUNT + 1, &[gap]);
        assert_eq!((outcome.stale, outcome.reneged), (false, 0));
        assert!(bench.sender.is_peer_trusted(COUNT + 1));
    }
    assert_eq!(bench.sender.outstanding.acked, [gap]);
}
