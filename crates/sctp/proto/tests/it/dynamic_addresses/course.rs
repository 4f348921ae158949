//! The normal course: addresses are added, deleted and moved.

use std::net::IpAddr;

use carrick_proto::research::{LossDetection, Policies};
use carrick_proto::{AddressEvent, CloseReason, Event, OperationError, PathId, Route};
use carrick_wire::{AsconfSerial, CauseCode, Chunk, ChunkType, PacketBuilder};

use crate::common::*;
use crate::dynamic_addresses::support::*;

fn data_moves_at_once(policies: &Policies) {
    let mut config = dynamic();
    config.research.policies = policies.clone();
    let mut w = world_of(&config, 2);
    let (a, b) = w.connect();
    // The peer sends to the address that goes; nothing of it arrives there any more.
    for n in 0..4 {
        w.send(1, b, 0, pattern(1000 + n));
    }
    w.block(addresses(0)[0]);
    w.pump();
    let begun = w.now;
    w.ends[0].local_address_removed(w.now, addresses(0)[0]);
    assert!(w.run_until(secs(1), |w| remotes(w, 1, b) == [addresses(0)[1]]));
    w.run(ms(300));
    assert_eq!(w.receive_lengths(0, a), [1000, 1001, 1002, 1003]);
    assert!(w.now - begun < ms(400), "without waiting for T3-rtx");
    let stats = w.stats(1, b);
    assert_eq!(stats.counters.t3_expirations, 0);
    let path = w.path(1, b, 1);
    assert_eq!(path.cwnd.max(4380), path.cwnd, "no congestion");
    let gone = AddressEvent::PeerRemoved {
        path: PathId(0),
        address: addresses(0)[0],
    };
    assert!(address_events(&mut w, 1).contains(&gone));
    assert_eq!(w.read(1, b).path_stats(PathId(0)), None);
    exchange(&mut w, a, b);
}

/// RFC 5061, section 5.1
#[test]
fn a_new_address_is_added_verified_and_used() {
    let (mut w, a, b) = single();
    w.events(1);
    let new = addresses(0)[1];
    w.ends[0].local_address_added(new);
    w.run(secs(1));
    assert_eq!(remotes(&w, 1, b), addresses(0));
    assert!(w.path(1, b, 1).status.confirmed, "by HEARTBEAT (5.3, F14)");
    let asconfs = w.sent(0, ChunkType::ASCONF);
    assert_eq!(asconfs.len(), 1);
    assert_eq!(asconfs[0].kinds(), [ChunkType::AUTH, ChunkType::ASCONF]);
    let answers = w.sent(1, ChunkType::ASCONF_ACK);
    assert_eq!(answers[0].kinds(), [ChunkType::AUTH, ChunkType::ASCONF_ACK]);
    assert!(address_events(&mut w, 0).contains(&AddressEvent::LocalAdded(new)));
    let added = AddressEvent::PeerAdded {
        path: PathId(1),
        address: new,
    };
    assert!(address_events(&mut w, 1).contains(&added));
    w.change(1, b).set_primary(PathId(1)).expect("primary");
    exchange(&mut w, a, b);
}

/// RFC 5061, section 5.1
#[test]
fn serial_numbers_begin_with_the_initial_tsn() {
    let (mut w, _, _) = single();
    w.ends[0].local_address_added(addresses(0)[1]);
    w.run(secs(1));
    w.ends[0].local_address_removed(w.now, addresses(0)[1]);
    w.run(secs(1));
    let tsn = w.sent(0, ChunkType::INIT)[0].init().initial_tsn;
    let serials: Vec<u32> = asconfs(&w, 0).iter().map(|s| s.value()).collect();
    assert_eq!(serials, [tsn.value(), tsn.next().value()]);
}

/// RFC 5061, section 5.3, rule F13
#[test]
fn data_of_a_deleted_address_moves_at_once() {
    data_moves_at_once(&Policies::default());
}

/// RFC 5061, section 5.3, rule F13
/// RFC 8985, section 6.2
#[test]
fn with_rack_data_of_a_deleted_address_moves_at_once() {
    data_moves_at_once(&Policies {
        loss_detection: LossDetection::Rack,
        tail_loss_probe: true,
        proportional_rate_reduction: true,
        undo_spurious: true,
        ..Policies::default()
    });
}

/// RFC 5061, section 5.3.2
#[test]
fn an_association_survives_a_move_of_its_only_address() {
    for before_break in [true, false] {
        let (mut w, a, b) = single();
        for n in 0..40 {
            w.send(0, a, 0, pattern(5000 + n));
            w.send(1, b, 0, pattern(5000 + n));
        }
        w.run(ms(25));
        let [old, new] = addresses(0);
        if before_break {
            w.ends[0].local_address_added(new);
            w.run(ms(100));
        }
        w.block(old);
        w.ends[0].local_address_removed(w.now, old);
        if !before_break {
            w.run(ms(300));
            let late = w.log.iter().filter(|p| p.from == 0 && p.source() == old);
            let last = late.map(|p| p.time).max().expect("packets");
            assert!(w.now - last >= ms(300), "nothing leaves from it (F4)");
            w.ends[0].local_address_added(new);
        }
        w.run(ms(500));
        assert_eq!(remotes(&w, 1, b), [new]);
        w.run(secs(20));
        let lengths: Vec<usize> = (0..40).map(|n| 5000 + n).collect();
        assert_eq!(w.receive_lengths(1, b), lengths);
        assert_eq!(w.receive_lengths(0, a), lengths);
        exchange(&mut w, a, b);
        assert_eq!(w.stats(0, a).authentication.forged_packets, 0);
    }
}

/// RFC 5061, section 5.3, rule F1
#[test]
fn a_pending_asconf_leaves_from_a_later_address() {
    let (mut w, a, b) = double();
    w.lose(1, ChunkType::ASCONF_ACK, 1);
    let later = ip("10.3.0.7");
    for own in addresses(0) {
        w.block(own);
        w.ends[0].local_address_removed(w.now, own);
        w.run(ms(1));
    }
    w.run(secs(3));
    assert_eq!(
        w.sent(0, ChunkType::ASCONF).len(),
        1,
        "nothing to send from"
    );
    w.ends[0].local_address_added(later);
    w.run(secs(60));
    assert_eq!(remotes(&w, 1, b), [later]);
    let from_later = w.log.iter().find(|p| p.from == 0 && p.source() == later);
    let first = from_later.expect("a packet from it").kinds();
    assert_eq!(first, [ChunkType::AUTH, ChunkType::ASCONF]);
    exchange(&mut w, a, b);
}

/// RFC 5061, section 5.3, rule F1
#[test]
fn a_shutdown_follows_to_an_address_added_meanwhile() {
    for lost in [0, 2] {
        let (mut w, a, b) = single();
        let [old, new] = addresses(0);
        w.block(old);
        w.ends[0].local_address_removed(w.now, old);
        w.send(0, a, 0, pattern(700));
        w.ends[1].shutdown(w.now, b).expect("shutdown");
        w.run(ms(100));
        assert_eq!(state_name(&w.stats(1, b)), "ShutdownSent");
        w.lose(1, ChunkType::HEARTBEAT, lost);
        w.ends[0].local_address_added(new);
        w.run(secs(30));
        assert_eq!(w.receive_lengths(1, b), [700]);
        for end in [0, 1] {
            let closed = Event::Closed(CloseReason::Shutdown);
            assert_eq!(w.events(end).last(), Some(&closed), "end {end}");
        }
        let verified = w.sent(0, ChunkType::HEARTBEAT_ACK)[0].time;
        let to_new = |p: &&SentPacket| p.from == 1 && p.has(ChunkType::SHUTDOWN) && p.to() == new;
        let reported = w.log.iter().find(to_new).expect("a SHUTDOWN").time;
        assert!(
            verified < reported,
            "not before the address is verified (5.4)"
        );
    }
}

/// RFC 5061, section 5.3, rule F5
#[test]
fn an_unsupported_family_is_no_alternative() {
    let mut w = World::with(2, |end, c| {
        c.association = dynamic();
        c.local_addresses.truncate(1);
        if end == 0 {
            c.local_addresses.push(ip("fd00::9"));
        }
    });
    w.config = dynamic();
    let (a, b) = w.connect();
    let [old, new] = addresses(0);
    w.block(old);
    w.ends[0].local_address_removed(w.now, old);
    w.run(ms(300));
    assert!(
        w.sent(0, ChunkType::ASCONF).is_empty(),
        "the last one stays (F5)"
    );
    w.ends[0].local_address_removed(w.now, ip("fd00::9"));
    w.ends[0].local_address_added(new);
    w.run(secs(5));
    assert_eq!(remotes(&w, 1, b), [new]);
    exchange(&mut w, a, b);
}

/// RFC 5061, section 5.3
#[test]
fn loopback_is_no_alternative() {
    let mut w = world_of(&dynamic(), 1);
    w.ends[0].local_address_added(ip("127.0.0.1"));
    let (a, b) = w.connect();
    let [old, new] = addresses(0);
    w.send(0, a, 0, pattern(20_000));
    w.run(ms(25));
    w.block(old);
    w.ends[0].local_address_removed(w.now, old);
    w.run(ms(300));
    let from_loopback = w.log.iter().any(|p| p.source().is_loopback());
    assert!(!from_loopback, "the peer does not know that address");
    w.ends[0].local_address_added(new);
    w.run(secs(5));
    assert_eq!(remotes(&w, 1, b), [new]);
    assert_eq!(w.receive_lengths(1, b), [20_000]);
}

/// RFC 5061, section 5.3
#[test]
fn a_readded_address_is_used_again() {
    let (mut w, a, b) = single();
    w.send(0, a, 0, pattern(20_000));
    w.run(ms(5));
    let own = addresses(0)[0];
    w.block(own);
    w.ends[0].local_address_removed(w.now, own);
    w.run(ms(200));
    w.unblock(own);
    w.ends[0].local_address_added(own);
    w.run(ms(200));
    assert_eq!(w.receive_lengths(1, b), [20_000]);
    assert!(
        w.sent(0, ChunkType::ASCONF).is_empty(),
        "the peer knows the address"
    );
    exchange(&mut w, a, b);
}

/// RFC 5061, section 5.3, rule F4
#[test]
fn an_address_returning_during_deletion_is_added() {
    let (mut w, a, b) = double();
    w.change(0, a).set_primary(PathId(1)).expect("primary");
    w.lose(1, ChunkType::ASCONF_ACK, 3);
    let own = addresses(0)[0];
    w.ends[0].local_address_removed(w.now, own);
    w.run(ms(100));
    assert_eq!(remotes(&w, 1, b), [addresses(0)[1]]);
    let back = w.now;
    w.ends[0].local_address_added(own);
    // The path fails once: another local address is selected.
    w.block(addresses(1)[0]);
    w.send(0, a, 0, pattern(500));
    w.change(0, a)
        .set_failure_threshold(PathId(0), 0)
        .expect("a threshold");
    for _ in 0..2 {
        w.change(0, a)
            .request_heartbeat(PathId(0))
            .expect("a heartbeat");
        w.run(ms(1100));
    }
    w.unblock(addresses(1)[0]);
    w.run(secs(60));
    let mut added = w.sent(0, ChunkType::ASCONF);
    let added = added.pop().expect("an ASCONF").time;
    let early = w.log.iter().filter(|p| p.from == 0 && p.source() == own);
    let early = early.filter(|p| p.time >= back && p.time <= added);
    assert_eq!(
        early.map(|p| p.kinds()).collect::<Vec<_>>(),
        Vec::<Vec<_>>::new()
    );
    assert_eq!(w.receive_lengths(1, b), [500]);
    assert_eq!(remotes(&w, 1, b).len(), 2);
    exchange(&mut w, a, b);
}

/// RFC 5061, section 5.3.1
#[test]
fn an_abort_for_an_address_in_deletion_is_ignored() {
    let (mut w, a, _) = double();
    w.lose(1, ChunkType::ASCONF_ACK, 1);
    let own = addresses(0)[0];
    w.ends[0].local_address_removed(w.now, own);
    w.run(ms(100));
    let [tag, peer_tag] = [(1, ChunkType::INIT_ACK), (0, ChunkType::INIT)]
        .map(|(end, kind)| w.sent(end, kind)[0].init().tag);
    // From a peer that no longer knows the address, and from one that still does.
    for (tag, reflected) in [(tag, true), (peer_tag, false)] {
        let header = carrick_wire::CommonHeader {
            source_port: port(1),
            destination_port: port(0),
            tag,
        };
        let mut buf = Vec::new();
        let mut packet = PacketBuilder::new(&mut buf, header, 1400);
        packet.abort(reflected, |_| {});
        packet.finish();
        w.inject(0, &Route::plain(own, addresses(1)[0]), buf);
        assert_eq!(state_name(&w.stats(0, a)), "Established");
    }
}

/// RFC 5061, section 5.3, rule F1
#[test]
fn an_unacknowledged_address_sends_asconf_only() {
    let (mut w, a, b) = single();
    w.lose(1, ChunkType::ASCONF_ACK, 2);
    let [old, new] = addresses(0);
    w.send(0, a, 0, pattern(3000));
    w.send(1, b, 0, pattern(3000));
    w.block(old);
    w.ends[0].local_address_removed(w.now, old);
    w.ends[0].local_address_added(new);
    w.run(secs(20));
    let mut answered = w.sent(1, ChunkType::ASCONF_ACK).into_iter();
    let answered = answered.find(|p| !p.lost).expect("an answer").time;
    let early = w.log.iter().filter(|p| p.from == 0 && p.source() == new);
    for packet in early.filter(|p| p.time < answered) {
        assert_eq!(packet.kinds(), [ChunkType::AUTH, ChunkType::ASCONF]);
    }
    assert_eq!(w.receive_lengths(1, b), [3000]);
    assert_eq!(w.receive_lengths(0, a), [3000]);
}

/// RFC 5061, section 5.3, rule F1
#[test]
fn an_unverified_new_address_gets_asconf_ack_only() {
    let (mut w, _, b) = single();
    let new = addresses(0)[1];
    // Heartbeats to the new address get lost.
    w.rule(move |seen| {
        let heartbeat = seen.from == 1 && seen.to() == new && seen.has(ChunkType::HEARTBEAT);
        if heartbeat {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    w.ends[0].local_address_added(new);
    w.block(addresses(0)[0]);
    w.ends[0].local_address_removed(w.now, addresses(0)[0]);
    w.send(1, b, 0, pattern(100));
    w.run(secs(3));
    let to_new = w.log.iter().filter(|p| p.from == 1 && p.to() == new);
    for packet in to_new {
        assert!(!packet.has(ChunkType::DATA), "{:?}", packet.kinds());
    }
    w.clear_rules();
    w.run(secs(30));
    let a = w.association(0);
    assert_eq!(w.receive_lengths(0, a), [100]);
}

/// RFC 5061, section 5.4
#[test]
fn the_peer_follows_set_primary_address() {
    let (mut w, a, b) = double();
    w.change(0, a)
        .set_peer_primary(addresses(0)[1])
        .expect("ask");
    w.run(secs(1));
    assert_eq!(w.stats(1, b).current, Some(PathId(1)));
    let reported = AddressEvent::PreferenceAccepted(addresses(0)[1]);
    assert!(address_events(&mut w, 0).contains(&reported));
    assert_eq!(
        w.change(0, a).set_peer_primary(ip("10.9.9.9")),
        Err(OperationError::UnknownAddress)
    );
}

/// RFC 5061, section 5.4
#[test]
fn an_impossible_set_primary_is_rejected() {
    // It has refused the address, for it has no room.
    let mut w = World::with(2, |end, c| {
        c.association = dynamic();
        c.association.paths.max_paths = if end == 1 { 1 } else { 16 };
        c.local_addresses.truncate(1);
    });
    w.config = dynamic();
    let (a, _) = w.connect();
    let new = addresses(0)[1];
    w.ends[0].local_address_added(new);
    w.run(secs(2));
    let refused =
        |e: &AddressEvent| matches!(e, AddressEvent::Refused { address, .. } if *address == new);
    assert_eq!(
        address_events(&mut w, 0)
            .iter()
            .filter(|e| refused(e))
            .count(),
        1
    );
    w.change(0, a).set_peer_primary(new).expect("ask");
    w.run(secs(1));
    let refused = AddressEvent::Refused {
        address: new,
        code: 0,
    };
    assert_eq!(address_events(&mut w, 0), [refused]);
    // An address of another family.
    let six = ip("2001:db8::1");
    w.ends[0].local_address_added(six);
    w.change(0, a).set_peer_primary(six).expect("ask");
    w.run(secs(1));
    let refused = AddressEvent::Refused {
        address: six,
        code: 0,
    };
    assert!(address_events(&mut w, 0).contains(&refused));
}

/// RFC 5061, section 5.1.1
#[test]
fn both_sides_move_at_once() {
    let (mut w, a, b) = double();
    for end in [0, 1] {
        w.ends[end].local_address_removed(w.now, addresses(end)[0]);
        w.block(addresses(end)[0]);
    }
    w.run(secs(30));
    assert_eq!(remotes(&w, 0, a), [addresses(1)[1]]);
    assert_eq!(remotes(&w, 1, b), [addresses(0)[1]]);
    exchange(&mut w, a, b);
}

#[test]
fn path_ids_are_not_reused_soon() {
    let (mut w, a, b) = single();
    let mut seen = std::collections::BTreeSet::new();
    for n in 0..200_u8 {
        let new = IpAddr::from([10, 3, 0, 10 + n]);
        w.ends[0].local_address_added(new);
        w.run(ms(100));
        let path = w.paths(1, b).last().expect("a path");
        assert_eq!(path.remote, new);
        assert!(seen.insert(path.id), "{:?} again", path.id);
        w.ends[0].local_address_removed(w.now, new);
        w.run(ms(100));
        assert_eq!(w.paths(1, b).count(), 1);
    }
    for n in 0..200_u8 {
        let new = IpAddr::from([10, 3, 0, 10 + n]);
        w.ends[0].local_address_added(new);
        w.run(ms(60));
        w.ends[0].local_address_removed(w.now, new);
        w.run(ms(60));
    }
    exchange(&mut w, a, b);
}

#[test]
fn a_message_for_a_removed_path_takes_another() {
    let (mut w, a, b) = double();
    let options = carrick_proto::SendOptions {
        path: Some(PathId(0)),
        ..carrick_proto::SendOptions::on_stream(0)
    };
    for _ in 0..50 {
        w.send_with(1, b, options, pattern(1400));
    }
    w.run(ms(5));
    w.ends[0].local_address_removed(w.now, addresses(0)[0]);
    w.block(addresses(0)[0]);
    w.run(secs(10));
    assert_eq!(w.receive_lengths(0, a), [1400; 50]);
}

/// RFC 5061, section 4.2.1
#[test]
fn behind_a_nat_the_wildcard_adds_the_source() {
    let mut config = dynamic();
    config.paths.wildcard_addresses = true;
    let mut w = world_of(&config, 1);
    let (a, b) = w.connect();
    let [old, new] = addresses(0);
    w.block(old);
    w.ends[0].local_address_removed(w.now, old);
    w.ends[0].local_address_added(new);
    w.run(secs(2));
    let asconf = w.sent(0, ChunkType::ASCONF)[0].clone();
    let unspecified = asconf.chunks().into_iter().any(|c| match c {
        Chunk::Asconf(asconf) => asconf.address.is_unspecified(),
        _ => false,
    });
    assert!(unspecified, "found by the verification tag");
    assert_eq!(remotes(&w, 1, b), [new]);
    exchange(&mut w, a, b);
}

/// RFC 5061, section 4.2.2
#[test]
fn a_wildcard_deletes_all_but_the_source() {
    let (mut w, puppet, id) = puppet();
    send_asconf(&mut w, &puppet, 0, |p| {
        p.add_ip_address(ONE, ip("10.0.0.101"));
        p.add_ip_address(TWO, ip("10.0.0.102"));
    });
    assert_eq!(remotes(&w, 0, id).len(), 3);
    let answer = send_asconf(&mut w, &puppet, 1, |p| {
        p.delete_ip_address(ONE, ip("0.0.0.0"))
    });
    assert_eq!(answers(&answer), []);
    assert_eq!(remotes(&w, 0, id), [puppet.link.from]);
    // From an address that is not the association's there is nothing left to keep.
    let serial = AsconfSerial::new(puppet.tsn.plus(2).value());
    let mut other = puppet.clone();
    other.link.from = ip("10.0.0.103");
    let answer = other.send(&mut w, |p| {
        p.asconf(serial, puppet.link.from, |p| {
            p.delete_ip_address(ONE, ip("0.0.0.0"))
        });
    });
    assert_eq!(
        answers(&answer),
        [(ONE, Some(CauseCode::DELETE_LAST_ADDRESS))]
    );
    assert_eq!(answer[0].to(), other.link.from, "E6: back to the source");
}
