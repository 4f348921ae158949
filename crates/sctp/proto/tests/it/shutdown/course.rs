//! The normal course, with losses and timers (section 9.2).

use carrick_proto::{CloseReason, Event, OperationError, SendError, SendOptions};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::shutdown::support::*;

/// RFC 9260, section 9.2
#[test]
fn shutdown_takes_three_packets() {
    let mut w = World::single_homed();
    let (a, b) = w.connect();
    w.log.clear();
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(secs(1));
    let kinds: Vec<_> = w.log.iter().flat_map(|p| p.kinds()).collect();
    assert_eq!(
        kinds,
        [
            ChunkType::SHUTDOWN,
            ChunkType::SHUTDOWN_ACK,
            ChunkType::SHUTDOWN_COMPLETE
        ]
    );
    assert_eq!(w.log[2].flags(ChunkType::SHUTDOWN_COMPLETE), 0, "no T bit");
    assert_eq!(closed(&w.events(0)), [&CloseReason::Shutdown]);
    let events = w.events(1);
    assert!(events.contains(&Event::PeerShutdown));
    assert_eq!(closed(&events), [&CloseReason::Shutdown]);
    assert!(gone(&w));
    assert_eq!(
        w.ends[1].shutdown(w.now, b),
        Err(OperationError::UnknownAssociation)
    );
    assert_eq!((w.ends[0].stats().closed, w.ends[1].stats().closed), (1, 1));
}

/// RFC 9260, section 9.2
#[test]
fn each_lost_packet_of_a_shutdown_is_retransmitted() {
    for (end, kind) in [
        (0, ChunkType::SHUTDOWN),
        (1, ChunkType::SHUTDOWN_ACK),
        (0, ChunkType::SHUTDOWN_COMPLETE),
    ] {
        for losses in [1, 3] {
            let mut w = World::new();
            let (a, _) = w.connect();
            w.lose(end, kind, losses);
            w.ends[0].shutdown(w.now, a).unwrap();
            w.run(secs(60));
            assert!(gone(&w), "{kind} lost {losses} times");
            assert_eq!(closed(&w.events(0)), [&CloseReason::Shutdown], "{kind}");
            assert_eq!(closed(&w.events(1)), [&CloseReason::Shutdown], "{kind}");
        }
    }
}

/// RFC 9260, section 9.2
#[test]
fn all_messages_arrive_before_the_end() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.lose_data(0, &[5, 20]);
    w.lose_data(1, &[3, 30]);
    for _ in 0..40 {
        w.send(0, a, 0, pattern(3000));
        w.send(1, b, 0, pattern(2000));
    }
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(secs(60));
    let kinds = w.log.iter().position(|p| p.has(ChunkType::SHUTDOWN));
    let last_data = w
        .log
        .iter()
        .rposition(|p| p.from == 0 && p.has(ChunkType::DATA));
    assert!(last_data < kinds, "SHUTDOWN after all own data");
    assert_eq!(w.receive_lengths(1, b), [3000; 40]);
    assert_eq!(w.receive_lengths(0, a), [2000; 40]);
    assert!(gone(&w));
    assert_eq!(closed(&w.events(0)), [&CloseReason::Shutdown]);
}

/// RFC 9260, section 9.2
#[test]
fn both_sides_may_shut_down_at_once() {
    for data in [0, 20] {
        let mut w = World::new();
        let (a, b) = w.connect();
        for _ in 0..data {
            w.send(0, a, 0, pattern(2000));
            w.send(1, b, 0, pattern(2000));
        }
        w.ends[0].shutdown(w.now, a).unwrap();
        w.ends[1].shutdown(w.now, b).unwrap();
        w.run(secs(30));
        assert_eq!(w.receive_lengths(1, b), vec![2000; data]);
        assert_eq!(w.receive_lengths(0, a), vec![2000; data]);
        assert!(gone(&w));
        assert_eq!(closed(&w.events(0)), [&CloseReason::Shutdown]);
        assert_eq!(closed(&w.events(1)), [&CloseReason::Shutdown]);
    }
}

/// RFC 9260, section 9.2
#[test]
fn a_crossing_shutdown_survives_losses() {
    for lost in [
        ChunkType::SHUTDOWN,
        ChunkType::SHUTDOWN_ACK,
        ChunkType::SHUTDOWN_COMPLETE,
    ] {
        for (first, second) in [(1, 0), (0, 1), (1, 1), (2, 2)] {
            let mut w = World::new();
            let (a, b) = w.connect();
            w.lose(0, lost, first);
            w.lose(1, lost, second);
            w.ends[0].shutdown(w.now, a).unwrap();
            w.ends[1].shutdown(w.now, b).unwrap();
            w.run(secs(60));
            assert!(gone(&w), "{lost} lost {first} and {second} times");
        }
    }
}

/// RFC 9260, section 9.2
#[test]
fn no_message_is_accepted_while_shutting_down() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.block(addresses(0)[0]);
    w.block(addresses(0)[1]);
    w.send(0, a, 0, pattern(10));
    w.ends[0].shutdown(w.now, a).unwrap();
    w.pump();
    assert_eq!(state_name(&w.stats(0, a)), "ShutdownPending");
    let refuse = |w: &mut World, end: usize, id| {
        w.ends[end].send(w.now, id, SendOptions::default(), pattern(1))
    };
    assert_eq!(refuse(&mut w, 0, a), Err(SendError::ShuttingDown));
    w.unblock(addresses(0)[0]);
    w.unblock(addresses(0)[1]);
    w.rule(|p| {
        let hold = p.from == 1 && p.has(ChunkType::DATA);
        if hold { Verdict::Drop } else { Verdict::Pass }
    });
    w.send(1, b, 0, pattern(1000));
    assert!(w.run_until(secs(10), |w| {
        w.states() == [Some("ShutdownSent"), Some("ShutdownReceived")]
    }));
    assert_eq!(refuse(&mut w, 0, a), Err(SendError::ShuttingDown));
    assert_eq!(refuse(&mut w, 1, b), Err(SendError::ShuttingDown));
    assert_eq!(w.ends[1].shutdown(w.now, b), Ok(()), "ignored");
    assert_eq!(w.states()[1], Some("ShutdownReceived"));
    w.clear_rules();
    w.run(secs(60));
    assert_eq!(w.receive_lengths(0, a), [1000]);
    assert_eq!(w.receive_lengths(1, b), [10]);
    assert!(gone(&w));
}

/// RFC 9260, section 9.2
#[test]
fn t2_ends_after_association_max_retrans() {
    for (survivor, kind) in [(0, ChunkType::SHUTDOWN), (1, ChunkType::SHUTDOWN_ACK)] {
        let mut w = World::with(2, |_, c| {
            c.local_addresses.truncate(1);
            c.association.timers.shutdown_guard = Some(secs(100_000));
        });
        w.config.timers.shutdown_guard = Some(secs(100_000));
        let (a, _) = w.connect();
        let other = 1 - survivor;
        // Packets of the other side are lost from now on; the SHUTDOWN arrives.
        w.rule(move |p| {
            let silent = p.from == other && !(survivor == 1 && p.has(ChunkType::SHUTDOWN));
            if silent { Verdict::Drop } else { Verdict::Pass }
        });
        w.ends[0].shutdown(w.now, a).unwrap();
        w.run(secs(5));
        // After the first answer the other end has done its part and is silent for good.
        w.block(addresses(other)[0]);
        w.run(secs(2000));
        assert_eq!(w.sent(survivor, kind).len(), 11, "once and ten times again");
        assert_eq!(
            closed(&w.events(survivor)),
            [&CloseReason::PeerUnreachable],
            "{kind}"
        );
    }
}

/// RFC 9260, section 9.2
#[test]
fn t2_uses_all_paths_and_doubles() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.block(addresses(1)[0]);
    w.log.clear();
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(ms(1500));
    assert!(gone(&w), "the answer goes to the source of the SHUTDOWN");
    let to: Vec<_> = w
        .sent(0, ChunkType::SHUTDOWN)
        .iter()
        .map(|p| p.to())
        .collect();
    assert_eq!(to, addresses(1));
}

/// RFC 9260, section 9.2
#[test]
fn t5_guard_aborts_a_long_shutdown() {
    let mut w = World::single_homed();
    w.config.timers.rto_max = secs(10);
    let (mut peer, id) = Puppet::new().accept(&mut w);
    w.ends[0].shutdown(w.now, id).unwrap();
    let began = w.now;
    let mut aborted = None;
    // The peer keeps sending data and never answers the SHUTDOWN.
    for i in 0..200 {
        w.run(ms(500));
        if w.ends[0].associations().next().is_none() {
            aborted = Some(w.now);
            break;
        }
        let answers = peer.data(&mut w, 0, i, b"more");
        assert!(answers.iter().any(|p| p.has(ChunkType::SHUTDOWN)));
        w.receive(0, id);
    }
    let took = aborted.expect("the guard ended it") - began;
    assert!(
        took >= secs(50) && took <= secs(51),
        "5 * RTO.Max: {took:?}"
    );
    assert_eq!(closed(&w.events(0)), [&CloseReason::ShutdownTimedOut]);
    assert!(peer.receive(&mut w).iter().any(|p| p.has(ChunkType::ABORT)));
}

/// RFC 9260, sections 5.4 and 8.3; world 29930.
#[test]
fn addresses_are_verified_when_confirmed_ones_fail() {
    let mut w = World::new();
    w.block(addresses(1)[1]);
    let (a, _) = w.connect();
    w.block(addresses(1)[0]);
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(ms(500));
    w.unblock(addresses(1)[1]);
    w.run(secs(290));
    assert_eq!(w.states(), [None, None]);
    assert!(w.events(0).contains(&Event::Closed(CloseReason::Shutdown)));
}

/// RFC 9260, sections 6.4.1 and 9.2: without quick failover new data waits for the primary path to become inactive.
#[test]
fn a_shutdown_lasts_over_a_failover() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.run(secs(5));
    w.block(addresses(1)[0]);
    for _ in 0..20 {
        w.send(0, a, 0, pattern(1000));
    }
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(secs(30));
    assert_eq!(w.states()[0], Some("ShutdownPending"));
    w.run(secs(60));
    assert_eq!(w.receive(1, b).len(), 20);
    assert!(gone(&w));
    let events = w.events(0);
    assert_eq!(closed(&events), [&CloseReason::Shutdown]);
    let failed = |event: &Event| matches!(event, Event::SendFailed(_));
    assert!(!events.iter().any(failed), "{events:?}");
}

/// RFC 9260, sections 8.1 and 9.2: T3-rtx expires up to 11 times, after 1, 2, 4, 8, 16, 32 and 60 s.
#[test]
fn a_shutdown_to_a_dead_peer_returns_messages() {
    let mut w = World::single_homed();
    let (a, _) = w.connect();
    for address in addresses(1) {
        w.block(address);
    }
    for _ in 0..5 {
        w.send(0, a, 0, pattern(1000));
    }
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(secs(30));
    assert_eq!(w.states()[0], Some("ShutdownPending"));
    w.run(secs(400));
    let events = w.events(0);
    assert_eq!(closed(&events), [&CloseReason::PeerUnreachable]);
    let failed = |event: &&Event| matches!(event, Event::SendFailed(_));
    assert_eq!(events.iter().filter(failed).count(), 5);
}
