//! Agent discovery and registration (RFC 5944 sections 2 and 3): finding an agent, staying registered,
//! coming home, and whatever can be wrong with a request.

mod common;
mod mobile_world;

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use carrick_netsim::mobile::{
    AgentAdvertisement, Attachment, CareOf, Discovery, ForeignAgent, HomeAgent, INFINITE,
    Identification, MobilityEvent, PORT, RegistrationReply, RegistrationRequest, ReplyCode,
    RequestFlags, SecurityAssociation, Signed,
};
use carrick_netsim::{Change, Packet, Place, Protocol, Random, Step, Time};
use common::Recorder;
use mobile_world::{AGENTS, AT_HOME, CORRESPONDENT, HOME, HOME_AGENT, LOCAL, Plan, World};

fn is_registered(event: &MobilityEvent) -> bool {
    matches!(event, MobilityEvent::Registered { .. })
}

fn is_denied(event: &MobilityEvent) -> bool {
    matches!(event, MobilityEvent::Denied(_))
}

fn association() -> SecurityAssociation {
    SecurityAssociation::new(1000, &[7; 16]).expect("a good key")
}

#[test]
fn a_node_abroad_registers_through_the_agent_that_it_hears_3_1() {
    let mut world = World::usual();
    world.run_secs(1);
    let attachment = Attachment::Visiting {
        interface: world.interfaces[1],
        agent: AGENTS[0],
        care_of: AGENTS[0],
    };
    assert_eq!(world.mobile().attachment(), attachment);
    assert_eq!(world.mobile().registered(), Some(AGENTS[0]));
    assert_eq!(world.bound_to(), [AGENTS[0]]);
    let visitors = world.agent(0).visitors();
    assert_eq!(visitors.len(), 1);
    assert_eq!(
        (visitors[0].home_address, visitors[0].home_agent),
        (HOME, HOME_AGENT)
    );
    // Solicitation and answer, request and reply: two ways over the air, one to the home agent.
    let took = world.times(is_registered)[0];
    assert_eq!(took, Time::from_millis(4 * 2 + 4 * 10));
}

#[test]
fn nobody_asks_while_advertisements_come_2_4() {
    let mut world = World::usual();
    world.run_secs(60);
    assert_eq!(world.mobile().stats().solicitations, 1, "at the start");
    assert!(world.mobile().stats().advertisements > 50);
    assert_eq!(world.mobile().stats().requests, 1);
}

#[test]
fn a_search_without_answer_slows_down_2_4() {
    let mut world = World::usual();
    world.net.node_mut::<ForeignAgent>(world.agents[0]).stop();
    world.run_secs(400);
    let times = world.times(|event| *event == MobilityEvent::Solicited);
    let gaps: Vec<u64> = times.windows(2).map(|t| (t[1] - t[0]).as_secs()).collect();
    // The nominal intervals, each up to a tenth longer.
    for (gap, nominal) in gaps.iter().zip([1, 1, 2, 4, 8, 16, 32, 60, 60]) {
        assert!(
            (nominal..=nominal + nominal / 10 + 1).contains(gap),
            "{gaps:?}"
        );
    }
    assert!(times.len() <= 13, "{gaps:?}");
}

#[test]
fn a_registration_is_renewed_in_time_and_ends_in_time_3_6_2_2() {
    let mut world = World::new(&Plan {
        mobile: Box::new(|config| config.lifetime = 20),
        ..Plan::default()
    });
    world.run_secs(70);
    let times = world.times(is_registered);
    assert_eq!(times.len(), 5, "every 15 s");
    assert!(
        world
            .times(|event| *event == MobilityEvent::Expired)
            .is_empty()
    );
    assert_eq!(world.bound_to(), [AGENTS[0]]);
    // Whoever is gone is forgotten by both agents, without a message.
    let link = world.links[1];
    world.apply(Change::LinkDown(link));
    world.run_secs(25);
    assert!(world.bound_to().is_empty());
    assert!(world.agent(0).visitors().is_empty());
    assert_eq!(world.home_agent().stats().expired, 1);
    assert_eq!(world.mobile().registered(), None);
}

#[test]
fn an_agent_grants_less_than_wanted_and_never_more_3_8_2_2() {
    for (wanted, granted) in [(INFINITE, 600), (100, 100)] {
        let mut world = World::new(&Plan {
            mobile: Box::new(move |config| config.lifetime = wanted),
            foreign_agent: Box::new(|config| config.max_lifetime = INFINITE),
            ..Plan::default()
        });
        world.run_secs(1);
        let until = world.home_agent().bindings(HOME)[0].until;
        let seconds = until.saturating_duration_since(Time::ZERO).as_secs();
        assert!(
            (granted..=granted + 1).contains(&seconds),
            "{wanted}: {seconds}"
        );
    }
}

#[test]
fn endless_registrations_need_no_renewal_3_3() {
    let mut world = World::new(&Plan {
        mobile: Box::new(|config| config.lifetime = INFINITE),
        foreign_agent: Box::new(|config| config.max_lifetime = INFINITE),
        home_agent: Box::new(|config| config.max_lifetime = INFINITE),
        ..Plan::default()
    });
    world.run_secs(4000);
    assert_eq!(world.home_agent().bindings(HOME)[0].until, Time::MAX);
    assert_eq!(world.mobile().stats().requests, 1);
}

#[test]
fn at_home_nothing_is_registered_and_coming_home_ends_what_was_2_4_3() {
    let mut world = World::new(&Plan {
        at: Some(AT_HOME),
        ..Plan::default()
    });
    world.run_secs(5);
    assert_eq!(world.mobile().stats().requests, 0);
    assert_eq!(world.ping(100), 1, "without a tunnel");
    world.handover(AT_HOME, 1, Duration::from_millis(100));
    world.run_secs(2);
    assert_eq!(world.bound_to(), [AGENTS[0]]);
    assert_eq!(world.ping(100), 1, "through the tunnel");
    assert_eq!(world.home_agent().stats().tunneled, 1);
    world.handover(1, AT_HOME, Duration::from_millis(100));
    world.run_secs(2);
    assert!(world.bound_to().is_empty());
    let last = world
        .mobile()
        .events()
        .iter()
        .rev()
        .find(|(_, e)| is_registered(e));
    let ended = MobilityEvent::Registered {
        care_of: HOME,
        lifetime: 0,
    };
    assert_eq!(last.map(|(_, event)| *event), Some(ended));
    assert_eq!(world.ping(100), 1);
    assert_eq!(world.home_agent().stats().tunneled, 1, "no tunnel any more");
    assert_eq!(world.mobile().registered(), None);
}

#[test]
fn an_own_address_is_registered_with_the_home_agent_itself_3_6_1_1() {
    let mut world = World::new(&Plan {
        mobile: Box::new(|config| config.care_of = CareOf::CoLocated),
        ..Plan::default()
    });
    world.run_secs(2);
    assert_eq!(world.mobile().attachment(), Attachment::Nowhere);
    let (interface, address) = (world.interfaces[1], IpAddr::V4(LOCAL[0]));
    world.apply(Change::AddAddress { interface, address });
    world.run_secs(1);
    assert_eq!(world.bound_to(), [LOCAL[0]]);
    assert!(world.agent(0).visitors().is_empty());
    assert_eq!(world.agent(0).stats().relayed_requests, 0);
    world.apply(Change::RemoveAddress { interface, address });
    assert_eq!(world.mobile().attachment(), Attachment::Nowhere);
}

#[test]
fn an_agent_that_requires_registration_gets_it_2_4_1() {
    let mut world = World::new(&Plan {
        mobile: Box::new(|config| config.care_of = CareOf::CoLocated),
        foreign_agent: Box::new(|config| config.registration_required = true),
        ..Plan::default()
    });
    world.run_secs(2);
    let (interface, address) = (world.interfaces[1], IpAddr::V4(LOCAL[0]));
    world.apply(Change::AddAddress { interface, address });
    world.run_secs(1);
    assert_eq!(world.bound_to(), [AGENTS[0]]);
}

#[test]
fn a_foreign_agents_limit_is_taken_from_its_advertisement_or_its_denial_3_6_2_3() {
    let mut world = World::new(&Plan {
        mobile: Box::new(|config| config.lifetime = 500),
        foreign_agent: Box::new(|config| config.max_lifetime = 60),
        ..Plan::default()
    });
    world.run_secs(2);
    assert_eq!(world.denied_abroad(ReplyCode::FA_LIFETIME), 0);
    let until = world.home_agent().bindings(HOME)[0].until;
    assert!(until <= Time::from_secs(61));
    // One who does not look is told.
    let mut request = request(&world, AGENTS[0]);
    request.lifetime = 500;
    inject(&mut world, &request, &association(), AGENTS[0]);
    assert_eq!(world.denied_abroad(ReplyCode::FA_LIFETIME), 1);
}

#[test]
fn a_wrong_clock_is_set_by_the_home_agent_5_7_1() {
    for offset in [-3600, 100, 1_000_000] {
        let mut world = World::new(&Plan {
            mobile: Box::new(move |config| config.clock_offset = offset),
            ..Plan::default()
        });
        world.run_secs(3);
        assert_eq!(
            world.denied_at_home(ReplyCode::HA_IDENTIFICATION),
            1,
            "{offset}"
        );
        assert_eq!(world.times(is_denied).len(), 1);
        assert_eq!(world.bound_to(), [AGENTS[0]], "{offset}");
        let requests = world.times(|e| matches!(e, MobilityEvent::Requested { .. }));
        assert_eq!(requests.len(), 2);
        assert!(requests[1] - requests[0] >= Duration::from_secs(1), "3.6.3");
    }
}

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
fn a_lost_request_is_sent_again_with_a_new_identification_3_6_3() {
    let mut world = World::usual();
    let link = world.home_link;
    world.apply(Change::LinkDown(link));
    world.run(Duration::from_millis(3500));
    world.apply(Change::LinkUp(link));
    world.run_secs(5);
    assert_eq!(world.bound_to(), [AGENTS[0]]);
    let requests = world.times(|e| matches!(e, MobilityEvent::Requested { .. }));
    let gaps: Vec<u64> = requests
        .windows(2)
        .map(|t| (t[1] - t[0]).as_secs())
        .collect();
    assert_eq!(gaps, [1, 2, 4]);
    assert_eq!(world.denied_at_home(ReplyCode::HA_IDENTIFICATION), 0);
}

#[test]
fn a_silent_home_agent_is_reported_by_the_foreign_agent_3_4() {
    let mut world = World::usual();
    world.net.node_mut::<HomeAgent>(world.home_agent).stop();
    world.run_secs(60);
    let told = world.times(|e| *e == MobilityEvent::Denied(ReplyCode::FA_TIMEOUT));
    assert!(!told.is_empty());
    assert_eq!(world.mobile().registered(), None);
    world
        .net
        .with_node(world.home_agent, |agent: &mut HomeAgent, now, _| {
            agent.start(now)
        });
    world.run_secs(120);
    assert_eq!(world.bound_to(), [AGENTS[0]]);
}

#[test]
fn a_restarted_foreign_agent_is_registered_with_again_2_4_4() {
    let mut world = World::usual();
    world.run_secs(30);
    world
        .net
        .with_node(world.agents[0], |agent: &mut ForeignAgent, now, _| {
            agent.stop();
            agent.start(now);
        });
    assert!(world.agent(0).visitors().is_empty());
    world.run_secs(2);
    assert_eq!(world.agent(0).visitors().len(), 1);
    assert_eq!(world.mobile().stats().accepted, 2);
}

#[test]
fn an_agent_that_falls_silent_is_given_up_after_its_lifetime_2_4_2_1() {
    let mut world = World::usual();
    world.run_secs(10);
    world.net.node_mut::<ForeignAgent>(world.agents[0]).stop();
    world.run_secs(1);
    assert_ne!(world.mobile().attachment(), Attachment::Nowhere);
    world.run_secs(3);
    assert_eq!(world.mobile().attachment(), Attachment::Nowhere);
    // Another one is found by its advertisements.
    let link = world.links[2];
    world.apply(Change::LinkUp(link));
    world.run_secs(2);
    assert_eq!(world.bound_to(), [AGENTS[1]]);
}

#[test]
fn a_full_agent_is_busy_and_keeps_whom_it_has_2_1_1() {
    let mut world = World::new(&Plan {
        foreign_agent: Box::new(|config| config.max_visitors = 1),
        ..Plan::default()
    });
    world.run_secs(5);
    assert_eq!(world.agent(0).visitors().len(), 1);
    assert_ne!(
        world.mobile().attachment(),
        Attachment::Nowhere,
        "busy, but his own"
    );
    let mut other = request(&world, AGENTS[0]);
    other.home_address = [10, 0, 0, 99].into();
    inject(&mut world, &other, &association(), AGENTS[0]);
    assert_eq!(world.denied_abroad(ReplyCode::FA_RESOURCES), 1);
    assert_eq!(world.agent(0).visitors().len(), 1);
}

/// A request that is good but for what a test changes.
fn request(world: &World, care_of: std::net::Ipv4Addr) -> RegistrationRequest {
    let mut random = Random::new(1, 9);
    RegistrationRequest {
        flags: RequestFlags::default(),
        lifetime: 100,
        home_address: HOME,
        home_agent: HOME_AGENT,
        care_of,
        identification: Identification::at(world.net.now(), 0, &mut random),
    }
}

/// Lets the mobile node's host send a message of registration to an agent, from its interface there.
fn inject_bytes(world: &mut World, payload: impl Into<bytes::Bytes>, to: std::net::Ipv4Addr) {
    let ports = Protocol::Udp {
        source_port: 4000,
        destination_port: PORT,
    };
    let (source, interface) = (HOME.into(), world.interfaces[1]);
    let packet = Packet::new(source, to.into(), ports, payload);
    world
        .net
        .with_node(world.mobile, |mobile: &mut mobile_world::Mobile, _, out| {
            mobile.with_program(out, |_, out| out.send_on(interface, packet));
        });
    world.run(Duration::from_millis(200));
}

fn inject(
    world: &mut World,
    request: &RegistrationRequest,
    association: &SecurityAssociation,
    to: std::net::Ipv4Addr,
) {
    inject_bytes(world, request.to_bytes(association), to);
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

#[test]
fn simultaneous_bindings_bring_copies_where_they_are_granted_3_8_2_2() {
    for (most, copies) in [(2, 2), (1, 1)] {
        let mut world = World::new(&Plan {
            mobile: Box::new(|config| config.simultaneous = true),
            home_agent: Box::new(move |config| config.max_bindings = most),
            ..Plan::default()
        });
        let link = world.links[2];
        world.apply(Change::LinkUp(link));
        world.run_secs(2);
        // Both hear the node; it stays with one and is bound to the other by hand.
        assert_eq!(world.bound_to().len(), 1);
        let other = usize::from(world.bound_to() == [AGENTS[0]]);
        let mut second = request(&world, AGENTS[other]);
        second.flags.simultaneous = true;
        let (payload, interface) = (second.to_bytes(&association()), world.interfaces[other + 1]);
        let ports = Protocol::Udp {
            source_port: 4000,
            destination_port: PORT,
        };
        let packet = Packet::new(HOME.into(), AGENTS[other].into(), ports, payload);
        world
            .net
            .with_node(world.mobile, |mobile: &mut mobile_world::Mobile, _, out| {
                mobile.with_program(out, |_, out| out.send_on(interface, packet));
            });
        world.run_secs(1);
        assert_eq!(world.bound_to().len(), most);
        assert_eq!(world.ping(100), copies);
    }
}

#[test]
fn an_advertisement_that_contradicts_itself_is_ignored_2_1_1() {
    let mut world = World::usual();
    world.run_secs(1);
    let forged = AgentAdvertisement {
        routes_common_traffic: true,
        lifetime: 1000,
        routers: Vec::new(),
        sequence: 0,
        registration_lifetime: 10,
        flags: carrick_netsim::mobile::AgentFlags {
            foreign_agent: true,
            ..Default::default()
        },
        care_of: Vec::new(),
        prefix_lengths: Vec::new(),
    };
    let packet = forged.to_packet(AGENTS[0], HOME);
    assert!(Discovery::parse(&packet).is_err());
    let before = world.mobile().stats().advertisements;
    let interface = world.interfaces[1];
    world.net.with_node(
        world.mobile,
        |mobile: &mut mobile_world::Mobile, now, out| {
            use carrick_netsim::Node;
            mobile.handle_packet(now, interface, packet, out);
        },
    );
    assert_eq!(world.mobile().stats().advertisements, before);
    assert_eq!(world.mobile().registered(), Some(AGENTS[0]));
}

#[test]
fn requests_and_replies_read_as_written_3_3() {
    let world = World::usual();
    let request = request(&world, AGENTS[0]);
    let read = Signed::<RegistrationRequest>::parse(&request.to_bytes(&association()));
    assert_eq!(read.expect("a request").message, request);
}
