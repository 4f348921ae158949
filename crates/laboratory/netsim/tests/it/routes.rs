//! Routes, and handling of packets that have no route or exceed the MTU.

use crate::common;

use std::time::Duration;

use carrick_netsim::icmp::{self, IcmpError};
use carrick_netsim::{
    Change, ConfigError, Direction, HostRouting, InterfaceId, LinkConfig, LinkId, Loss, Network,
    NetworkBuilder, NodeId, Outbox, Prefix, Time,
};
use common::{Pair, Recorder, ip, numbered, packet, send};

const MS: Duration = Duration::from_millis(1);

/// a - r1 - r2 - b, and a - r3 - b: two interfaces at each host.
struct Diamond {
    net: Network,
    a: NodeId,
    b: NodeId,
    r1: NodeId,
    r2: NodeId,
    r3: NodeId,
    b_ports: [InterfaceId; 2],
    middle: LinkId,
}

fn diamond(routing: HostRouting) -> Diamond {
    let mut builder = NetworkBuilder::new(5);
    let a = builder.add_host("a");
    let b = builder.add_host("b");
    let [r1, r2, r3] = ["r1", "r2", "r3"].map(|name| builder.add_router(name));
    let mut port = |node, addresses: &[&str]| {
        builder.add_interface(node, addresses.iter().map(|text| ip(text)))
    };
    let a1 = port(a, &["10.1.0.1", "2001:db8:1::1"]);
    let a2 = port(a, &["10.2.0.1"]);
    let b1 = port(b, &["10.1.0.2", "2001:db8:1::2"]);
    let b2 = port(b, &["10.2.0.2"]);
    let r1a = port(r1, &["10.1.1.1"]);
    let r1b = port(r1, &["10.1.2.1"]);
    let r2a = port(r2, &[]);
    let r2b = port(r2, &[]);
    let r3a = port(r3, &[]);
    let r3b = port(r3, &[]);
    let link = LinkConfig::delay(MS);
    builder.connect_both(a1, r1a, link.clone());
    let middle = builder.connect_both(r1b, r2a, link.clone());
    builder.connect_both(r2b, b1, link.clone());
    builder.connect_both(a2, r3a, link.clone());
    builder.connect_both(r3b, b2, link.clone());
    // A cross link makes b1 reachable over r3 and b2 over r2.
    let r2c = builder.add_interface(r2, []);
    let r3c = builder.add_interface(r3, []);
    builder.connect_both(r2c, r3c, link);
    builder.set_routing(a, routing);
    for host in [a, b] {
        builder.set_node_program(host, Box::new(Recorder::default()));
    }
    Diamond {
        net: builder.build().expect("a valid network"),
        a,
        b,
        r1,
        r2,
        r3,
        b_ports: [b1, b2],
        middle,
    }
}

#[test]
fn shortest_routes_over_two_routers() {
    let mut world = diamond(HostRouting::ByDestination);
    send(&mut world.net, world.a, packet("10.2.0.1", "10.2.0.2"));
    send(
        &mut world.net,
        world.a,
        packet("2001:db8:1::1", "2001:db8:1::2"),
    );
    world.net.run_while(|_| true);
    let received = &world.net.node::<Recorder>(world.b).received;
    let seen: Vec<_> = received
        .iter()
        .map(|(time, port, p)| (time.as_nanos(), *port, p.ttl))
        .collect();
    let [b1, b2] = world.b_ports;
    assert_eq!(seen, [(2_000_000, b2, 63), (3_000_000, b1, 62)]);
    assert_eq!(world.net.node_stats(world.r1).forwarded, 1);
    assert_eq!(world.net.node_stats(world.r2).forwarded, 1);
    assert_eq!(world.net.node_stats(world.r3).forwarded, 1);
}

#[test]
fn source_routing_selects_the_interface() {
    let route = |world: &Diamond, source: &str, destination: &str| {
        let port = world.net.route(world.a, ip(source), ip(destination));
        port.map(|port| world.net.interface_name(port).to_owned())
    };
    let shortest = diamond(HostRouting::ByDestination);
    let by_source = diamond(HostRouting::PreferSource);
    let to_b2 = Some("a-1".to_owned());
    let over_first = Some("a-0".to_owned());
    assert_eq!(route(&shortest, "10.1.0.1", "10.2.0.2"), to_b2);
    assert_eq!(route(&by_source, "10.1.0.1", "10.2.0.2"), over_first);
    assert_eq!(route(&by_source, "10.2.0.1", "10.2.0.2"), to_b2);
    assert_eq!(route(&by_source, "10.2.0.1", "10.9.9.9"), None);
    assert_eq!(route(&by_source, "10.2.0.1", "10.1.0.1"), None, "its own");
}

#[test]
fn routes_change_only_on_request() {
    let mut world = diamond(HostRouting::PreferSource);
    world
        .net
        .apply(Change::LinkDown(world.middle))
        .expect("a link");
    send(&mut world.net, world.a, packet("10.1.0.1", "10.1.0.2"));
    world.net.run_while(|_| true);
    assert!(world.net.node::<Recorder>(world.b).received.is_empty());
    let stats = world.net.link_stats(world.middle, Direction::Forward);
    assert_eq!((stats.packets_in, stats.dropped_down), (1, 1));

    world.net.apply(Change::Reroute).expect("always possible");
    // No path over r1 is left; there is one over r3 and r2.
    send(&mut world.net, world.a, packet("10.1.0.1", "10.1.0.2"));
    world.net.run_while(|_| true);
    assert_eq!(world.net.node::<Recorder>(world.b).received.len(), 1);
    assert_eq!(world.net.node_stats(world.r3).forwarded, 1);
}

#[test]
fn explicit_routes_win_and_the_longest_prefix_wins() {
    let mut builder = NetworkBuilder::new(1);
    let host = builder.add_host("h");
    let ports: Vec<_> = (1..=3)
        .map(|n| builder.add_interface(host, [[10, 0, n, 1].into()]))
        .collect();
    let default = Prefix::new(ip("0.0.0.0"), 0);
    builder.add_route(host, default, ports[0]);
    builder.add_route(host, Prefix::new(ip("10.7.0.0"), 16), ports[1]);
    builder.add_source_route(
        host,
        ip("10.0.3.1"),
        Prefix::new(ip("10.7.0.0"), 16),
        ports[2],
    );
    let net = builder.build().expect("a valid network");
    let route = |source, destination| net.route(host, ip(source), ip(destination));
    assert_eq!(route("10.0.1.1", "192.0.2.1"), Some(ports[0]));
    assert_eq!(route("10.0.1.1", "10.7.1.1"), Some(ports[1]));
    assert_eq!(route("10.0.3.1", "10.7.1.1"), Some(ports[2]));
    assert_eq!(route("10.0.3.1", "2001:db8::1"), None);
}

#[test]
fn routes_are_added_and_removed_while_running() {
    let mut world = diamond(HostRouting::ByDestination);
    let [first, second] = [0, 1].map(|n| world.net.interfaces(world.a)[n]);
    let (source, destination) = (ip("10.1.0.1"), ip("10.2.0.2"));
    let route = |world: &Diamond| world.net.route(world.a, source, destination);
    assert_eq!(route(&world), Some(second));
    let prefix = Prefix::new(destination, 16);
    let add = |via| Change::AddRoute {
        node: world.a,
        prefix,
        source: Some(source),
        via,
    };
    let (own, foreign) = (add(first), add(world.b_ports[0]));
    world.net.apply(own).expect("its own interface");
    assert_eq!(route(&world), Some(first));
    let error = world.net.apply(foreign).expect_err("an interface of b");
    assert!(matches!(error, ConfigError::ForeignInterface { .. }));
    let node = world.a;
    let remove = Change::RemoveRoutes { node, prefix };
    world.net.apply(remove).expect("always possible");
    assert_eq!(route(&world), Some(second));
}

#[test]
fn unreachable_packets_are_dropped_and_counted() {
    let mut pair = Pair::new(1, LinkConfig::default(), Recorder::default());
    let a = pair.a;
    send(&mut pair.net, a, packet("10.0.0.1", "192.0.2.1"));
    send(&mut pair.net, a, packet("10.0.0.1", "2001:db8::1"));
    let foreign = pair.net.interfaces(pair.b)[0];
    pair.net.with_node(a, |_: &mut Recorder, _, out| {
        out.send_on(foreign, numbered(1, 100));
    });
    let stats = pair.net.node_stats(a);
    assert_eq!(
        (stats.sent, stats.dropped_no_route, stats.dropped_malformed),
        (3, 2, 1)
    );
    assert_eq!(pair.stats().packets_in, 0);
}

#[test]
fn packets_with_an_expired_ttl_are_dropped() {
    let mut world = diamond(HostRouting::ByDestination);
    let mut short = packet("10.1.0.1", "10.1.0.2");
    short.ttl = 2;
    send(&mut world.net, world.a, short);
    world.net.run_while(|_| true);
    // Two routers: the second receives a time to live of 1.
    let dropped: u64 = [world.r1, world.r2, world.r3]
        .map(|router| world.net.node_stats(router).dropped_ttl)
        .iter()
        .sum();
    assert_eq!(dropped, 1);
    assert!(world.net.node::<Recorder>(world.b).received.is_empty());
}

#[test]
fn loopback_addresses_are_reached_over_every_link() {
    let mut builder = NetworkBuilder::new(1);
    let a = builder.add_host("a");
    let b = builder.add_host("b");
    let ports = [1, 2].map(|n| {
        let near = builder.add_interface(a, [[10, n, 0, 1].into()]);
        let far = builder.add_interface(b, [[10, n, 0, 2].into()]);
        builder.connect_both(near, far, LinkConfig::default());
        near
    });
    builder.add_interface(b, [ip("10.99.0.1")]);
    builder.set_routing(a, HostRouting::PreferSource);
    let net = builder.build().expect("a valid network");
    for (port, source) in ports.into_iter().zip(["10.1.0.1", "10.2.0.1"]) {
        assert_eq!(net.route(a, ip(source), ip("10.99.0.1")), Some(port));
    }
}

#[test]
fn too_large_packets_are_reported_to_their_sender() {
    for (mtu_black_hole, reports) in [(false, 1), (true, 0)] {
        let mut world = diamond(HostRouting::ByDestination);
        let config = LinkConfig {
            mtu_black_hole,
            ..LinkConfig::delay(MS).with_mtu(1400)
        };
        let (link, direction) = (world.middle, Direction::Forward);
        let change = Change::SetLink {
            link,
            direction,
            config,
        };
        world.net.apply(change).expect("a link");
        // Only r1 leads to the far side of its second address: the packet is sent by interface.
        let mut large = packet("10.1.0.1", "10.1.0.2");
        large.payload = vec![9; 1481].into();
        let port = world.net.interfaces(world.a)[0];
        let mut fitting = large.clone();
        fitting.payload = vec![9; 1380].into();
        world
            .net
            .with_node(world.a, |_: &mut Recorder, _, out: &mut Outbox| {
                out.send_on(port, large.clone());
                out.send_on(port, fitting);
            });
        world.net.run_while(|_| true);
        assert_eq!(world.net.node::<Recorder>(world.b).received.len(), 1);
        assert_eq!(world.net.link_stats(link, direction).dropped_mtu, 1);
        assert_eq!(world.net.node_stats(world.r1).icmp_sent, reports);
        let back = &world.net.node::<Recorder>(world.a).received;
        assert_eq!(back.len() as u64, reports);
        for (_, _, message) in back {
            assert_eq!(message.source, ip("10.1.2.1"));
            let report = icmp::parse(message).expect("a report");
            assert_eq!(report.error, IcmpError::TooBig { mtu: 1400 });
            assert_eq!(report.about.destination, large.destination);
            assert!(large.payload.starts_with(&report.about.payload));
        }
    }
}

#[test]
fn a_sender_is_notified_of_the_mtu_of_its_link() {
    let config = LinkConfig::default().with_mtu(500);
    let mut pair = Pair::stream(1, config, 1, 501, MS);
    pair.run();
    let own = &pair.net.node::<Recorder>(pair.a).received;
    let report = icmp::parse(&own[0].2).expect("a report");
    assert_eq!(report.error, IcmpError::TooBig { mtu: 500 });
}

#[test]
fn configuration_errors_are_reported_by_build() {
    let build = |f: &dyn Fn(&mut NetworkBuilder, InterfaceId, InterfaceId)| {
        let mut builder = NetworkBuilder::new(1);
        let a = builder.add_host("a");
        let b = builder.add_host("b");
        let a1 = builder.add_interface(a, [ip("10.0.0.1")]);
        let b1 = builder.add_interface(b, [ip("10.0.0.2")]);
        f(&mut builder, a1, b1);
        builder.build().err().map(|error| error.to_string())
    };
    let perfect = LinkConfig::default;
    assert_eq!(build(&|_, _, _| {}), None);
    let twice = build(&|builder, a, b| {
        builder.connect_both(a, b, perfect());
        builder.connect_both(a, b, perfect());
    });
    assert_eq!(
        twice.as_deref(),
        Some("interface a-0 already has a link: add an interface for each link")
    );
    let loss = build(&|builder, a, b| {
        builder.connect_both(a, b, perfect().with_loss(Loss::Random(2.0)));
    });
    assert_eq!(
        loss.as_deref(),
        Some("loss is 2: give a probability from 0 to 1")
    );
    assert!(
        build(&|builder, a, _| {
            builder.connect_both(a, a, perfect());
        })
        .is_some()
    );
    let duplicate = build(&|builder, _, _| {
        let c = builder.add_host("c");
        builder.add_interface(c, [ip("10.0.0.1")]);
    });
    assert!(duplicate.is_some_and(|text| text.contains("10.0.0.1 is already in use")));
    let mut pair = Pair::new(1, perfect(), Recorder::default());
    pair.net.run_until(Time::from_secs(1));
    let late = pair.net.at(Time::ZERO, Change::Reroute);
    assert!(matches!(late, Err(ConfigError::InThePast { .. })));
}
