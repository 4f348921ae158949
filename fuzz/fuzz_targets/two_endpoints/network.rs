//! The endpoints, the packets between them, and the steps that the input asks for.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{
    AssociationConfig, AssociationId, AssociationStats, Endpoint, EndpointConfig, Event, IcmpInput,
    IcmpKind, PathId, Route, SendOptions, StateName, Time,
};
use carrick_wire::{Chunk, Packet};

use crate::input::Input;
use crate::messages::{Direction, payload};

/// Packets on their way at most; further ones are lost.
const CAPACITY: usize = 512;

/// Messages and associations that the users ask for at most: enough to fill all buffers.
const MAX_SENDS: usize = 2000;
const MAX_CONNECTS: usize = 40;

/// Quarters of a minute in which everything has to come to its end.
const SETTLE_ROUNDS: u32 = 60;

struct Flight {
    /// As the receiver sees it.
    route: Route,
    to: usize,
    bytes: Bytes,
}

pub struct Network {
    now: Time,
    ends: [Endpoint; 2],
    config: AssociationConfig,
    addresses: [Vec<IpAddr>; 2],
    flights: VecDeque<Flight>,
    /// The last packets, which can come again after they arrived.
    old: VecDeque<Flight>,
    /// Messages by the endpoint that sends them.
    messages: [Direction; 2],
    sends: usize,
    connects: usize,
    /// A packet was changed or forged: nothing but safety can be promised.
    tampered: bool,
    /// An association was cut off, which its peer may not have learnt.
    cut: bool,
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

impl Network {
    pub fn new(input: &mut Input<'_>) -> Self {
        let flags = input.byte();
        let sizes = input.byte();
        // Tiny chunks only where few of them fill the buffer: they take the most time.
        let tiny = [7, 101][usize::from(sizes >> 3 & 1)];
        let config = AssociationConfig {
            receive_buffer: [1500, 4000, 20_000, 100_000][usize::from(sizes & 3)],
            receive_buffer_chunks: [16, 4096][usize::from(sizes >> 2 & 1)],
            send_buffer: [3000, 100_000][usize::from(sizes >> 3 & 1)],
            path_mtu: [1500, 576, 1300, 9000][usize::from(sizes >> 4 & 3)],
            max_payload: [None, Some(tiny)][usize::from(sizes >> 6 & 1)],
            nagle: flags & 1 != 0,
            monitor_pairs: flags & 2 != 0,
            sender_sws_avoidance: flags & 4 == 0,
            receiver_sws_avoidance: flags & 8 == 0,
            outbound_streams: [3, 20][usize::from(flags >> 4 & 1)],
            max_inbound_streams: [10, 2][usize::from(flags >> 5 & 1)],
            hb_interval: Duration::from_secs(5),
            rto_max: Duration::from_secs(10),
            trace: flags & 0x40 != 0,
            ..AssociationConfig::default()
        };
        let all = [
            vec![ip("10.0.0.1"), ip("10.1.0.1"), ip("fd00::1")],
            vec![ip("10.0.0.2"), ip("10.1.0.2"), ip("fd00::2")],
        ];
        let count = if flags & 0x80 == 0 { 2 } else { 3 };
        let addresses = all.map(|list| list[..count].to_vec());
        let ends = [0, 1].map(|end: usize| {
            let mut endpoint = EndpointConfig::new(
                5000 + end as u16,
                addresses[end].clone(),
                [end as u8 + 1; 32],
            );
            endpoint.association = config.clone();
            endpoint.max_associations = 8;
            Endpoint::new(endpoint).expect("a valid configuration")
        });
        Self {
            now: Time::from_millis(1000),
            ends,
            config,
            addresses,
            flights: VecDeque::new(),
            old: VecDeque::new(),
            messages: [Direction::default(), Direction::default()],
            sends: 0,
            connects: 0,
            tampered: false,
            cut: false,
        }
    }

    /// Does what the next byte of the input says.
    pub fn step(&mut self, input: &mut Input<'_>) {
        let code = input.byte();
        let end = usize::from(code & 1);
        match code >> 1 & 31 {
            0 => self.connect(end, input),
            1..=4 => self.send(end, input),
            5..=8 => self.pass(1 << (input.byte() & 15)),
            9..=13 => self.deliver(0),
            14 => (0..input.below(32)).for_each(|_| self.deliver(0)),
            15 => self.deliver_one_of(input),
            16 => drop(self.flights.pop_front()),
            17 => self.duplicate(input),
            18 => self.replay(input),
            19 => self.change(input),
            20 => self.truncate(input),
            21 => self.forge(end, input),
            22 | 23 => self.read(end, input.below(16) + 1),
            24 => self.operate(end, input, |e, now, id, _| {
                let _ = e.shutdown(now, id);
            }),
            25 => self.abort(end, input),
            26 => self.path_operation(end, input),
            27 => self.icmp(end, input),
            28 => self.local_address(end, input),
            29 => self.run(Duration::from_millis(u64::from(input.byte()) * 10)),
            30 => self.lose_all(end),
            _ => self.read_all(),
        }
        self.drain();
    }

    fn connect(&mut self, end: usize, input: &mut Input<'_>) {
        self.connects += 1;
        if self.connects > MAX_CONNECTS {
            return;
        }
        let skip = input.below(self.addresses[1 - end].len());
        let peers = self.addresses[1 - end][skip..].to_vec();
        let port = self.ends[1 - end].port();
        // A peer that is connected already is refused, and no harm.
        let _ = self.ends[end].connect(self.now, &peers, port, None, self.config.clone());
    }

    /// An association of the endpoint, if it has any.
    fn choose(&self, end: usize, input: &mut Input<'_>) -> Option<AssociationId> {
        let all: Vec<AssociationId> = self.ends[end].associations().collect();
        if all.len() < 2 {
            return all.first().copied();
        }
        Some(all[input.below(all.len())])
    }

    fn send(&mut self, end: usize, input: &mut Input<'_>) {
        let what = input.byte();
        let size = match what & 3 {
            0 => usize::from(input.byte()) + 1,
            1 => 1400 + usize::from(input.byte()),
            2 => usize::from(input.half() & 0x3fff) + 1,
            _ => 1,
        };
        let Some(id) = self.choose(end, input).filter(|_| self.sends < MAX_SENDS) else {
            return;
        };
        self.sends += 1;
        let (book, number, ppid) = self.messages[end].next_place(id);
        let mut options = SendOptions::on_stream(u16::from(what >> 2 & 3));
        options.unordered = what & 0x10 != 0;
        options.immediate = what & 0x20 != 0;
        options.no_delay = what & 0x40 != 0;
        options.path = (what & 0x80 != 0).then_some(PathId(1));
        options.ppid = ppid;
        options.context = u64::from(ppid.0);
        let bytes = payload(book, number, size);
        let taken = self.ends[end].send(self.now, id, options, bytes.clone());
        if taken.is_ok() {
            self.messages[end].sent(book, options.stream.0, options.unordered, bytes);
        }
    }

    /// Time goes on by this many milliseconds, timers expire on the way, nothing arrives.
    fn pass(&mut self, millis: u64) {
        let until = self.now + Duration::from_millis(millis);
        while self.next_timer(until) {}
        self.now = until;
    }

    /// Handles the next timer until then; `false` if there is none.
    fn next_timer(&mut self, until: Time) -> bool {
        let next = self.ends.iter().filter_map(Endpoint::poll_timeout).min();
        let Some(at) = next.filter(|at| *at <= until) else {
            return false;
        };
        self.now = self.now.max(at);
        for end in &mut self.ends {
            end.handle_timeout(self.now);
            let next = end.poll_timeout();
            assert!(next.is_none_or(|at| at > self.now), "a timer stays due");
        }
        self.drain();
        true
    }

    fn deliver(&mut self, index: usize) {
        let Some(flight) = self.flights.remove(index) else {
            return;
        };
        self.ends[flight.to].handle_datagram(self.now, &flight.route, flight.bytes.clone());
        self.old.push_back(flight);
        if self.old.len() > 32 {
            self.old.pop_front();
        }
        self.drain();
    }

    fn deliver_one_of(&mut self, input: &mut Input<'_>) {
        if !self.flights.is_empty() {
            let index = input.below(self.flights.len());
            self.deliver(index);
        }
    }

    fn launch(&mut self, flight: Flight) {
        if self.flights.len() < CAPACITY {
            self.flights.push_back(flight);
        }
    }

    fn duplicate(&mut self, input: &mut Input<'_>) {
        if self.flights.is_empty() {
            return;
        }
        let index = input.below(self.flights.len());
        let copy = self.flights[index].copy();
        self.launch(copy);
    }

    /// A packet that arrived already comes once more.
    fn replay(&mut self, input: &mut Input<'_>) {
        if self.old.is_empty() {
            return;
        }
        let copy = self.old[input.below(self.old.len())].copy();
        self.launch(copy);
    }

    /// Some bytes of a packet change, and its checksum is right for them.
    fn change(&mut self, input: &mut Input<'_>) {
        if self.flights.is_empty() {
            return;
        }
        self.tampered = true;
        let index = input.below(self.flights.len());
        let mut bytes = self.flights[index].bytes.to_vec();
        for _ in 0..=input.below(4) {
            // Mostly near the beginning, where the headers are.
            let reach = if input.byte() & 1 == 0 { 64 } else { 65_536 };
            let at = input.below(bytes.len().clamp(1, reach));
            let value = input.byte();
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        fix_checksum(&mut bytes);
        self.flights[index].bytes = bytes.into();
    }

    fn truncate(&mut self, input: &mut Input<'_>) {
        if self.flights.is_empty() {
            return;
        }
        self.tampered = true;
        let index = input.below(self.flights.len());
        let mut bytes = self.flights[index].bytes.to_vec();
        bytes.truncate(input.below(bytes.len() + 1));
        fix_checksum(&mut bytes);
        self.flights[index].bytes = bytes.into();
    }

    /// A packet from nowhere: chunks from the input behind the header of a real packet, so that
    /// its tag is right, or behind one from the input.
    fn forge(&mut self, end: usize, input: &mut Input<'_>) {
        self.tampered = true;
        let how = input.byte();
        let mut bytes = Vec::new();
        let model = self.flights.iter().chain(&self.old).rfind(|f| f.to == end);
        let route = match model {
            Some(model) if how & 1 == 0 => {
                bytes.extend_from_slice(&model.bytes[..12.min(model.bytes.len())]);
                model.route
            }
            _ => {
                bytes.extend_from_slice(input.bytes(12));
                Route::plain(self.addresses[end][0], self.addresses[1 - end][0])
            }
        };
        let count = input.below(200);
        for _ in 0..=(how >> 1 & 3) {
            bytes.extend_from_slice(input.bytes(count));
        }
        if how & 8 != 0 {
            // Again and again, up to a large packet.
            let chunks = bytes.get(12..).unwrap_or_default().to_vec();
            while !chunks.is_empty() && bytes.len() + chunks.len() <= 65_000 {
                bytes.extend_from_slice(&chunks);
            }
        }
        fix_checksum(&mut bytes);
        let flight = Flight {
            route,
            to: end,
            bytes: bytes.into(),
        };
        self.launch(flight);
    }

    fn read(&mut self, end: usize, count: usize) {
        let ids: Vec<AssociationId> = self.ends[end].associations().collect();
        for id in ids {
            for _ in 0..count {
                let Some(message) = self.ends[end].receive(id) else {
                    break;
                };
                if !self.tampered {
                    self.messages[1 - end].received(id, message);
                }
            }
        }
    }

    fn read_all(&mut self) {
        self.read(0, usize::MAX);
        self.read(1, usize::MAX);
    }

    fn operate(
        &mut self,
        end: usize,
        input: &mut Input<'_>,
        operation: impl FnOnce(&mut Endpoint, Time, AssociationId, &mut Input<'_>),
    ) {
        if let Some(id) = self.choose(end, input) {
            operation(&mut self.ends[end], self.now, id, input);
        }
    }

    fn abort(&mut self, end: usize, input: &mut Input<'_>) {
        self.cut = true;
        self.operate(end, input, |e, now, id, input| {
            let reason = vec![b'r'; input.below(3000)];
            let _ = e.abort(now, id, &reason);
        });
    }

    fn path_operation(&mut self, end: usize, input: &mut Input<'_>) {
        self.operate(end, input, |e, now, id, input| {
            let path = PathId(input.byte() & 3);
            let _ = match input.byte() & 7 {
                0 | 1 => e.set_primary(now, id, path),
                2 | 3 => e.request_heartbeat(now, id, path),
                4 => e.set_heartbeat(now, id, path, false),
                5 => e.set_heartbeat(now, id, path, true),
                6 => e.set_failure_threshold(now, id, path, u32::from(input.byte() & 7)),
                _ => e.set_path_mtu(now, id, path, usize::from(input.half())),
            };
        });
    }

    /// An ICMP message about a packet on its way, or about nothing.
    fn icmp(&mut self, end: usize, input: &mut Input<'_>) {
        let kind = match input.byte() & 7 {
            0 => {
                self.cut = true;
                IcmpKind::ProtocolUnreachable
            }
            1 => IcmpKind::PortUnreachable,
            2 | 3 => IcmpKind::DestinationUnreachable,
            _ => IcmpKind::PacketTooBig {
                mtu: usize::from(input.half()),
            },
        };
        let about = self.flights.iter().rev().find(|f| f.to != end);
        let (remote, quoted) = match about {
            Some(flight) => (flight.route.local, flight.bytes.clone()),
            None => (None, Bytes::copy_from_slice(input.bytes(28))),
        };
        let icmp = IcmpInput {
            kind,
            remote: remote.unwrap_or(self.addresses[1 - end][0]),
            encapsulated: false,
            quoted: &quoted[..quoted.len().min(28)],
        };
        self.ends[end].handle_icmp(self.now, &icmp);
    }

    /// A local address goes or comes back. The first one stays.
    fn local_address(&mut self, end: usize, input: &mut Input<'_>) {
        let which = 1 + input.below(self.addresses[end].len() - 1);
        let address = self.addresses[end][which];
        if self.ends[end].local_addresses().contains(&address) {
            self.ends[end].local_address_removed(self.now, address);
        } else {
            self.ends[end].local_address_added(address);
        }
    }

    fn lose_all(&mut self, end: usize) {
        self.flights.retain(|f| f.to == end);
    }

    /// Everything arrives, without delay, for this long; users read all they get.
    fn run(&mut self, duration: Duration) {
        let until = self.now + duration;
        let mut turns = 0_u32;
        loop {
            while !self.flights.is_empty() {
                // A hundred packets at once, then some time for timers.
                for _ in 0..100 {
                    self.deliver(0);
                }
                self.read_all();
                self.drain();
                self.now += Duration::from_millis(1);
                turns += 1;
                assert!(turns < 100_000, "the endpoints never come to rest");
            }
            if !self.next_timer(until) {
                break;
            }
        }
        self.now = self.now.max(until);
        self.read_all();
    }

    /// The network works again, and goes on until everything is where it belongs.
    pub fn settle(&mut self) {
        for end in [0, 1] {
            for address in self.addresses[end].clone() {
                self.ends[end].local_address_added(address);
            }
        }
        self.drain();
        // Small chunks through a small buffer take their time; what is stuck does not move at all.
        let (mut idle, mut left) = (0, self.unsent());
        while idle < SETTLE_ROUNDS {
            self.run(Duration::from_secs(15));
            if self.is_settled() {
                break;
            }
            let now = self.unsent();
            idle = if now == left { idle + 1 } else { 0 };
            left = now;
        }
        if self.tampered || self.cut {
            return;
        }
        for end in [0, 1] {
            for id in self.ends[end].associations() {
                let stats = self.ends[end].association_stats(id).expect("it exists");
                assert!(is_at_rest(&stats), "stuck: {stats:?}");
                self.messages[end].assert_complete(id);
            }
        }
    }

    /// Bytes that the senders still hold.
    fn unsent(&self) -> usize {
        let ends = self.ends.iter();
        let all = ends.flat_map(|end| end.associations().filter_map(|id| end.association_stats(id)));
        all.map(|stats| stats.send_buffer_bytes).sum()
    }

    fn is_settled(&self) -> bool {
        self.ends.iter().all(|end| {
            end.associations()
                .filter_map(|id| end.association_stats(id))
                .all(|stats| is_at_rest(&stats))
        })
    }

    /// Takes what the endpoints have to say.
    fn drain(&mut self) {
        for end in [0, 1] {
            let mut buf = Vec::new();
            let mut calls = 0;
            while let Some(transmit) = self.ends[end].poll_transmit(self.now, &mut buf) {
                calls += 1;
                assert!(calls < 20_000, "an endpoint never stops sending");
                assert_eq!(transmit.len, buf.len(), "the length is what was written");
                let all = Bytes::from(std::mem::take(&mut buf));
                let size = transmit.segment_size.unwrap_or(all.len());
                for packet in all.chunks(size) {
                    self.depart(end, &transmit.route, all.slice_ref(packet));
                }
            }
            while let Some((id, event)) = self.ends[end].poll_event() {
                self.on_event(end, id, &event);
            }
            self.check(end);
        }
    }

    fn depart(&mut self, end: usize, route: &Route, bytes: Bytes) {
        let packet = Packet::parse(&bytes).expect("endpoints send packets");
        assert!(packet.checksum_is_valid());
        for raw in packet.chunks() {
            Chunk::parse(raw.expect("a whole chunk")).expect("a good chunk");
        }
        let (Some(local), to) = (route.local, 1 - end) else {
            return;
        };
        // Packets to or from an address that is gone, or that never was, are lost.
        if self.ends[to].local_addresses().contains(&route.remote)
            && self.ends[end].local_addresses().contains(&local)
        {
            let route = Route::plain(route.remote, local);
            self.launch(Flight { route, to, bytes });
        }
    }

    fn on_event(&mut self, end: usize, id: AssociationId, event: &Event) {
        match event {
            Event::SendFailed(failure) => self.messages[end].failed(failure.context),
            Event::Restarted => {
                self.messages[end].restarted(id);
                self.messages[1 - end].abandon_parts(id);
            }
            Event::Closed(_) => self.messages[end].restarted(id),
            _ => {}
        }
    }

    /// Buffers keep their limits.
    fn check(&self, end: usize) {
        let mut count = 0;
        for id in self.ends[end].associations() {
            count += 1;
            let stats = self.ends[end].association_stats(id).expect("it exists");
            // One chunk that fills a gap may go over the limit.
            let most = self.config.receive_buffer + 70_000;
            assert!(stats.receive_buffer_bytes <= most, "{stats:?}");
            let most = self.config.send_buffer + 70_000;
            assert!(stats.send_buffer_bytes <= most, "{stats:?}");
        }
        assert!(count <= 8, "{count} associations");
    }
}

impl Flight {
    fn copy(&self) -> Self {
        Self {
            route: self.route,
            to: self.to,
            bytes: self.bytes.clone(),
        }
    }
}

/// Established, and nothing is left to be done.
fn is_at_rest(stats: &AssociationStats) -> bool {
    stats.state == StateName::Established
        && (stats.queued_messages, stats.outstanding_chunks) == (0, 0)
}

fn fix_checksum(packet: &mut [u8]) {
    if packet.len() >= 12 {
        packet[8..12].fill(0);
        let crc = carrick_wire::crc32c(packet);
        packet[8..12].copy_from_slice(&crc.to_le_bytes());
    }
}
