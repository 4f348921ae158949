//! A program that sends scripted packets and records received ones, and a network of two hosts.

use std::collections::VecDeque;
use std::net::IpAddr;

use carrick_netsim::{
    Direction, InterfaceId, LinkConfig, LinkId, Network, NetworkBuilder, Node, NodeId, Outbox,
    Packet, Protocol, RouteTable, Time,
};

/// Sends scripted packets; records arrivals, link changes and address changes.
#[derive(Default)]
pub(crate) struct Recorder {
    script: VecDeque<(Time, Packet)>,
    pub(crate) received: Vec<(Time, InterfaceId, Packet)>,
    pub(crate) link_changes: Vec<(Time, InterfaceId, bool)>,
    pub(crate) address_changes: Vec<(Time, IpAddr, bool)>,
    pub(crate) route_changes: Vec<RouteTable>,
}

impl Recorder {
    /// Sends each packet at its time; the times must not decrease.
    pub(crate) fn sending(script: impl IntoIterator<Item = (Time, Packet)>) -> Self {
        Self {
            script: script.into_iter().collect(),
            ..Self::default()
        }
    }

    pub(crate) fn times(&self) -> Vec<u64> {
        let times = self.received.iter().map(|(time, ..)| time.as_nanos());
        times.collect()
    }

    /// Returns the first four bytes of each payload: see [`numbered`].
    pub(crate) fn numbers(&self) -> Vec<u32> {
        let payloads = self.received.iter().map(|(.., packet)| &packet.payload);
        payloads
            .map(|payload| u32::from_be_bytes(payload[..4].try_into().expect("four bytes")))
            .collect()
    }
}

impl Node for Recorder {
    fn handle_packet(&mut self, now: Time, interface: InterfaceId, packet: Packet, _: &mut Outbox) {
        self.received.push((now, interface, packet));
    }

    fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        while self.script.front().is_some_and(|(time, _)| *time <= now)
            && let Some((_, packet)) = self.script.pop_front()
        {
            out.send(packet);
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        self.script.front().map(|(time, _)| *time)
    }

    fn handle_link_change(&mut self, now: Time, interface: InterfaceId, up: bool, _: &mut Outbox) {
        self.link_changes.push((now, interface, up));
    }

    fn follows_routes(&self) -> bool {
        true
    }

    fn handle_route_change(&mut self, _: Time, routes: RouteTable, _: &mut Outbox) {
        self.route_changes.push(routes);
    }

    fn handle_address_change(
        &mut self,
        now: Time,
        _: InterfaceId,
        address: IpAddr,
        present: bool,
        _: &mut Outbox,
    ) {
        self.address_changes.push((now, address, present));
    }
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Returns a plain SCTP packet of `wire_len` bytes from 10.0.0.1 to 10.0.0.2 that begins with its
/// number.
pub(crate) fn numbered(number: u32, wire_len: usize) -> Packet {
    let mut payload = vec![0; wire_len - 20];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    Packet::new(ip("10.0.0.1"), ip("10.0.0.2"), Protocol::Sctp, payload)
}

/// Two hosts and the link between them.
pub(crate) struct Pair {
    pub(crate) net: Network,
    pub(crate) a: NodeId,
    pub(crate) b: NodeId,
    pub(crate) link: LinkId,
}

impl Pair {
    /// Creates a network whose first host runs `sender`; `config` is the direction to the second
    /// host, the other direction is ideal.
    pub(crate) fn new(seed: u64, config: LinkConfig, sender: Recorder) -> Self {
        let mut builder = NetworkBuilder::new(seed);
        let a = builder.add_host("a");
        let b = builder.add_host("b");
        let interface_a = builder.add_interface(a, [ip("10.0.0.1")]);
        let interface_b = builder.add_interface(b, [ip("10.0.0.2")]);
        let link = builder.connect(interface_a, interface_b, config, LinkConfig::default());
        builder.set_node_program(a, Box::new(sender));
        builder.set_node_program(b, Box::new(Recorder::default()));
        let net = builder.build().expect("a valid network");
        Self { net, a, b, link }
    }

    /// Creates a network as [`Self::new`] does, with `count` numbered packets sent at `interval`
    /// from the start.
    pub(crate) fn stream(
        seed: u64,
        config: LinkConfig,
        count: u32,
        wire_len: usize,
        interval: std::time::Duration,
    ) -> Self {
        let script = (0..count).map(|n| (Time::ZERO + interval * n, numbered(n + 1, wire_len)));
        Self::new(seed, config, Recorder::sending(script))
    }

    pub(crate) fn run(&mut self) -> &mut Self {
        self.net.run_while(|_| true);
        self
    }

    pub(crate) fn receiver(&self) -> &Recorder {
        self.net.node(self.b)
    }

    pub(crate) fn stats(&self) -> carrick_netsim::LinkStats {
        self.net.link_stats(self.link, Direction::Forward)
    }
}

/// Runs `f` with a seed, which is printed if it fails.
pub(crate) fn with_seed(seed: u64, f: impl FnOnce(u64)) {
    struct Name(u64);
    impl Drop for Name {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("failed with seed {}", self.0);
            }
        }
    }
    let _name = Name(seed);
    f(seed);
}

/// Returns a plain SCTP packet of 100 bytes of payload.
pub(crate) fn packet(source: &str, destination: &str) -> Packet {
    Packet::new(ip(source), ip(destination), Protocol::Sctp, vec![0; 100])
}

/// Sends a packet now from a host that runs a [`Recorder`].
pub(crate) fn send(net: &mut Network, host: NodeId, packet: Packet) {
    net.with_node(host, |_: &mut Recorder, _, out| out.send(packet));
}
