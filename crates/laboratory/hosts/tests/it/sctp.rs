//! The simulated SCTP host: plain and encapsulated, over several interfaces, with ICMP and with
//! address changes.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_hosts::sctp::{Application, SctpHost};
use carrick_netsim::{Change, LinkConfig, LinkId, Loss, Network, NetworkBuilder, NodeId, Time};
use carrick_proto::{
    AssociationConfig, AssociationId, Endpoint, EndpointConfig, Event, PathId, SendOptions,
};

const PORT: u16 = 5001;
const COUNT: u32 = 200;
const SIZE: usize = 5000;

/// Connects at the start and sends numbered messages as soon as possible.
struct Client {
    peers: Vec<IpAddr>,
    encapsulation: Option<u16>,
    start: Option<carrick_proto::Time>,
    events: Vec<Event>,
}

impl Application for Client {
    fn next_timer(&self) -> Option<carrick_proto::Time> {
        self.start
    }

    fn on_timer(&mut self, now: carrick_proto::Time, endpoint: &mut Endpoint) {
        self.start = None;
        let config = AssociationConfig::rfc9260();
        endpoint
            .connect(now, &self.peers, PORT, self.encapsulation, config)
            .expect("a valid address");
    }

    fn on_event(
        &mut self,
        now: carrick_proto::Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
        event: Event,
    ) {
        if matches!(event, Event::Established { .. }) {
            for number in 0..COUNT {
                let mut message = vec![0; SIZE];
                message[..4].copy_from_slice(&number.to_be_bytes());
                endpoint
                    .send(now, id, SendOptions::default(), Bytes::from(message))
                    .expect("the send buffer is large enough");
            }
            endpoint.shutdown(now, id).expect("an association");
        }
        self.events.push(event);
    }
}

#[derive(Default)]
struct Server {
    numbers: Vec<u32>,
}

impl Application for Server {
    fn on_readable(&mut self, _: carrick_proto::Time, endpoint: &mut Endpoint, id: AssociationId) {
        while let Some(message) = endpoint.receive(id) {
            let bytes = message.payload.into_bytes();
            assert_eq!(bytes.len(), SIZE);
            self.numbers.push(u32::from_be_bytes(
                *bytes.first_chunk().expect("four bytes"),
            ));
        }
    }
}

struct World {
    net: Network,
    client: NodeId,
    server: NodeId,
    links: Vec<LinkId>,
}

fn world(addresses: [&[&str]; 2], encapsulation: Option<u16>, link: &LinkConfig) -> World {
    let parse = |list: &[&str]| -> Vec<IpAddr> {
        list.iter()
            .map(|a| a.parse().expect("an address"))
            .collect()
    };
    let [local, remote] = addresses.map(parse);
    let mut builder = NetworkBuilder::new(3);
    let [client, server] = ["client", "server"].map(|name| builder.add_host(name));
    let mut links = Vec::new();
    for (a, b) in local.iter().zip(&remote) {
        let ends = [(client, *a), (server, *b)].map(|(node, ip)| builder.add_interface(node, [ip]));
        links.push(builder.connect_both(ends[0], ends[1], link.clone()));
    }
    let endpoint = |addresses: &[IpAddr], seed| {
        let mut config = EndpointConfig::new(PORT, addresses.to_vec(), [seed; 32]);
        config.association.paths.hb_interval = Duration::from_secs(5);
        Endpoint::new(config).expect("a valid configuration")
    };
    let mut a = SctpHost::new(
        endpoint(&local, 1),
        Client {
            peers: remote.clone(),
            encapsulation,
            start: Some(carrick_proto::Time::ZERO),
            events: Vec::new(),
        },
    );
    let mut b = SctpHost::new(endpoint(&remote, 2), Server::default());
    if let Some(port) = encapsulation {
        (a, b) = (a.with_encapsulation(port), b.with_encapsulation(port));
    }
    builder.set_node_program(client, Box::new(a));
    builder.set_node_program(server, Box::new(b));
    World {
        net: builder.build().expect("a valid network"),
        client,
        server,
        links,
    }
}

impl World {
    fn client(&self) -> &SctpHost<Client> {
        self.net.node(self.client)
    }

    fn assert_complete(&self) {
        let server = self.net.node::<SctpHost<Server>>(self.server);
        let expected: Vec<u32> = (0..COUNT).collect();
        assert_eq!(server.application().numbers, expected);
        let last = self.client().application().events.last();
        let closed = Event::Closed(carrick_proto::CloseReason::Shutdown);
        assert_eq!(last, Some(&closed));
        assert_eq!(self.client().unsendable(), 0);
    }
}

fn lossy() -> LinkConfig {
    LinkConfig::new(10_000_000, Duration::from_millis(10)).with_loss(Loss::Random(0.02))
}

#[test]
fn fragmented_messages_arrive_in_order() {
    let v4: [&[&str]; 2] = [&["10.0.0.1"], &["10.0.0.2"]];
    let v6: [&[&str]; 2] = [&["fd00::1"], &["fd00::2"]];
    for addresses in [v4, v6] {
        for encapsulation in [None, Some(9899)] {
            let mut world = world(addresses, encapsulation, &lossy());
            world.net.run_until(Time::from_secs(120));
            world.assert_complete();
        }
    }
}

#[test]
fn the_path_mtu_is_learned_from_icmp() {
    let link = LinkConfig::new(10_000_000, Duration::from_millis(10)).with_mtu(1300);
    let mut world = world([&["10.0.0.1"], &["10.0.0.2"]], None, &link);
    world.net.run_until(Time::from_secs(1));
    let endpoint = world.client().endpoint();
    assert!(endpoint.stats().icmp_accepted > 0);
    let mtus: Vec<usize> = endpoint
        .associations()
        .filter_map(|id| endpoint.association(id))
        .flat_map(|association| association.paths().map(|path| path.mtu))
        .collect();
    assert_eq!(mtus, [1300]);
}

#[test]
fn data_moves_to_the_second_interface() {
    let mut world = world(
        [&["10.1.0.1", "10.2.0.1"], &["10.1.0.2", "10.2.0.2"]],
        None,
        &lossy(),
    );
    world
        .net
        .at(Time::from_millis(400), Change::LinkDown(world.links[0]))
        .expect("a moment ahead");
    world.net.run_until(Time::from_secs(600));
    world.assert_complete();
    let events = &world.client().application().events;
    assert!(events.contains(&Event::PathFailed(PathId(0))), "{events:?}");
}

#[test]
fn address_changes_reach_the_endpoint() {
    let mut world = world([&["10.0.0.1"], &["10.0.0.2"]], None, &lossy());
    let interface = world.net.interfaces(world.client)[0];
    let address: IpAddr = "10.0.0.9".parse().expect("an address");
    let has = |world: &World| {
        world
            .client()
            .endpoint()
            .local_addresses()
            .contains(&address)
    };
    world
        .net
        .apply(Change::AddAddress { interface, address })
        .expect("a free address");
    assert!(has(&world));
    world
        .net
        .apply(Change::RemoveAddress { interface, address })
        .expect("a present address");
    assert!(!has(&world));
}
