//! Late packets, and events that must not delay the end.

use carrick_proto::{CloseReason, Event, MessagePart, SendOptions, Tsn};
use carrick_wire::{CauseCode, ChunkType, DataFlags, VerificationTag};

use crate::common::*;
use crate::shutdown::support::*;

/// RFC 9260, section 8.3
#[test]
fn late_sacks_and_heartbeats_follow_the_state_table() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    let tsn = peer.endpoint_tsn(0).previous();
    peer.send(&mut w, |p| p.shutdown(tsn));
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownAckSent");
    let answers = peer.send(&mut w, |p| p.heartbeat(b"hello"));
    assert!(answers.iter().all(|p| !p.has(ChunkType::HEARTBEAT_ACK)));
    // DATA in SHUTDOWN-ACK-SENT is discarded.
    let header = Puppet::data_header(peer.tsn, 0, 0);
    let answers = peer.send(&mut w, |p| p.data(&header, b"late"));
    assert!(answers.iter().all(|p| !p.has(ChunkType::SACK)));
    assert_eq!(w.receive_lengths(0, id), [0; 0]);
}

/// RFC 9260, section 9.2
#[test]
fn an_init_in_shutdown_ack_sent_gets_shutdown_ack() {
    let mut w = World::single_homed();
    let (mut peer, _) = Puppet::new().connect(&mut w);
    let tsn = peer.endpoint_tsn(0).previous();
    peer.send(&mut w, |p| p.shutdown(tsn));
    peer.tag = VerificationTag(0x9999);
    let answers = peer.init(&mut w, |_| {});
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].kinds(), [ChunkType::SHUTDOWN_ACK]);
    assert_eq!(
        answers[0].tag(),
        Puppet::new().tag,
        "the association's tag, not the INIT's"
    );
}

/// RFC 9260, section 9.2
#[test]
fn an_expired_message_does_not_delay_the_shutdown() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    peer.a_rwnd = 1500;
    let (peer, id) = peer.accept(&mut w);
    w.send(0, id, 0, pattern(1000));
    peer.receive(&mut w);
    peer.sack(&mut w, peer.endpoint_tsn(0), 0, &[]);
    // The window is closed: this one can't leave.
    let options = SendOptions {
        lifetime: Some(ms(300)),
        context: 9,
        ..SendOptions::default()
    };
    w.send_with(0, id, options, pattern(500));
    w.change(0, id)
        .set_heartbeat(carrick_proto::PathId(0), false)
        .unwrap();
    w.ends[0].shutdown(w.now, id).unwrap();
    w.run(ms(400));
    let events = w.events(0);
    assert!(
        events
            .iter()
            .any(|e| matches!(e, Event::SendFailed(f) if f.context == 9 && f.expired)),
        "{events:?}"
    );
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownSent");
}

/// RFC 9260, section 9.2
#[test]
fn a_shutdown_waits_for_data_behind_a_closed_window() {
    let mut w = World::with(2, |_, c| c.association.buffers.receive_buffer = 5000);
    let (a, b) = w.connect();
    for _ in 0..20 {
        w.send(0, a, 0, pattern(1000));
    }
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(secs(500));
    assert_eq!(w.states()[0], Some("ShutdownPending"), "the peer is alive");
    let mut got = 0;
    for _ in 0..100 {
        got += w.receive(1, b).len();
        w.run(secs(2));
    }
    assert_eq!(got, 20);
    assert!(gone(&w));
}

/// RFC 9260, section 9.2
#[test]
fn a_partial_delivery_completes_before_the_end() {
    let mut w = World::with(2, |_, c| c.association.buffers.receive_buffer = 20_000);
    let (a, b) = w.connect();
    w.send(0, a, 0, pattern(100_000));
    w.ends[0].shutdown(w.now, a).unwrap();
    let mut parts = Vec::new();
    for _ in 0..200 {
        w.run(ms(300));
        parts.extend(w.receive(1, b));
    }
    let total: usize = parts.iter().map(|m| m.payload.len()).sum();
    assert_eq!(total, 100_000);
    assert_eq!(parts.first().unwrap().part, MessagePart::First);
    assert_eq!(parts.last().unwrap().part, MessagePart::Last);
    assert!(gone(&w));
}

/// RFC 9260, section 9.2
#[test]
fn a_shutdown_with_an_unsent_tsn_is_a_violation() {
    let mut w = World::single_homed();
    let (peer, _) = Puppet::new().accept(&mut w);
    let answers = peer.send(&mut w, |p| p.shutdown(peer.endpoint_tsn(5)));
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    assert_eq!(answers[0].causes()[0].0, CauseCode::PROTOCOL_VIOLATION);
}

#[test]
fn an_incomplete_message_is_discarded_at_the_end() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    let mut header = Puppet::data_header(peer.tsn, 0, 0);
    header.flags = DataFlags {
        ending: false,
        ..DataFlags::WHOLE
    };
    peer.send(&mut w, |p| p.data(&header, b"half"));
    peer.tsn = Tsn::new(0);
    peer.send(&mut w, |p| p.abort(false, |_| {}));
    assert_eq!(w.ends[0].receive(id), None);
    assert!(gone(&w));
}

/// RFC 9260, section 5.2.6
#[test]
fn a_stale_cookie_error_in_shutdown_is_discarded() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    let stale = |w: &mut World| peer.send(w, |p| p.error(|c| c.stale_cookie(5)));
    w.ends[0].shutdown(w.now, id).unwrap();
    assert_eq!(stale(&mut w).len(), 0);
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownSent");
    let tsn = peer.endpoint_tsn(0).previous();
    peer.send(&mut w, |p| p.shutdown(tsn));
    assert_eq!(stale(&mut w).len(), 0);
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownAckSent");
    peer.send(&mut w, |p| p.shutdown_complete(false));
    assert_eq!(closed(&w.events(0)), [&CloseReason::Shutdown]);
}

/// RFC 9260, section 8.3
#[test]
fn a_lost_abort_is_detected_by_the_next_packet() {
    for silent in [false, true] {
        let mut w = World::new();
        let (a, b) = w.connect();
        w.lose(0, ChunkType::ABORT, 1);
        w.ends[0].abort(w.now, a, b"").unwrap();
        if !silent {
            w.send(1, b, 0, pattern(10));
        }
        w.run(secs(100));
        assert!(gone(&w), "by {}", if silent { "HEARTBEAT" } else { "DATA" });
        let events = w.events(1);
        assert!(matches!(
            closed(&events)[..],
            [CloseReason::AbortedByPeer(_)]
        ));
    }
}

#[test]
fn unlimited_timeouts_do_not_overflow() {
    let endless = |c: &mut carrick_proto::AssociationConfig| {
        c.timers.rto_max = std::time::Duration::MAX;
        c.paths.hb_interval = std::time::Duration::MAX;
        c.timers.no_progress_after = Some(u32::MAX);
        c.paths.association_max_retrans = 200;
        c.paths.path_max_retrans = 200;
    };
    let mut w = World::with(2, |_, c| endless(&mut c.association));
    endless(&mut w.config);
    let (a, b) = w.connect();
    w.block(addresses(1)[0]);
    w.block(addresses(1)[1]);
    w.send(0, a, 0, pattern(10));
    w.run(secs(1 << 33));
    assert_eq!(w.states(), [Some("Established"); 2]);
    w.unblock(addresses(1)[0]);
    w.unblock(addresses(1)[1]);
    w.ends[1].shutdown(w.now, b).unwrap();
    w.run(secs(1));
    assert_eq!(w.states()[0], Some("ShutdownReceived"));
}

/// RFC 9260, section 9.2
#[test]
fn a_repeated_shutdown_moves_its_sack_to_another_path() {
    // Data arrived on the first path, which its answers take; then this path is blocked.
    let mut w = World::new();
    let (a, b) = w.connect();
    for end in 0..2 {
        for path in 0..2 {
            let id = [a, b][end];
            let path = carrick_proto::PathId(path);
            w.change(end, id).set_heartbeat(path, false).unwrap();
        }
    }
    w.send(1, b, 0, pattern(100));
    w.run(secs(1));
    assert_eq!(w.receive_lengths(0, a), [100]);
    w.block(addresses(1)[0]);
    w.log.clear();
    w.ends[0].shutdown(w.now, a).unwrap();
    assert!(w.run_until(secs(5), |w| gone(w)), "{:?}", w.states());
    let ways: Vec<_> = w
        .sent(0, ChunkType::SHUTDOWN)
        .iter()
        .map(|s| s.to())
        .collect();
    assert_eq!(ways, addresses(1), "the second one at once");
}

/// RFC 9260, section 9.2
#[test]
fn authenticated_heartbeats_do_not_delay_a_shutdown() {
    let mut w = World::with(2, |end, config| {
        config.local_addresses.truncate(1);
        let association = &mut config.association;
        association.extensions.authentication = true;
        association.security.authentication.required =
            vec![ChunkType::HEARTBEAT, ChunkType::HEARTBEAT_ACK];
        // Several of the second one's heartbeats fit into an RTO of the first.
        if end == 1 {
            association.paths.hb_interval = ms(100);
            (association.timers.rto_min, association.timers.rto_initial) = (ms(100), ms(100));
        }
    });
    w.config.extensions.authentication = true;
    w.config.security.authentication.required =
        vec![ChunkType::HEARTBEAT, ChunkType::HEARTBEAT_ACK];
    let (a, _) = w.connect();
    w.run(secs(2));
    w.lose(0, ChunkType::SHUTDOWN, 1);
    w.log.clear();
    w.ends[0].shutdown(w.now, a).unwrap();
    assert!(w.run_until(secs(5), |w| gone(w)), "{:?}", w.states());
    let beats = w.sent(1, ChunkType::HEARTBEAT);
    assert!(beats.len() > 2 && beats.iter().all(|s| s.has(ChunkType::AUTH)));
}

/// RFC 9260, section 9.2
#[test]
fn padded_heartbeats_do_not_delay_a_shutdown() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    w.ends[0].shutdown(w.now, id).unwrap();
    assert_eq!(peer.receive(&mut w)[0].kinds(), [ChunkType::SHUTDOWN]);
    for _ in 0..20 {
        w.run(ms(200));
        peer.send(&mut w, |p| {
            p.heartbeat(b"beat");
            p.pad(100);
        });
    }
    let all = w.sent(0, ChunkType::SHUTDOWN).len();
    assert!(all >= 2, "{all} in 4 s");
}
