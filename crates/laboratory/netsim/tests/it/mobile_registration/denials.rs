//! Invalid requests and replies.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use carrick_netsim::mobile::{
    INFINITE, Identification, PORT, RegistrationReply, RegistrationRequest, ReplyCode,
};
use carrick_netsim::{Packet, Protocol, TracePlace, TraceStep};

use crate::common::Recorder;
use crate::mobile_registration::support::*;
use crate::mobile_world::{AGENTS, CORRESPONDENT, HOME, HOME_AGENT, LOCAL, World, WorldConfig};

/// RFC 5944, section 3.8.2.1
#[test]
fn a_wrong_key_is_denied_without_registration() {
    let mut world = World::new(&WorldConfig {
        key: [8; 16],
        ..WorldConfig::default()
    });
    world.run_secs(20);
    assert!(world.bound_to().is_empty());
    let denied = world.denied_at_home(ReplyCode::HA_AUTHENTICATION);
    let requests = world.mobile().stats().requests;
    assert_eq!(denied, requests);
    // Requests at 0, 1, 3, 7 and 15 s.
    assert_eq!(requests, 5, "exponential back-off");
    assert_eq!(world.mobile().stats().discarded, denied);
    assert!(world.agent(0).visitors().is_empty());
}

/// RFC 5944, section 3.7.2
#[test]
fn a_foreign_agent_denies_unsupported_requests() {
    type Spoil = fn(&mut RegistrationRequest);
    let cases: [(ReplyCode, Spoil); 6] = [
        (ReplyCode::FA_POOR_REQUEST, |r| r.flags.reserved = true),
        (ReplyCode::FA_HOME_AGENT, |r| r.home_agent = AGENTS[0]),
        (ReplyCode::FA_CARE_OF, |r| r.care_of = AGENTS[1]),
        (ReplyCode::FA_ENCAPSULATION, |r| r.flags.gre = true),
        (ReplyCode::FA_REVERSE_TUNNEL, |r| {
            r.flags.reverse_tunnel = true
        }),
        (ReplyCode::FA_LIFETIME, |r| r.lifetime = INFINITE),
    ];
    for (code, spoil) in cases {
        let mut world = World::new(&WorldConfig {
            foreign_agent: Box::new(|config| config.reverse_tunnels = false),
            mobile: Box::new(|config| config.reverse_tunnel = false),
            ..WorldConfig::default()
        });
        world.run_secs(1);
        let mut bad = request(&world, AGENTS[0]);
        spoil(&mut bad);
        inject(&mut world, &bad, &association(), AGENTS[0]);
        assert_eq!(world.denied_abroad(code), 1, "{code:?}");
        assert_eq!(world.bound_to(), [AGENTS[0]], "the registration stays");
        assert_eq!(world.agent(0).visitors().len(), 1);
    }
}

/// RFC 5944, section 3.8.2.3
#[test]
fn a_home_agent_denies_unsupported_requests() {
    type Spoil = fn(&mut RegistrationRequest);
    let cases: [(ReplyCode, Spoil); 7] = [
        (ReplyCode::HA_POOR_REQUEST, |r| r.flags.reserved = true),
        (ReplyCode::HA_POOR_REQUEST, |r| r.care_of = HOME),
        (ReplyCode::HA_POOR_REQUEST, |r| r.care_of = [255; 4].into()),
        (ReplyCode::HA_POOR_REQUEST, |r| r.care_of = HOME_AGENT),
        (ReplyCode::HA_UNKNOWN_ADDRESS, |r| {
            r.home_agent = CORRESPONDENT
        }),
        (ReplyCode::HA_ENCAPSULATION, |r| r.flags.minimal = true),
        (ReplyCode::HA_REVERSE_TUNNEL, |r| {
            r.flags.reverse_tunnel = true
        }),
    ];
    for (code, spoil) in cases {
        let mut world = World::new(&WorldConfig {
            home_agent: Box::new(|config| config.reverse_tunnels = false),
            mobile: Box::new(|config| config.reverse_tunnel = false),
            ..WorldConfig::default()
        });
        world.run_secs(1);
        let mut bad = request(&world, LOCAL[1]);
        spoil(&mut bad);
        inject(&mut world, &bad, &association(), HOME_AGENT);
        assert_eq!(world.denied_at_home(code), 1, "{code:?}");
        assert_eq!(world.bound_to(), [AGENTS[0]], "{code:?}");
    }
}

/// RFC 5944, section 5.7.1
#[test]
fn a_replayed_request_has_no_effect() {
    let mut world = World::usual();
    let seen: Rc<RefCell<Vec<Packet>>> = Rc::default();
    let notes = Rc::clone(&seen);
    let home_link = world.home_link;
    world.net.set_tracer(move |event| {
        let on_link = matches!(event.place, TracePlace::Link(link, _) if link == home_link);
        let to_agent = event.packet.destination == IpAddr::V4(HOME_AGENT);
        if on_link && to_agent && event.step == TraceStep::Sent {
            notes.borrow_mut().push(event.packet.clone());
        }
    });
    world.run_secs(2);
    assert_eq!(world.bound_to(), [AGENTS[0]]);
    world.handover(1, 2, Duration::from_millis(100));
    world.run_secs(2);
    assert_eq!(world.bound_to(), [AGENTS[1]]);
    let first = seen.borrow()[0].clone();
    let Protocol::Udp { .. } = first.protocol else {
        panic!("the first packet is the request");
    };
    world
        .net
        .with_node(world.correspondent, |_: &mut Recorder, _, out| {
            out.send(first)
        });
    world.run_secs(1);
    assert_eq!(world.bound_to(), [AGENTS[1]]);
    assert_eq!(world.denied_at_home(ReplyCode::HA_IDENTIFICATION), 1);
}

/// RFC 5944, section 3.8.2.1
#[test]
fn unauthenticated_requests_get_no_reply() {
    let mut world = World::usual();
    world.run_secs(1);
    let good = request(&world, LOCAL[1]);
    let bytes = good.to_bytes(&association());
    let answers = world.home_agent().stats().accepted;
    // Without the extension, truncated within it, of an unknown mobile node, with an unknown
    // extension.
    let mut unknown_node = good;
    unknown_node.home_address = [10, 0, 0, 99].into();
    let mut unknown = bytes.to_vec();
    unknown.extend_from_slice(&[5, 1, 0]);
    let bad = [
        bytes.slice(..24),
        bytes.slice(..40),
        unknown_node.to_bytes(&association()),
        unknown.into(),
    ];
    for payload in bad {
        inject_bytes(&mut world, payload, HOME_AGENT);
    }
    let stats = world.home_agent().stats();
    assert_eq!((stats.discarded, stats.accepted), (4, answers));
    assert!(stats.denied.is_empty());
    // The foreign agent denies a request without the extension.
    let bytes = request(&world, AGENTS[0]).to_bytes(&association());
    inject_bytes(&mut world, bytes.slice(..24), AGENTS[0]);
    assert_eq!(world.denied_abroad(ReplyCode::FA_POOR_REQUEST), 1);
}

/// RFC 5944, section 3.6.2.1
#[test]
fn replies_without_a_pending_request_are_discarded() {
    let mut world = World::usual();
    world.run_secs(1);
    let forged = RegistrationReply {
        code: ReplyCode::ACCEPTED,
        lifetime: 0,
        home_address: HOME,
        home_agent: HOME_AGENT,
        identification: Identification(0x1234),
    };
    let ports = Protocol::Udp {
        source_port: PORT,
        destination_port: PORT,
    };
    for (to, discarded) in [(AGENTS[0], 0), (HOME, 1)] {
        let payload = forged.to_bytes(Some(&association()));
        let packet = Packet::new(CORRESPONDENT.into(), to.into(), ports, payload);
        world
            .net
            .with_node(world.correspondent, |_: &mut Recorder, _, out| {
                out.send(packet)
            });
        world.run_secs(1);
        assert_eq!(world.mobile().stats().discarded, discarded);
    }
    assert_eq!(world.agent(0).stats().discarded, 1);
    assert_eq!(world.agent(0).visitors().len(), 1);
    assert_eq!(world.mobile().registered(), Some(AGENTS[0]));
}

/// RFC 5944, section 3.7.2
#[test]
fn denials_are_limited_to_one_per_second() {
    let mut world = World::usual();
    world.run_secs(1);
    let mut bad = request(&world, AGENTS[1]);
    bad.home_address = HOME;
    for _ in 0..20 {
        inject(&mut world, &bad, &association(), AGENTS[0]);
    }
    assert_eq!(world.denied_abroad(ReplyCode::FA_CARE_OF), 20);
    // Requests for 4 s, one every 200 ms.
    assert_eq!(
        world.mobile().program().received.len(),
        4,
        "denials received"
    );
}
