//! Fast handover: when a new address is confirmed, its path starts with initial parameters and
//! outstanding data moves to it.

use carrick_proto::research::{LossDetection, Multipath, Policies};
use carrick_proto::{AssociationConfig, Ecn, PathId, PathStats};
use carrick_wire::{Chunk, ChunkType, Tsn};

use crate::common::*;
use crate::dynamic_addresses::support::*;

/// RFC 9260 section 7.2.1, with packets of 1500 bytes.
const INITIAL_WINDOW: usize = 4404;

fn assert_fresh(path: &PathStats) {
    assert_eq!(path.ssthresh, usize::MAX, "{path:?}");
    assert!(path.cwnd <= INITIAL_WINDOW, "{path:?}");
    assert_eq!(path.srtt, None, "the round trip is unknown: {path:?}");
    assert!(path.rto >= secs(1), "RTO.Initial: {path:?}");
    assert_eq!((path.partial_bytes_acked, path.error_count), (0, 0));
}

/// Two endpoints with measured paths, whose parameters differ from the initial ones.
fn settled(config: &AssociationConfig, homes: usize) -> (World, [carrick_proto::AssociationId; 2]) {
    let mut w = world_of(config, homes);
    let (a, b) = w.connect();
    // A loss on each side, so that ssthresh has been set.
    w.lose_data(0, &[30]);
    w.lose_data(1, &[30]);
    for n in 0..60 {
        w.send(0, a, 0, pattern(1400 + n));
        w.send(1, b, 0, pattern(1400 + n));
    }
    w.run(secs(30));
    w.clear_rules();
    assert_eq!(w.receive_lengths(1, b).len(), 60);
    assert_eq!(w.receive_lengths(0, a).len(), 60);
    for (end, id) in [(0, a), (1, b)] {
        let path = w.path(end, id, 0);
        assert!(
            path.ssthresh < usize::MAX && path.srtt.is_some(),
            "{path:?}"
        );
    }
    (w, [a, b])
}

fn tsns(seen: &SentPacket) -> Vec<Tsn> {
    let chunks = seen.chunks().into_iter();
    chunks
        .filter_map(|c| match c {
            Chunk::Data(data) => Some(data.tsn),
            _ => None,
        })
        .collect()
}

fn sent_again(w: &World, b: carrick_proto::AssociationId) -> u64 {
    let counters = w.stats(1, b).counters;
    counters.fast_retransmissions + counters.timeout_retransmissions
}

#[test]
fn the_moving_side_resets_path_parameters() {
    let (mut w, [a, b]) = settled(&dynamic(), 1);
    let [old, new] = addresses(0);
    for n in 0..3 {
        w.send(0, a, 0, pattern(900 + n));
    }
    w.block(old);
    w.pump();
    let before = w.stats(0, a).counters;
    w.ends[0].local_address_removed(w.now, old);
    w.ends[0].local_address_added(new);
    let moved = w.run_until(secs(1), |w| w.path(0, a, 0).local == Some(new));
    assert!(moved, "the answer arrived");
    assert_fresh(&w.path(0, a, 0));
    let again = w
        .log
        .iter()
        .find(|p| p.source() == new && p.has(ChunkType::DATA));
    assert_eq!(again.expect("DATA").time, w.now, "with the answer");
    w.run(ms(300));
    assert_eq!(w.receive_lengths(1, b), [900, 901, 902]);
    let after = w.stats(0, a).counters;
    assert_eq!(after.t3_expirations, before.t3_expirations);
    assert!(w.path(0, a, 0).ssthresh > INITIAL_WINDOW, "no congestion");
}

/// Data of the peer of the moving side, while the old address remains but receives no data.
fn moves_when_confirmed(policies: Policies, lost: &[(usize, ChunkType)]) {
    let config = dynamic().with(|c| {
        c.research.policies = policies;
        c.transmission.nagle = false;
    });
    let (mut w, [a, b]) = settled(&config, 1);
    let [old, new] = addresses(0);
    w.rule(move |seen| {
        let lost = seen.from == 1 && seen.to() == old && seen.has(ChunkType::DATA);
        if lost { Verdict::Drop } else { Verdict::Pass }
    });
    for n in 0..3 {
        w.send(1, b, 0, pattern(900 + n));
    }
    w.pump();
    let outstanding = w.stats(1, b).outstanding_chunks;
    assert_eq!(outstanding, 3);
    let (begun, before) = (w.log.len(), w.stats(1, b).counters);
    for (end, kind) in lost {
        w.lose(*end, *kind, 1);
    }
    w.ends[0].local_address_added(new);
    w.change(0, a).set_peer_primary(new).expect("ask");
    let known = |w: &World| w.paths(1, b).find(|p| p.remote == new);
    assert!(w.run_until(secs(20), |w| known(w).is_some()));
    assert_fresh(&known(&w).expect("a path"));
    assert!(w.run_until(secs(20), |w| known(w).is_some_and(|p| p.status.confirmed)));
    let confirmed = w.now;
    assert_eq!(
        remotes(&w, 1, b),
        [old, new],
        "the old address remains listed"
    );
    let path = known(&w).expect("a path");
    assert_eq!(path.ssthresh, usize::MAX);
    assert_eq!(w.stats(1, b).current, Some(path.id));
    let to_new: Vec<(_, Vec<Tsn>)> = w.log[begun..]
        .iter()
        .filter(|p| p.from == 1 && p.to() == new && p.has(ChunkType::DATA))
        .map(|p| (p.time, tsns(p)))
        .collect();
    let all: usize = to_new.iter().map(|p| p.1.len()).sum();
    assert!(
        to_new.iter().all(|p| p.0 == confirmed),
        "not before: {to_new:?}"
    );
    assert_eq!(all, outstanding, "all of it, once: {to_new:?}");
    w.run(ms(300));
    assert_eq!(w.receive_lengths(0, a), [900, 901, 902]);
    let after = w.stats(1, b).counters;
    if lost.is_empty() {
        assert_eq!(after.t3_expirations, before.t3_expirations);
        assert_eq!(w.path(1, b, 1).data_chunks_lost, 0);
    }
    w.clear_rules();
    exchange(&mut w, a, b);
}

#[test]
fn outstanding_data_moves_on_confirmation() {
    moves_when_confirmed(Policies::default(), &[]);
}

/// RFC 8985, section 6.2
#[test]
fn with_rack_outstanding_data_moves_on_confirmation() {
    let policies = Policies {
        loss_detection: LossDetection::Rack,
        tail_loss_probe: false,
        ..Policies::modern()
    };
    moves_when_confirmed(policies, &[]);
}

#[test]
fn a_handover_survives_the_loss_of_each_chunk() {
    for lost in [
        (0, ChunkType::ASCONF),
        (1, ChunkType::ASCONF_ACK),
        (1, ChunkType::HEARTBEAT),
        (0, ChunkType::HEARTBEAT_ACK),
    ] {
        moves_when_confirmed(Policies::default(), &[lost]);
    }
}

#[test]
fn a_working_old_address_moves_its_data_once() {
    let (mut w, [a, b]) = settled(&dynamic(), 1);
    for n in 0..200 {
        w.send(1, b, 0, pattern(1300 + n));
    }
    w.run(ms(35));
    let new = addresses(0)[1];
    w.ends[0].local_address_added(new);
    w.change(0, a).set_peer_primary(new).expect("ask");
    w.run(secs(30));
    let expected: Vec<usize> = (0..200).map(|n| 1300 + n).collect();
    assert_eq!(w.receive_lengths(0, a), expected);
    assert_eq!(w.stats(1, b).counters.t3_expirations, 0);
    assert_eq!(w.stats(1, b).current, Some(PathId(1)));
}

/// RFC 5061, section 5.4
#[test]
fn a_confirmed_address_takes_only_new_data() {
    let (mut w, [a, b]) = settled(&dynamic(), 2);
    w.run(secs(40));
    assert!(w.path(1, b, 1).status.confirmed);
    let before = sent_again(&w, b);
    for n in 0..30 {
        w.send(1, b, 0, pattern(1300 + n));
    }
    w.run(ms(15));
    w.change(0, a)
        .set_peer_primary(addresses(0)[1])
        .expect("ask");
    w.run(secs(10));
    assert_eq!(w.receive_lengths(0, a).len(), 30);
    assert_eq!(
        sent_again(&w, b),
        before,
        "Set Primary is advice and moves no outstanding data"
    );
}

#[test]
fn concurrent_paths_keep_their_own_data() {
    let policies = Policies {
        multipath: Multipath::concurrent(),
        ..Policies::default()
    };
    let config = dynamic().with(|c| c.research.policies = policies);
    let (mut w, [a, b]) = settled(&config, 1);
    let before = w.stats(1, b).counters.duplicates_received;
    for n in 0..60 {
        w.send(1, b, 0, pattern(1300 + n));
    }
    w.run(ms(25));
    let new = addresses(0)[1];
    w.ends[0].local_address_added(new);
    w.change(0, a).set_peer_primary(new).expect("ask");
    w.run(secs(10));
    assert_eq!(w.receive_lengths(0, a).len(), 60);
    assert_eq!(
        w.stats(0, a).counters.duplicates_received,
        before,
        "no message arrived twice"
    );
    assert!(w.path(1, b, 1).data_chunks_sent > 0);
}

#[test]
fn without_asconf_outstanding_data_stays() {
    let mut w = World::with(2, |end, c| {
        c.local_addresses.truncate(1);
        if end == 0 {
            c.association = dynamic();
        }
    });
    w.config = dynamic();
    let (a, b) = w.connect();
    let [old, new] = addresses(0);
    for n in 0..3 {
        w.send(1, b, 0, pattern(900 + n));
    }
    w.block(old);
    w.pump();
    w.ends[0].local_address_added(new);
    w.run(secs(3));
    assert!(w.sent(0, ChunkType::ASCONF).is_empty());
    assert_eq!(remotes(&w, 1, b), [old]);
    assert!(w.receive_lengths(0, a).is_empty());
    w.unblock(old);
    w.run(secs(20));
    assert_eq!(w.receive_lengths(0, a), [900, 901, 902]);
}

/// The side that moves has another address that the peer knows, and no probe that hides a stall.
fn the_mover_with_another_address(config: &AssociationConfig) {
    let (mut w, [a, b]) = settled(config, 2);
    let [old, other] = addresses(0);
    assert_eq!(w.path(0, a, 0).local, Some(old));
    for n in 0..4 {
        w.send(0, a, 0, pattern(900 + n));
    }
    w.pump();
    w.block(old);
    // The packets are on their way and arrive; what answers them does not.
    let before = w.stats(0, a).counters;
    w.ends[0].local_address_removed(w.now, old);
    assert_eq!(w.path(0, a, 0).local, Some(other));
    assert_eq!(w.path(0, a, 0).ssthresh, usize::MAX, "fresh parameters");
    w.run(ms(300));
    assert_eq!(w.receive_lengths(1, b), [900, 901, 902, 903]);
    assert_eq!(w.stats(0, a).outstanding_chunks, 0, "acknowledged");
    let after = w.stats(0, a).counters;
    assert_eq!(after.t3_expirations, before.t3_expirations);
    assert_eq!(w.path(0, a, 0).ssthresh, usize::MAX, "no congestion");
    // Without ASCONF the peer keeps sending to the old address until that path has failed.
    if config.extensions.dynamic_addresses {
        exchange(&mut w, a, b);
    }
}

#[test]
fn outstanding_data_moves_to_another_known_address() {
    the_mover_with_another_address(&dynamic());
}

/// RFC 8985, section 6.2
#[test]
fn with_rack_data_moves_to_another_known_address() {
    let policies = Policies {
        loss_detection: LossDetection::Rack,
        tail_loss_probe: false,
        ..Policies::modern()
    };
    the_mover_with_another_address(&dynamic().with(|c| c.research.policies = policies));
}

#[test]
fn outstanding_data_moves_with_static_addresses() {
    the_mover_with_another_address(&AssociationConfig::rfc9260());
}

/// RFC 3758, section 3.5, rule C5
#[test]
fn an_outstanding_forward_tsn_moves() {
    let mut config = dynamic();
    config.extensions.partial_reliability = true;
    let (mut w, [a, b]) = settled(&config, 2);
    let old = addresses(0)[0];
    w.lose_data(0, &[0]);
    let timed = carrick_proto::SendOptions {
        reliability: carrick_proto::Reliability::Timed(ms(50)),
        ..carrick_proto::SendOptions::default()
    };
    w.send_with(0, a, timed, pattern(10));
    w.send(0, a, 0, pattern(20));
    w.rule(move |seen| {
        let lost = seen.source() == old && seen.has(ChunkType::FORWARD_TSN);
        if lost { Verdict::Drop } else { Verdict::Pass }
    });
    let sent = |w: &mut World| !w.sent(0, ChunkType::FORWARD_TSN).is_empty();
    assert!(w.run_until(secs(5), sent));
    w.run(ms(50));
    w.block(old);
    w.ends[0].local_address_removed(w.now, old);
    w.run(ms(100));
    assert_eq!(w.receive_lengths(1, b), [20]);
}

/// RFC 3168, section 6.1.1
#[test]
fn a_new_path_dropping_ect_packets_is_detected() {
    let mut config = dynamic();
    config.extensions.ecn = true;
    let (mut w, [a, b]) = settled(&config, 2);
    let capable = |w: &World| {
        let last = w.sent(0, ChunkType::DATA).pop().expect("DATA");
        last.route.ecn != Ecn::NotCapable
    };
    w.send(0, a, 0, pattern(100));
    w.run(secs(1));
    assert!(capable(&w), "ECT was acknowledged on the old path");
    w.ends[0].local_address_removed(w.now, addresses(0)[0]);
    w.rule(|seen| {
        let lost = seen.from == 0 && seen.route.ecn != Ecn::NotCapable;
        if lost { Verdict::Drop } else { Verdict::Pass }
    });
    for _ in 0..2 {
        w.send(0, a, 0, pattern(100));
        w.pump();
        assert!(capable(&w));
        w.run(secs(10));
    }
    w.send(0, a, 0, pattern(100));
    w.pump();
    assert!(!capable(&w), "after two timeouts");
    w.run(secs(1));
    assert_eq!(w.receive_lengths(1, b), [100; 4]);
}
