//! An INIT ACK that comes from another address than the INIT went to (RFC 9260 section 5.1.2).

use std::net::IpAddr;

use carrick_proto::VerificationTag;
use carrick_wire::ChunkType;

use crate::common::*;

/// Destination of the INIT, and the address that answers.
const ASKED: &str = "10.0.0.99";
const OTHER: &str = "10.1.0.99";

/// A puppet that was sent an INIT at its first address, and answers from its second.
fn asked(w: &mut World) -> Puppet {
    let mut peer = Puppet::new();
    peer.begin_accept(w);
    peer.link.from = ip(OTHER);
    peer.link.to = addresses(0)[1];
    peer
}

fn kinds(seen: &[SentPacket]) -> Vec<ChunkType> {
    seen.iter().flat_map(SentPacket::kinds).collect()
}

fn is_waiting(w: &World) -> bool {
    w.states()[0] == Some("CookieWait")
}

/// RFC 9260, section 5.1.2, rule C
/// RFC 9260, section 5.1.2, rule D
#[test]
fn a_listed_address_identifies_the_association() {
    for listed in [&[ASKED][..], &[ASKED, OTHER], &[OTHER, "10.2.0.99", ASKED]] {
        let mut w = World::new();
        let mut peer = asked(&mut w);
        let answers = peer.answer_init(&mut w, |p| {
            p.state_cookie(b"cookie");
            for address in listed {
                p.ip_address(ip(address));
            }
        });
        assert_eq!(kinds(&answers), [ChunkType::COOKIE_ECHO]);
        assert_eq!(answers[0].to(), ip(ASKED), "the address that is confirmed");
        let from_asked = Puppet {
            link: Puppet::new().link,
            ..peer.clone()
        };
        from_asked.send(&mut w, |p| p.cookie_ack());
        let id = w.association(0);
        let mut remotes: Vec<IpAddr> = w.paths(0, id).map(|p| p.remote).collect();
        remotes.sort_unstable();
        let mut all: Vec<IpAddr> = listed.iter().map(|a| ip(a)).collect();
        all.push(ip(OTHER));
        all.sort_unstable();
        all.dedup();
        assert_eq!(remotes, all);
        let known = w.paths(0, id).find(|p| p.remote == ip(OTHER));
        assert!(!known.expect("a path").status.confirmed, "section 5.4");
        // Data from either address.
        assert!(!peer.data(&mut w, 0, 0, b"from the source").is_empty());
        assert_eq!(w.receive_lengths(0, id), [15]);
    }
}

/// The user gave both addresses, so the one that answers is confirmed.
///
/// RFC 9260, section 5.4
#[test]
fn a_configured_address_gets_the_cookie_echo() {
    let mut w = World::new();
    let mut peer = Puppet::new();
    w.begin_connect_from(0, &[ip(ASKED), ip(OTHER)], peer.port);
    let init = peer.receive(&mut w).remove(0);
    assert_eq!(init.to(), ip(ASKED));
    peer.record_init(&init);
    peer.link.from = ip(OTHER);
    peer.link.to = addresses(0)[1];
    let answers = peer.answer_init(&mut w, |p| p.state_cookie(b"cookie"));
    assert_eq!(kinds(&answers), [ChunkType::COOKIE_ECHO]);
    assert_eq!(answers[0].to(), ip(OTHER));
}

/// RFC 9260, section 8.5
#[test]
fn another_tag_is_not_accepted() {
    for tag in [0, 1, u32::MAX] {
        let mut w = World::new();
        let mut peer = asked(&mut w);
        let (right, before) = (peer.peer_tag, w.ends[0].stats());
        peer.peer_tag = VerificationTag(right.0.wrapping_add(tag) * u32::from(tag > 0));
        let answer = |p: &Puppet, w: &mut World| {
            p.answer_init(w, |p| {
                p.state_cookie(b"cookie");
                p.ip_address(ip(ASKED));
            })
        };
        let answers = answer(&peer, &mut w);
        assert!(!kinds(&answers).contains(&ChunkType::COOKIE_ECHO));
        assert!(is_waiting(&w));
        assert_eq!(w.ends[0].stats().wrong_tag, before.wrong_tag + 1);
        // The genuine one still arrives.
        peer.peer_tag = right;
        assert_eq!(kinds(&answer(&peer, &mut w)), [ChunkType::COOKIE_ECHO]);
    }
}

/// Neither the source nor an address in it is the association's.
///
/// RFC 9260, section 5.1.2, rule D
/// RFC 9260, section 8.4, rule 8
#[test]
fn an_init_ack_without_a_known_address_is_discarded() {
    for listed in [&[][..], &[OTHER], &[OTHER, "10.0.0.98"]] {
        let mut w = World::new();
        let peer = asked(&mut w);
        let answers = peer.answer_init(&mut w, |p| {
            p.state_cookie(b"cookie");
            for address in listed {
                p.ip_address(ip(address));
            }
        });
        assert_eq!(kinds(&answers), [ChunkType::ABORT]);
        assert!(is_waiting(&w), "nothing is known of that address");
    }
}

/// Another port is another peer.
///
/// RFC 9260, section 5.1.2, rule D
#[test]
fn an_init_ack_from_another_port_is_not_accepted() {
    let mut w = World::new();
    let mut peer = asked(&mut w);
    peer.port += 1;
    let answers = peer.answer_init(&mut w, |p| {
        p.state_cookie(b"cookie");
        p.ip_address(ip(ASKED));
    });
    assert!(!kinds(&answers).contains(&ChunkType::COOKIE_ECHO));
    assert!(is_waiting(&w));
}

/// Requirements for accepted peers do not apply to associations that the endpoint initiates.
///
/// RFC 9260, section 5.1.2, rule D
#[test]
fn rules_for_accepted_peers_do_not_apply() {
    let mut w = World::with(1, |_, c| {
        c.association.extensions.authentication = true;
        c.association.extensions.dynamic_addresses = true;
    });
    w.config.extensions.dynamic_addresses = true;
    w.config.security.dynamic_addresses_without_authentication = true;
    let peer = asked(&mut w);
    let answers = peer.answer_init(&mut w, |p| {
        p.state_cookie(b"cookie");
        p.supported_extensions(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK]);
        p.ip_address(ip(ASKED));
    });
    assert_eq!(kinds(&answers), [ChunkType::COOKIE_ECHO]);
}
