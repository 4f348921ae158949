//! Two mobile nodes of one home agent, both away from home (RFC 3024; RFC 5944, section 4.2.3; RFC
//! 2003).

use crate::mobile_world;

use std::net::Ipv4Addr;

use carrick_netsim::icmp::{self, IcmpError};
use carrick_netsim::{Change, Direction, LinkConfig, NodeId, Packet};
use mobile_world::{AGENTS, HOME, HOME_AGENT, Mobile, SECOND, WIRED, World, WorldConfig, sctp};

/// Returns a world with the first node at the first agent and the second at the second.
fn pair() -> (World, [NodeId; 2]) {
    let mut world = World::new(&WorldConfig {
        second: true,
        ..WorldConfig::default()
    });
    world.run_secs(1);
    let nodes = [world.mobile, world.second.expect("planned")];
    for (home, agent) in [HOME, SECOND].into_iter().zip(AGENTS) {
        let bindings = world.home_agent().bindings(home);
        let care_of: Vec<Ipv4Addr> = bindings.iter().map(|binding| binding.care_of).collect();
        assert_eq!(care_of, [agent]);
        assert!(bindings[0].reverse_tunnel);
    }
    (world, nodes)
}

fn send(world: &mut World, from: NodeId, packet: Packet) {
    world.net.with_node(from, |mobile: &mut Mobile, _, out| {
        mobile.with_program(out, |_, out| out.send(packet));
    });
    world.run_secs(1);
}

fn got(world: &World, node: NodeId) -> Vec<Packet> {
    let received = &world.net.node::<Mobile>(node).program().received;
    received.iter().map(|(.., packet)| packet.clone()).collect()
}

/// RFC 3024
#[test]
fn mobile_nodes_reach_each_other_through_tunnels() {
    let (mut world, [first, second]) = pair();
    send(&mut world, first, sctp(HOME, SECOND, 100));
    send(&mut world, second, sctp(SECOND, HOME, 100));
    for (node, from) in [(second, HOME), (first, SECOND)] {
        let got = got(&world, node);
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].source, from);
        // The first foreign agent, the home agent and the second foreign agent forward it.
        assert_eq!(got[0].ttl, Packet::DEFAULT_TTL - 3);
    }
    let stats = world.home_agent().stats();
    assert_eq!((stats.detunneled, stats.tunneled), (2, 2));
}

/// RFC 2003, section 4
#[test]
fn an_icmp_error_reaches_a_sender_away_from_home() {
    let (mut world, [first, second]) = pair();
    // Only the link out of the home agent has a small MTU.
    world.apply(Change::SetLink {
        link: world.home_link,
        direction: Direction::Forward,
        config: LinkConfig {
            mtu: Some(1400),
            ..LinkConfig::delay(WIRED)
        },
    });
    // The MTU is learned from the link at first, then known at the entry of the tunnel.
    for count in 1..=2 {
        send(&mut world, first, sctp(HOME, SECOND, 1390 - 20));
        let errors = got(&world, first);
        assert_eq!(errors.len(), count);
        assert_eq!(errors[count - 1].source, HOME_AGENT);
        let report = icmp::parse(&errors[count - 1]).expect("an error");
        assert_eq!(report.error, IcmpError::TooBig { mtu: 1380 });
        assert_eq!(report.about.destination, SECOND);
    }
    assert!(got(&world, second).is_empty());
    let stats = world.home_agent().stats();
    assert_eq!((stats.icmp_relayed, stats.refused), (1, 1));
}
