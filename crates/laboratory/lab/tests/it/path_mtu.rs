//! Path MTU discovery (RFC 8899) over simulated links with an MTU, which report dropped packets by
//! ICMP or drop them silently.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_hosts::sctp::{Application, SctpHost};
use carrick_netsim::{
    Change, Direction, LinkConfig, LinkId, Network, NetworkBuilder, NodeId, Time,
};
use carrick_proto::{
    AssociationConfig, AssociationId, Endpoint, EndpointConfig, Event, PathMtuDiscovery,
    PathMtuState, PathStats, SendOptions,
};

use crate::bulk::BulkSink;

const PORT: u16 = 5001;
/// Small enough for the base PLPMTU, because the simulated network does not fragment; several
/// messages fill a packet of any size.
const SIZE: usize = 340;
const EVERY: Duration = Duration::from_millis(25);

/// Sends messages without end.
struct MessageSource {
    peer: IpAddr,
    id: Option<AssociationId>,
    next: Option<carrick_proto::Time>,
    sent: u64,
}

impl Application for MessageSource {
    fn next_timer(&self) -> Option<carrick_proto::Time> {
        self.next
    }

    fn on_timer(&mut self, now: carrick_proto::Time, endpoint: &mut Endpoint) {
        let Some(id) = self.id else {
            self.next = None;
            let config = endpoint.default_config();
            endpoint
                .connect(now, &[self.peer], PORT, None, config)
                .expect("a valid address");
            return;
        };
        // Messages that exceed the send buffer are not sent.
        for _ in 0..50 {
            let data = Bytes::from(vec![0; SIZE]);
            self.sent += u64::from(endpoint.send(now, id, SendOptions::default(), data).is_ok());
        }
        self.next = Some(now + EVERY);
    }

    fn on_event(
        &mut self,
        now: carrick_proto::Time,
        _: &mut Endpoint,
        id: AssociationId,
        event: Event,
    ) {
        if matches!(event, Event::Established { .. }) {
            self.id = Some(id);
            self.next = Some(now);
        }
    }
}

struct World {
    net: Network,
    source: NodeId,
    sink: NodeId,
    /// Link behind the router.
    far: LinkId,
}

/// Two hosts with a router between them; the near link has an MTU of 9000 bytes.
fn world(far: &LinkConfig) -> World {
    let near = LinkConfig::new(100_000_000, Duration::from_millis(5)).with_mtu(9000);
    let mut builder = NetworkBuilder::new(7);
    let [source, sink] = ["source", "sink"].map(|name| builder.add_host(name));
    let router = builder.add_router("router");
    let ips = ["10.1.0.1", "10.1.0.254", "10.2.0.254", "10.2.0.1"];
    let ips = ips.map(|ip| ip.parse::<IpAddr>().expect("an address"));
    let nodes = [source, router, router, sink];
    let interfaces: Vec<_> = nodes
        .iter()
        .zip(ips)
        .map(|(node, ip)| builder.add_interface(*node, [ip]))
        .collect();
    builder.connect_both(interfaces[0], interfaces[1], near);
    let far = builder.connect_both(interfaces[2], interfaces[3], far.clone());
    let endpoint = |ip, seed| {
        let mut config = EndpointConfig::new(PORT, vec![ip], [seed; 32]);
        config.association = AssociationConfig::rfc9260()
            .with(|c| c.mtu.path_mtu_discovery = Some(PathMtuDiscovery::default()));
        Endpoint::new(config).expect("a valid configuration")
    };
    let program = MessageSource {
        peer: ips[3],
        id: None,
        next: Some(carrick_proto::Time::ZERO),
        sent: 0,
    };
    builder.set_node_program(
        source,
        Box::new(SctpHost::new(endpoint(ips[0], 1), program)),
    );
    builder.set_node_program(
        sink,
        Box::new(SctpHost::new(endpoint(ips[3], 2), BulkSink::default())),
    );
    World {
        net: builder.build().expect("a valid network"),
        source,
        sink,
        far,
    }
}

fn link(mtu: usize, silent: bool) -> LinkConfig {
    let link = LinkConfig::new(100_000_000, Duration::from_millis(5)).with_mtu(mtu);
    LinkConfig {
        mtu_black_hole: silent,
        ..link
    }
}

impl World {
    fn path(&self) -> PathStats {
        let endpoint = self
            .net
            .node::<SctpHost<MessageSource>>(self.source)
            .endpoint();
        let id = endpoint.associations().next().expect("an association");
        let association = endpoint.association(id).expect("an association");
        association.paths().next().expect("a path")
    }

    fn received(&self) -> u64 {
        let sink = self.net.node::<SctpHost<BulkSink>>(self.sink);
        sink.application().messages
    }

    /// Runs in steps of a millisecond until the condition holds; returns the duration.
    fn run_until(&mut self, limit: Duration, done: impl Fn(&PathStats) -> bool) -> Duration {
        let since = self.net.now();
        while !done(&self.path()) {
            self.net
                .run_until(self.net.now() + Duration::from_millis(1));
            assert!(self.net.now() < since + limit, "{:?}", self.path());
        }
        self.net.now() - since
    }

    fn search(&mut self) -> Duration {
        self.run_until(Duration::from_secs(100), |p| {
            p.mtu_discovery == Some(PathMtuState::SearchComplete)
        })
    }
}

/// RFC 8899, section 5.3
#[test]
fn the_smallest_mtu_is_found_with_and_without_icmp() {
    for mtu in [1280, 1400, 1500, 9000] {
        let took = [false, true].map(|silent| {
            let mut world = world(&link(mtu, silent));
            world.net.run_until(Time::from_millis(100));
            let took = world.search();
            assert_eq!(world.path().mtu, mtu);
            assert_eq!(world.path().error_count, 0);
            took
        });
        assert!(took[0] < Duration::from_millis(200), "ICMP helps: {took:?}");
        println!("MTU {mtu}: found after {took:?} with ICMP and without");
    }
}

/// RFC 8899, section 5.2
#[test]
fn a_reduced_mtu_is_detected_with_and_without_icmp() {
    for (silent, limit) in [(false, 0.1), (true, 3.0)] {
        let mut world = world(&link(1500, silent));
        world.net.run_until(Time::from_millis(100));
        world.search();
        let before = world.received();
        assert!(before > 0);
        for direction in [Direction::Forward, Direction::Backward] {
            let change = Change::SetLink {
                link: world.far,
                direction,
                config: link(1400, silent),
            };
            world.net.apply(change).expect("a link");
        }
        let took = world.run_until(Duration::from_secs(20), |p| p.mtu <= 1400);
        println!("ICMP {}: packets fit again after {took:?}", !silent);
        assert!(took < Duration::from_secs_f64(limit), "{took:?}");
        let received = world.received();
        world
            .net
            .run_until(world.net.now() + Duration::from_secs(1));
        assert!(world.received() > received, "data flows");
        world.search();
        assert_eq!(world.path().mtu, 1400);
    }
}
