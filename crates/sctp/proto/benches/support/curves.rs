//! Cost of a DATA chunk over one parameter, all others kept: the points of a curve. `carrick bench` includes this
//! folder, too.

use core::net::IpAddr;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{
    AssociationConfig, AssociationId, Endpoint, EndpointConfig, Route, SendOptions, Time,
};

/// Parameter of a curve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Curve {
    /// Bytes of a message.
    Size,
    /// Streams with messages of 100 bytes in turn.
    Streams,
    /// Associations of a server, each with a message of 100 bytes a second.
    Associations,
    /// Bytes of the receive and of the send buffer.
    Window,
    /// Lost packets of 10,000 with DATA.
    Loss,
    /// Packets of 1,000 that arrive behind the three after them.
    Reordering,
    /// Paths of an association, the first with data.
    Paths,
}

impl Curve {
    /// All curves with their names.
    pub(crate) const ALL: [(&'static str, Self); 7] = [
        ("size", Self::Size),
        ("streams", Self::Streams),
        ("associations", Self::Associations),
        ("window", Self::Window),
        ("loss", Self::Loss),
        ("reordering", Self::Reordering),
        ("paths", Self::Paths),
    ];

    /// Returns the curve of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|(known, _)| *known == name)
            .map(|(_, curve)| curve)
    }
}

/// Messages of a batch take about as many bytes, and are at most as many.
const BATCH: usize = 4 << 20;
const MAX_BATCH: usize = 5000;

/// Client with its endpoint, and its association with the server.
struct Client {
    endpoint: Endpoint,
    id: AssociationId,
    accepted: AssociationId,
}

/// One point: a server, its clients, and the network between them.
pub(crate) struct Point {
    now: Time,
    server: Endpoint,
    clients: Vec<Client>,
    message: Bytes,
    streams: u16,
    /// Clients send a message a second.
    is_paced: bool,
    /// Packets of 10,000 that are lost, and those that are late.
    loss: u64,
    late: u64,
    /// State of the generator that selects these packets.
    random: u64,
    /// Late packets, with the number of packets that pass them.
    held: VecDeque<(u8, Bytes)>,
    sent: u64,
    buffer: Vec<u8>,
}

/// Returns the address of an end on a path; the server has the highest number.
fn address(path: usize, number: u32) -> IpAddr {
    let [_, high, middle, low] = number.to_be_bytes();
    [10 + path as u8, high, middle, low].into()
}

const SERVER: u32 = 0xff_ffff;

fn endpoint(number: u32, paths: usize, config: &AssociationConfig) -> Endpoint {
    let addresses = (0..paths).map(|path| address(path, number)).collect();
    let mut endpoint = EndpointConfig::new(5000, addresses, [number as u8; 32]);
    endpoint.association = config.clone();
    endpoint.max_associations = usize::MAX;
    Endpoint::new(endpoint).expect("valid")
}

impl Point {
    /// Sets the associations up.
    pub(crate) fn new(curve: Curve, value: usize) -> Self {
        let small = matches!(curve, Curve::Streams | Curve::Associations);
        let of = |other, default| if curve == other { value } else { default };
        let size = of(Curve::Size, if small { 100 } else { 1400 });
        let (window, paths) = (of(Curve::Window, 4 << 20), of(Curve::Paths, 1));
        let config = Arc::new(AssociationConfig::modern().with(|c| {
            c.buffers.receive_buffer = window;
            c.buffers.send_buffer = window;
            c.buffers.max_receive_buffer = None;
            c.buffers.max_send_buffer = None;
            c.streams.outbound_streams = u16::MAX;
            c.paths.max_paths = c.paths.max_paths.max(paths);
        }));
        let mut point = Self {
            now: Time::from_millis(1),
            server: endpoint(SERVER, paths, &config),
            clients: Vec::new(),
            message: vec![7; size].into(),
            streams: of(Curve::Streams, 1) as u16,
            is_paced: curve == Curve::Associations,
            loss: 0,
            late: 0,
            random: 1,
            held: VecDeque::new(),
            sent: 0,
            buffer: Vec::new(),
        };
        let to: Vec<IpAddr> = (0..paths).map(|path| address(path, SERVER)).collect();
        for number in 0..of(Curve::Associations, 1) {
            let mut client = endpoint(number as u32, paths, &config);
            let id = client
                .connect(point.now, &to, 5000, None, config.clone())
                .expect("a free peer");
            let client = Client {
                endpoint: client,
                accepted: id,
                id,
            };
            point.clients.push(client);
            point.exchange(number);
            while let Some((accepted, _)) = point.server.poll_event() {
                point.clients[number].accepted = accepted;
            }
            point.clients[number].drain();
        }
        point.loss = of(Curve::Loss, 0) as u64;
        point.late = 10 * of(Curve::Reordering, 0) as u64;
        point
    }

    /// Passes this many messages to the server; returns the DATA chunks that they took.
    pub(crate) fn pass(&mut self, messages: usize) -> u64 {
        let before = self.chunks();
        if self.is_paced {
            for _ in 0..messages.div_ceil(self.clients.len()) {
                self.pass_one_each();
            }
        } else {
            self.pass_bulk(messages);
        }
        self.chunks() - before
    }

    /// Returns a number of messages for [`Self::pass`] that all streams and associations share, and that fill the
    /// window.
    pub(crate) fn batch(&self) -> usize {
        let window = (BATCH / self.message.len()).clamp(1, MAX_BATCH);
        window
            .max(self.clients.len())
            .max(usize::from(self.streams))
    }

    fn chunks(&self) -> u64 {
        let sent = self.clients.iter().map(|client| {
            let stats = client.endpoint.association(client.id).map(|a| a.stats());
            stats.map_or(0, |stats| stats.counters.data_chunks_sent)
        });
        sent.sum()
    }

    /// Passes a message of each client, a second after the ones before.
    fn pass_one_each(&mut self) {
        for number in 0..self.clients.len() {
            assert!(self.send(number), "an idle association has room");
            self.exchange(number);
            self.receive(number);
        }
        let until = self.now + Duration::from_secs(1);
        while let Some(at) = self.server.poll_timeout().filter(|at| *at <= until) {
            self.now = at;
            self.server.handle_timeout(at);
            self.deliver_from_server();
        }
        self.now = until;
        for number in 0..self.clients.len() {
            let endpoint = &mut self.clients[number].endpoint;
            if endpoint.poll_timeout().is_some_and(|at| at <= until) {
                endpoint.handle_timeout(until);
                self.exchange(number);
            }
            self.clients[number].drain();
        }
        while self.server.poll_event().is_some() {}
    }

    /// Passes messages of the only client as fast as they go, 50 microseconds a round.
    fn pass_bulk(&mut self, messages: usize) {
        let (mut sent, mut received) = (0, 0);
        while received < messages {
            while sent < messages && self.send(0) {
                sent += 1;
            }
            self.exchange(0);
            let new = self.receive(0);
            received += new;
            self.now += Duration::from_micros(50);
            let client = &mut self.clients[0].endpoint;
            let timeouts = [client.poll_timeout(), self.server.poll_timeout()];
            let due = timeouts.into_iter().flatten().min();
            if new == 0 {
                // All that moves waits for a timer.
                self.now = self.now.max(due.expect("messages are under way"));
            }
            if due.is_some_and(|at| at <= self.now) {
                client.handle_timeout(self.now);
                self.server.handle_timeout(self.now);
            }
            self.clients[0].drain();
            while self.server.poll_event().is_some() {}
        }
    }

    fn send(&mut self, number: usize) -> bool {
        let options = SendOptions::on_stream((self.sent % u64::from(self.streams)) as u16);
        let client = &mut self.clients[number];
        let message = self.message.clone();
        let taken = client.endpoint.send(self.now, client.id, options, message);
        self.sent += u64::from(taken.is_ok());
        taken.is_ok()
    }

    /// Reads what the server received from a client; returns the number of messages.
    fn receive(&mut self, number: usize) -> usize {
        let id = self.clients[number].accepted;
        let received = core::iter::from_fn(|| self.server.receive(id));
        received.map(std::hint::black_box).count()
    }

    /// Carries packets between a client and the server until neither has more.
    fn exchange(&mut self, number: usize) {
        loop {
            let mut any = false;
            while let Some((route, packets)) = self.poll_client(number) {
                any = true;
                let packets = self.disturb(packets);
                self.server.handle_datagrams(self.now, &route, packets);
            }
            if !(self.deliver_from_server() | any) {
                return;
            }
        }
    }

    fn poll_client(&mut self, number: usize) -> Option<(Route, Vec<Bytes>)> {
        self.buffer.clear();
        let client = &mut self.clients[number].endpoint;
        let transmit = client.poll_transmit(self.now, &mut self.buffer)?;
        let size = transmit.segment_size.unwrap_or(transmit.len);
        Some((returned(&transmit.route), cut(&self.buffer, size)))
    }

    /// Carries the server's packets to its clients; returns whether there were any.
    fn deliver_from_server(&mut self) -> bool {
        let mut any = false;
        loop {
            self.buffer.clear();
            let Some(transmit) = self.server.poll_transmit(self.now, &mut self.buffer) else {
                return any;
            };
            any = true;
            let IpAddr::V4(to) = transmit.route.remote else {
                continue;
            };
            let number = (to.to_bits() & SERVER) as usize;
            let size = transmit.segment_size.unwrap_or(transmit.len);
            let packets = cut(&self.buffer, size);
            self.clients[number].endpoint.handle_datagrams(
                self.now,
                &returned(&transmit.route),
                packets,
            );
        }
    }

    /// Drops some packets and delays others.
    fn disturb(&mut self, packets: Vec<Bytes>) -> Vec<Bytes> {
        if self.loss + self.late == 0 {
            return packets;
        }
        let mut arriving = Vec::with_capacity(packets.len());
        for packet in packets {
            // Knuth's MMIX generator, of which the upper bits are used.
            self.random = self
                .random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let drawn = (self.random >> 33) % 10_000;
            if drawn < self.late {
                self.held.push_back((3, packet));
                continue;
            }
            if drawn >= self.loss {
                arriving.push(packet);
            }
            self.held.iter_mut().for_each(|(left, _)| *left -= 1);
            while self.held.front().is_some_and(|(left, _)| *left == 0) {
                arriving.extend(self.held.pop_front().map(|(_, packet)| packet));
            }
        }
        // None waits for packets that may never come.
        arriving.extend(self.held.drain(..).map(|(_, packet)| packet));
        arriving
    }
}

impl Client {
    fn drain(&mut self) {
        while self.endpoint.poll_event().is_some() {}
    }
}

/// Returns the route as the receiver of a packet sees it.
fn returned(route: &Route) -> Route {
    Route {
        local: Some(route.remote),
        remote: route.local.expect("a source address"),
        ..*route
    }
}

/// Returns the packets of a transmit, copied once as by a receive call.
fn cut(buffer: &[u8], size: usize) -> Vec<Bytes> {
    let all = Bytes::copy_from_slice(buffer);
    let ends = (0..all.len()).step_by(size);
    ends.map(|at| all.slice(at..(at + size).min(all.len())))
        .collect()
}
