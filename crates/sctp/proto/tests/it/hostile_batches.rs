//! Batches, crossings and hostile packets that once overran a packet, a queue or a timer.

use crate::common;

use std::collections::BTreeSet;
use std::net::IpAddr;

use carrick_proto::{AssociationId, Event, PathId};
use carrick_wire::{ChunkType, DataFlags, DataHeader, ParameterType, VerificationTag};
use common::*;

/// Bytes of a packet on plain IPv4 with an MTU of 1500.
const PACKET: usize = 1480;

/// RFC 9260, section 6.10
/// RFC 9260, section 9.2
#[test]
fn a_shutdown_behind_a_full_sack_gets_its_own_packet() {
    let mut w = World::single_homed();
    let (p, id) = Puppet::new().connect(&mut w);
    w.ends[0].shutdown(w.now, id).unwrap();
    w.pump();
    for n in 0..400 {
        let header = Puppet::data_header(p.tsn.plus(2 * n + 1), 0, n as u16 + 1);
        let answers = p.send(&mut w, |b| b.data(&header, b"x"));
        let kinds: Vec<_> = answers.iter().flat_map(SentPacket::kinds).collect();
        assert!(kinds.contains(&ChunkType::SACK) && kinds.contains(&ChunkType::SHUTDOWN));
        assert!(answers.iter().all(|a| a.bytes.len() <= PACKET), "gap {n}");
    }
}

/// RFC 9260, section 5.2.4
#[test]
fn a_batch_of_cookie_echoes_gets_one_cookie_ack() {
    let mut w = World::single_homed();
    let mut p = Puppet::new();
    let answers = p.init(&mut w, |_| {});
    p.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    let echo = p.build(p.peer_tag, |b| b.cookie_echo(&cookie));
    for _ in 0..1000 {
        w.ends[0].handle_datagram(w.now, &p.route(), echo.clone());
    }
    let answers = p.receive(&mut w);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].kinds(), [ChunkType::COOKIE_ACK]);
}

/// RFC 9260, section 5.2.2
/// RFC 9260, section 5.1.2
#[test]
fn aborts_quoting_the_peer_stay_small() {
    let mut w = World::single_homed();
    let (p, _) = Puppet::new().connect(&mut w);
    let restarted = Puppet {
        tag: VerificationTag(0x7777),
        ..p
    };
    let answers = restarted.init(&mut w, |b| {
        (1..=200).for_each(|n| b.ip_address(IpAddr::from([10, 7, 0, n])));
    });
    assert!(answers[0].has(ChunkType::ABORT) && answers[0].bytes.len() < 1000);

    let mut w = World::single_homed();
    let mut p = Puppet::new();
    p.begin_accept(&mut w);
    let answers = p.answer_init(&mut w, |b| {
        b.state_cookie(b"cookie");
        b.raw(ParameterType::HOST_NAME_ADDRESS, &[b'x'; 2000]);
    });
    assert!(answers[0].has(ChunkType::ABORT) && answers[0].bytes.len() < 1000);
}

/// RFC 9260, section 5.1.2
#[test]
fn an_init_lists_the_addresses_that_fit() {
    let all = (1..=250).map(|n| IpAddr::from([10, 0, 0, n]));
    let own: Vec<IpAddr> = all.filter(|a| *a != ip("10.0.0.99")).collect();
    let mut w = World::with(1, |_, config| config.local_addresses.clone_from(&own));
    Puppet::new().begin_accept(&mut w);
    let init = &w.log[0];
    assert!(init.bytes.len() <= PACKET);
    let types = init.parameter_types();
    assert!(types.contains(&ParameterType::SUPPORTED_ADDRESS_TYPES));
    // And no more than 100, so that an answer to a strange INIT is not many times as large.
    assert_eq!(init.listed().len(), 100);
}

/// RFC 9260, section 8.3
#[test]
fn each_unanswered_heartbeat_is_one_error() {
    let mut w = World::with(2, |_, config| {
        config.local_addresses.truncate(1);
        config.association.paths.hb_interval = ms(0);
    });
    w.config.paths.hb_interval = ms(0);
    let (a, _) = w.connect();
    w.run(secs(5));
    w.block(addresses(1)[0]);
    let before = w.path(0, a, 0).heartbeats_sent;
    assert!(w.run_until(secs(3000), |w| !w.path(0, a, 0).status.active));
    let errors = u64::from(w.config.paths.path_max_retrans) + 1;
    let sent = w.path(0, a, 0).heartbeats_sent - before;
    assert!(sent <= errors + 1, "{sent} heartbeats for {errors} errors");
}

/// RFC 9260, section 11.1.10
#[test]
fn frequent_requested_heartbeats_are_answered() {
    let mut w = World::single_homed();
    w.latency = ms(300);
    let (a, _) = w.connect();
    let before = w.path(0, a, 0);
    for _ in 0..20 {
        w.change(0, a).request_heartbeat(PathId(0)).unwrap();
        w.run(ms(500));
    }
    w.run(secs(1));
    let after = w.path(0, a, 0);
    let sent = after.heartbeats_sent - before.heartbeats_sent;
    assert_eq!(after.heartbeats_answered - before.heartbeats_answered, sent);
    assert!(sent >= 15, "{sent}");
    assert_eq!(after.error_count, 0);
}

/// RFC 9260, section 12
#[test]
fn errors_reported_by_a_peer_are_bounded() {
    let mut w = World::single_homed();
    let (p, _) = Puppet::new().connect(&mut w);
    let error = p.build(p.peer_tag, |b| b.raw(ChunkType::ERROR, 0, &[0, 9, 0, 4]));
    for round in 0..3 {
        for _ in 0..10_000 {
            w.ends[0].handle_datagram(w.now, &p.route(), error.clone());
        }
        let reported = std::iter::from_fn(|| w.ends[0].poll_event());
        let errors = reported
            .filter(|(_, e)| matches!(e, Event::PeerError(_)))
            .count();
        assert_eq!(errors, 64, "round {round}");
    }
}

/// RFC 9260, section 9.2
#[test]
fn an_init_does_not_delay_the_end_of_a_shutdown() {
    let mut w = World::single_homed();
    let (p, id) = Puppet::new().connect(&mut w);
    p.send(&mut w, |b| b.shutdown(p.tsn.previous()));
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownAckSent");
    let ended = (0..2000).any(|_| {
        w.run(ms(500));
        let answers = p.init(&mut w, |_| {});
        let over = w.ends[0].associations().next().is_none();
        assert!(over || answers[0].has(ChunkType::SHUTDOWN_ACK));
        over
    });
    assert!(ended);
}

/// A puppet with a second address, which is the second path.
fn two_paths() -> (World, Puppet, Puppet, AssociationId) {
    let mut w = World::with(1, |_, _| {});
    let mut p = Puppet::new();
    let other = ip("10.1.0.99");
    let answers = p.init(&mut w, |b| {
        b.ip_address(p.link.from);
        b.ip_address(other);
    });
    p.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    let mut packets = p.send(&mut w, |b| b.cookie_echo(&cookie));
    let id = w.association(0);
    let mut q = p.clone();
    q.link.from = other;
    q.link.to = addresses(0)[1];
    w.run(ms(1));
    packets.extend(p.receive(&mut w));
    for heartbeat in packets.iter().filter(|s| s.has(ChunkType::HEARTBEAT)) {
        q.answer_heartbeat(&mut w, heartbeat);
    }
    assert!(w.path(0, id, 1).status.confirmed);
    (w, p, q, id)
}

/// RFC 9260, section 8.2
#[test]
fn t2_counts_against_the_address_of_its_chunk() {
    let (mut w, p, q, id) = two_paths();
    q.send(&mut w, |b| b.shutdown(p.tsn.previous()));
    let to: Vec<_> = w
        .sent(0, ChunkType::SHUTDOWN_ACK)
        .iter()
        .map(|s| s.to())
        .collect();
    assert_eq!(to, [q.link.from]);
    w.run_until(secs(5), |w| {
        (0..2).any(|n| w.path(0, id, n).error_count > 0)
    });
    let errors = [0, 1].map(|n| w.path(0, id, n).error_count);
    assert_eq!(errors, [0, 1]);
}

/// Cumulative offset and gap blocks for the numbers, from 1, that arrived.
fn acknowledgement(arrived: &BTreeSet<u32>) -> (u32, Vec<(u16, u16)>) {
    let missing = (1..=u32::MAX).find(|n| !arrived.contains(n));
    let cumulative = missing.map_or(0, |n| n - 1);
    let mut gaps: Vec<(u16, u16)> = Vec::new();
    for number in arrived.range(cumulative + 1..) {
        let offset = (number - cumulative) as u16;
        match gaps.last_mut() {
            Some(last) if last.1 + 1 == offset => last.1 = offset,
            _ => gaps.push((offset, offset)),
        }
    }
    (cumulative, gaps)
}

/// The first `lost` of a window are reported missing, then the first path dies; how long until the
/// second has carried everything.
fn rescue(lost: u32) -> std::time::Duration {
    const WINDOW: u32 = 16;
    let (mut w, p, q, id) = two_paths();
    // The congestion window grows to what is wanted.
    while w.stats(0, id).outstanding_chunks < WINDOW as usize {
        let sent = w.stats(0, id).counters.data_chunks_sent as u32;
        p.sack(&mut w, p.endpoint_tsn(sent).previous(), 1 << 30, &[]);
        while w.stats(0, id).queued_messages < WINDOW as usize {
            w.send(0, id, 0, pattern(1400));
        }
        p.receive(&mut w);
        w.run(ms(10));
    }
    let stats = w.stats(0, id);
    let total = stats.outstanding_chunks as u32;
    let base = p
        .endpoint_tsn(stats.counters.data_chunks_sent as u32 - total)
        .previous();
    for n in 1..=3 {
        p.sack(&mut w, base, 1 << 30, &[(lost as u16 + 1, lost as u16 + n)]);
    }
    let mut arrived: BTreeSet<u32> = (lost + 1..=lost + 3).collect();
    w.to_puppets.clear();
    let start = w.now;
    let mut answers = Vec::new();
    while acknowledgement(&arrived).0 < total {
        assert!(w.now.since(start) < secs(300), "not finished within 300 s");
        w.run(ms(10));
        let mut packets = std::mem::take(&mut answers);
        packets.extend(p.receive(&mut w));
        for seen in packets.iter().filter(|s| s.to() == q.link.from) {
            arrived.extend(seen.data().iter().map(|d| d.tsn.since(base)));
            let (cumulative, gaps) = acknowledgement(&arrived);
            answers.extend(q.sack(&mut w, base.plus(cumulative), 1 << 30, &gaps));
        }
    }
    w.now.since(start)
}

/// RFC 9260, section 6.4.1
#[test]
fn a_path_failing_in_fast_recovery_blocks_nothing() {
    let one = rescue(1);
    assert_eq!(rescue(6), one, "independent of the number of marked chunks");
}

/// RFC 9260, section 6.9
#[test]
fn fragments_in_any_order_make_one_message() {
    const FRAGMENTS: u32 = 5000;
    let mut w = World::single_homed();
    w.discard_log = true;
    let (p, id) = Puppet::new().connect(&mut w);
    let fragment = |n: u32| {
        let flags = DataFlags {
            beginning: n == 0,
            ending: n == FRAGMENTS - 1,
            ..DataFlags::WHOLE
        };
        let header = DataHeader {
            flags,
            ..Puppet::data_header(p.tsn.plus(n), 0, 0)
        };
        p.build(p.peer_tag, |b| b.data(&header, &[n as u8]))
    };
    // Descending, then every third from the middle outwards, then what is missing.
    let descending = (FRAGMENTS / 2..FRAGMENTS).rev();
    let thirds = (0..FRAGMENTS / 2).rev().filter(|n| n % 3 == 0);
    let rest = (0..FRAGMENTS / 2).filter(|n| n % 3 != 0);
    for n in descending.chain(thirds).chain(rest) {
        w.ends[0].handle_datagram(w.now, &p.route(), fragment(n));
    }
    let messages = w.receive(0, id);
    let expected: Vec<u8> = (0..FRAGMENTS).map(|n| n as u8).collect();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].payload.clone().into_bytes(), expected);
}
