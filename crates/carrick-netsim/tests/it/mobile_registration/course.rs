//! Finding an agent, staying registered, coming home.

use std::net::IpAddr;
use std::time::Duration;

use carrick_netsim::mobile::{
    Attachment, CareOf, ForeignAgent, INFINITE, MobilityEvent, PORT, RegistrationRequest,
    ReplyCode, Signed,
};
use carrick_netsim::{Change, Packet, Protocol, Time};

use crate::mobile_registration::support::*;
use crate::mobile_world::{AGENTS, AT_HOME, HOME, HOME_AGENT, LOCAL, Plan, World};

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
        world.net.with_node(
            world.mobile,
            |mobile: &mut crate::mobile_world::Mobile, _, out| {
                mobile.with_program(out, |_, out| out.send_on(interface, packet));
            },
        );
        world.run_secs(1);
        assert_eq!(world.bound_to().len(), most);
        assert_eq!(world.ping(100), copies);
    }
}

#[test]
fn requests_and_replies_read_as_written_3_3() {
    let world = World::usual();
    let request = request(&world, AGENTS[0]);
    let read = Signed::<RegistrationRequest>::parse(&request.to_bytes(&association()));
    assert_eq!(read.expect("a request").message, request);
}
