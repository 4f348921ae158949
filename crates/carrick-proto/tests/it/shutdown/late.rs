//! What comes late, and what must not hold up the end.

use carrick_proto::{CloseReason, Event, Part, SendOptions, Tsn};
use carrick_wire::{CauseCode, ChunkType, DataFlags, VerificationTag};

use crate::common::*;
use crate::shutdown::support::*;

#[test]
fn sack_and_heartbeat_in_late_states_are_handled_by_the_table_8_3() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    let tsn = peer.theirs(0).previous();
    peer.say(&mut w, |p| p.shutdown(tsn));
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownAckSent");
    let answers = peer.say(&mut w, |p| p.heartbeat(b"hello"));
    assert!(answers.iter().all(|p| !p.has(ChunkType::HEARTBEAT_ACK)));
    // DATA in SHUTDOWN-ACK-SENT is discarded.
    let header = Puppet::data_header(peer.tsn, 0, 0);
    let answers = peer.say(&mut w, |p| p.data(&header, b"late"));
    assert!(answers.iter().all(|p| !p.has(ChunkType::SACK)));
    assert_eq!(w.receive_lengths(0, id), [0; 0]);
}

#[test]
fn an_init_in_shutdown_ack_sent_is_answered_with_shutdown_ack_9_2() {
    let mut w = World::single_homed();
    let (mut peer, _) = Puppet::new().connect(&mut w);
    let tsn = peer.theirs(0).previous();
    peer.say(&mut w, |p| p.shutdown(tsn));
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

#[test]
fn a_message_whose_life_ends_does_not_hold_up_the_shutdown() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    peer.a_rwnd = 1500;
    let (peer, id) = peer.accept(&mut w);
    w.send(0, id, 0, pattern(1000));
    peer.hear(&mut w);
    peer.sack(&mut w, peer.theirs(0), 0, &[]);
    // The window is closed: this one can't leave.
    let options = SendOptions {
        lifetime: Some(ms(300)),
        context: 9,
        ..SendOptions::default()
    };
    w.send_with(0, id, options, pattern(500));
    w.ends[0]
        .set_heartbeat(w.now, id, carrick_proto::PathId(0), false)
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

#[test]
fn shutdown_waits_for_messages_behind_a_closed_window() {
    let mut w = World::with(2, |_, c| c.association.receive_buffer = 5000);
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

#[test]
fn the_last_part_of_a_partial_delivery_comes_before_the_end() {
    let mut w = World::with(2, |_, c| c.association.receive_buffer = 20_000);
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
    assert_eq!(parts.first().unwrap().part, Part::First);
    assert_eq!(parts.last().unwrap().part, Part::Last);
    assert!(gone(&w));
}

#[test]
fn shutdown_of_an_unsent_tsn_is_a_violation() {
    let mut w = World::single_homed();
    let (peer, _) = Puppet::new().accept(&mut w);
    let answers = peer.say(&mut w, |p| p.shutdown(peer.theirs(5)));
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    assert_eq!(answers[0].causes()[0].0, CauseCode::PROTOCOL_VIOLATION);
}

#[test]
fn a_fragment_that_waits_is_forgotten_at_the_end() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    let mut header = Puppet::data_header(peer.tsn, 0, 0);
    header.flags = DataFlags {
        ending: false,
        ..DataFlags::WHOLE
    };
    peer.say(&mut w, |p| p.data(&header, b"half"));
    peer.tsn = Tsn::new(0);
    peer.say(&mut w, |p| p.abort(false, |_| {}));
    assert_eq!(w.ends[0].receive(id), None);
    assert!(gone(&w));
}

#[test]
fn a_stale_cookie_error_while_shutting_down_is_discarded_5_2_6() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    let stale = |w: &mut World| peer.say(w, |p| p.error(|c| c.stale_cookie(5)));
    w.ends[0].shutdown(w.now, id).unwrap();
    assert_eq!(stale(&mut w).len(), 0);
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownSent");
    let tsn = peer.theirs(0).previous();
    peer.say(&mut w, |p| p.shutdown(tsn));
    assert_eq!(stale(&mut w).len(), 0);
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownAckSent");
    peer.say(&mut w, |p| p.shutdown_complete(false));
    assert_eq!(closed(&w.events(0)), [&CloseReason::Shutdown]);
}

#[test]
fn an_abort_that_was_lost_is_found_out_by_the_next_packet_8_3() {
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
fn timeouts_without_a_bound_are_no_overflow() {
    let endless = |c: &mut carrick_proto::AssociationConfig| {
        c.rto_max = std::time::Duration::MAX;
        c.hb_interval = std::time::Duration::MAX;
        c.no_progress_after = Some(u32::MAX);
        c.association_max_retrans = 200;
        c.path_max_retrans = 200;
    };
    let mut w = World::with(2, |_, c| endless(&mut c.association));
    endless(&mut w.config);
    let (a, b) = w.connect();
    w.kill(addresses(1)[0]);
    w.kill(addresses(1)[1]);
    w.send(0, a, 0, pattern(10));
    w.run(secs(1 << 33));
    assert_eq!(w.states(), [Some("Established"); 2]);
    w.revive(addresses(1)[0]);
    w.revive(addresses(1)[1]);
    w.ends[1].shutdown(w.now, b).unwrap();
    w.run(secs(1));
    assert_eq!(w.states()[0], Some("ShutdownReceived"));
}

#[test]
fn a_repeated_shutdown_takes_its_sack_to_another_path_9_2() {
    // Data came on the first path, and the answers to it go back on it; then that dies.
    let mut w = World::new();
    let (a, b) = w.connect();
    for end in 0..2 {
        for path in 0..2 {
            let id = [a, b][end];
            let path = carrick_proto::PathId(path);
            w.ends[end].set_heartbeat(w.now, id, path, false).unwrap();
        }
    }
    w.send(1, b, 0, pattern(100));
    w.run(secs(1));
    assert_eq!(w.receive_lengths(0, a), [100]);
    w.kill(addresses(1)[0]);
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

#[test]
fn authenticated_heartbeats_do_not_put_off_a_shutdown_9_2() {
    let mut w = World::with(2, |end, config| {
        config.local_addresses.truncate(1);
        let association = &mut config.association;
        association.extensions.authentication = true;
        association.authentication.required = vec![ChunkType::HEARTBEAT, ChunkType::HEARTBEAT_ACK];
        // Several of the second one's heartbeats fit into an RTO of the first.
        if end == 1 {
            association.hb_interval = ms(100);
            (association.rto_min, association.rto_initial) = (ms(100), ms(100));
        }
    });
    w.config.extensions.authentication = true;
    w.config.authentication.required = vec![ChunkType::HEARTBEAT, ChunkType::HEARTBEAT_ACK];
    let (a, _) = w.connect();
    w.run(secs(2));
    w.lose(0, ChunkType::SHUTDOWN, 1);
    w.log.clear();
    w.ends[0].shutdown(w.now, a).unwrap();
    assert!(w.run_until(secs(5), |w| gone(w)), "{:?}", w.states());
    let beats = w.sent(1, ChunkType::HEARTBEAT);
    assert!(beats.len() > 2 && beats.iter().all(|s| s.has(ChunkType::AUTH)));
}

#[test]
fn padded_heartbeats_do_not_put_off_a_shutdown_9_2() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    w.ends[0].shutdown(w.now, id).unwrap();
    assert_eq!(peer.hear(&mut w)[0].kinds(), [ChunkType::SHUTDOWN]);
    for _ in 0..20 {
        w.run(ms(200));
        peer.say(&mut w, |p| {
            p.heartbeat(b"beat");
            p.pad(100);
        });
    }
    let all = w.sent(0, ChunkType::SHUTDOWN).len();
    assert!(all >= 2, "{all} in 4 s");
}
