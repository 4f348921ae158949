//! Agents that fail, restart, are full or send invalid messages, and messages that are lost.

use std::time::Duration;

use carrick_netsim::Change;
use carrick_netsim::mobile::{
    AgentAdvertisement, Attachment, DiscoveryMessage, ForeignAgent, HomeAgent, MobilityEvent,
    ReplyCode,
};

use crate::mobile_registration::support::*;
use crate::mobile_world::{AGENTS, HOME, World, WorldConfig};

/// RFC 5944, section 3.6.3
#[test]
fn retransmitted_requests_get_a_new_identification() {
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

/// RFC 5944, section 3.4
#[test]
fn a_foreign_agent_reports_a_home_agent_timeout() {
    let mut world = World::usual();
    world.net.node_mut::<HomeAgent>(world.home_agent).stop();
    world.run_secs(60);
    let denied = world.times(|e| *e == MobilityEvent::Denied(ReplyCode::FA_TIMEOUT));
    assert!(!denied.is_empty());
    assert_eq!(world.mobile().registered(), None);
    world
        .net
        .with_node(world.home_agent, |agent: &mut HomeAgent, now, _| {
            agent.start(now)
        });
    world.run_secs(120);
    assert_eq!(world.bound_to(), [AGENTS[0]]);
}

/// RFC 5944, section 2.4.4
#[test]
fn a_node_registers_again_after_an_agent_restart() {
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

/// RFC 5944, section 2.4.2.1
#[test]
fn an_agent_expires_with_its_advertisement() {
    let mut world = World::usual();
    world.run_secs(10);
    world.net.node_mut::<ForeignAgent>(world.agents[0]).stop();
    world.run_secs(1);
    assert_ne!(world.mobile().attachment(), Attachment::Detached);
    world.run_secs(3);
    assert_eq!(world.mobile().attachment(), Attachment::Detached);
    // A different agent is discovered by its advertisements.
    let link = world.links[2];
    world.apply(Change::LinkUp(link));
    world.run_secs(2);
    assert_eq!(world.bound_to(), [AGENTS[1]]);
}

/// RFC 5944, section 2.1.1
#[test]
fn a_full_agent_is_busy_and_keeps_its_visitors() {
    let mut world = World::new(&WorldConfig {
        foreign_agent: Box::new(|config| config.max_visitors = 1),
        ..WorldConfig::default()
    });
    world.run_secs(5);
    assert_eq!(world.agent(0).visitors().len(), 1);
    assert_ne!(
        world.mobile().attachment(),
        Attachment::Detached,
        "busy, but serving its visitor"
    );
    let mut other = request(&world, AGENTS[0]);
    other.home_address = [10, 0, 0, 99].into();
    inject(&mut world, &other, &association(), AGENTS[0]);
    assert_eq!(world.denied_abroad(ReplyCode::FA_RESOURCES), 1);
    assert_eq!(world.agent(0).visitors().len(), 1);
}

/// RFC 5944, section 2.1.1
#[test]
fn contradictory_advertisements_are_ignored() {
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
    assert!(DiscoveryMessage::parse(&packet).is_err());
    let before = world.mobile().stats().advertisements;
    let interface = world.interfaces[1];
    world.net.with_node(
        world.mobile,
        |mobile: &mut crate::mobile_world::Mobile, now, out| {
            use carrick_netsim::Node;
            mobile.handle_packet(now, interface, packet, out);
        },
    );
    assert_eq!(world.mobile().stats().advertisements, before);
    assert_eq!(world.mobile().registered(), Some(AGENTS[0]));
}
