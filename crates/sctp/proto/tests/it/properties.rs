//! Properties of a transfer under any network and any peer: messages arrive once and in order, and
//! the sender's accounts stay consistent (RFC 9260, sections 6.1, 6.6, 6.9, 7.2).

use crate::common;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use carrick_proto::{Message, SendError, SendOptions, Tsn};
use carrick_wire::{DataFlags, DataHeader};
use common::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// A message: its stream, whether it is unordered, and the sizes of its fragments.
type Plan = (u16, bool, Vec<usize>);

fn plan() -> impl Strategy<Value = Plan> {
    (0_u16..4, any::<bool>(), vec(1_usize..40, 1..6))
}

/// The bytes of a message with this number.
fn content(number: usize, size: usize) -> Bytes {
    let mut bytes = vec![number as u8; size];
    bytes[0] = (number >> 8) as u8;
    bytes.into()
}

/// Checks that the messages sent arrived: each stream in order, unordered messages in any order.
fn check(plans: &[(u16, bool, usize)], got: &[Message]) -> Result<(), TestCaseError> {
    let mut expected: BTreeMap<u16, Vec<Bytes>> = BTreeMap::new();
    let mut loose = Vec::new();
    for (number, &(stream, unordered, size)) in plans.iter().enumerate() {
        let bytes = content(number, size);
        if unordered {
            loose.push((stream, bytes));
        } else {
            expected.entry(stream).or_default().push(bytes);
        }
    }
    let mut arrived: BTreeMap<u16, Vec<Bytes>> = BTreeMap::new();
    let mut arrived_loose = Vec::new();
    for message in got {
        let bytes = message.payload.clone().into_bytes();
        if message.ssn.is_some() {
            arrived.entry(message.stream.0).or_default().push(bytes);
        } else {
            arrived_loose.push((message.stream.0, bytes));
        }
    }
    loose.sort();
    arrived_loose.sort();
    prop_assert_eq!(arrived, expected);
    prop_assert_eq!(arrived_loose, loose);
    Ok(())
}

/// The DATA chunks of these messages, from this TSN on.
fn chunks(plans: &[Plan], first: Tsn) -> Vec<(DataHeader, Bytes)> {
    let mut all = Vec::new();
    let mut ssns = BTreeMap::new();
    for (number, (stream, unordered, sizes)) in plans.iter().enumerate() {
        let bytes = content(number, sizes.iter().sum());
        let ssn: &mut u16 = ssns.entry(*stream).or_default();
        let mut from = 0;
        for (i, size) in sizes.iter().enumerate() {
            let flags = DataFlags {
                unordered: *unordered,
                beginning: i == 0,
                ending: i + 1 == sizes.len(),
                immediate: false,
            };
            let tsn = first.plus(all.len() as u32);
            let header = DataHeader {
                flags,
                ..Puppet::data_header(tsn, *stream, *ssn)
            };
            all.push((header, bytes.slice(from..from + size)));
            from += size;
        }
        *ssn += u16::from(!unordered);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// RFC 9260, section 6.9
    #[test]
    fn messages_are_reassembled_from_any_order(
        plans in vec(plan(), 1..20),
        first: u32,
        picks in vec(any::<prop::sample::Index>(), 0..300),
        per_packet in 1_usize..5,
    ) {
        let mut w = World::single_homed();
        let mut peer = Puppet::new();
        peer.tsn = Tsn::new(first);
        let (peer, id) = peer.connect(&mut w);
        let chunks = chunks(&plans, peer.tsn);
        // Any chunks in any order, some of them several times; then all that are missing.
        let mut order: Vec<usize> = picks.iter().map(|p| p.index(chunks.len())).collect();
        let seen: BTreeSet<usize> = order.iter().copied().collect();
        order.extend((0..chunks.len()).rev().filter(|i| !seen.contains(i)));
        let mut got = Vec::new();
        for packet in order.chunks(per_packet) {
            peer.send(&mut w, |p| {
                for i in packet {
                    p.data(&chunks[*i].0, &chunks[*i].1);
                }
            });
            if packet[0] % 3 == 0 {
                got.extend(w.receive(0, id));
            }
        }
        got.extend(w.receive(0, id));
        let sizes: Vec<_> = plans.iter().map(|(s, u, z)| (*s, *u, z.iter().sum())).collect();
        check(&sizes, &got)?;
        prop_assert_eq!(w.stats(0, id).receive_buffer_bytes, 0);
        let sack = peer.send(&mut w, |p| p.data(&chunks[0].0, &chunks[0].1));
        let sack = sack[0].sack().expect("a duplicate is acknowledged at once");
        prop_assert_eq!(sack.cumulative_tsn_ack, peer.tsn.plus(chunks.len() as u32 - 1));
        prop_assert_eq!(sack.gap_ack_block_count(), 0);
    }

    /// RFC 9260, section 6.6
    #[test]
    fn messages_arrive_once_over_any_network(
        plans in vec((0_u16..4, any::<bool>(), 1_usize..6000), 1..40),
        verdicts in vec(0_u8..20, 50..400),
        buffer in 3000_usize..60_000,
    ) {
        // Whatever packets are lost, the set-up and the association continue (RFC 9260, sections 5.1 and 8.1).
        let mut w = World::with(2, |_, c| {
            c.association.buffers.receive_buffer = buffer;
            c.association.paths.association_max_retrans = 1000;
        });
        w.config.paths.association_max_retrans = 1000;
        let mut n = 0;
        w.rule(move |_| {
            n += 1;
            match verdicts.get(n).copied() {
                Some(0..=3) => Verdict::Drop,
                Some(4..=5) => Verdict::Duplicate,
                Some(verdict @ 6..=9) => Verdict::Delay(ms(u64::from(verdict) * 17)),
                _ => Verdict::Pass,
            }
        });
        w.config.timers.max_init_retransmits = 1000;
        let a = w.begin_connect(&addresses(1));
        for (number, &(stream, unordered, size)) in plans.iter().enumerate() {
            let options = SendOptions { unordered, ..SendOptions::on_stream(stream) };
            w.send_with(0, a, options, content(number, size));
        }
        prop_assert!(w.run_until(secs(50_000), |w| w.states() == [Some("Established"); 2]));
        w.ends[0].shutdown(w.now, a).unwrap();
        let b = w.association(1);
        let mut parts = Vec::new();
        for _ in 0..4000 {
            w.run(ms(500));
            parts.extend(w.receive(1, b));
            let held = w.ends[1].association(b).map_or(0, |a| a.stats().receive_buffer_bytes);
            prop_assert!(held <= buffer + 1700, "{held} of {buffer} bytes");
            if w.ends.iter().all(|e| e.associations().count() == 0) {
                break;
            }
        }
        prop_assert_eq!(w.states(), [None, None], "the association ended");
        let sizes: Vec<_> = plans.clone();
        check(&sizes, &join(parts))?;
    }

    /// RFC 9260, section 6.2.1
    #[test]
    fn any_sack_keeps_the_sender_consistent(
        steps in vec((vec(any::<bool>(), 0..12), 0_u64..1500, any::<bool>(), 1_usize..3000), 1..120),
        a_rwnd in prop_oneof![Just(1500_u32), Just(10_000), Just(1 << 20)],
    ) {
        let mut w = World::single_homed();
        let mut peer = Puppet::new();
        peer.a_rwnd = a_rwnd;
        let (peer, id) = peer.connect(&mut w);
        w.change(0, id).set_heartbeat(carrick_proto::PathId(0), false).unwrap();
        let mut model = Model::default();
        for (gaps, wait, send, size) in steps {
            if send {
                match w.ends[0].send(w.now, id, SendOptions::default(), pattern(size)) {
                    Ok(()) | Err(SendError::BufferFull) => {}
                    Err(error) => prop_assert!(false, "{error}"),
                }
            }
            let replies = peer.receive(&mut w);
            model.record(&peer, &replies)?;
            w.run(ms(wait));
            let replies = peer.receive(&mut w);
            model.record(&peer, &replies)?;
            let blocks = model.acknowledge(&gaps);
            let answers = peer.sack(&mut w, peer.endpoint_tsn(model.cumulative).previous(), a_rwnd, &blocks);
            model.record(&peer, &answers)?;
            let stats = w.stats(0, id);
            prop_assert_eq!(stats.outstanding_chunks as u32, model.next - model.cumulative);
            let path = w.path(0, id, 0);
            prop_assert!(stats.outstanding_bytes <= path.flight_size);
            prop_assert!(path.cwnd >= 1468);
            prop_assert!(path.flight_size < path.cwnd + 4404 + 1468, "{path:?}");
        }
        // Everything arrives in the end.
        for _ in 0..3000 {
            let stats = w.stats(0, id);
            if stats.outstanding_chunks == 0 && stats.queued_messages == 0 {
                break;
            }
            w.run(ms(100));
            let replies = peer.receive(&mut w);
            model.record(&peer, &replies)?;
            model.cumulative = model.next;
            model.gaps.clear();
            let answers = peer.sack(&mut w, peer.endpoint_tsn(model.next).previous(), a_rwnd, &[]);
            model.record(&peer, &answers)?;
        }
        let (stats, path) = (w.stats(0, id), w.path(0, id, 0));
        prop_assert_eq!((stats.outstanding_chunks, stats.queued_messages), (0, 0));
        prop_assert_eq!((stats.outstanding_bytes, stats.send_buffer_bytes), (0, 0));
        prop_assert_eq!(path.flight_size, 0);
    }
}

/// Parts of messages become messages.
fn join(parts: Vec<Message>) -> Vec<Message> {
    let mut whole: Vec<Message> = Vec::new();
    for part in parts {
        match whole.iter_mut().find(|m| m.tsn == part.tsn) {
            Some(message) => message.payload.append(part.payload),
            None => whole.push(part),
        }
    }
    whole
}

/// State of a peer that acknowledges arbitrary chunks. Numbers count from the first TSN.
#[derive(Default)]
struct Model {
    /// The lowest number that was not sent.
    next: u32,
    /// All numbers below are acknowledged.
    cumulative: u32,
    gaps: BTreeSet<u32>,
}

impl Model {
    /// TSNs come in sequence, and nothing that is acknowledged is sent again.
    fn record(&mut self, peer: &Puppet, packets: &[SentPacket]) -> Result<(), TestCaseError> {
        for number in peer.numbers(packets) {
            prop_assert!(number <= self.next, "{number} before {}", self.next);
            prop_assert!(number >= self.cumulative, "{number} was acknowledged");
            prop_assert!(!self.gaps.contains(&number), "{number} was reported");
            self.next = self.next.max(number + 1);
        }
        Ok(())
    }

    /// Acknowledges some of the missing chunks; returns the Gap Ack Blocks.
    fn acknowledge(&mut self, picks: &[bool]) -> Vec<(u16, u16)> {
        for (i, _) in picks.iter().enumerate().filter(|p| *p.1) {
            let number = self.cumulative + i as u32;
            if number < self.next {
                self.gaps.insert(number);
            }
        }
        while self.gaps.remove(&self.cumulative) {
            self.cumulative += 1;
        }
        let mut blocks: Vec<(u16, u16)> = Vec::new();
        for number in &self.gaps {
            // Offsets count from the cumulative TSN, which is one below the first missing number.
            let offset = (number - self.cumulative + 1) as u16;
            match blocks.last_mut() {
                Some(block) if block.1 + 1 == offset => block.1 = offset,
                _ => blocks.push((offset, offset)),
            }
        }
        blocks
    }
}
