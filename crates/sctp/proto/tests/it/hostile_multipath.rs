//! A hostile peer on two paths: it acknowledges data that was not sent or has not arrived, reports
//! chunks of the other path as missing, and reneges repeatedly.

use crate::common;

use std::net::IpAddr;
use std::sync::Arc;

use carrick_proto::cc::{Algorithm, CmtRpV2, Cubic, Lia, Olia, RateBased, Rfc9260};
use carrick_proto::research::{
    BufferSplitting, DataRoute, Multipath, Policies, ReportScope, ReportsPerSack, SplitBasis,
    WindowGrowth,
};
use carrick_proto::{AssociationId, Event, Tsn};
use carrick_wire::{ChunkType, GapAckBlock};
use common::*;

const FULL: usize = 1452;
/// The puppet's second address.
const SECOND: [u8; 4] = [10, 0, 0, 98];
const SEND_BUFFER: usize = 200_000;

struct Setup {
    w: World,
    p: Puppet,
    id: AssociationId,
    /// The path of each chunk that was sent, in the order of their TSNs.
    on: Vec<usize>,
}

fn all_at_once(base: Policies) -> Policies {
    Policies {
        multipath: Multipath::concurrent(),
        ..base
    }
}

impl Setup {
    /// An association with a puppet at two verified addresses, which accepts an offer of NR-SACK.
    fn new(policies: &Policies, nr_sack: bool) -> Self {
        let mut w = World::with(1, |_, c| {
            c.association.research.policies = policies.clone();
            c.association.buffers.send_buffer = SEND_BUFFER;
            c.association.extensions.nr_sack = nr_sack;
            // Nothing happens but what the test does.
            c.association.paths.hb_interval = secs(100_000);
            c.association.paths.association_max_retrans = 1000;
        });
        let (p, id) = Puppet::new().connect_with(&mut w, |b| {
            b.ip_address(ip("10.0.0.99"));
            b.ip_address(IpAddr::from(SECOND));
            if nr_sack {
                b.supported_extensions(&[ChunkType::NR_SACK]);
            }
        });
        let mut setup = Self {
            w,
            p,
            id,
            on: Vec::new(),
        };
        setup.verify();
        setup
    }

    /// Answers heartbeats until both paths are verified.
    fn verify(&mut self) {
        for _ in 0..20 {
            self.w.run(ms(200));
            for packets in self.p.receive(&mut self.w) {
                if packets.has(ChunkType::HEARTBEAT) {
                    let mut puppet = self.p.clone();
                    puppet.link.from = packets.to();
                    puppet.answer_heartbeat(&mut self.w, &packets);
                }
            }
            let paths: Vec<_> = self.w.paths(0, self.id).collect();
            if paths.len() == 2 && paths.iter().all(|p| p.status.confirmed) {
                return;
            }
        }
        panic!("two verified paths");
    }

    /// Sends messages and records the paths of the new chunks.
    fn send(&mut self, count: usize) {
        for _ in 0..count {
            let options = carrick_proto::SendOptions::default();
            let now = self.w.now;
            if self.w.ends[0]
                .send(now, self.id, options, pattern(FULL))
                .is_err()
            {
                break;
            }
        }
        self.note();
    }

    fn note(&mut self) {
        for seen in self.p.receive(&mut self.w) {
            let path = usize::from(seen.to() == IpAddr::from(SECOND));
            for data in seen.data() {
                let number = data.tsn.since(self.p.peer_tsn) as usize;
                assert!(number <= self.on.len(), "TSNs in their order");
                if number == self.on.len() {
                    self.on.push(path);
                } else {
                    self.on[number] = path;
                }
            }
        }
    }

    /// A SACK from one of the addresses; blocks of numbers of chunks.
    fn sack(&mut self, from: usize, cumulative: i64, gaps: &[(usize, usize)]) {
        let value = self.p.peer_tsn.value().wrapping_add(cumulative as u32);
        let blocks = gaps.iter().map(|&(first, last)| GapAckBlock {
            start: (first as i64 - cumulative).clamp(0, 65_535) as u16,
            end: (last as i64 - cumulative).clamp(0, 65_535) as u16,
        });
        let blocks: Vec<_> = blocks.collect();
        self.report(from, Tsn::new(value), &blocks, &[]);
    }

    fn report(
        &mut self,
        from: usize,
        cumulative: Tsn,
        gaps: &[GapAckBlock],
        settled: &[GapAckBlock],
    ) {
        let mut puppet = self.p.clone();
        if from == 1 {
            puppet.link.from = IpAddr::from(SECOND);
        }
        let bytes = puppet.build(puppet.peer_tag, |b| {
            let none = std::iter::empty();
            if settled.is_empty() {
                b.sack(cumulative, 1 << 30, gaps.iter().copied(), none);
            } else {
                b.nr_sack(
                    cumulative,
                    1 << 30,
                    false,
                    gaps.iter().copied(),
                    settled.iter().copied(),
                    none,
                );
            }
        });
        self.w.inject(0, &puppet.route(), bytes);
        self.note();
        self.check();
    }

    /// Checks the invariants that hold for any peer.
    fn check(&mut self) {
        let Some(stats) = self.w.ends[0].association(self.id).map(|a| a.stats()) else {
            return;
        };
        assert!(stats.outstanding_chunks <= self.on.len());
        assert!(stats.send_buffer_bytes <= SEND_BUFFER, "{stats:?}");
        let flight: usize = self.w.paths(0, self.id).map(|p| p.flight_size).sum();
        let most = stats.outstanding_chunks * (FULL + 20);
        assert!(flight <= most, "{flight} in flight of {most}");
    }

    fn is_open(&self) -> bool {
        self.w.ends[0].association(self.id).is_some()
    }

    fn of_path(&self, path: usize) -> Vec<usize> {
        let numbers = self.on.iter().enumerate();
        numbers
            .filter(|(_, p)| **p == path)
            .map(|(n, _)| n)
            .collect()
    }

    fn sent_again(&self) -> u64 {
        let counters = self.w.stats(0, self.id).counters;
        counters.fast_retransmissions + counters.timeout_retransmissions
    }

    /// Acknowledges everything correctly and checks that no false report has an effect left.
    fn reconcile(&mut self) {
        for _ in 0..200 {
            self.w.run(ms(300));
            self.note();
            self.sack(0, self.on.len() as i64 - 1, &[]);
            let stats = self.w.stats(0, self.id);
            if stats.outstanding_chunks == 0 && stats.queued_messages == 0 {
                break;
            }
        }
        let stats = self.w.stats(0, self.id);
        assert_eq!((stats.outstanding_chunks, stats.outstanding_bytes), (0, 0));
        assert_eq!((stats.send_buffer_bytes, stats.queued_messages), (0, 0));
        for path in self.w.paths(0, self.id) {
            assert_eq!(path.flight_size, 0, "{path:?}");
        }
    }
}

const BASES: [fn() -> Policies; 2] = [Policies::default, Policies::modern];

/// RFC 9260, section 12.4
#[test]
fn an_unsent_tsn_aborts_on_either_path() {
    for from in [0, 1] {
        for gap in [false, true] {
            let mut s = Setup::new(&all_at_once(Policies::default()), false);
            s.send(6);
            let next = s.on.len();
            assert!(!s.of_path(0).is_empty() && !s.of_path(1).is_empty());
            if gap {
                s.sack(from, -1, &[(1, next)]);
            } else {
                s.sack(from, next as i64, &[]);
            }
            let events = s.w.events(0);
            assert!(events.iter().any(|e| matches!(e, Event::Closed(_))));
            assert!(!s.is_open());
        }
    }
}

/// RFC 9260, section 7.2.4
#[test]
fn missing_reports_do_not_cross_paths() {
    for base in BASES {
        let mut s = Setup::new(&all_at_once(base()), false);
        s.send(6);
        let (first, second) = (s.of_path(0), s.of_path(1));
        let highest = *second.last().expect("a chunk");
        // All of the second path, so that each chunk of the first is passed over, from both sides.
        let gaps: Vec<_> = second.iter().map(|n| (*n, *n)).collect();
        for n in 0..100 {
            s.sack(n % 2, -1, &gaps);
        }
        assert!(first.iter().any(|n| *n < highest), "{first:?} {second:?}");
        let again = s.sent_again();
        assert_eq!(again, 0, "no report about the first path has come");
        assert_eq!(s.w.path(0, s.id, 0).data_chunks_lost, 0);
        s.reconcile();
    }
}

/// RFC 9260, section 6.2.1
#[test]
fn repeated_reneging_is_counted_each_time() {
    for base in BASES {
        let mut s = Setup::new(&all_at_once(base()), false);
        s.send(8);
        let gaps: Vec<_> = (1..s.on.len()).step_by(2).map(|n| (n, n)).collect();
        let windows = |s: &Setup| [0, 1].map(|n| s.w.path(0, s.id, n).cwnd);
        let mut most = windows(&s);
        for round in 0..500 {
            s.sack(round % 2, -1, &gaps);
            s.sack(round % 2, -1, &[]);
            let now = windows(&s);
            if round == 10 {
                most = now;
            }
        }
        // Bytes that were acknowledged, reneged on and acknowledged again do not count as new each time.
        let end = windows(&s);
        let limit = most.map(|m| m.max(4 * FULL) * 64);
        assert!(end[0] <= limit[0] && end[1] <= limit[1], "{most:?} {end:?}");
        assert!(s.w.stats(0, s.id).counters.reneged > 0);
        s.reconcile();
    }
}

/// RFC 9260, section 7.2.1
#[test]
fn optimistic_acks_grow_only_by_acked_bytes() {
    for base in BASES {
        let mut s = Setup::new(&all_at_once(base()), false);
        let initial = [0, 1].map(|n| s.w.path(0, s.id, n).cwnd);
        let mut acknowledged = 0;
        for _ in 0..300 {
            s.send(200);
            let next = s.on.len() as i64;
            if next > acknowledged {
                // Each chunk by itself, before it can have arrived, from the wrong path.
                for n in acknowledged..next {
                    let from = 1 - s.on[n as usize];
                    s.sack(from, n, &[]);
                }
                acknowledged = next;
            }
        }
        for path in s.w.paths(0, s.id) {
            let named = s.of_path(path.id.0.into()).len() * (FULL + 20);
            let limit = initial[usize::from(path.id.0)] + named;
            assert!(path.cwnd <= limit, "{path:?} {limit}");
        }
        s.reconcile();
    }
}

/// A deterministic source of false reports.
struct Liar(u64);

impl Liar {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % limit.max(1)
    }

    fn blocks(&mut self, reach: u64) -> Vec<GapAckBlock> {
        (0..self.below(12))
            .map(|_| {
                let start = self.below(reach + 2);
                let len = self.below(4);
                GapAckBlock {
                    start: start as u16,
                    end: (start + len).saturating_sub(self.below(8) / 7) as u16,
                }
            })
            .collect()
    }
}

fn choices() -> Vec<Policies> {
    let congestion: [Arc<dyn Algorithm>; 6] = [
        Arc::new(Rfc9260),
        Arc::new(Cubic),
        Arc::new(CmtRpV2),
        Arc::new(Lia),
        Arc::new(Olia),
        Arc::new(RateBased),
    ];
    let mut all = Vec::new();
    for (n, congestion) in congestion.into_iter().enumerate() {
        for base in BASES {
            let even = n % 2 == 0;
            let concurrent = Multipath::concurrent();
            all.push(Policies {
                congestion: congestion.clone(),
                multipath: Multipath {
                    data_route: if even {
                        concurrent.data_route
                    } else {
                        DataRoute::FastestFirst
                    },
                    report_scope: if n == 3 {
                        ReportScope::Association
                    } else {
                        ReportScope::Path
                    },
                    reports_per_sack: if even {
                        ReportsPerSack::Packets
                    } else {
                        ReportsPerSack::One
                    },
                    window_growth: if even {
                        WindowGrowth::PseudoCumulative
                    } else {
                        WindowGrowth::AnyAcknowledgement
                    },
                    buffer_splitting: BufferSplitting::Both,
                    split_basis: if even {
                        SplitBasis::Buffered
                    } else {
                        SplitBasis::Outstanding
                    },
                    ..concurrent
                },
                repeated_fast_retransmit: even,
                ..base()
            });
        }
    }
    all
}

/// Sends false reports in random order; returns the numbers of associations that continued and
/// that were aborted.
fn send_false_reports(nr_sack: bool) -> [usize; 2] {
    let mut ends = [0; 2];
    for (n, policies) in choices().into_iter().enumerate() {
        for seed in 0..6 {
            let mut liar = Liar(seed * 1000 + n as u64 + 7);
            let mut s = Setup::new(&policies, nr_sack);
            s.send(12);
            for _ in 0..150 {
                let sent = s.on.len() as u64;
                let stats = s.w.stats(0, s.id);
                let point = sent - stats.outstanding_chunks as u64;
                // Mostly where something is outstanding, sometimes before, rarely beyond.
                let acknowledged = match liar.below(400) {
                    0 => sent + 1 + liar.below(3),
                    1..=40 => point.saturating_sub(liar.below(5)),
                    _ => point + liar.below(3).min(sent - point),
                };
                let reach = sent.saturating_sub(acknowledged).min(60);
                let beyond = liar.below(400) == 0;
                let mut blocks = |reach: u64| -> Vec<_> {
                    let mut all = liar.blocks(reach);
                    all.retain(|b| beyond || u64::from(b.end) <= reach);
                    all
                };
                let (gaps, mut settled) = (blocks(reach), blocks(reach / 2));
                if !nr_sack || liar.below(3) > 0 {
                    settled.clear();
                }
                let cumulative = s.p.peer_tsn.plus(acknowledged as u32).previous();
                s.report(liar.below(2) as usize, cumulative, &gaps, &settled);
                if !s.is_open() {
                    break;
                }
                match liar.below(10) {
                    0 => s.w.run(ms(liar.below(1500))),
                    1..=3 => s.send(liar.below(6) as usize),
                    _ => {}
                }
                s.note();
                s.check();
                if !s.is_open() {
                    break;
                }
            }
            if s.is_open() {
                s.reconcile();
                ends[0] += 1;
            } else {
                ends[1] += 1;
            }
        }
    }
    ends
}

/// RFC 9260, section 6.2.1
#[test]
fn false_sacks_keep_every_count_consistent() {
    let [open, closed] = send_false_reports(false);
    assert!(open > 0 && closed > 0, "both ends: {open}, {closed}");
}

/// draft-natarajan-tsvwg-sctp-nrsack, section 4
#[test]
fn false_nr_sacks_keep_every_count_consistent() {
    let [open, closed] = send_false_reports(true);
    assert!(open + closed == 72 && closed > 0, "{open}, {closed}");
}
