//! Scenarios found by the random worlds of the laboratory, and in associations with other
//! implementations.

use crate::common;

use carrick_proto::{
    AssociationConfig, Endpoint, EndpointConfig, Event, OperationError, PathId, Route, SendError,
    SendOptions,
};
use carrick_wire::ChunkType;
use common::{Puppet, Verdict, World, addresses, ms, secs};

/// Returns whether the association has ended.
fn is_closed(event: &Event) -> bool {
    matches!(event, Event::Closed(_))
}

#[test]
fn no_send_buffer_free_after_the_association_ends() {
    let mut w = World::single_homed();
    w.config = AssociationConfig::rfc9260().with(|c| c.buffers.send_buffer = 1000);
    let (a, b) = w.connect();
    w.send(0, a, 0, vec![1; 1000]);
    let refused = w.ends[0].send(w.now, a, SendOptions::default(), vec![2; 10].into());
    assert_eq!(refused, Err(SendError::BufferFull));
    w.ends[1].abort(w.now, b, b"enough").unwrap();
    w.run(ms(100));
    let events = w.events(0);
    assert!(events.last().is_some_and(is_closed), "{events:?}");
    assert!(!events.contains(&Event::SendBufferFree), "{events:?}");
}

#[test]
fn an_address_beyond_max_paths_identifies_the_peer() {
    let mut w = World::new();
    w.config.paths.max_paths = 1;
    let (a, b) = w.connect();
    assert_eq!(w.paths(0, a).count(), 1);
    // The peer verifies its second path, from its second address.
    w.run(secs(60));
    assert_eq!(w.states(), [Some("Established"), Some("Established")]);
    assert!(w.path(1, b, 1).status.confirmed);
    w.change(1, b).set_primary(PathId(1)).unwrap();
    w.send(1, b, 0, vec![3; 5000]);
    w.run(secs(1));
    assert_eq!(w.receive_lengths(0, a), [5000]);
}

/// RFC 9260, section 9.2
#[test]
fn heartbeats_do_not_delay_a_repeated_shutdown() {
    let mut w = World::with(2, |_, config| {
        config.local_addresses.truncate(1);
        config.association.paths.hb_interval = ms(100);
        config.association.timers.rto_min = ms(10);
    });
    let (a, _) = w.connect();
    w.lose(0, ChunkType::SHUTDOWN, 1);
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(secs(5));
    assert_eq!(w.states(), [None, None]);
}

/// RFC 9260, section 5.2.1
#[test]
fn crossing_inits_from_unknown_addresses_are_answered() {
    let mut w = World::new();
    // Each side knows one address of the other, and not the one that its INIT comes from.
    w.begin_connect(&[addresses(1)[0]]);
    w.begin_connect_from(1, &[addresses(0)[1]], common::port(0));
    w.run(secs(1));
    assert_eq!(w.states(), [Some("Established"), Some("Established")]);
    w.association(0);
    w.association(1);
}

#[test]
fn nothing_is_outstanding_after_the_end() {
    let mut w = World::single_homed();
    let (a, b) = w.connect();
    w.send(1, b, 0, vec![4; 10]);
    w.run(secs(1));
    w.lose(0, ChunkType::DATA, 1);
    w.send(0, a, 0, vec![5; 100]);
    w.pump();
    w.ends[1].abort(w.now, b, b"").unwrap();
    w.run(ms(100));
    // The message that was not read keeps the association's counters readable.
    let stats = w.stats(0, a);
    assert_eq!((stats.outstanding_chunks, stats.outstanding_bytes), (0, 0));
}

/// RFC 9260, section 5.1.2
#[test]
fn an_unadvertised_address_is_not_used() {
    let mut w = World::with(2, |end, config| {
        if end == 0 {
            config.local_addresses.truncate(1);
        }
        config.association.paths.association_max_retrans = 1000;
    });
    w.config.paths.association_max_retrans = 1000;
    w.config.paths.path_max_retrans = 0;
    let (a, b) = w.connect();
    w.ends[0].local_address_added(addresses(0)[1]);
    // The path from the old address fails, and another one would be at hand.
    w.block(addresses(0)[0]);
    w.send(0, a, 0, vec![6; 10]);
    w.run(secs(10));
    assert!(
        w.log
            .iter()
            .all(|seen| seen.from == 1 || seen.route.local == Some(addresses(0)[0]))
    );
    w.unblock(addresses(0)[0]);
    w.run(secs(100));
    assert_eq!(w.receive_lengths(1, b), [10]);
}

/// World 3793: the address was removed before the retransmitted INIT and returned later. The peer
/// does not know the address and answers its packets with ABORT.
///
/// RFC 9260, section 5.1.2
/// RFC 9260, section 8.4
#[test]
fn an_address_missing_in_a_repeated_init_is_not_used() {
    for crossing in [false, true] {
        let mut w = World::new();
        w.config.paths.association_max_retrans = 1000;
        w.config.paths.path_max_retrans = 0;
        w.lose(0, ChunkType::INIT, 1);
        w.begin_connect(&[addresses(1)[0]]);
        w.pump();
        let now = w.now;
        w.ends[0].local_address_removed(now, addresses(0)[1]);
        if crossing {
            // The peer learns the addresses from an INIT ACK instead.
            w.lose(0, ChunkType::INIT, 2);
            w.begin_connect_from(1, &[addresses(0)[0]], common::port(0));
        }
        let init_acks = usize::from(!crossing);
        let answered = |w: &mut World| !w.sent(init_acks, ChunkType::INIT_ACK).is_empty();
        assert!(w.run_until(secs(10), answered));
        w.ends[0].local_address_added(addresses(0)[1]);
        w.run(secs(1));
        assert_eq!(w.states(), [Some("Established"), Some("Established")]);
        let (a, b) = (w.association(0), w.association(1));
        w.block(addresses(0)[0]);
        w.send(0, a, 0, vec![6; 10]);
        w.run(secs(10));
        let mut sources = w.log.iter().filter(|seen| seen.from == 0);
        assert!(sources.all(|seen| seen.route.local == Some(addresses(0)[0])));
        w.unblock(addresses(0)[0]);
        w.run(secs(100));
        assert_eq!(w.receive_lengths(1, b), [10], "crossing: {crossing}");
    }
}

/// RFC 9260, section 5.2.2; world 41037. The first INIT arrives when the second one has set up the
/// association, and lists an address that had gone by then.
#[test]
fn a_late_init_with_another_address_is_no_restart() {
    let mut w = World::new();
    w.lose(0, ChunkType::INIT, 1);
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.pump();
    let first = w.sent(0, ChunkType::INIT)[0].clone();
    w.ends[0].local_address_removed(w.now, addresses(0)[1]);
    w.run(secs(5));
    assert_eq!(w.states(), [Some("Established"), Some("Established")]);
    let route = Route {
        local: Some(first.route.remote),
        remote: first.source(),
        ..first.route
    };
    w.inject(1, &route, first.bytes);
    w.run(secs(1));
    assert!(w.sent(1, ChunkType::ABORT).is_empty());
    w.send(0, a, 0, vec![1; 10]);
    w.run(secs(1));
    assert_eq!(w.receive_lengths(1, w.association(1)), [10]);
}

/// RFC 9260, section 5.2.2
#[test]
fn a_restart_may_list_addresses_of_another_family() {
    let v6 = common::ip("fd00::2");
    let mut w = World::with(2, |end, config| match end {
        0 => config.local_addresses.truncate(1),
        _ => config.local_addresses.push(v6),
    });
    let (a, _) = w.connect();
    // The peer forgets everything.
    let seed = [9; 32];
    let locals = w.ends[1].local_addresses().to_vec();
    let config = EndpointConfig::new(common::port(1), locals, seed);
    w.ends[1] = Endpoint::new(config).unwrap();
    w.begin_connect_from(1, &[addresses(0)[0]], common::port(0));
    w.run(secs(1));
    assert!(w.events(0).contains(&Event::Restarted));
    assert_eq!(w.association(0), a);
    assert_eq!(w.states(), [Some("Established"), Some("Established")]);
}

#[test]
fn an_ended_association_is_only_readable() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.send(0, a, 0, vec![7; 10]);
    w.run(secs(1));
    w.ends[0].abort(w.now, a, b"").unwrap();
    w.run(secs(1));
    w.events(1);
    let sent = w.log.len();
    assert!(w.ends[1].association_mut(w.now, b).is_none());
    let gone = Err(OperationError::UnknownAssociation);
    assert_eq!(w.ends[1].shutdown(w.now, b), gone);
    for address in addresses(1) {
        w.ends[1].local_address_removed(w.now, address);
    }
    assert_eq!(w.events(1), []);
    assert_eq!(w.ends[1].receive(b).map(|m| m.payload.len()), Some(10));
    assert_eq!(w.ends[1].abort(w.now, b, b""), gone);
    w.run(secs(1));
    assert_eq!(w.log.len(), sent);
}

/// RFC 9260, section 6.9
#[test]
fn a_queued_message_is_fragmented_for_a_smaller_mtu() {
    let mut w = World::single_homed();
    w.config.mtu.fragment = false;
    w.config.mtu.path_mtu = 1500;
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.send(0, a, 0, vec![8; 1400]);
    w.change(0, a).set_path_mtu(PathId(0), 600).unwrap();
    w.run(secs(1));
    let b = w.association(1);
    w.run(secs(10));
    assert_eq!(w.receive_lengths(1, b), [1400]);
}

/// RFC 9260, section 5.1.2
#[test]
fn unsupported_addresses_identify_the_peer() {
    let v6 = [1, 2].map(|host| common::ip(&format!("fd00::{host}")));
    let mut w = World::with(2, |end, config| config.local_addresses.push(v6[end]));
    w.lose(1, ChunkType::COOKIE_ACK, 1);
    w.begin_connect(&[addresses(1)[0]]);
    w.run(ms(25));
    // The address was advertised and removed before the COOKIE ECHO arrived.
    w.ends[1].local_address_removed(w.now, v6[1]);
    w.run(secs(1));
    w.ends[1].local_address_added(v6[1]);
    w.run(secs(60));
    assert_eq!(w.states(), [Some("Established"), Some("Established")]);
}

/// RFC 9260, section 9.2
#[test]
fn a_shutdown_leaves_a_failed_path() {
    let mut w = World::new();
    w.config.paths.path_max_retrans = 1;
    let (a, _) = w.connect();
    // The only packet on the working path is lost; the blocked path has failed before.
    w.block(addresses(1)[0]);
    w.send(0, a, 0, vec![9; 10]);
    assert!(w.run_until(secs(200), |w| !w.path(0, a, 0).status.active));
    assert_eq!(w.stats(0, a).outstanding_chunks, 0);
    w.lose(0, ChunkType::SHUTDOWN, 1);
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(secs(30));
    assert_eq!(w.states()[0], None);
}

/// RFC 9260, section 5.2.4
#[test]
fn a_restart_during_set_up_makes_one_association() {
    let mut w = World::single_homed();
    w.config.timers.max_init_retransmits = 100;
    let a = w.begin_connect(&[addresses(1)[0]]);
    let b = w.begin_connect_from(1, &[addresses(0)[0]], common::port(0));
    w.send(1, b, 0, vec![1; 10]);
    // The peer's COOKIE ECHO with data comes late; before it, the peer restarts and sends an INIT,
    // which is answered under the tag of the first one.
    w.rule(|seen| {
        if seen.from == 1 && seen.has(ChunkType::COOKIE_ECHO) {
            Verdict::Delay(ms(60))
        } else {
            Verdict::Pass
        }
    });
    w.lose(0, ChunkType::COOKIE_ECHO, 1);
    w.run(ms(25));
    w.clear_rules();
    let config = EndpointConfig::new(common::port(1), vec![addresses(1)[0]], [9; 32]);
    w.ends[1] = Endpoint::new(config).unwrap();
    w.lose_from(1, ChunkType::COOKIE_ECHO, 0, 1);
    let again = w.begin_connect_from(1, &[addresses(0)[0]], common::port(0));
    w.run(secs(20));
    assert_eq!(w.states(), [Some("Established"), Some("Established")]);
    w.receive(0, a);
    w.send(1, again, 0, vec![2; 20]);
    w.send(0, a, 0, vec![3; 30]);
    w.run(secs(20));
    assert_eq!(w.receive_lengths(0, a), [20]);
    assert_eq!(w.receive_lengths(1, again), [30]);
}

/// The SACK for a single packet arrives after T3-rtx has retransmitted the packet on the dead path.
/// The SACK does not show that the dead path works.
///
/// RFC 9260, section 8.2
#[test]
fn a_dead_path_fails_though_its_chunks_arrive() {
    let mut w = World::new();
    w.config = AssociationConfig::rfc9260().with(|c| {
        c.timers.rto_initial = ms(100);
        c.timers.rto_min = ms(100);
        c.timers.rto_max = secs(1);
        c.paths.path_max_retrans = 2;
        c.paths.hb_interval = ms(300);
    });
    let (a, b) = w.connect();
    for _ in 0..60 {
        w.send(0, a, 0, vec![1; 10_000]);
    }
    w.run(ms(50));
    w.block(addresses(1)[0]);
    let failed = |w: &mut World| !w.path(0, a, 0).status.active;
    assert!(w.run_until(secs(20), failed));
    w.run(secs(5));
    let events = w.events(0);
    assert!(events.contains(&Event::PathFailed(PathId(0))), "{events:?}");
    assert_eq!(w.receive_lengths(1, b), [10_000; 60]);
}

/// A receiver may need a chunk that does not fit before it delivers part of a message larger than
/// its buffer. A closed window is probed later, see the tests in `window`.
///
/// RFC 9260, section 6.1
#[test]
fn a_window_below_the_next_chunk_is_probed_at_once() {
    for (a_rwnd, probes) in [(500, 1), (0, 0)] {
        let mut w = World::single_homed();
        let (peer, id) = Puppet::new().connect(&mut w);
        w.send(0, id, 0, vec![1; 20_000]);
        let sent = peer.numbers(&peer.receive(&mut w));
        let last = *sent.last().unwrap();
        let answers = peer.sack(&mut w, peer.endpoint_tsn(last), a_rwnd, &[]);
        assert_eq!(peer.numbers(&answers).len(), probes, "a_rwnd {a_rwnd}");
    }
}
