//! Two hosts with sockets, two links between them, and a small notation for calls.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use carrick_netsim::{
    Change, InterfaceId, LinkConfig, LinkId, Network, NetworkBuilder, Node, NodeId, Outbox, Packet,
    Protocol,
};
use carrick_proto::{AssociationConfig, Ecn, Route, Time};
use carrick_sockets::ancillary::{ControlMessage, write_control};
use carrick_sockets::linux::{
    EventOption, IPPROTO_SCTP, Layout, SCTP_ALL_ASSOC, SCTP_EVENT, SCTP_SNDINFO, SndInfo,
};
use carrick_sockets::{
    Config, Errno, Family, OutgoingMessage, Readiness, Received, SocketId, Sockets, Style,
};

pub(crate) const PORT: u16 = 5000;

/// Host of the simulated network: sockets above plain IP.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) sockets: Sockets,
    config: Config,
    /// Hand over whenever the outputs have been drained. Default: the environment variable
    /// `CARRICK_HANDOVER=1`, so that all tests can run with handovers.
    hands_over: bool,
    /// Destination, and DSCP and ECN field, of each packet that was sent.
    sent_classes: Vec<(IpAddr, u8)>,
}

impl Host {
    /// Continues the sockets by their export.
    fn hand_over(&mut self, now: Time) {
        let export = self.sockets.export(now).expect("an export");
        let successor = Sockets::import(self.config.clone(), now, export.as_bytes());
        self.sockets = successor.expect("the sockets of an export");
        let again = self.sockets.export(now).expect("an export");
        assert!(again == export, "the state changed");
    }

    fn drain(&mut self, now: Time, out: &mut Outbox) {
        let mut buffer = Vec::new();
        while let Some(transmit) = self.sockets.poll_transmit(now, &mut buffer) {
            let route = transmit.route;
            let size = transmit.segment_size.unwrap_or(transmit.len).max(1);
            for segment in buffer.chunks(size) {
                let payload = Bytes::copy_from_slice(segment);
                let host = self.sockets.host_addresses();
                let same_family = |ip: &&IpAddr| ip.is_ipv4() == route.remote.is_ipv4();
                // The choice of the operating system if the core makes none.
                let choice = || host.iter().find(same_family).copied();
                let source = route.local.or_else(choice).expect("a local address");
                let packet = Packet::new(source, route.remote, Protocol::Sctp, payload);
                self.sent_classes
                    .push((route.remote, transmit.traffic_class()));
                out.send(packet.with_dscp(transmit.dscp));
            }
            buffer.clear();
        }
        if self.hands_over {
            self.hand_over(now);
            // Sets the timers.
            assert!(self.sockets.poll_transmit(now, &mut buffer).is_none());
        }
    }
}

impl Node for Host {
    fn handle_packet(
        &mut self,
        now: carrick_netsim::Time,
        _: InterfaceId,
        packet: Packet,
        out: &mut Outbox,
    ) {
        let now = Time::from_nanos(now.as_nanos());
        let route = Route {
            local: Some(packet.destination),
            remote: packet.source,
            encapsulation: None,
            ecn: Ecn::NotCapable,
        };
        self.sockets.handle_datagram(now, &route, packet.payload);
        self.drain(now, out);
    }

    fn handle_timeout(&mut self, now: carrick_netsim::Time, out: &mut Outbox) {
        let now = Time::from_nanos(now.as_nanos());
        self.sockets.handle_timeout(now);
        self.drain(now, out);
    }

    fn next_timeout(&self) -> Option<carrick_netsim::Time> {
        let next = self.sockets.poll_timeout()?;
        Some(carrick_netsim::Time::from_nanos(next.as_nanos()))
    }
}

/// Two hosts with two addresses of each family, and a link for each pair of addresses.
pub(crate) struct World {
    net: Network,
    nodes: [NodeId; 2],
    links: [LinkId; 2],
}

/// Host 0 or 1.
pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;

/// Address of a host on a link.
pub(crate) fn ip(host: usize, link: u8) -> IpAddr {
    [10, 0, link, 1 + host as u8].into()
}

/// IPv6 address of a host on a link.
pub(crate) fn ip6(host: usize, link: u16) -> IpAddr {
    [0xfd00, link, 0, 0, 0, 0, 0, 1 + host as u16].into()
}

/// Socket address of a host on the first link.
pub(crate) fn at(host: usize, port: u16) -> SocketAddr {
    SocketAddr::new(ip(host, 0), port)
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// Creates the hosts with a change of their configuration.
    pub(crate) fn with(change: impl Fn(&mut Config)) -> Self {
        let mut builder = NetworkBuilder::new(1);
        let nodes = ["a", "b"].map(|name| builder.add_host(name));
        let links = [0, 1].map(|link: u8| {
            let ends = [A, B].map(|host| {
                let addresses = [ip(host, link), ip6(host, link.into())];
                builder.add_interface(nodes[host], addresses)
            });
            builder.connect_both(ends[0], ends[1], LinkConfig::delay(ms(10)))
        });
        for host in [A, B] {
            let mut addresses = Vec::new();
            for link in [0, 1] {
                addresses.extend([ip(host, link), ip6(host, link.into())]);
            }
            let mut config = Config::new(addresses, [1 + host as u8; 32]);
            change(&mut config);
            let sockets = Sockets::new(config.clone()).expect("valid parameters");
            let hands_over = std::env::var("CARRICK_HANDOVER").is_ok_and(|on| on == "1");
            let program = Host {
                sockets,
                config,
                hands_over,
                sent_classes: Vec::new(),
            };
            builder.set_node_program(nodes[host], Box::new(program));
        }
        let net = builder.build().expect("a network");
        Self { net, nodes, links }
    }

    /// Returns the sockets of a host without sending packets afterwards.
    pub(crate) fn look(&mut self, host: usize) -> &mut Sockets {
        &mut self.net.node_mut::<Host>(self.nodes[host]).sockets
    }

    /// Returns the destinations and the traffic classes of the packets that a host has sent since the last call.
    pub(crate) fn sent_classes(&mut self, host: usize) -> Vec<(IpAddr, u8)> {
        std::mem::take(&mut self.net.node_mut::<Host>(self.nodes[host]).sent_classes)
    }

    /// Performs calls on the sockets of a host, and sends the packets.
    pub(crate) fn on<R>(&mut self, host: usize, call: impl FnOnce(&mut Sockets, Time) -> R) -> R {
        let node = self.nodes[host];
        self.net.with_node::<Host, R>(node, |host, now, out| {
            let now = Time::from_nanos(now.as_nanos());
            let result = call(&mut host.sockets, now);
            host.drain(now, out);
            result
        })
    }

    /// Hands no sockets over, whatever the environment variable is: reports that wait for a log are not part of
    /// the state.
    pub(crate) fn keep_sockets(&mut self) {
        for node in self.nodes {
            self.net.node_mut::<Host>(node).hands_over = false;
        }
    }

    /// Hands the sockets of a host over to successors, which send the packets that are due.
    pub(crate) fn hand_over(&mut self, host: usize) {
        let node = self.nodes[host];
        self.net.with_node::<Host, ()>(node, |host, now, out| {
            let now = Time::from_nanos(now.as_nanos());
            host.hand_over(now);
            host.drain(now, out);
        });
    }

    pub(crate) fn run(&mut self, duration: Duration) {
        let end = self.net.now() + duration;
        self.net.run_until(end);
    }

    /// Changes the parameters of later associations of a host, as its daemon does when its configuration changes: a
    /// successor gets them with its configuration.
    pub(crate) fn set_defaults(&mut self, host: usize, config: AssociationConfig) {
        self.look(host)
            .set_default_association(config.clone())
            .unwrap();
        let node = self.net.node_mut::<Host>(self.nodes[host]);
        node.config.association = config;
    }

    /// Breaks or repairs a link.
    pub(crate) fn set_link(&mut self, link: usize, up: bool) {
        let link = self.links[link];
        let change = if up {
            Change::LinkUp(link)
        } else {
            Change::LinkDown(link)
        };
        self.net.apply(change).expect("a link");
    }

    pub(crate) fn one_to_one(&mut self, host: usize) -> SocketId {
        let socket = self.look(host).socket(Style::OneToOne, Family::Inet);
        socket.expect("a socket")
    }

    pub(crate) fn one_to_many(&mut self, host: usize) -> SocketId {
        let socket = self.look(host).socket(Style::OneToMany, Family::Inet);
        socket.expect("a socket")
    }

    /// Returns a listening socket of host B at [`PORT`] on its first address.
    pub(crate) fn listener(&mut self, style: Style, backlog: i32) -> SocketId {
        let socket = self.look(B).socket(style, Family::Inet).unwrap();
        self.look(B).bind(socket, at(B, PORT)).unwrap();
        self.on(B, |s, _| s.listen(socket, backlog)).unwrap();
        socket
    }

    /// Returns a connected pair of one-to-one sockets of hosts A and B.
    pub(crate) fn pair(&mut self) -> (SocketId, SocketId) {
        let listener = self.listener(Style::OneToOne, 5);
        let a = self.one_to_one(A);
        let started = self.connect(a, at(B, PORT));
        assert_eq!(started, Err(Errno::EINPROGRESS));
        self.run(ms(100));
        let (b, _) = self
            .on(B, |s, _| s.accept(listener))
            .expect("an association");
        self.on(B, |s, now| s.close(now, listener)).unwrap();
        self.changes(A);
        self.changes(B);
        (a, b)
    }

    pub(crate) fn connect(&mut self, socket: SocketId, peer: SocketAddr) -> Result<(), Errno> {
        self.on(A, |s, now| s.connect(now, socket, peer))
    }

    pub(crate) fn send(
        &mut self,
        host: usize,
        socket: SocketId,
        data: &[u8],
    ) -> Result<usize, Errno> {
        self.send_msg(host, socket, None, data, &[])
    }

    pub(crate) fn send_to(
        &mut self,
        host: usize,
        socket: SocketId,
        peer: SocketAddr,
        data: &[u8],
    ) -> Result<usize, Errno> {
        self.send_msg(host, socket, Some(peer), data, &[])
    }

    pub(crate) fn send_msg(
        &mut self,
        host: usize,
        socket: SocketId,
        address: Option<SocketAddr>,
        data: &[u8],
        control: &[ControlMessage],
    ) -> Result<usize, Errno> {
        let (control, _) = write_control(control, usize::MAX);
        let message = OutgoingMessage {
            address,
            data: Bytes::copy_from_slice(data),
            control: &control,
        };
        self.on(host, |s, now| s.sendmsg(now, socket, &message))
    }

    /// Reads with a large buffer.
    pub(crate) fn recv(&mut self, host: usize, socket: SocketId) -> Result<Received, Errno> {
        self.recv_with(host, socket, 1 << 20, 0)
    }

    pub(crate) fn recv_with(
        &mut self,
        host: usize,
        socket: SocketId,
        size: usize,
        flags: i32,
    ) -> Result<Received, Errno> {
        self.on(host, |s, now| s.recvmsg(now, socket, (size, 1024), flags))
    }

    /// Reads the bytes of all messages and notifications until an error or the end.
    pub(crate) fn recv_all(&mut self, host: usize, socket: SocketId) -> Vec<Received> {
        let mut all = Vec::new();
        while let Ok(received) = self.recv(host, socket) {
            if received == Received::default() {
                break;
            }
            all.push(received);
        }
        all
    }

    pub(crate) fn set<T: Layout>(
        &mut self,
        host: usize,
        socket: SocketId,
        name: i32,
        value: &T,
    ) -> Result<i32, Errno> {
        let value = value.encode();
        self.set_bytes(host, socket, (IPPROTO_SCTP, name), &value)
    }

    pub(crate) fn set_int(
        &mut self,
        host: usize,
        socket: SocketId,
        option: (i32, i32),
        value: i32,
    ) -> Result<i32, Errno> {
        self.set_bytes(host, socket, option, &value.to_ne_bytes())
    }

    pub(crate) fn set_bytes(
        &mut self,
        host: usize,
        socket: SocketId,
        option: (i32, i32),
        value: &[u8],
    ) -> Result<i32, Errno> {
        self.on(host, |s, now| s.setsockopt(now, socket, option, value))
    }

    pub(crate) fn get<T: Layout>(
        &mut self,
        host: usize,
        socket: SocketId,
        name: i32,
        value: &T,
    ) -> Result<T, Errno> {
        let bytes = self.get_bytes(host, socket, (IPPROTO_SCTP, name), &value.encode())?;
        T::decode(&bytes)
    }

    pub(crate) fn get_int(
        &mut self,
        host: usize,
        socket: SocketId,
        option: (i32, i32),
    ) -> Result<i32, Errno> {
        let bytes = self.get_bytes(host, socket, option, &[0; 4])?;
        Ok(i32::from_ne_bytes(bytes.try_into().expect("an int")))
    }

    pub(crate) fn get_bytes(
        &mut self,
        host: usize,
        socket: SocketId,
        option: (i32, i32),
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        self.on(host, |s, now| s.getsockopt(now, socket, option, buffer))
    }

    /// Subscribes a socket to notifications, of existing and future associations.
    pub(crate) fn subscribe(&mut self, host: usize, socket: SocketId, kinds: &[i32]) {
        for kind in kinds {
            let event = EventOption {
                assoc_id: SCTP_ALL_ASSOC,
                kind: *kind as u16,
                on: 1,
            };
            self.set(host, socket, SCTP_EVENT, &event).expect("a type");
        }
    }

    pub(crate) fn readiness(&mut self, host: usize, socket: SocketId) -> Readiness {
        self.look(host).readiness(socket).expect("a socket")
    }

    /// Returns all changes of readiness of a host as sockets with their edges.
    pub(crate) fn changes(&mut self, host: usize) -> Vec<(SocketId, Readiness)> {
        let sockets = self.look(host);
        std::iter::from_fn(|| sockets.poll_readiness())
            .map(|change| (change.socket, change.edges))
            .collect()
    }
}

/// Returns a control message of `SCTP_SNDINFO` with these flags for an association.
pub(crate) fn sndinfo(flags: i32, assoc_id: i32) -> ControlMessage {
    let info = SndInfo {
        flags: flags as u16,
        assoc_id,
        ..SndInfo::default()
    };
    ControlMessage::sctp(SCTP_SNDINFO, info.encode())
}

/// Returns the type of a notification.
pub(crate) fn kind(received: &Received) -> i32 {
    u16::from_ne_bytes([received.data[0], received.data[1]]).into()
}
