//! Tunnels (RFC 2003; RFC 3024; RFC 5944, section 4): path and receivers of packets.

use crate::common;
use crate::mobile_world;

use std::net::IpAddr;
use std::time::Duration;

use carrick_netsim::icmp::{self, IcmpError};
use carrick_netsim::mobile::{CareOf, HomeAgent};
use carrick_netsim::{Change, Packet};
use common::Recorder;
use mobile_world::{
    AGENTS, CORRESPONDENT, HOME, HOME_AGENT, LOCAL, Mobile, World, WorldConfig, sctp,
};

fn co_located(reverse_tunnel: bool) -> World {
    let mut world = World::new(&WorldConfig {
        mobile: Box::new(move |config| {
            config.care_of = CareOf::CoLocated;
            config.reverse_tunnel = reverse_tunnel;
        }),
        ..WorldConfig::default()
    });
    let (interface, address) = (world.interfaces[1], IpAddr::V4(LOCAL[0]));
    world.apply(Change::AddAddress { interface, address });
    world.run_secs(1);
    assert_eq!(world.bound_to(), [LOCAL[0]]);
    world
}

/// RFC 5944, section 4.2
#[test]
fn packets_for_the_home_address_are_tunneled() {
    let mut world = World::usual();
    world.run_secs(1);
    assert_eq!(world.ping(100), 1);
    let (.., packet) = world.mobile().program().received.last().expect("a packet");
    assert_eq!(
        (packet.source, packet.destination),
        (CORRESPONDENT.into(), HOME.into())
    );
    // Decremented by the router, at the entry of the tunnel and by the forwarding at its exit;
    // within the tunnel only the outer time to live is decremented.
    assert_eq!(packet.ttl, Packet::DEFAULT_TTL - 3);
    assert_eq!(world.agent(0).stats().detunneled, 1);

    let mut world = co_located(true);
    assert_eq!(world.ping(100), 1);
    let (.., packet) = world.mobile().program().received.last().expect("a packet");
    assert_eq!(
        packet.ttl,
        Packet::DEFAULT_TTL - 2,
        "the node itself is the exit"
    );
    assert_eq!(world.mobile().stats().detunneled, 1);
}

/// RFC 3024
#[test]
fn replies_take_the_direct_path_or_the_reverse_tunnel() {
    for reverse_tunnel in [false, true] {
        let mut visiting = World::new(&WorldConfig {
            mobile: Box::new(move |config| config.reverse_tunnel = reverse_tunnel),
            ..WorldConfig::default()
        });
        visiting.run_secs(1);
        for mut world in [visiting, co_located(reverse_tunnel)] {
            let came = world.send_from_home();
            assert_eq!(came.len(), 1);
            assert_eq!(came[0].source, IpAddr::V4(HOME));
            let through = world.home_agent().stats().detunneled;
            assert_eq!(through, u64::from(reverse_tunnel));
            let agent = world.agent(0).stats().tunneled + world.mobile().stats().tunneled;
            assert_eq!(agent, u64::from(reverse_tunnel));
        }
    }
}

#[test]
fn the_home_address_is_unusable_without_registration() {
    let mut world = World::new(&WorldConfig {
        at: None,
        ..WorldConfig::default()
    });
    world.run_secs(1);
    assert!(world.send_from_home().is_empty());
    assert_eq!(world.mobile().stats().unsendable, 1);
}

/// RFC 3024
#[test]
fn reverse_tunnels_require_a_registration() {
    let mut world = World::usual();
    world.run_secs(1);
    let forged = [
        // From a wrong address; of an unknown mobile node; not a packet.
        sctp(HOME, CORRESPONDENT, 50).encapsulate(CORRESPONDENT.into(), HOME_AGENT.into()),
        sctp(LOCAL[1], CORRESPONDENT, 50).encapsulate(AGENTS[0].into(), HOME_AGENT.into()),
    ];
    for packet in forged {
        world
            .net
            .with_node(world.correspondent, |_: &mut Recorder, _, out| {
                out.send(packet)
            });
        world.run_secs(1);
    }
    assert_eq!(world.home_agent().stats().tunneled_unmatched, 2);
    assert!(world.received_by_correspondent().is_empty());
}

/// RFC 5944, section 4.2.2
#[test]
fn the_exit_accepts_only_packets_of_the_home_agent() {
    let mut world = World::usual();
    world.run_secs(1);
    let forged = [
        sctp(CORRESPONDENT, HOME, 50).encapsulate(CORRESPONDENT.into(), AGENTS[0].into()),
        sctp(CORRESPONDENT, LOCAL[0], 50).encapsulate(CORRESPONDENT.into(), AGENTS[0].into()),
    ];
    for packet in forged {
        world
            .net
            .with_node(world.correspondent, |_: &mut Recorder, _, out| {
                out.send(packet)
            });
        world.run_secs(1);
    }
    assert_eq!(world.agent(0).stats().tunneled_unmatched, 2);
    assert!(world.mobile().program().received.is_empty());
    assert!(
        world.received_by_correspondent().is_empty(),
        "no ICMP message"
    );
}

/// RFC 2003, section 5.1
#[test]
fn packets_too_large_for_the_tunnel_are_reported() {
    let mut world = World::new(&WorldConfig {
        mtu: Some(1400),
        ..WorldConfig::default()
    });
    world.run_secs(1);
    // The inner packet fits onto the link to the home agent; the outer packet exceeds the MTU on
    // the way back.
    assert_eq!(world.ping(1370 - 20), 1);
    assert_eq!(world.ping(1390 - 20), 0);
    let too_big = |world: &World| {
        let errors = world
            .received_by_correspondent()
            .iter()
            .filter_map(|(.., packet)| icmp::parse(packet));
        errors.map(|report| report.error).collect::<Vec<_>>()
    };
    assert_eq!(too_big(&world), [IcmpError::TooBig { mtu: 1380 }]);
    assert_eq!(world.home_agent().stats().icmp_relayed, 1);
    // The second packet is reported by the entry of the tunnel.
    assert_eq!(world.ping(1390 - 20), 0);
    assert_eq!(too_big(&world).len(), 2);
    let stats = world.home_agent().stats();
    assert_eq!((stats.icmp_relayed, stats.refused), (1, 1));
}

/// RFC 5944, section 4.2.3
#[test]
fn errors_of_the_home_agents_router_are_tunneled() {
    let narrow = |world: &mut World| {
        let config = carrick_netsim::LinkConfig {
            mtu: Some(1400),
            ..carrick_netsim::LinkConfig::default()
        };
        // Packets to the home agent fit, packets from it do not.
        world.apply(Change::SetLink {
            link: world.home_link,
            direction: carrick_netsim::Direction::Forward,
            config,
        });
    };
    let mut visiting = World::usual();
    visiting.run_secs(1);
    for mut world in [visiting, co_located(true)] {
        narrow(&mut world);
        let large = sctp(HOME, CORRESPONDENT, 1450 - 20);
        world
            .net
            .with_node(world.mobile, |mobile: &mut Mobile, _, out| {
                mobile.with_program(out, |_, out| out.send(large));
            });
        world.run_secs(1);
        assert!(
            world.received_by_correspondent().is_empty(),
            "above the MTU"
        );
        let came = world.mobile().program().received.iter();
        let errors: Vec<_> = came.filter_map(|(.., p)| icmp::parse(p)).collect();
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].error, IcmpError::TooBig { mtu: 1400 });
        assert_eq!(errors[0].about.source, IpAddr::V4(HOME));
        let stats = world.home_agent().stats();
        assert_eq!((stats.detunneled, stats.tunneled), (1, 1));
    }
}

/// RFC 2003, section 3.1
#[test]
fn packets_with_an_expired_ttl_are_not_tunneled() {
    let mut world = World::usual();
    world.run_secs(1);
    for (ttl, arrives) in [(4, 1), (3, 0), (2, 0)] {
        let before = world.mobile().program().received.len();
        let mut packet = sctp(CORRESPONDENT, HOME, 50);
        packet.ttl = ttl;
        world
            .net
            .with_node(world.correspondent, |_: &mut Recorder, _, out| {
                out.send(packet)
            });
        world.run_secs(1);
        let came = world.mobile().program().received.len() - before;
        assert_eq!(came, arrives, "ttl {ttl}");
    }
    // With 2, it is 1 at the entry, which reports it.
    let errors = world
        .received_by_correspondent()
        .iter()
        .filter_map(|(.., p)| icmp::parse(p));
    let errors: Vec<IcmpError> = errors.map(|report| report.error).collect();
    assert_eq!(errors, [IcmpError::TimeExceeded]);
    assert_eq!(world.home_agent().stats().refused, 1);
}

/// RFC 2003, section 3.2
#[test]
fn packets_from_the_exit_are_not_tunneled_again() {
    let mut world = World::usual();
    world.run_secs(1);
    let looping = sctp(AGENTS[0], HOME, 50);
    world
        .net
        .with_node(world.correspondent, |_: &mut Recorder, _, out| {
            out.send(looping)
        });
    world.run_secs(1);
    assert!(world.mobile().program().received.is_empty());
    assert_eq!(world.home_agent().stats().refused, 1);
}

#[test]
fn no_packet_is_delivered_without_the_home_agent() {
    let mut world = World::usual();
    world.run_secs(1);
    world.net.node_mut::<HomeAgent>(world.home_agent).stop();
    let lost = |world: &World| {
        let to_node = carrick_netsim::Direction::Backward;
        world.net.link_stats(world.links[0], to_node).dropped_down
    };
    let before = lost(&world);
    assert_eq!(world.ping(100), 0);
    assert_eq!(lost(&world) - before, 1, "sent to the home network");
    // The node detects the failure at the renewal, and retransmits until it gets a reply.
    world.run_secs(300);
    world
        .net
        .with_node(world.home_agent, |agent: &mut HomeAgent, now, _| {
            agent.start(now)
        });
    world.run_secs(300);
    assert_eq!(world.ping(100), 1);
}

#[test]
fn other_traffic_of_the_host_is_unaffected() {
    let mut world = co_located(true);
    let there = sctp(CORRESPONDENT, LOCAL[0], 50);
    world
        .net
        .with_node(world.correspondent, |_: &mut Recorder, _, out| {
            out.send(there)
        });
    world.run(Duration::from_millis(100));
    let back = sctp(LOCAL[0], CORRESPONDENT, 50);
    world
        .net
        .with_node(world.mobile, |mobile: &mut Mobile, _, out| {
            mobile.with_program(out, |_, out| out.send(back));
        });
    world.run(Duration::from_millis(100));
    assert_eq!(world.mobile().program().received.len(), 1);
    assert_eq!(world.received_by_correspondent().len(), 1);
    assert_eq!(world.home_agent().stats().tunneled, 0);
    assert_eq!(world.net.node_stats(world.mobile).dropped(), 0);
}
