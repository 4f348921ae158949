//! Black holes for large packets on paths whose MTU is not searched.

use std::time::Duration;

use carrick_proto::{AssociationConfig, AssociationId, PathMtuState};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::path_mtu::support::*;

/// Two endpoints with the recommended configuration, connected, after a transfer without loss.
fn recommended(mut w: World) -> (World, AssociationId, AssociationId) {
    w.config = AssociationConfig::modern();
    w.narrow(0, 1500);
    let (a, b) = w.connect();
    w.send(0, a, 0, pattern(50_000));
    w.run(secs(2));
    assert_eq!(w.receive_lengths(1, b), [50_000]);
    w.clear_rules();
    (w, a, b)
}

fn data_to(w: &World, path: usize) -> Vec<SentPacket> {
    let sent = w.sent(0, ChunkType::DATA);
    let to = sent.iter().filter(|p| p.to() == addresses(1)[path]);
    to.map(|p| (*p).clone()).collect()
}

/// RFC 9260, section 7.3; RFC 8899, section 4.3
#[test]
fn a_black_hole_is_found_without_discovery() {
    let (mut w, a, b) = recommended(World::single_homed());
    assert_eq!(w.path(0, a, 0).mtu_discovery, None);
    w.narrow(0, 1400);
    let since = w.now;
    w.send(0, a, 0, pattern(50_000));
    assert!(w.run_until(secs(30), |w| mtu(w, a) <= 1400));
    // A tail loss probe, RTO.Min until T3-rtx, and as long until the probe counts as lost.
    assert!(w.now - since < ms(2200), "{:?}", w.now - since);
    w.run(secs(3));
    assert_eq!(w.receive_lengths(1, b), [50_000]);
    // The search ends at what the link takes.
    assert!(w.run_until(secs(60), |w| complete(w, a)));
    assert_eq!(mtu(&w, a), 1400);
}

/// RFC 8899, section 5.1.1
#[test]
fn the_mtu_is_raised_when_the_black_hole_has_ended() {
    let (mut w, a, b) = recommended(World::single_homed());
    w.narrow(0, 1400);
    w.send(0, a, 0, pattern(50_000));
    assert!(w.run_until(secs(60), |w| mtu(w, a) == 1400 && complete(w, a)));
    let send = |w: &mut World, messages: usize, every: Duration| {
        for _ in 0..messages {
            w.send(0, a, 0, pattern(1_000));
            w.run(every);
            w.receive(1, b);
        }
    };
    w.log.clear();
    // While the black hole is there, one larger size is lost three times.
    send(&mut w, 3_100, ms(200));
    assert_eq!(probes(&w), [1404; 3]);
    w.clear_rules();
    w.log.clear();
    // Less data than 1000 packets for each of these probes.
    send(&mut w, 620, secs(1));
    assert_eq!((mtu(&w, a), probes(&w)), (1400, vec![]));
    send(&mut w, 3_100, ms(200));
    assert_eq!((mtu(&w, a), probes(&w)), (1500, vec![1404, 1492, 1500]));
    // The search has ended.
    assert_eq!(w.path(0, a, 0).mtu_discovery, None);
}

/// RFC 9260, section 7.3
#[test]
fn no_probe_leaves_before_a_timeout() {
    let (mut w, a, b) = recommended(World::single_homed());
    for _ in 0..1000 {
        w.send(0, a, 0, pattern(5_000));
        w.run(secs(1));
        assert_eq!(w.receive_lengths(1, b), [5_000]);
    }
    assert_eq!(probes(&w), []);
    assert_eq!(mtu(&w, a), 1500);
    assert_eq!(w.path(0, a, 0).mtu_discovery, None);
}

/// RFC 8899, section 4.3: the loss of packets of all sizes is no evidence.
#[test]
fn an_outage_is_no_black_hole() {
    for outage in [ms(900), ms(2500), secs(8), secs(40)] {
        let (mut w, a, b) = recommended(World::single_homed());
        w.block(addresses(1)[0]);
        w.send(0, a, 0, pattern(50_000));
        w.run(outage);
        w.unblock(addresses(1)[0]);
        for _ in 0..9000 {
            w.run(ms(10));
            assert_eq!(mtu(&w, a), 1500, "after {outage:?}");
        }
        assert_eq!(w.receive_lengths(1, b), [50_000]);
        // Nothing is kept of the suspicion.
        assert_eq!(w.path(0, a, 0).mtu_discovery, None, "after {outage:?}");
    }
}

/// RFC 8899, section 4.3
#[test]
fn lost_data_alone_does_not_lower_the_mtu() {
    let (mut w, a, b) = recommended(World::single_homed());
    let until = w.now + secs(3);
    w.rule(move |p| {
        if p.from == 0 && p.has(ChunkType::DATA) && p.time < until {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    w.send(0, a, 0, pattern(50_000));
    for _ in 0..2000 {
        w.run(ms(10));
        assert_eq!(mtu(&w, a), 1500);
    }
    assert_eq!(w.receive_lengths(1, b), [50_000]);
}

/// RFC 8899, section 4.3; RFC 7829, section 3.2, rule 7
#[test]
fn a_short_heartbeat_does_not_lead_large_data_back() {
    let (mut w, a, b) = recommended(World::new());
    w.narrow(0, 1400);
    let before = w.stats(0, a).counters.t3_expirations;
    let since = w.now;
    let mut delays = Vec::new();
    for _ in 0..60 {
        let sent = w.now;
        w.send(0, a, 0, pattern(2_000));
        assert!(w.run_until(secs(10), |w| w.receive_lengths(1, b) == [2_000]));
        delays.push(w.now - sent);
        w.run(ms(1013).saturating_sub(w.now - sent));
    }
    // One timeout moves the data, and the next packets of full size on the path are probes.
    assert_eq!(w.stats(0, a).counters.t3_expirations - before, 1);
    let late = delays.iter().filter(|delay| **delay >= ms(500)).count();
    assert_eq!(late, 1, "{delays:?}");
    // With packets that pass, the primary path carries the data again.
    assert_eq!(mtu(&w, a), 1400);
    let on_first = data_to(&w, 0);
    assert!(on_first.iter().any(|p| p.time > since + secs(10)));
}

/// RFC 8899, section 4.3: not even packets of the base size pass.
#[test]
fn data_avoids_a_path_that_takes_no_data_at_all() {
    let (mut w, a, b) = recommended(World::new());
    // Heartbeats pass.
    w.narrow(0, 200);
    let mut late = 0;
    for _ in 0..300 {
        let sent = w.now;
        w.send(0, a, 0, pattern(2_000));
        assert!(w.run_until(secs(30), |w| w.receive_lengths(1, b) == [2_000]));
        late += u32::from(w.now - sent >= ms(500));
        w.run(secs(1));
    }
    assert!(late <= 1, "{late} messages were late");
    assert!(w.path(0, a, 0).status.active);
    assert_eq!(w.stats(0, a).current, Some(carrick_proto::PathId(1)));
}

/// RFC 9260, section 7.3: the configuration of RFC 9260 alone has no probes.
#[test]
fn rfc9260_alone_sends_no_probes() {
    let mut w = World::single_homed();
    w.config = AssociationConfig::rfc9260();
    w.narrow(0, 1400);
    let (a, _) = w.connect();
    w.send(0, a, 0, pattern(5_000));
    w.run(Duration::from_secs(60));
    assert_eq!(probes(&w), []);
    assert_eq!(w.path(0, a, 0).mtu_discovery, None::<PathMtuState>);
}
