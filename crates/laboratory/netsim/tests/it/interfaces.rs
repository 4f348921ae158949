//! Routes of hosts with two planes, and failures at one end of a link: interfaces that are down,
//! neighbours that do not answer, packets that are rejected.

use crate::common;

use std::net::IpAddr;
use std::time::Duration;

use carrick_netsim::icmp::{self, IcmpError};
use carrick_netsim::{
    Change, HostRouting, InputRule, InterfaceId, LinkConfig, Neighbor, Network, NetworkBuilder,
    NodeId, Packet, Prefix, Time, Unreachable,
};
use common::{Recorder, ip, packet, send};

const MS: Duration = Duration::from_millis(1);

/// Two hosts with two links, the planes 10.1 and 10.2 and their IPv6 addresses.
struct Planes {
    net: Network,
    hosts: [NodeId; 2],
    /// Interfaces by host and plane.
    ports: [[InterfaceId; 2]; 2],
}

impl Planes {
    fn new(routing: HostRouting) -> Self {
        let mut builder = NetworkBuilder::new(3);
        let hosts = ["a", "b"].map(|name| builder.add_host(name));
        let ports = [0, 1].map(|host| {
            [1, 2].map(|plane| {
                let end = host as u8 + 1;
                let v6 = format!("fd00:{plane}::{end}");
                builder.add_interface(hosts[host], [[10, plane, 0, end].into(), ip(&v6)])
            })
        });
        for (a, b) in ports[0].into_iter().zip(ports[1]) {
            builder.connect_both(a, b, LinkConfig::delay(MS));
        }
        for host in hosts {
            builder.set_routing(host, routing);
            builder.set_node_program(host, Box::new(Recorder::default()));
        }
        let net = builder.build().expect("a valid network");
        Self { net, hosts, ports }
    }

    fn apply(&mut self, change: Change) {
        self.net.apply(change).expect("a valid change");
    }

    /// Sends a packet from the first host; returns the plane by which it reached the second.
    fn plane_of(&mut self, source: &str, destination: &str) -> Option<usize> {
        let before = self.received(1).len();
        send(&mut self.net, self.hosts[0], packet(source, destination));
        let end = self.net.now() + Duration::from_secs(10);
        self.net.run_until(end);
        let (_, port, _) = self.received(1).get(before)?;
        self.ports[1].iter().position(|own| own == port)
    }

    fn received(&self, host: usize) -> &[(Time, InterfaceId, Packet)] {
        &self.net.node::<Recorder>(self.hosts[host]).received
    }

    /// Returns the source that the first host's program was last given for a destination.
    fn source_to(&self, destination: &str) -> Option<IpAddr> {
        let program = self.net.node::<Recorder>(self.hosts[0]);
        program.route_changes.last()?.source(ip(destination))
    }
}

/// RFC 1122, section 3.3.4.2
#[test]
fn a_packet_leaves_by_the_route_to_its_destination() {
    let mut world = Planes::new(HostRouting::ByDestination);
    assert_eq!(world.plane_of("10.1.0.1", "10.1.0.2"), Some(0));
    assert_eq!(world.plane_of("10.2.0.1", "10.1.0.2"), Some(0));
    assert_eq!(world.plane_of("10.1.0.1", "10.2.0.2"), Some(1));
    assert_eq!(world.plane_of("fd00:1::1", "fd00:2::2"), Some(1));
}

#[test]
fn policy_routing_sends_by_the_sources_interface() {
    let mut world = Planes::new(HostRouting::BySource);
    assert_eq!(world.plane_of("10.1.0.1", "10.1.0.2"), Some(0));
    assert_eq!(world.plane_of("10.2.0.1", "10.1.0.2"), None);
    assert_eq!(world.plane_of("10.2.0.1", "10.2.0.2"), Some(1));
    let stats = world.net.node_stats(world.hosts[0]);
    assert_eq!(stats.dropped_no_route, 1);
}

#[test]
fn an_interface_that_is_down_has_no_routes_at_its_end() {
    let mut world = Planes::new(HostRouting::ByDestination);
    let (near, far) = (world.ports[0][0], world.ports[1][0]);
    assert_eq!(world.source_to("10.1.0.2"), Some(ip("10.1.0.1")));
    world.apply(Change::InterfaceDown(near));
    assert_eq!(world.source_to("10.1.0.2"), None);
    assert_eq!(world.source_to("10.2.0.2"), Some(ip("10.2.0.1")));
    assert_eq!(world.plane_of("10.1.0.1", "10.1.0.2"), None);
    // The other host keeps its route; its packets are lost.
    let reply = packet("10.1.0.2", "10.1.0.1");
    send(&mut world.net, world.hosts[1], reply);
    world.net.run_while(|_| true);
    let stats = world.net.node_stats(world.hosts[0]);
    assert_eq!((stats.dropped_no_route, stats.dropped_down), (1, 1));
    // The address of an interface that is down is still the host's.
    assert_eq!(world.plane_of("10.1.0.1", "10.2.0.2"), Some(1));

    world.apply(Change::InterfaceUp(near));
    assert_eq!(world.plane_of("10.1.0.1", "10.1.0.2"), Some(0));
    let changes = &world.net.node::<Recorder>(world.hosts[0]).link_changes;
    let states: Vec<_> = changes.iter().map(|(_, port, up)| (*port, *up)).collect();
    assert_eq!(states, [(near, false), (near, true)]);
    assert!(world.net.is_interface_up(near) && world.net.is_interface_up(far));
}

/// RFC 1122, section 3.3.4.2
#[test]
fn a_route_moves_to_the_other_interface_and_back() {
    let mut world = Planes::new(HostRouting::ByDestination);
    let (node, prefix) = (world.hosts[0], Prefix::host(ip("10.1.0.2")));
    world.apply(Change::AddRoute {
        node,
        prefix,
        source: None,
        via: world.ports[0][1],
    });
    assert_eq!(world.source_to("10.1.0.2"), Some(ip("10.2.0.1")));
    // The other host accepts the packet for the address of its other interface.
    assert_eq!(world.plane_of("10.2.0.1", "10.1.0.2"), Some(1));
    // A route over an interface that is down does not apply.
    world.apply(Change::InterfaceDown(world.ports[0][1]));
    assert_eq!(world.plane_of("10.2.0.1", "10.1.0.2"), Some(0));
    world.apply(Change::InterfaceUp(world.ports[0][1]));
    world.apply(Change::RemoveRoutes { node, prefix });
    assert_eq!(world.source_to("10.1.0.2"), Some(ip("10.1.0.1")));
    assert_eq!(world.plane_of("10.2.0.1", "10.1.0.2"), Some(0));
}

#[test]
fn packets_to_a_wrong_neighbor_are_lost_one_way() {
    let mut world = Planes::new(HostRouting::ByDestination);
    let interface = world.ports[0][0];
    let set = |neighbor| Change::SetNeighbor {
        interface,
        neighbor,
    };
    world.apply(set(Neighbor::Wrong));
    assert_eq!(world.plane_of("10.1.0.1", "10.1.0.2"), None);
    assert_eq!(world.source_to("10.1.0.2"), Some(ip("10.1.0.1")));
    send(
        &mut world.net,
        world.hosts[1],
        packet("10.1.0.2", "10.1.0.1"),
    );
    world.net.run_while(|_| true);
    assert_eq!(world.received(0).len(), 1);
    let stats = world.net.node_stats(world.hosts[0]);
    assert_eq!((stats.dropped_neighbor, stats.icmp_sent), (1, 0));
    world.apply(set(Neighbor::Reachable));
    assert_eq!(world.plane_of("10.1.0.1", "10.1.0.2"), Some(0));
}

/// RFC 1122, section 2.3.2.2
#[test]
fn a_silent_neighbor_is_reported_to_the_sender() {
    let mut world = Planes::new(HostRouting::ByDestination);
    let interface = world.ports[0][0];
    let after = Duration::from_secs(3);
    let neighbor = Neighbor::Unresolved { after };
    world.apply(Change::SetNeighbor {
        interface,
        neighbor,
    });
    // All packets of one resolution, and none for longer than it takes.
    for source in ["10.1.0.1", "10.2.0.1"] {
        send(&mut world.net, world.hosts[0], packet(source, "10.1.0.2"));
        world
            .net
            .run_until(world.net.now() + Duration::from_secs(1));
    }
    world.net.run_while(|_| true);
    let reports: Vec<_> = world.received(0).iter().collect();
    for ((time, _, message), source) in reports.iter().zip(["10.1.0.1", "10.2.0.1"]) {
        assert_eq!(*time, Time::from_secs(3));
        let report = icmp::parse(message).expect("a report");
        assert_eq!(report.error, IcmpError::Unreachable { code: 1 });
        assert_eq!(report.about.source, ip(source));
    }
    assert_eq!((reports.len(), world.received(1).len()), (2, 0));

    // A packet that waits is sent if the neighbour answers.
    send(
        &mut world.net,
        world.hosts[0],
        packet("10.1.0.1", "10.1.0.2"),
    );
    world.apply(Change::SetNeighbor {
        interface,
        neighbor: Neighbor::Reachable,
    });
    world.net.run_while(|_| true);
    assert_eq!((world.received(0).len(), world.received(1).len()), (2, 1));
    assert_eq!(world.net.neighbor(interface), Neighbor::Reachable);
}

#[test]
fn packets_that_wait_for_a_neighbor_are_bounded() {
    let mut world = Planes::new(HostRouting::ByDestination);
    let interface = world.ports[0][0];
    world.apply(Change::SetNeighbor {
        interface,
        neighbor: Neighbor::Unresolved { after: 3000 * MS },
    });
    for _ in 0..100 {
        send(
            &mut world.net,
            world.hosts[0],
            packet("10.1.0.1", "10.1.0.2"),
        );
    }
    let dropped = |world: &Planes| {
        let stats = world.net.node_stats(world.hosts[0]);
        (stats.dropped_neighbor, stats.dropped_down)
    };
    assert_eq!(dropped(&world), (36, 0));
    world.apply(Change::InterfaceDown(interface));
    world.net.run_while(|_| true);
    assert_eq!(dropped(&world), (36, 64));
    assert!(world.received(0).is_empty(), "no report");
}

/// RFC 792; RFC 4443, sections 3.1 and 3.4
#[test]
fn an_interface_rejects_packets_by_its_rule() {
    let v4 = |code| IcmpError::Unreachable { code };
    let cases = [
        (InputRule::Drop, None),
        (InputRule::Reject(Unreachable::Net), Some([v4(0), v4(0)])),
        (InputRule::Reject(Unreachable::Host), Some([v4(1), v4(3)])),
        (
            InputRule::Reject(Unreachable::Protocol),
            Some([v4(2), IcmpError::UnknownNextHeader]),
        ),
        (InputRule::Reject(Unreachable::Port), Some([v4(3), v4(4)])),
    ];
    for (input, expected) in cases {
        let mut world = Planes::new(HostRouting::ByDestination);
        let interface = world.ports[1][0];
        world.apply(Change::SetInput { interface, input });
        assert_eq!(world.plane_of("10.1.0.1", "10.1.0.2"), None);
        assert_eq!(world.plane_of("fd00:1::1", "fd00:1::2"), None);
        assert_eq!(world.plane_of("10.1.0.1", "10.2.0.2"), Some(1));
        let reports = world.received(0).iter();
        let errors: Vec<_> = reports
            .map(|(_, _, message)| icmp::parse(message).expect("a report").error)
            .collect();
        assert_eq!(errors, expected.map_or(Vec::new(), |list| list.to_vec()));
        assert_eq!(world.net.node_stats(world.hosts[1]).dropped_filtered, 2);
        assert_eq!(world.net.input_rule(interface), input);
        let input = InputRule::Accept;
        world.apply(Change::SetInput { interface, input });
        assert_eq!(world.plane_of("10.1.0.1", "10.1.0.2"), Some(0));
    }
}
