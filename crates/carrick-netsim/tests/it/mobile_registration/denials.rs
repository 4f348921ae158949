//! Whatever can be wrong with a request or a reply.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use carrick_netsim::mobile::{
    INFINITE, Identification, PORT, RegistrationReply, RegistrationRequest, ReplyCode,
};
use carrick_netsim::{Packet, Place, Protocol, Step};

use crate::common::Recorder;
use crate::mobile_registration::support::*;
use crate::mobile_world::{AGENTS, CORRESPONDENT, HOME, HOME_AGENT, LOCAL, Plan, World};

#[test]
fn a_wrong_key_registers_nothing_and_its_denial_is_not_believed_3_8_2_1() {
    let mut world = World::new(&Plan {
        key: [8; 16],
        ..Plan::default()
    });
    world.run_secs(20);
    assert!(world.bound_to().is_empty());
    let denied = world.denied_at_home(ReplyCode::HA_AUTHENTICATION);
    let requests = world.mobile().stats().requests;
    assert_eq!(denied, requests);
    // Asked after 0, 1, 3, 7 and 15 s.
    assert_eq!(requests, 5, "less and less often");
    assert_eq!(world.mobile().stats().discarded, denied);
    assert!(world.agent(0).visitors().is_empty());
}

#[test]
fn a_foreign_agent_denies_what_it_cannot_do_3_7_2() {
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
        let mut world = World::new(&Plan {
            foreign_agent: Box::new(|config| config.reverse_tunnels = false),
            mobile: Box::new(|config| config.reverse_tunnel = false),
            ..Plan::default()
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

#[test]
fn a_home_agent_denies_what_it_cannot_do_3_8_2_3() {
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
        let mut world = World::new(&Plan {
            home_agent: Box::new(|config| config.reverse_tunnels = false),
            mobile: Box::new(|config| config.reverse_tunnel = false),
            ..Plan::default()
        });
        world.run_secs(1);
        let mut bad = request(&world, LOCAL[1]);
        spoil(&mut bad);
        inject(&mut world, &bad, &association(), HOME_AGENT);
        assert_eq!(world.denied_at_home(code), 1, "{code:?}");
        assert_eq!(world.bound_to(), [AGENTS[0]], "{code:?}");
    }
}

#[test]
fn a_replayed_request_changes_nothing_5_7_1() {
    let mut world = World::usual();
    let seen: Rc<RefCell<Vec<Packet>>> = Rc::default();
    let notes = Rc::clone(&seen);
    let home_link = world.home_link;
    world.net.set_tracer(move |event| {
        let on_link = matches!(event.place, Place::Link(link, _) if link == home_link);
        let to_agent = event.packet.destination == IpAddr::V4(HOME_AGENT);
        if on_link && to_agent && event.step == Step::Sent {
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

#[test]
fn requests_that_nobody_vouches_for_are_dropped_in_silence_3_8_2_1() {
    let mut world = World::usual();
    world.run_secs(1);
    let good = request(&world, LOCAL[1]);
    let bytes = good.to_bytes(&association());
    let answers = world.home_agent().stats().accepted;
    // Without the extension, cut in the middle of it, of a stranger, with an unknown extension.
    let mut stranger = good;
    stranger.home_address = [10, 0, 0, 99].into();
    let mut unknown = bytes.to_vec();
    unknown.extend_from_slice(&[5, 1, 0]);
    let bad = [
        bytes.slice(..24),
        bytes.slice(..40),
        stranger.to_bytes(&association()),
        unknown.into(),
    ];
    for payload in bad {
        inject_bytes(&mut world, payload, HOME_AGENT);
    }
    let stats = world.home_agent().stats();
    assert_eq!((stats.discarded, stats.accepted), (4, answers));
    assert!(stats.denied.is_empty());
    // Through the foreign agent, one without the extension is denied there.
    let bytes = request(&world, AGENTS[0]).to_bytes(&association());
    inject_bytes(&mut world, bytes.slice(..24), AGENTS[0]);
    assert_eq!(world.denied_abroad(ReplyCode::FA_POOR_REQUEST), 1);
}

#[test]
fn replies_to_nothing_are_not_believed_3_6_2_1() {
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

#[test]
fn denials_are_limited_to_one_a_second_3_7_2() {
    let mut world = World::usual();
    world.run_secs(1);
    let mut bad = request(&world, AGENTS[1]);
    bad.home_address = HOME;
    for _ in 0..20 {
        inject(&mut world, &bad, &association(), AGENTS[0]);
    }
    assert_eq!(world.denied_abroad(ReplyCode::FA_CARE_OF), 20);
    // 4 s of requests, one each 200 ms.
    assert_eq!(
        world.mobile().program().received.len(),
        4,
        "denials that came"
    );
}
