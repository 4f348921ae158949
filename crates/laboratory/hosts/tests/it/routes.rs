//! Source addresses by the routes of the simulated host, and ICMP errors of its neighbours.

use std::net::IpAddr;
use std::time::Duration;

use carrick_hosts::sctp::{Application, HostRoutes, SctpHost};
use carrick_netsim::{
    Change, InputRule, InterfaceId, LinkConfig, Neighbor, Network, NetworkBuilder, NodeId, Prefix,
    Time, Unreachable,
};
use carrick_proto::{
    AssociationConfig, AssociationId, Endpoint, EndpointConfig, Event, SourceSelection,
};

const PORT: u16 = 5001;

/// Connects at the start.
struct Client {
    peers: Vec<IpAddr>,
    start: Option<carrick_proto::Time>,
    events: Vec<Event>,
}

impl Application for Client {
    fn next_timer(&self) -> Option<carrick_proto::Time> {
        self.start
    }

    fn on_timer(&mut self, now: carrick_proto::Time, endpoint: &mut Endpoint) {
        self.start = None;
        let config = AssociationConfig::rfc9260().with(|c| {
            c.paths.hb_interval = Duration::from_secs(1);
        });
        endpoint
            .connect(now, &self.peers, PORT, None, config)
            .expect("a valid address");
    }

    fn on_event(
        &mut self,
        _: carrick_proto::Time,
        _: &mut Endpoint,
        _: AssociationId,
        event: Event,
    ) {
        self.events.push(event);
    }
}

struct Server;
impl Application for Server {}

struct World {
    net: Network,
    hosts: [NodeId; 2],
    /// Interfaces by host and plane.
    ports: [[InterfaceId; 2]; 2],
    addresses: [[IpAddr; 2]; 2],
    routes: HostRoutes,
}

/// Two hosts with an association over two planes; the first follows its routes.
fn world(addresses: [[&str; 2]; 2]) -> World {
    let addresses = addresses.map(|own| own.map(|text| text.parse().expect("an address")));
    let mut builder = NetworkBuilder::new(3);
    let hosts = ["client", "server"].map(|name| builder.add_host(name));
    let ports =
        [0, 1].map(|host| addresses[host].map(|ip| builder.add_interface(hosts[host], [ip])));
    for (a, b) in ports[0].into_iter().zip(ports[1]) {
        builder.connect_both(a, b, LinkConfig::delay(Duration::from_millis(5)));
    }
    let routes = HostRoutes::default();
    let endpoint = |host: usize| {
        let seed = [host as u8 + 1; 32];
        let mut config = EndpointConfig::new(PORT, addresses[host].to_vec(), seed);
        if host == 0 {
            config.source_selection = Box::new(routes.clone());
        }
        Endpoint::new(config).expect("a valid configuration")
    };
    let client = Client {
        peers: addresses[1].to_vec(),
        start: Some(carrick_proto::Time::ZERO),
        events: Vec::new(),
    };
    let client = SctpHost::new(endpoint(0), client).with_routes(routes.clone());
    builder.set_node_program(hosts[0], Box::new(client));
    builder.set_node_program(hosts[1], Box::new(SctpHost::new(endpoint(1), Server)));
    let mut net = builder.build().expect("a valid network");
    net.run_until(Time::from_secs(5));
    World {
        net,
        hosts,
        ports,
        addresses,
        routes,
    }
}

impl World {
    fn client(&self) -> &SctpHost<Client> {
        self.net.node(self.hosts[0])
    }

    fn apply(&mut self, change: Change, then: Duration) {
        self.net.apply(change).expect("a valid change");
        let end = self.net.now() + then;
        self.net.run_until(end);
    }

    /// Returns the source addresses of the client's paths.
    fn sources(&self) -> Vec<Option<IpAddr>> {
        let endpoint = self.client().endpoint();
        let all = endpoint
            .associations()
            .filter_map(|id| endpoint.association(id));
        all.flat_map(|a| a.paths().map(|path| path.local)).collect()
    }
}

const V4: [[&str; 2]; 2] = [["10.1.0.1", "10.2.0.1"], ["10.1.0.2", "10.2.0.2"]];
const V6: [[&str; 2]; 2] = [["fd00:1::1", "fd00:2::1"], ["fd00:1::2", "fd00:2::2"]];

/// RFC 9260, section 6.4
#[test]
fn paths_take_the_source_of_a_route_that_moves() {
    for addresses in [V4, V6] {
        let mut world = world(addresses);
        let own = world.addresses[0].map(Some);
        assert_eq!(world.sources(), own);
        let (node, prefix) = (world.hosts[0], Prefix::host(world.addresses[1][0]));
        let via = world.ports[0][1];
        let moved = Change::AddRoute {
            node,
            prefix,
            source: None,
            via,
        };
        world.apply(moved, Duration::from_secs(5));
        assert_eq!(world.sources(), [own[1], own[1]]);
        world.apply(
            Change::RemoveRoutes { node, prefix },
            Duration::from_secs(5),
        );
        assert_eq!(world.sources(), own);
    }
}

#[test]
fn an_unbound_source_is_not_selected() {
    let world = world(V4);
    let [first, second] = world.addresses[0];
    let to = world.addresses[1][1];
    assert_eq!(world.routes.select(&[first, second], to), Some(second));
    assert_eq!(world.routes.select(&[first], to), Some(first));
}

/// RFC 9260, section 10, ICMP1 to ICMP9
#[test]
fn icmp_errors_of_the_network_reach_the_endpoint() {
    for addresses in [V4, V6] {
        let mut world = world(addresses);
        let interface = world.ports[0][0];
        let neighbor = Neighbor::Unresolved {
            after: Duration::from_secs(3),
        };
        let change = Change::SetNeighbor {
            interface,
            neighbor,
        };
        world.apply(change, Duration::from_secs(10));
        assert!(world.client().endpoint().stats().icmp_accepted > 0);

        let mut world = self::world(addresses);
        let input = InputRule::Reject(Unreachable::Protocol);
        for interface in world.ports[1] {
            world.apply(Change::SetInput { interface, input }, Duration::ZERO);
        }
        world.net.run_until(Time::from_secs(60));
        let closed = Event::Closed(carrick_proto::CloseReason::ProtocolUnreachable);
        assert_eq!(world.client().application().events.last(), Some(&closed));
    }
}
