//! Selection and removal of local addresses.

use carrick_proto::{Event, PathId};
use carrick_wire::VerificationTag;

use crate::common::*;
use crate::paths::support::*;

/// RFC 9260, section 6.4
#[test]
fn replies_leave_from_the_destination_of_the_packet() {
    let mut w = World::new();
    // Everything goes to the second local address, which source selection would not choose.
    let mut peer = Puppet::new();
    peer.link.to = addresses(0)[1];
    let mut all = peer.init(&mut w, |_| {});
    peer.record_init(&all[0]);
    let cookie = Puppet::cookie(&all[0]);
    all.extend(peer.send(&mut w, |p| p.cookie_echo(&cookie)));
    for ssn in 0..4 {
        all.extend(peer.data(&mut w, 0, ssn, b"x"));
    }
    all.extend(peer.data(&mut w, 77, 0, b"no such stream"));
    let id = w.association(0);
    w.send(0, id, 0, pattern(100));
    all.extend(peer.receive(&mut w));
    all.extend(peer.send(&mut w, |p| p.shutdown(peer.endpoint_tsn(0))));
    assert!(all.len() >= 7);
    for packet in &all {
        assert_eq!(packet.source(), addresses(0)[1], "{:?}", packet.kinds());
    }
    // Also of what belongs to no association, and for SACKs of one that prefers another address.
    let mut stranger = Puppet::new();
    stranger.port = 7777;
    stranger.link.to = addresses(0)[1];
    let answers = stranger.send_with_tag(&mut w, VerificationTag(1), |p| {
        p.cookie_ack();
    });
    assert_eq!(answers.len(), 0);
    let header = Puppet::data_header(stranger.tsn, 0, 0);
    let answers = stranger.send_with_tag(&mut w, VerificationTag(1), |p| p.data(&header, b"x"));
    assert_eq!(answers[0].source(), addresses(0)[1]);
}

/// RFC 9260, section 6.4
#[test]
fn a_sack_leaves_from_the_destination_of_the_data() {
    let mut w = World::new();
    let (mut peer, _) = Puppet::new().connect(&mut w);
    for (ssn, to) in [(0, 0), (1, 1), (2, 1), (3, 0), (4, 0), (5, 1), (6, 1)] {
        peer.link.to = addresses(0)[to];
        for answer in peer.data(&mut w, 0, ssn, b"x") {
            assert_eq!(answer.source(), addresses(0)[to], "message {ssn}");
        }
    }
}

/// RFC 9260, section 6.4
#[test]
fn a_removed_local_address_sends_nothing() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.send(1, b, 0, pattern(10));
    w.run(secs(1));
    w.send(1, b, 0, pattern(10));
    // The SACK for this is delayed, and belongs to the address that goes.
    w.run(ms(50));
    w.events(0);
    let gone = addresses(0)[0];
    w.ends[0].local_address_removed(w.now, gone);
    w.block(gone);
    // Every packet is checked to come from an address of the endpoint.
    w.send(0, a, 0, pattern(5000));
    w.run(secs(10));
    assert_eq!(w.receive_lengths(1, b), [5000]);
    assert!(
        w.events(0)
            .contains(&Event::PathLocalAddressChanged(PathId(0)))
    );
    assert_eq!(w.path(0, a, 0).local, Some(addresses(0)[1]));
    // The peer sends to what works.
    w.send(1, b, 0, pattern(6000));
    w.run(secs(30));
    assert_eq!(w.receive_lengths(0, a), [10, 10, 6000]);
}

/// RFC 9260, section 6.4
#[test]
fn queued_replies_avoid_a_removed_address() {
    let mut w = World::new();
    let (peer, _) = two_homed(&mut w);
    // The answer waits in the endpoint while the address goes.
    let bytes = peer.build(peer.peer_tag, |p| p.heartbeat(b"hello"));
    let end = &mut w.ends[0];
    end.handle_datagram(w.now, &peer.route(), bytes);
    end.local_address_removed(w.now, addresses(0)[0]);
    w.pump();
}

/// RFC 9260, section 6.4
#[test]
fn a_failed_path_is_tried_from_another_source() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.events(0);
    // Packets from the first address are lost.
    w.rule(|p| {
        let lost = p.from == 0 && p.source() == addresses(0)[0];
        if lost { Verdict::Drop } else { Verdict::Pass }
    });
    w.run(secs(600));
    assert!(
        w.events(0)
            .contains(&Event::PathLocalAddressChanged(PathId(0)))
    );
    let path = w.path(0, a, 0);
    assert!(path.status.active);
    assert_eq!(path.local, Some(addresses(0)[1]));
}

#[test]
fn every_pair_of_addresses_can_be_monitored() {
    let mut w = World::new();
    w.config.paths.monitor_pairs = true;
    let (a, b) = w.connect();
    w.run(secs(30));
    let pairs: Vec<_> = w
        .paths(0, a)
        .map(|p| (p.local.unwrap(), p.remote))
        .collect();
    assert_eq!(pairs.len(), 4);
    assert!(w.paths(0, a).all(|p| p.status.confirmed));
    w.events(0);
    // One pair breaks, not its addresses.
    let broken = pairs[0];
    w.rule(move |p| {
        let lost = p.from == 0 && (p.source(), p.to()) == broken;
        if lost { Verdict::Drop } else { Verdict::Pass }
    });
    for _ in 0..20 {
        w.send(0, a, 0, pattern(1000));
        w.run(secs(10));
    }
    assert_eq!(w.receive(1, b).len(), 20);
    assert!(w.events(0).contains(&Event::PathFailed(PathId(0))));
    let active: Vec<_> = w.paths(0, a).map(|p| p.status.active).collect();
    assert_eq!(active, [false, true, true, true]);
}
