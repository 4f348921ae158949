//! Address camping: a peer lists addresses of another host in its INIT or ASCONF, without owning
//! them. The owner still gets an association (RFC 5062 section 2; RFC 9260 section 5.4).

use std::time::Duration;

use carrick_proto::{
    AssociationConfig, AssociationId, Event, IcmpInput, IcmpKind, LowerLayer, PeerAddress,
    VerificationTag,
};
use carrick_wire::{AsconfSerial, ChunkType, CorrelationId, PacketBuilder};

use crate::common::*;

const ATTACKER: &str = "10.0.0.66";
const OWNER: &str = "10.0.0.5";
const OWNER_SECOND: &str = "10.1.0.5";

fn dynamic_endpoint() -> World {
    World::with(1, |_, c| {
        c.association.extensions.dynamic_addresses = true;
        c.association
            .security
            .dynamic_addresses_without_authentication = true;
    })
}

fn puppet_at(address: &str, udp_port: Option<u16>) -> Puppet {
    let mut puppet = Puppet::new();
    puppet.link.from = ip(address);
    puppet.encapsulation = udp_port;
    puppet
}

/// Sets up an association; returns it with the events of the endpoint.
fn connect(
    w: &mut World,
    mut puppet: Puppet,
    listed: &[&str],
) -> (Puppet, AssociationId, Vec<Event>) {
    w.events(0);
    let before: Vec<_> = w.ends[0].associations().collect();
    let answers = puppet.init(w, |p| {
        p.supported_extensions(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK]);
        for address in listed {
            p.ip_address(ip(address));
        }
    });
    assert_eq!(answers[0].kinds(), [ChunkType::INIT_ACK]);
    puppet.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    let answers = puppet.send(w, |p| p.cookie_echo(&cookie));
    assert!(answers[0].has(ChunkType::COOKIE_ACK));
    let new = w.ends[0].associations().find(|id| !before.contains(id));
    (puppet, new.expect("another association"), w.events(0))
}

/// An attacker whose INIT lists the owner's address.
fn camp(w: &mut World, udp_port: Option<u16>) -> (Puppet, AssociationId) {
    let attacker = Puppet {
        tag: VerificationTag(0x6666),
        ..puppet_at(ATTACKER, udp_port)
    };
    let (attacker, id, _) = connect(w, attacker, &[ATTACKER, OWNER]);
    (attacker, id)
}

/// Lets time pass, in which the puppet answers what comes to its own address.
fn keep_alive(w: &mut World, puppet: &Puppet, time: Duration) {
    let until = w.now + time;
    while w.now < until {
        w.run(secs(1));
        for packet in puppet.receive(w) {
            if packet.to() == puppet.link.from && packet.has(ChunkType::HEARTBEAT) {
                puppet.answer_heartbeat(w, &packet);
            }
        }
    }
}

fn assert_delivers(w: &mut World, puppet: &mut Puppet, ssn: u16, id: AssociationId) {
    puppet.data(w, 0, ssn, b"hello");
    assert_eq!(w.receive_lengths(0, id), [5]);
}

/// RFC 5062, section 2.3
/// RFC 9260, section 5.2.2
/// RFC 9260, section 5.4
#[test]
fn the_owner_of_a_claimed_address_is_admitted() {
    for udp_port in [None, Some(9899)] {
        for listed in [&[][..], &[OWNER, OWNER_SECOND]] {
            for wait in [0, 600] {
                let mut w = dynamic_endpoint();
                let (mut attacker, camping) = camp(&mut w, udp_port);
                keep_alive(&mut w, &attacker, secs(wait));
                let (mut owner, id, events) = connect(&mut w, puppet_at(OWNER, udp_port), listed);
                let what = format!("{udp_port:?} {listed:?} after {wait} s: {events:?}");
                assert!(
                    matches!(events[0], Event::Established { accepted: true, .. }),
                    "{what}"
                );
                assert!(!events.contains(&Event::Restarted), "{what}");
                assert_delivers(&mut w, &mut owner, 0, id);
                assert_delivers(&mut w, &mut attacker, 0, camping);
                // The owner's restart is the owner's, and a claim that comes later is refused.
                let restarted = Puppet {
                    tag: VerificationTag(0x7777),
                    ..puppet_at(OWNER, udp_port)
                };
                let answers = restarted.init(&mut w, |_| {});
                let cookie = Puppet::cookie(&answers[0]);
                let tag = answers[0].init().tag;
                restarted.send_with_tag(&mut w, tag, |p| p.cookie_echo(&cookie));
                assert!(w.events(0).contains(&Event::Restarted), "{what}");
                assert_eq!(w.ends[0].associations().count(), 2);
                let late = puppet_at("10.0.0.67", udp_port);
                let answers = late.init(&mut w, |p| p.ip_address(ip(OWNER)));
                assert!(answers[0].has(ChunkType::ABORT), "{what}");
                assert_delivers(&mut w, &mut attacker, 1, camping);
            }
        }
    }
}

/// More claims than the index of addresses lists.
///
/// RFC 5062, section 2.3
/// RFC 9260, section 5.4
#[test]
fn a_second_path_is_verified_beside_many_claims() {
    for udp_port in [None, Some(9899)] {
        let mut w = World::new();
        let (mut owner, id) = left_out(&mut w, udp_port);
        let second = ip(OWNER_SECOND);
        owner.link.from = second;
        let answers = owner.send(&mut w, |p| p.heartbeat(b"from the second address"));
        assert_eq!(answers[0].kinds(), [ChunkType::HEARTBEAT_ACK]);
        for _ in 0..20 {
            w.run(secs(1));
            for packet in owner.receive(&mut w) {
                if packet.has(ChunkType::HEARTBEAT) && packet.tag() == owner.tag {
                    owner.link.from = packet.to();
                    owner.answer_heartbeat(&mut w, &packet);
                }
            }
        }
        let confirmed = |w: &World| {
            let mut paths = w.paths(0, id);
            paths.any(|path| path.remote == second && path.status.confirmed)
        };
        assert!(confirmed(&w), "{udp_port:?}");
        owner.link.from = second;
        assert_delivers(&mut w, &mut owner, 0, id);
    }
}

/// Sets up more associations that claim the owner's second address than the index of addresses lists.
fn claim_often(w: &mut World, udp_port: Option<u16>) {
    for host in 0..600_u32 {
        let mut attacker = puppet_at("10.9.0.0", udp_port);
        attacker.link.from = [10, 9, (host >> 8) as u8, host as u8].into();
        attacker.tag = VerificationTag(0x6000_0000 + host);
        connect(w, attacker, &[OWNER_SECOND]);
    }
}

/// An association of the owner that the index leaves out at its second address.
fn left_out(w: &mut World, udp_port: Option<u16>) -> (Puppet, AssociationId) {
    claim_often(w, udp_port);
    let (owner, id, _) = connect(w, puppet_at(OWNER, udp_port), &[OWNER, OWNER_SECOND]);
    (owner, id)
}

/// RFC 5061, section 5.2, rule D2
/// RFC 5062, section 2.3
#[test]
fn an_asconf_naming_a_claimed_address_matches() {
    let mut w = dynamic_endpoint();
    let (mut owner, id) = left_out(&mut w, None);
    owner.link.from = ip("10.2.0.5");
    let serial = AsconfSerial::new(owner.tsn.value());
    let added = owner.link.from;
    let answers = owner.send(&mut w, |p| {
        p.asconf(serial, ip(OWNER_SECOND), |r| {
            r.add_ip_address(CorrelationId(1), added)
        });
    });
    assert_eq!(answers[0].kinds(), [ChunkType::ASCONF_ACK]);
    assert_eq!(w.paths(0, id).count(), 3);
}

/// RFC 9260, section 10, rules ICMP5 and ICMP7
/// RFC 5062, section 2.3
#[test]
fn icmp_for_a_claimed_address_finds_its_sender() {
    for udp_port in [None, Some(9899)] {
        let mut w = World::new();
        let (owner, id) = left_out(&mut w, udp_port);
        let mut quoted = vec![0; 12];
        quoted[..2].copy_from_slice(&port(0).to_be_bytes());
        quoted[2..4].copy_from_slice(&owner.port.to_be_bytes());
        quoted[4..8].copy_from_slice(&owner.tag.0.to_be_bytes());
        let mut icmp = IcmpInput {
            kind: IcmpKind::PacketTooBig { mtu: 1000 },
            remote: ip(OWNER_SECOND),
            encapsulation: udp_port,
            quoted: &quoted,
        };
        w.ends[0].handle_icmp(w.now, &icmp);
        assert_eq!(w.path(0, id, 1).mtu, 1000, "{udp_port:?}");
        assert_eq!(w.ends[0].stats().icmp_ignored, 0);
        icmp.encapsulation = Some(1);
        w.ends[0].handle_icmp(w.now, &icmp);
        assert_eq!(w.ends[0].stats().icmp_ignored, 1);
    }
}

/// The parameters of the association count, not those of associations that claim its address.
///
/// RFC 9653, section 5.3
#[test]
fn a_zero_checksum_is_accepted_at_a_claimed_address() {
    let mut w = World::new();
    claim_often(&mut w, None);
    let protected = AssociationConfig::rfc9260().with(|c| {
        c.security.lower_layer = LowerLayer::Dtls;
        c.extensions.zero_checksum = true;
    });
    w.ends[0].set_default_config(protected).unwrap();
    let (mut owner, id, _) = connect(&mut w, puppet_at(OWNER, None), &[OWNER, OWNER_SECOND]);
    owner.link.from = ip(OWNER_SECOND);
    let mut buf = Vec::new();
    let mut packet = PacketBuilder::new(&mut buf, owner.header(owner.peer_tag), 1400);
    packet.data(&Puppet::data_header(owner.tsn, 0, 0), b"hello");
    packet.finish_with_zero_checksum();
    w.inject(0, &owner.route(), buf);
    assert_eq!(w.ends[0].stats().bad_checksum, 0);
    assert_eq!(w.receive_lengths(0, id), [5]);
}

/// RFC 5061, section 5.2
/// RFC 5062, section 2
#[test]
fn the_owner_of_an_asconf_added_address_is_admitted() {
    let mut w = dynamic_endpoint();
    let (mut attacker, camping, _) = connect(&mut w, puppet_at(ATTACKER, None), &[]);
    let serial = AsconfSerial::new(attacker.tsn.value());
    let from = attacker.link.from;
    attacker.send(&mut w, |p| {
        p.asconf(serial, from, |r| {
            r.add_ip_address(CorrelationId(1), ip(OWNER))
        });
    });
    assert_eq!(w.paths(0, camping).count(), 2);
    let (mut owner, id, _) = connect(&mut w, puppet_at(OWNER, None), &[]);
    assert_delivers(&mut w, &mut owner, 0, id);
    assert_delivers(&mut w, &mut attacker, 0, camping);
    // A claim by ASCONF on an address that is confirmed in another association changes nothing
    // either.
    let (other, _, _) = connect(&mut w, puppet_at("10.0.0.67", None), &[]);
    let from = other.link.from;
    let serial = AsconfSerial::new(other.tsn.value());
    other.send(&mut w, |p| {
        p.asconf(serial, from, |r| {
            r.add_ip_address(CorrelationId(1), ip(OWNER))
        });
    });
    assert_delivers(&mut w, &mut owner, 1, id);
}

/// A host that lost its association gets an ABORT although another peer claims its address.
///
/// RFC 9260, section 8.4, rule 8
#[test]
fn packets_of_the_owner_are_out_of_the_blue() {
    for wait in [0, 600] {
        let mut w = dynamic_endpoint();
        let (mut attacker, camping) = camp(&mut w, None);
        keep_alive(&mut w, &attacker, secs(wait));
        let owner = puppet_at(OWNER, None);
        let stale = VerificationTag(0x5555);
        let header = Puppet::data_header(owner.tsn, 0, 0);
        let answers = owner.send_with_tag(&mut w, stale, |p| p.data(&header, b"lost"));
        assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
        assert_eq!(
            (answers[0].tag(), answers[0].flags(ChunkType::ABORT)),
            (stale, 1)
        );
        assert_delivers(&mut w, &mut attacker, 0, camping);
    }
}

/// Worlds 3049 and 5785: a peer that moved lists an address in its ASCONF that could not be
/// verified.
///
/// RFC 5061, section 5.2, rule D2
#[test]
fn an_asconf_naming_an_unverifiable_address_matches() {
    let mut w = dynamic_endpoint();
    let (mut mover, id) = camp(&mut w, None);
    keep_alive(&mut w, &mover, secs(600));
    assert!(
        !w.path(0, id, 1).status.active,
        "the address could not be verified"
    );
    mover.link.from = ip("10.0.0.68");
    let serial = AsconfSerial::new(mover.tsn.value());
    let added = mover.link.from;
    let answers = mover.send(&mut w, |p| {
        p.asconf(serial, ip(OWNER), |r| {
            r.add_ip_address(CorrelationId(1), added)
        });
    });
    assert!(
        answers[0].has(ChunkType::ASCONF_ACK),
        "{:?}",
        answers[0].kinds()
    );
    assert_eq!(w.paths(0, id).count(), 3);
    assert_delivers(&mut w, &mut mover, 0, id);
}

/// A claim between INIT ACK and COOKIE ECHO.
///
/// RFC 9260, section 5.2.4
#[test]
fn a_cookie_is_accepted_from_an_address_claimed_since() {
    let mut w = dynamic_endpoint();
    let mut owner = puppet_at(OWNER, None);
    let answers = owner.init(&mut w, |_| {});
    owner.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    camp(&mut w, None);
    let answers = owner.send(&mut w, |p| p.cookie_echo(&cookie));
    assert!(answers[0].has(ChunkType::COOKIE_ACK));
    assert!(matches!(w.events(0)[0], Event::Established { .. }));
}

/// RFC 9260, section 11.1.2
#[test]
fn a_claimed_address_can_be_connected_to() {
    for udp_port in [None, Some(9899)] {
        let mut w = dynamic_endpoint();
        let (mut attacker, camping) = camp(&mut w, udp_port);
        let to = PeerAddress {
            address: ip(OWNER),
            encapsulation: udp_port,
        };
        let config = w.config.clone();
        let id = w.ends[0].associate(w.now, &[to], 7000, config);
        let id = id.expect("the claim of another peer does not count");
        let mut owner = puppet_at(OWNER, udp_port);
        let sent = owner.receive(&mut w);
        let init = sent.iter().find(|p| p.has(ChunkType::INIT)).expect("INIT");
        owner.record_init(init);
        owner.answer_init(&mut w, |p| p.state_cookie(b"cookie"));
        owner.send(&mut w, |p| p.cookie_ack());
        assert!(matches!(w.events(0)[..], [Event::Established { .. }, ..]));
        assert_delivers(&mut w, &mut owner, 0, id);
        assert_delivers(&mut w, &mut attacker, 0, camping);
    }
}

/// RFC 9260, section 5.1.2, rule D
#[test]
fn an_init_ack_from_a_claimed_address_is_accepted() {
    let mut w = dynamic_endpoint();
    camp(&mut w, None);
    let mut server = puppet_at("10.0.0.7", None);
    server.begin_accept(&mut w);
    server.link.from = ip(OWNER);
    server.answer_init(&mut w, |p| {
        p.state_cookie(b"cookie");
        p.ip_address(ip("10.0.0.7"));
        p.ip_address(ip(OWNER));
    });
    server.send(&mut w, |p| p.cookie_ack());
    let events = w.events(0);
    assert!(matches!(events[0], Event::Established { .. }), "{events:?}");
}

/// RFC 9260, section 10, rule ICMP6
/// RFC 9260, section 8.5.1, rule B
#[test]
fn icmp_and_reflected_aborts_reach_the_owner() {
    let mut w = dynamic_endpoint();
    // Tags in either order.
    let (_, low, _) = connect(
        &mut w,
        Puppet {
            tag: VerificationTag(1),
            ..puppet_at(ATTACKER, None)
        },
        &[OWNER],
    );
    let mut claims = vec![low];
    for host in 70..90 {
        let puppet = puppet_at(&format!("10.0.0.{host}"), None);
        claims.push(connect(&mut w, puppet, &[OWNER]).1);
    }
    let owner = Puppet {
        tag: VerificationTag(0x5555),
        ..puppet_at(OWNER, None)
    };
    let (owner, id, _) = connect(&mut w, owner, &[]);
    let mut quoted = vec![0; 12];
    quoted[..2].copy_from_slice(&port(0).to_be_bytes());
    quoted[2..4].copy_from_slice(&owner.port.to_be_bytes());
    quoted[4..8].copy_from_slice(&owner.tag.0.to_be_bytes());
    let icmp = IcmpInput {
        kind: IcmpKind::PacketTooBig { mtu: 1000 },
        remote: owner.link.from,
        encapsulation: None,
        quoted: &quoted,
    };
    w.ends[0].handle_icmp(w.now, &icmp);
    assert_eq!(w.path(0, id, 0).mtu, 1000);
    assert_eq!(w.ends[0].stats().icmp_ignored, 0);
    owner.send_with_tag(&mut w, owner.tag, |p| p.abort(true, |_| {}));
    assert!(w.ends[0].association(id).is_none());
    assert!(claims.iter().all(|id| w.paths(0, *id).count() == 2));
}

/// A listed address that is confirmed identifies the peer.
///
/// RFC 9260, section 5.1.2, rule D
/// RFC 9260, section 5.2.2
#[test]
fn a_restart_from_an_unconfirmed_address_is_found() {
    let mut w = dynamic_endpoint();
    let (owner, id, _) = connect(&mut w, puppet_at(OWNER, None), &[OWNER, OWNER_SECOND]);
    let mut second = owner;
    second.tag = VerificationTag(0x7777);
    second.link.from = ip(OWNER_SECOND);
    let answers = second.init(&mut w, |p| {
        p.ip_address(ip(OWNER));
        p.ip_address(ip(OWNER_SECOND));
    });
    let cookie = Puppet::cookie(&answers[0]);
    let tag = answers[0].init().tag;
    second.send_with_tag(&mut w, tag, |p| p.cookie_echo(&cookie));
    assert!(w.events(0).contains(&Event::Restarted));
    assert_eq!(w.association(0), id);
}

/// The address was listed, and did not answer Path.Max.Retrans probes.
///
/// RFC 9260, section 5.4
#[test]
fn an_address_confirmed_late_is_in_use() {
    for camped in [false, true] {
        let mut w = World::new();
        let [_, second] = addresses(0);
        w.block(second);
        w.block(addresses(1)[1]);
        let a = w.begin_connect(&addresses(1));
        w.run(secs(1));
        let b = w.association(1);
        if camped {
            let mut attacker = puppet_at(ATTACKER, None);
            attacker.link.end = 1;
            attacker.link.to = addresses(1)[0];
            attacker.port = port(0);
            attacker.connect_with(&mut w, |p| p.ip_address(second));
        }
        w.run(secs(600));
        assert!(!w.path(1, b, 1).status.confirmed);
        assert!(!w.path(1, b, 1).status.active);
        w.unblock(second);
        w.unblock(addresses(1)[1]);
        w.run(secs(300));
        assert!(w.path(1, b, 1).status.confirmed, "camped: {camped}");
        assert!(w.path(0, a, 1).status.confirmed, "camped: {camped}");
        assert!(w.path(1, b, 1).status.active);
        w.send(0, a, 0, pattern(5000));
        w.run(secs(1));
        assert_eq!(w.receive_lengths(1, b), [5000]);
    }
}

/// An ASCONF from an address that another peer claims.
///
/// RFC 5061, section 5.2
#[test]
fn an_asconf_from_a_claimed_address_is_accepted() {
    let mut w = dynamic_endpoint();
    camp(&mut w, None);
    let (mover, id, _) = connect(&mut w, puppet_at("10.0.0.7", None), &[]);
    let known = mover.link.from;
    let mut moved = mover;
    moved.link.from = ip(OWNER);
    let serial = AsconfSerial::new(moved.tsn.value());
    moved.send(&mut w, |p| {
        p.asconf(serial, known, |r| {
            r.add_ip_address(CorrelationId(1), ip(OWNER))
        });
    });
    let remotes: Vec<_> = w.paths(0, id).map(|p| p.remote).collect();
    assert_eq!(remotes, [known, ip(OWNER)]);
}
