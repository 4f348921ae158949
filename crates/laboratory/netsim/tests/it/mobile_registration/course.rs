//! Agent discovery, renewal of the registration, return to the home network.

use std::net::IpAddr;
use std::time::Duration;

use carrick_netsim::mobile::{
    Attachment, CareOf, ForeignAgent, INFINITE, MobilityEvent, PORT, RegistrationRequest,
    ReplyCode, SignedMessage,
};
use carrick_netsim::{Change, Packet, Protocol, Time};

use crate::mobile_registration::support::*;
use crate::mobile_world::{AGENTS, AT_HOME, HOME, HOME_AGENT, LOCAL, World, WorldConfig};

/// RFC 5944, section 3.1
#[test]
fn a_node_registers_through_the_advertised_agent() {
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
    // Solicitation and advertisement, request and reply: two round trips on the wireless link, one
    // to the home agent.
    let took = world.times(is_registered)[0];
    assert_eq!(took, Time::from_millis(4 * 2 + 4 * 10));
}

/// RFC 5944, section 2.4
#[test]
fn no_solicitation_is_sent_during_advertisements() {
    let mut world = World::usual();
    world.run_secs(60);
    assert_eq!(world.mobile().stats().solicitations, 1, "at the start");
    assert!(world.mobile().stats().advertisements > 50);
    assert_eq!(world.mobile().stats().requests, 1);
}

/// RFC 5944, section 2.4
#[test]
fn unanswered_solicitations_back_off() {
    let mut world = World::usual();
    world.net.node_mut::<ForeignAgent>(world.agents[0]).stop();
    world.run_secs(400);
    let times = world.times(|event| *event == MobilityEvent::Solicited);
    let gaps: Vec<u64> = times.windows(2).map(|t| (t[1] - t[0]).as_secs()).collect();
    // Nominal intervals; each may be up to a tenth longer.
    for (gap, nominal) in gaps.iter().zip([1, 1, 2, 4, 8, 16, 32, 60, 60]) {
        assert!(
            (nominal..=nominal + nominal / 10 + 1).contains(gap),
            "{gaps:?}"
        );
    }
    assert!(times.len() <= 13, "{gaps:?}");
}

/// RFC 5944, section 3.6.2.2
#[test]
fn registrations_are_renewed_or_expire_in_time() {
    let mut world = World::new(&WorldConfig {
        mobile: Box::new(|config| config.lifetime = 20),
        ..WorldConfig::default()
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
    // Both agents remove a lost node after its lifetime, without a message.
    let link = world.links[1];
    world.apply(Change::LinkDown(link));
    world.run_secs(25);
    assert!(world.bound_to().is_empty());
    assert!(world.agent(0).visitors().is_empty());
    assert_eq!(world.home_agent().stats().expired, 1);
    assert_eq!(world.mobile().registered(), None);
}

/// RFC 5944, section 3.8.2.2
#[test]
fn the_granted_lifetime_never_exceeds_the_request() {
    for (wanted, granted) in [(INFINITE, 600), (100, 100)] {
        let mut world = World::new(&WorldConfig {
            mobile: Box::new(move |config| config.lifetime = wanted),
            foreign_agent: Box::new(|config| config.max_lifetime = INFINITE),
            ..WorldConfig::default()
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

/// RFC 5944, section 3.3
#[test]
fn infinite_registrations_are_not_renewed() {
    let mut world = World::new(&WorldConfig {
        mobile: Box::new(|config| config.lifetime = INFINITE),
        foreign_agent: Box::new(|config| config.max_lifetime = INFINITE),
        home_agent: Box::new(|config| config.max_lifetime = INFINITE),
        ..WorldConfig::default()
    });
    world.run_secs(4000);
    assert_eq!(world.home_agent().bindings(HOME)[0].until, Time::MAX);
    assert_eq!(world.mobile().stats().requests, 1);
}

/// RFC 5944, section 2.4.3
#[test]
fn returning_home_deregisters() {
    let mut world = World::new(&WorldConfig {
        at: Some(AT_HOME),
        ..WorldConfig::default()
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
    assert_eq!(
        world.home_agent().stats().tunneled,
        1,
        "no further tunneled packet"
    );
    assert_eq!(world.mobile().registered(), None);
}

/// RFC 5944, section 3.6.1.1
#[test]
fn co_located_addresses_are_registered_directly() {
    let mut world = World::new(&WorldConfig {
        mobile: Box::new(|config| config.care_of = CareOf::CoLocated),
        ..WorldConfig::default()
    });
    world.run_secs(2);
    assert_eq!(world.mobile().attachment(), Attachment::Detached);
    let (interface, address) = (world.interfaces[1], IpAddr::V4(LOCAL[0]));
    world.apply(Change::AddAddress { interface, address });
    world.run_secs(1);
    assert_eq!(world.bound_to(), [LOCAL[0]]);
    assert!(world.agent(0).visitors().is_empty());
    assert_eq!(world.agent(0).stats().relayed_requests, 0);
    world.apply(Change::RemoveAddress { interface, address });
    assert_eq!(world.mobile().attachment(), Attachment::Detached);
}

/// RFC 5944, section 2.4.1
#[test]
fn the_registration_required_bit_is_obeyed() {
    let mut world = World::new(&WorldConfig {
        mobile: Box::new(|config| config.care_of = CareOf::CoLocated),
        foreign_agent: Box::new(|config| config.registration_required = true),
        ..WorldConfig::default()
    });
    world.run_secs(2);
    let (interface, address) = (world.interfaces[1], IpAddr::V4(LOCAL[0]));
    world.apply(Change::AddAddress { interface, address });
    world.run_secs(1);
    assert_eq!(world.bound_to(), [AGENTS[0]]);
}

/// RFC 5944, section 3.6.2.3
#[test]
fn the_foreign_agents_lifetime_limit_is_used() {
    let mut world = World::new(&WorldConfig {
        mobile: Box::new(|config| config.lifetime = 500),
        foreign_agent: Box::new(|config| config.max_lifetime = 60),
        ..WorldConfig::default()
    });
    world.run_secs(2);
    assert_eq!(world.denied_abroad(ReplyCode::FA_LIFETIME), 0);
    let until = world.home_agent().bindings(HOME)[0].until;
    assert!(until <= Time::from_secs(61));
    // A node that ignores the advertised limit gets it in a denial.
    let mut request = request(&world, AGENTS[0]);
    request.lifetime = 500;
    inject(&mut world, &request, &association(), AGENTS[0]);
    assert_eq!(world.denied_abroad(ReplyCode::FA_LIFETIME), 1);
}

/// RFC 5944, section 5.7.1
#[test]
fn a_wrong_clock_is_corrected_by_the_home_agent() {
    for offset in [-3600, 100, 1_000_000] {
        let mut world = World::new(&WorldConfig {
            mobile: Box::new(move |config| config.clock_offset = offset),
            ..WorldConfig::default()
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

/// RFC 5944, section 3.8.2.2
#[test]
fn simultaneous_bindings_duplicate_packets() {
    for (most, copies) in [(2, 2), (1, 1)] {
        let mut world = World::new(&WorldConfig {
            mobile: Box::new(|config| config.simultaneous = true),
            home_agent: Box::new(move |config| config.max_bindings = most),
            ..WorldConfig::default()
        });
        let link = world.links[2];
        world.apply(Change::LinkUp(link));
        world.run_secs(2);
        // The node receives both agents' advertisements, stays with one and is bound to the other
        // by the test.
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

/// RFC 5944, section 3.3
#[test]
fn requests_and_replies_round_trip() {
    let world = World::usual();
    let request = request(&world, AGENTS[0]);
    let read = SignedMessage::<RegistrationRequest>::parse(&request.to_bytes(&association()));
    assert_eq!(read.expect("a request").message, request);
}
