//! What the random world of the laboratory found, each as a scenario of its own.

use crate::common;

use carrick_proto::{
    AssociationConfig, Endpoint, EndpointConfig, Event, OperationError, PathId, SendError,
    SendOptions,
};
use carrick_wire::ChunkType;
use common::{Fate, World, addresses, ms, secs};

/// Ends are told last.
fn is_closed(event: &Event) -> bool {
    matches!(event, Event::Closed(_))
}

#[test]
fn nothing_follows_the_end_of_an_association_that_had_refused_a_message() {
    let mut w = World::single_homed();
    w.config = AssociationConfig {
        send_buffer: 1000,
        ..AssociationConfig::default()
    };
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
fn an_address_beyond_max_paths_is_still_the_peers() {
    let mut w = World::new();
    w.config.max_paths = 1;
    let (a, b) = w.connect();
    assert_eq!(w.ends[0].paths(a).count(), 1);
    // The peer verifies its second path, from its second address.
    w.run(secs(60));
    assert_eq!(w.states(), [Some("Established"), Some("Established")]);
    assert!(w.path(1, b, 1).status.confirmed);
    w.ends[1].set_primary(w.now, b, PathId(1)).unwrap();
    w.send(1, b, 0, vec![3; 5000]);
    w.run(secs(1));
    assert_eq!(w.receive_lengths(0, a), [5000]);
}

#[test]
fn a_shutdown_is_repeated_whatever_heartbeats_come() {
    let mut w = World::with(2, |_, config| {
        config.local_addresses.truncate(1);
        config.association.hb_interval = ms(100);
        config.association.rto_min = ms(10);
    });
    let (a, _) = w.connect();
    w.lose(0, ChunkType::SHUTDOWN, 1);
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(secs(5));
    assert_eq!(w.states(), [None, None]);
}

#[test]
fn inits_that_cross_from_unexpected_addresses_are_answered() {
    let mut w = World::new();
    // Each side knows one address of the other, and not the one that its INIT comes from.
    w.begin_connect(&[addresses(1)[0]]);
    w.begin_connect_from(1, &[addresses(0)[1]], common::port(0));
    w.run(secs(1));
    assert_eq!(w.states(), [Some("Established"), Some("Established")]);
    w.only(0);
    w.only(1);
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

#[test]
fn an_address_that_the_peer_was_not_told_of_is_not_used() {
    let mut w = World::with(2, |end, config| {
        if end == 0 {
            config.local_addresses.truncate(1);
        }
        config.association.association_max_retrans = 1000;
    });
    w.config.association_max_retrans = 1000;
    w.config.path_max_retrans = 0;
    let (a, b) = w.connect();
    w.ends[0].local_address_added(addresses(0)[1]);
    // The path from the old address fails, and another one would be at hand.
    w.kill(addresses(0)[0]);
    w.send(0, a, 0, vec![6; 10]);
    w.run(secs(10));
    assert!(
        w.log
            .iter()
            .all(|seen| seen.from == 1 || seen.route.local == Some(addresses(0)[0]))
    );
    w.revive(addresses(0)[0]);
    w.run(secs(100));
    assert_eq!(w.receive_lengths(1, b), [10]);
}

#[test]
fn a_restart_lists_addresses_of_a_family_that_this_side_lacks() {
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
    assert_eq!(w.only(0), a);
    assert_eq!(w.states(), [Some("Established"), Some("Established")]);
}

#[test]
fn an_association_that_ended_is_only_there_to_be_read() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.send(0, a, 0, vec![7; 10]);
    w.run(secs(1));
    w.ends[0].abort(w.now, a, b"").unwrap();
    w.run(secs(1));
    w.events(1);
    let sent = w.log.len();
    let gone = Err(OperationError::UnknownAssociation);
    assert_eq!(w.ends[1].set_primary(w.now, b, PathId(1)), gone);
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

#[test]
fn a_message_that_was_taken_whole_leaves_in_pieces_when_the_path_mtu_shrank() {
    let mut w = World::single_homed();
    w.config.fragment = false;
    w.config.path_mtu = 1500;
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.send(0, a, 0, vec![8; 1400]);
    w.ends[0].set_path_mtu(w.now, a, PathId(0), 600).unwrap();
    w.run(secs(1));
    let b = w.only(1);
    w.run(secs(10));
    assert_eq!(w.receive_lengths(1, b), [1400]);
}

#[test]
fn an_address_of_a_family_that_this_side_lacks_is_still_the_peers() {
    let v6 = [1, 2].map(|host| common::ip(&format!("fd00::{host}")));
    let mut w = World::with(2, |end, config| config.local_addresses.push(v6[end]));
    w.lose(1, ChunkType::COOKIE_ACK, 1);
    w.begin_connect(&[addresses(1)[0]]);
    w.run(ms(25));
    // The peer was told of this address, but had it no more when the COOKIE ECHO came.
    w.ends[1].local_address_removed(w.now, v6[1]);
    w.run(secs(1));
    w.ends[1].local_address_added(v6[1]);
    w.run(secs(60));
    assert_eq!(w.states(), [Some("Established"), Some("Established")]);
}

#[test]
fn a_shutdown_leaves_a_path_that_failed() {
    let mut w = World::new();
    w.config.path_max_retrans = 1;
    let (a, _) = w.connect();
    // The only packet of the live path is lost; the dead one had failed before.
    w.kill(addresses(1)[0]);
    w.send(0, a, 0, vec![9; 10]);
    assert!(w.run_until(secs(200), |w| !w.path(0, a, 0).status.active));
    assert_eq!(w.stats(0, a).outstanding_chunks, 0);
    w.lose(0, ChunkType::SHUTDOWN, 1);
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(secs(30));
    assert_eq!(w.states()[0], None);
}

#[test]
fn a_peer_that_restarted_during_the_set_up_is_not_mixed_up_with_itself() {
    let mut w = World::single_homed();
    w.config.max_init_retransmits = 100;
    let a = w.begin_connect(&[addresses(1)[0]]);
    let b = w.begin_connect_from(1, &[addresses(0)[0]], common::port(0));
    w.send(1, b, 0, vec![1; 10]);
    // The peer's COOKIE ECHO with data comes late; before it, the peer restarts and sends an INIT,
    // which is answered under the tag of the first one.
    w.rule(|seen| {
        if seen.from == 1 && seen.has(ChunkType::COOKIE_ECHO) {
            Fate::Delay(ms(60))
        } else {
            Fate::Pass
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
