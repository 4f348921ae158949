//! Published weaknesses of SCTP and of its implementations; docs/security.md lists them with the
//! tests in other files.

use carrick_proto::{AuthenticationEvent, EndpointConfig, Event, Extensions};
use carrick_wire::{ChunkType, HmacId, ParameterType, VerificationTag};

use crate::common::*;

/// RFC 5062, section 3.3
/// RFC 9260, section 5.2.2
#[test]
fn a_cookie_shows_no_tag_of_the_association() {
    let mut w = World::single_homed();
    let (peer, _) = Puppet::new().connect(&mut w);
    let restarted = Puppet {
        tag: VerificationTag(0x0bad_cafe),
        ..peer.clone()
    };
    let answers = restarted.init(&mut w, |_| {});
    let cookie = Puppet::cookie(&answers[0]);
    for tag in [peer.peer_tag, peer.tag] {
        let bytes = tag.0.to_be_bytes();
        let shown = cookie.windows(4).any(|w| w == bytes);
        assert!(!shown, "the cookie holds {tag:?}");
    }
}

/// INIT requests a cookie life of 49 days.
///
/// RFC 5062, section 6.3
#[test]
fn a_requested_cookie_life_is_bounded() {
    let mut w = World::single_homed();
    let peer = Puppet::new();
    let answers = peer.init(&mut w, |p| p.cookie_preservative(u32::MAX));
    let cookie = Puppet::cookie(&answers[0]);
    let mut peer = peer;
    peer.record_init(&answers[0]);
    w.run(secs(121));
    let answers = peer.send(&mut w, |p| p.cookie_echo(&cookie));
    assert_eq!(answers[0].kinds(), [ChunkType::ERROR]);
    assert_eq!(w.ends[0].stats().stale_cookies, 1);
    assert_eq!(w.ends[0].associations().count(), 0);
}

/// A stored cookie is sent again each time the victim's ABORT has ended the association. Each time
/// at most HB.Max.Burst HEARTBEATs go to the victim.
///
/// RFC 5062, section 6
#[test]
fn a_replayed_cookie_sends_one_heartbeat() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |p| {
        for host in 1..=15 {
            p.ip_address(ip(&format!("10.9.9.{host}")));
        }
    });
    peer.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    for round in 0..5 {
        let answers = peer.send(&mut w, |p| p.cookie_echo(&cookie));
        let heartbeats = answers.iter().filter(|p| p.has(ChunkType::HEARTBEAT));
        assert!(heartbeats.count() <= 1, "round {round}");
        peer.send(&mut w, |p| p.abort(false, |_| {}));
        assert_eq!(w.ends[0].associations().count(), 0);
    }
}

/// CVE-2026-7164 (pf): parameters within parameters until the stack is used up.
#[test]
fn nested_parameters_do_not_recurse() {
    let nested = |kind: ParameterType, levels: usize, header: usize| {
        let mut value = Vec::new();
        for level in (1..=levels).rev() {
            let mut outer = kind.0.to_be_bytes().to_vec();
            let length = header * (levels - level + 1);
            outer.extend((length as u16).to_be_bytes());
            outer.resize(header, 0);
            outer.append(&mut value);
            value = outer;
        }
        value
    };
    let mut w = World::with(1, |_, config| {
        config.association.extensions = Extensions {
            dynamic_addresses: true,
            reconfiguration: true,
            ..Extensions::NONE
        };
        config
            .association
            .security
            .dynamic_addresses_without_authentication = true;
    });
    let (peer, id) = Puppet::new().connect_with(&mut w, |p| {
        p.supported_extensions(&[ChunkType::ASCONF, ChunkType::RE_CONFIG]);
    });
    let serial = peer.tsn.value().to_be_bytes();
    for kind in [0xc001, 0xc002, 0xc004, 0x8008, 0x000d, 5, 8] {
        let parameters = nested(ParameterType(kind), 8000, 8);
        let asconf = [&serial[..], &[0, 5, 0, 8, 10, 0, 0, 99], &parameters].concat();
        for (chunk, value) in [
            (ChunkType::ASCONF, &asconf),
            (ChunkType::RE_CONFIG, &parameters),
            (ChunkType::ERROR, &parameters),
        ] {
            peer.send(&mut w, |p| p.raw(chunk, 0, value));
        }
        let fields = [
            &[0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1],
            &parameters[..],
        ]
        .concat();
        peer.send_with_tag(&mut w, VerificationTag::ZERO, |p| {
            p.raw(ChunkType::INIT, 0, &fields);
        });
    }
    assert!(w.ends[0].association(id).is_some());
}

/// CVE-2014-0101 (Linux): AUTH in front of COOKIE ECHO from a peer whose INIT offered none.
/// CVE-2013-2206 (Linux): the same COOKIE ECHO again, then with other tags.
#[test]
fn auth_in_front_of_a_cookie_needs_keys() {
    let mut w = World::with(1, |_, config| {
        config.association.extensions.authentication = true;
        config.association.security.authentication.required = vec![ChunkType::COOKIE_ECHO];
    });
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |_| {});
    peer.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    let mac = [&[0, 0, 0, 1][..], &[7; 20]].concat();
    for tag in [peer.peer_tag, peer.peer_tag, VerificationTag(77)] {
        peer.send_with_tag(&mut w, tag, |p| {
            p.raw(ChunkType::AUTH, 0, &mac);
            p.cookie_echo(&cookie);
        });
        assert_eq!(w.ends[0].associations().count(), 0, "{tag:?}");
    }
    peer.send(&mut w, |p| p.cookie_echo(&cookie));
    peer.send(&mut w, |p| p.cookie_echo(&cookie));
    assert!(w.ends[0].associations().count() <= 1);
}

/// CVE-2026-23125 (Linux): INIT ACK lists chunks to be authenticated, but no key can be made.
#[test]
fn an_incomplete_authentication_offer_makes_no_key() {
    for (random, hmacs) in [(0, &[HmacId::SHA_1][..]), (32, &[]), (32, &[HmacId(99)])] {
        let mut w = World::single_homed();
        w.config.extensions.authentication = true;
        let mut peer = Puppet::new();
        let id = peer.begin_accept(&mut w);
        w.send(0, id, 0, &b"early"[..]);
        let answers = peer.answer_init(&mut w, |p| {
            p.state_cookie(b"cookie");
            p.random(&vec![5; random]);
            p.chunks(&[ChunkType::DATA, ChunkType::COOKIE_ECHO]);
            p.hmac_algo(hmacs);
        });
        assert!(answers.iter().all(|p| !p.has(ChunkType::AUTH)));
        // A RANDOM of a wrong length ends the set-up (RFC 4895, section 6.1); otherwise the peer
        // counts as one that does not authenticate, and the user is notified.
        let ended = answers[0].has(ChunkType::ABORT);
        assert_eq!(ended, random != 32, "{random} {hmacs:?}");
        peer.send(&mut w, |p| p.cookie_ack());
        let events = w.events(0);
        let unauthenticated = Event::Authentication(AuthenticationEvent::NotSupported);
        assert_eq!(events.contains(&unauthenticated), !ended, "{events:?}");
    }
}

/// CVE-2026-52917 (Linux): statistics of an association that has just ended.
#[test]
fn an_association_that_ended_has_no_statistics() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().connect(&mut w);
    peer.send(&mut w, |p| p.abort(false, |_| {}));
    assert!(matches!(w.events(0)[..], [Event::Closed(_)]));
    let end = &w.ends[0];
    assert!(end.association(id).is_none());
}

/// CVE-2020-6514 (usrsctp): a cookie that shows an address of memory.
#[test]
fn packets_of_equal_endpoints_are_equal() {
    let cookie = || {
        let mut w = World::with(1, |_, config: &mut EndpointConfig| {
            config.local_addresses.truncate(1);
        });
        // Memory is elsewhere each time.
        let _elsewhere: Vec<Vec<u8>> = (0..100).map(|n| vec![1; n * 37]).collect();
        Puppet::new().init(&mut w, |_| {})[0].bytes.clone()
    };
    assert_eq!(cookie(), cookie());
}
