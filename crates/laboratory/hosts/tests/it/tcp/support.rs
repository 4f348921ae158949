//! Transfers between two hosts.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_hosts::tcp::{Connection, TcpApplication, TcpConfig, TcpHost};
use carrick_netsim::{LinkConfig, Loss, Network, NetworkBuilder, Node, NodeId, Queue, Time};

/// Sends a number of bytes, and receives those of the other end.
#[derive(Debug)]
pub(super) struct Transfer {
    sent: usize,
    bytes: usize,
    pub(super) received: usize,
    /// Time of the first byte sent, and of the last one received.
    started: Option<Time>,
    last: Option<Time>,
    /// All that was sent was acknowledged.
    pub(super) is_acknowledged: bool,
}

/// Returns the byte at an offset of a stream; 251 is a prime, so that shifts are noticed.
pub(super) fn content(offset: usize) -> u8 {
    (offset % 251) as u8
}

impl Transfer {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            sent: 0,
            bytes,
            received: 0,
            started: None,
            last: None,
            is_acknowledged: false,
        }
    }
}

impl TcpApplication for Transfer {
    fn on_data(&mut self, now: Time, data: Bytes) {
        let expected = |index| content(self.received + index);
        let wrong = data
            .iter()
            .enumerate()
            .find(|(index, byte)| **byte != expected(*index));
        assert_eq!(wrong, None, "after {} bytes", self.received);
        self.received += data.len();
        self.last = Some(now);
    }

    fn on_progress(&mut self, now: Time, connection: &mut Connection) {
        while self.sent < self.bytes {
            let end = self.bytes.min(self.sent + 16_384);
            let data: Vec<u8> = (self.sent..end).map(content).collect();
            let sent = connection.send(&data);
            if sent == 0 {
                break;
            }
            self.started.get_or_insert(now);
            self.sent += sent;
        }
        self.is_acknowledged = self.sent == self.bytes && connection.unacknowledged() == 0;
    }
}

pub(super) struct TransferOutcome {
    /// Bytes received by the server.
    pub(super) received: usize,
    /// Rate at the server, in bit/s.
    pub(super) goodput: f64,
    pub(super) retransmitted: u64,
    /// Bytes received by the client.
    pub(super) returned: usize,
    /// Each end has an acknowledgement of all that it sent.
    pub(super) is_acknowledged: bool,
}

pub(super) struct Hosts(Network);

pub(super) fn link(loss: f64) -> LinkConfig {
    let loss = if loss > 0.0 {
        Loss::Random(loss)
    } else {
        Loss::None
    };
    LinkConfig::new(1_000_000, Duration::from_millis(20))
        .with_queue(Queue::packets(50))
        .with_loss(loss)
}

/// Returns the network of two hosts with a link to the second one, and one back.
pub(super) fn network(
    addresses: [IpAddr; 2],
    links: [&LinkConfig; 2],
    seed: u64,
    client: Box<dyn Node>,
    server: Box<dyn Node>,
) -> Network {
    let mut builder = NetworkBuilder::new(seed);
    let hosts = ["a", "b"].map(|name| builder.add_host(name));
    let [from, to] = [0, 1].map(|end| builder.add_interface(hosts[end], [addresses[end]]));
    builder.connect(from, to, links[0].clone(), links[1].clone());
    for (host, program) in hosts.into_iter().zip([client, server]) {
        builder.set_node_program(host, program);
    }
    builder.build().expect("a valid network")
}

/// Returns the two hosts of a network.
pub(super) fn nodes(net: &Network) -> [NodeId; 2] {
    let nodes: Vec<NodeId> = net.nodes().collect();
    nodes.try_into().expect("two hosts")
}

/// Returns hosts that send `bytes` each; `change` has the number of the host, 0 for the client.
pub(super) fn hosts(
    addresses: [&str; 2],
    links: [&LinkConfig; 2],
    seed: u64,
    change: impl Fn(usize, &mut TcpConfig),
    bytes: [usize; 2],
) -> Hosts {
    let addresses = addresses.map(|text| text.parse().expect("an address"));
    let [near, far] = [0, 1].map(|end| {
        let mut config = TcpConfig::new(addresses[end], seed + end as u64);
        change(end, &mut config);
        config
    });
    let client = TcpHost::connect(near, (addresses[1], 80), Transfer::new(bytes[0]));
    let server = TcpHost::listen(far, 80, Transfer::new(bytes[1]));
    Hosts(network(
        addresses,
        links,
        seed,
        Box::new(client),
        Box::new(server),
    ))
}

impl Hosts {
    pub(super) fn run_for(mut self, time: Duration) -> TransferOutcome {
        self.0.run_until(Time::ZERO + time);
        let [a, b] = nodes(&self.0);
        let [client, server] = [a, b].map(|node| self.0.node::<TcpHost<Transfer>>(node));
        let [near, far] = [client, server].map(|host| host.application());
        let seconds = far
            .last
            .zip(near.started)
            .map_or(0.0, |(last, start)| (last - start).as_secs_f64());
        TransferOutcome {
            received: far.received,
            goodput: far.received as f64 * 8.0 / seconds,
            retransmitted: client.retransmitted(),
            returned: near.received,
            is_acknowledged: near.is_acknowledged && far.is_acknowledged,
        }
    }
}

/// Transfers `bytes` from each host over links with this configuration in both directions.
pub(super) fn run(
    link: &LinkConfig,
    addresses: [&str; 2],
    change: impl Fn(usize, &mut TcpConfig),
    bytes: [usize; 2],
    seed: u64,
) -> TransferOutcome {
    hosts(addresses, [link; 2], seed, change, bytes).run_for(Duration::from_secs(3000))
}
