//! Hosts of a random world: a machine over SCTP associations of a simulated network.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_hosts::sctp::{Application, SctpHost};
use carrick_netsim::{
    Change, Direction, LinkConfig, LinkId, Loss, Network, NetworkBuilder, NodeId, Random,
};
use carrick_proto::{
    AssociationConfig, AssociationId, Endpoint, EndpointConfig, Event, Ppid, SendOptions, StreamId,
    Time,
};
use carrick_sigtran::SctpNotification;

const PORT: u16 = 2905;
/// Central host, and its peers.
pub(crate) const HOSTS: usize = 3;
const PATHS: usize = 2;
const RECONNECT: Duration = Duration::from_millis(500);

/// Message to send to a peer.
pub(crate) struct Outgoing {
    pub(crate) peer: usize,
    pub(crate) stream: u16,
    pub(crate) unordered: bool,
    pub(crate) ppid: u32,
    pub(crate) octets: Bytes,
}

/// State machine of an adaptation layer, towards numbered peers.
pub(crate) trait Machine: 'static {
    fn notify(&mut self, now: Time, peer: usize, notification: SctpNotification);
    fn receive(&mut self, now: Time, peer: usize, stream: u16, octets: &Bytes);
    fn poll_outgoing(&mut self, now: Time) -> Option<Outgoing>;
    fn poll_timeout(&self) -> Option<Time>;
    fn handle_timeout(&mut self, now: Time);
}

/// Peer with its association.
struct Peer {
    addresses: Vec<IpAddr>,
    id: Option<AssociationId>,
    /// Time of the next attempt to connect, on the side that initiates.
    connect_at: Option<Time>,
}

/// Program of a host.
pub(crate) struct Program<M> {
    pub(crate) machine: M,
    peers: Vec<Peer>,
    initiates: bool,
}

impl<M: Machine> Program<M> {
    fn peer_of(&self, id: AssociationId) -> Option<usize> {
        self.peers.iter().position(|peer| peer.id == Some(id))
    }

    /// Sends what the machine has. Messages without an association are lost.
    pub(crate) fn flush(&mut self, now: Time, endpoint: &mut Endpoint) {
        while let Some(outgoing) = self.machine.poll_outgoing(now) {
            let Some(id) = self.peers[outgoing.peer].id else {
                continue;
            };
            let options = SendOptions {
                stream: StreamId(outgoing.stream),
                ppid: Ppid(outgoing.ppid),
                unordered: outgoing.unordered,
                ..SendOptions::default()
            };
            // An association that is being shut down accepts no more; its end is notified.
            let _ = endpoint.send(now, id, options, outgoing.octets);
        }
    }

    fn closed(&mut self, now: Time, peer: usize) {
        self.peers[peer].id = None;
        if self.initiates {
            self.peers[peer].connect_at = Some(now + RECONNECT);
        }
        self.machine.notify(now, peer, SctpNotification::Down);
    }

    /// Aborts the association with a peer.
    pub(crate) fn abort(&mut self, now: Time, endpoint: &mut Endpoint, peer: usize) {
        if let Some(id) = self.peers[peer].id {
            endpoint.abort(now, id, b"test").expect("an association");
            self.closed(now, peer);
            self.flush(now, endpoint);
        }
    }
}

impl<M: Machine> Application for Program<M> {
    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId, event: Event) {
        let streams = |endpoint: &Endpoint| {
            let stats = endpoint.association(id).map(|a| a.stats());
            stats.map_or(0, |stats| stats.outbound_streams)
        };
        let path_status = |endpoint: &Endpoint, path, active| {
            let address = endpoint.association(id)?.path_stats(path)?.remote;
            Some(SctpNotification::PathStatus { address, active })
        };
        let notification = match event {
            Event::Established {
                peer_addresses,
                outbound_streams,
                ..
            } => {
                let known = |peer: &Peer| peer.addresses.contains(&peer_addresses[0]);
                let peer = self.peers.iter().position(known).expect("a known peer");
                self.peers[peer].id = Some(id);
                Some(SctpNotification::Up { outbound_streams })
            }
            Event::Restarted => Some(SctpNotification::Restarted {
                outbound_streams: streams(endpoint),
            }),
            Event::PathFailed(path) => path_status(endpoint, path, false),
            Event::PathRecovered(path) => path_status(endpoint, path, true),
            Event::Closed(_) => {
                if let Some(peer) = self.peer_of(id) {
                    self.closed(now, peer);
                }
                None
            }
            _ => None,
        };
        if let (Some(notification), Some(peer)) = (notification, self.peer_of(id)) {
            self.machine.notify(now, peer, notification);
        }
        self.flush(now, endpoint);
    }

    fn on_readable(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        while let Some(message) = endpoint.receive(id) {
            let stream = message.stream.0;
            let octets = message.payload.into_bytes();
            if let Some(peer) = self.peer_of(id) {
                self.machine.receive(now, peer, stream, &octets);
            }
        }
        self.flush(now, endpoint);
    }

    fn next_timer(&self) -> Option<Time> {
        let connects = self.peers.iter().filter_map(|peer| peer.connect_at);
        connects.chain(self.machine.poll_timeout()).min()
    }

    fn on_timer(&mut self, now: Time, endpoint: &mut Endpoint) {
        for peer in &mut self.peers {
            if peer.connect_at.is_some_and(|at| at <= now) {
                peer.connect_at = None;
                let config = association();
                let id = endpoint.connect(now, &peer.addresses, PORT, None, config);
                peer.id = Some(id.expect("no other association"));
            }
        }
        if self.machine.poll_timeout().is_some_and(|at| at <= now) {
            self.machine.handle_timeout(now);
        }
        self.flush(now, endpoint);
    }
}

/// Parameters under which an association is lost within seconds.
fn association() -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260();
    config.timers.rto_initial = Duration::from_millis(500);
    config.timers.rto_min = Duration::from_millis(100);
    config.timers.rto_max = Duration::from_millis(500);
    config.paths.hb_interval = Duration::from_secs(1);
    config.paths.path_max_retrans = 2;
    config.paths.association_max_retrans = 5;
    config
}

fn address(host: usize, path: usize) -> IpAddr {
    [10, host as u8, path as u8, 1].into()
}

fn addresses(host: usize) -> Vec<IpAddr> {
    (0..PATHS).map(|path| address(host, path)).collect()
}

/// Network of two paths, over a router each, between a central host and its peers.
pub(crate) struct World {
    pub(crate) net: Network,
    pub(crate) random: Random,
    nodes: [NodeId; HOSTS],
    links: [[LinkId; PATHS]; HOSTS],
    incarnation: u8,
    seed: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, 0);
        let mut net = NetworkBuilder::new(seed);
        let routers = [0, 1].map(|path| net.add_router(format!("router-{path}")));
        let nodes = ["central", "peer-0", "peer-1"].map(|name| net.add_host(name));
        let mut link = |host: usize, path: usize| {
            let interface = net.add_interface(nodes[host], [address(host, path)]);
            let router = net.add_interface(routers[path], []);
            let delay = Duration::from_millis(1 + random.below(30));
            let loss = [0.0, 0.0, 0.01, 0.1][random.below(4) as usize];
            let config = LinkConfig::delay(delay).with_loss(Loss::Random(loss));
            net.connect_both(interface, router, config)
        };
        let links = [0, 1, 2].map(|host| [0, 1].map(|path| link(host, path)));
        let net = net.build().expect("a valid network");
        Self {
            net,
            random,
            nodes,
            links,
            incarnation: 0,
            seed,
        }
    }

    /// Starts a host, or restarts it with a new machine.
    pub(crate) fn start<M: Machine>(&mut self, host: usize, machine: M) {
        self.incarnation += 1;
        let mut seed = [self.incarnation; 32];
        seed[..8].copy_from_slice(&self.seed.to_be_bytes());
        let mut config = EndpointConfig::new(PORT, addresses(host), seed);
        config.association = association();
        let peers = if host == 0 { 1..HOSTS } else { 0..1 };
        let connect_at = (host != 0).then_some(self.now());
        let program = Program {
            machine,
            peers: peers
                .map(|peer| Peer {
                    addresses: addresses(peer),
                    id: None,
                    connect_at,
                })
                .collect(),
            initiates: host != 0,
        };
        let endpoint = Endpoint::new(config).expect("a valid configuration");
        let program = SctpHost::new(endpoint, program);
        self.net
            .set_node_program(self.nodes[host], Box::new(program));
    }

    pub(crate) fn now(&self) -> Time {
        carrick_hosts::core_time(self.net.now())
    }

    pub(crate) fn run(&mut self, duration: Duration) {
        let end = self.net.now() + duration;
        self.net.run_until(end);
    }

    /// Calls `f` with a host's machine, then sends what follows.
    pub(crate) fn with<M: Machine, R>(
        &mut self,
        host: usize,
        f: impl FnOnce(&mut M, Time) -> R,
    ) -> R {
        self.with_program(host, |program: &mut Program<M>, now, _| {
            f(&mut program.machine, now)
        })
    }

    pub(crate) fn with_program<M: Machine, R>(
        &mut self,
        host: usize,
        f: impl FnOnce(&mut Program<M>, Time, &mut Endpoint) -> R,
    ) -> R {
        let node = self.nodes[host];
        self.net
            .with_node(node, |node: &mut SctpHost<Program<M>>, now, out| {
                node.act(now, out, |program, now, endpoint| {
                    let result = f(program, now, endpoint);
                    program.flush(now, endpoint);
                    result
                })
            })
    }

    /// Takes a path of a host down or up.
    pub(crate) fn set_link(&mut self, host: usize, path: usize, up: bool) {
        let link = self.links[host][path];
        let change = if up {
            Change::LinkUp(link)
        } else {
            Change::LinkDown(link)
        };
        self.net.apply(change).expect("a link");
    }

    /// Repairs all links.
    pub(crate) fn heal(&mut self) {
        for host in 0..HOSTS {
            for path in 0..PATHS {
                self.set_link(host, path, true);
                for direction in [Direction::Forward, Direction::Backward] {
                    let link = self.links[host][path];
                    let loss = Loss::None;
                    let change = Change::SetLoss {
                        link,
                        direction,
                        loss,
                    };
                    self.net.apply(change).expect("a link");
                }
            }
        }
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }
}
