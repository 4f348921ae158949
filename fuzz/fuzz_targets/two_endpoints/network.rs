//! The endpoints, the packets between them, and the steps that the input selects.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{
    AssociationId, ChunkType, Ecn, Endpoint, EndpointConfig, Event, Route, Time, Transmit,
};
use carrick_wire::{Chunk, Packet};

use crate::input::Input;
use crate::messages::Direction;
use crate::settings::WorldSettings;

/// Maximum number of packets in flight; further ones are lost.
const CAPACITY: usize = 512;

pub struct InFlight {
    /// Route as seen by the receiver.
    pub route: Route,
    pub to: usize,
    /// Destination UDP port.
    pub port: Option<u16>,
    pub bytes: Bytes,
}

pub struct Network {
    pub now: Time,
    pub ends: [Endpoint; 2],
    pub settings: WorldSettings,
    pub addresses: [Vec<IpAddr>; 2],
    /// The UDP port by which each address is reached, and seen by the other side.
    pub ports: [[Option<u16>; 3]; 2],
    pub in_flight: VecDeque<InFlight>,
    /// Last delivered packets, which may be delivered again.
    pub delivered: VecDeque<InFlight>,
    /// Number of ports that the translator has assigned.
    translated: u16,
    /// Messages by the endpoint that sends them.
    pub messages: [Direction; 2],
    pub sends: usize,
    pub connects: usize,
    /// True if a packet was changed or forged: only safety is checked then.
    pub tampered: bool,
    /// True if an association ended without its peer being notified.
    pub ended_silently: bool,
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

impl Network {
    pub fn new(input: &mut Input<'_>) -> Self {
        let settings = WorldSettings::draw(input);
        let all = [
            vec![ip("10.0.0.1"), ip("10.1.0.1"), ip("fd00::1")],
            vec![ip("10.0.0.2"), ip("10.1.0.2"), ip("fd00::2")],
        ];
        let addresses = all.map(|list| list[..settings.addresses].to_vec());
        let ends = [0, 1].map(|end: usize| {
            let mut endpoint = EndpointConfig::new(
                5000 + end as u16,
                addresses[end].clone(),
                [end as u8 + 1; 32],
            );
            endpoint.association = settings.sides[end].clone();
            endpoint.max_associations = 8;
            Endpoint::new(endpoint).expect("a valid configuration")
        });
        Self {
            now: Time::from_millis(1000),
            ends,
            ports: settings.ports,
            settings,
            addresses,
            in_flight: VecDeque::new(),
            delivered: VecDeque::new(),
            translated: 0,
            messages: [Direction::default(), Direction::default()],
            sends: 0,
            connects: 0,
            tampered: false,
            ended_silently: false,
        }
    }

    /// Performs the step that the next byte of the input selects.
    pub fn step(&mut self, input: &mut Input<'_>) {
        let code = input.byte();
        let end = usize::from(code & 1);
        if self.settings.extended && code & 0x40 != 0 {
            self.extended_step(code >> 1 & 31, end, input);
            return self.drain();
        }
        match code >> 1 & 31 {
            0 => self.connect(end, input),
            1..=4 => self.send(end, false, input),
            5..=8 => self.pass(1 << (input.byte() & 15)),
            9..=13 => self.deliver(0),
            14 => (0..input.below(32)).for_each(|_| self.deliver(0)),
            15 => self.deliver_one_of(input),
            16 => drop(self.in_flight.pop_front()),
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
            28 => self.local_address(end, false, input),
            29 => self.run(Duration::from_millis(u64::from(input.byte()) * 10)),
            30 => self.lose_all(end),
            _ => self.read_all(),
        }
        self.drain();
    }

    /// Performs an operation on an extension.
    fn extended_step(&mut self, code: u8, end: usize, input: &mut Input<'_>) {
        match code {
            0..=7 => self.send(end, true, input),
            8..=11 => self.reconfigure(end, input),
            12..=14 => self.keys(end, input),
            15 | 16 => self.ask_for_address(end, input),
            17..=19 => self.local_address(end, true, input),
            20 | 21 => self.adjust(end, input),
            22 | 23 => self.mark(input),
            24 => self.link_mtu(input),
            25 | 26 => self.lose_kind(input),
            27 | 28 => self.mutate(end, input),
            29 => self.splice(end, input),
            30 => self.run(Duration::from_millis(1 << (input.byte() & 15))),
            _ => (0..input.below(64)).for_each(|_| self.deliver(0)),
        }
    }

    /// Marks a packet instead of dropping it, and possibly the packets after it, as a router does (RFC 3168).
    fn mark(&mut self, input: &mut Input<'_>) {
        let count = input.below(4) + 1;
        for flight in self.in_flight.iter_mut().take(count) {
            if flight.route.ecn != Ecn::NotCapable {
                flight.route.ecn = Ecn::CongestionExperienced;
            }
        }
    }

    /// Changes the MTU of the links, or the port that a translator in front of the first side assigned to
    /// an address.
    fn link_mtu(&mut self, input: &mut Input<'_>) {
        let sizes = [usize::MAX, 1280, 1400, 9000];
        let what = input.byte();
        if what & 0x80 == 0 {
            self.settings.link_mtu = sizes[usize::from(what & 3)];
        } else if let Some(Some(port)) = self.ports[0].get_mut(usize::from(what & 3)) {
            self.translated = self.translated.wrapping_add(1);
            *port = 10_000 + self.translated;
        }
    }

    /// Returns the UDP port by which an address of one side is reached and seen.
    pub fn port(&self, end: usize, address: IpAddr) -> Option<u16> {
        let at = self.addresses[end].iter().position(|a| *a == address)?;
        self.ports[end][at]
    }

    /// Drops all packets in flight that have a chunk of one type.
    fn lose_kind(&mut self, input: &mut Input<'_>) {
        let kinds = [
            ChunkType::FORWARD_TSN,
            ChunkType::RE_CONFIG,
            ChunkType::ASCONF,
            ChunkType::ASCONF_ACK,
            ChunkType::AUTH,
            ChunkType::SACK,
            ChunkType::ECNE,
            ChunkType::CWR,
            ChunkType::I_DATA,
            ChunkType::DATA,
            ChunkType::HEARTBEAT_ACK,
            ChunkType::INIT_ACK,
            ChunkType::COOKIE_ECHO,
            ChunkType::COOKIE_ACK,
            ChunkType::SHUTDOWN_ACK,
            ChunkType::I_FORWARD_TSN,
        ];
        let kind = kinds[usize::from(input.byte() & 15)];
        // Both are acknowledgements.
        let lost = |of| of == kind || kind == ChunkType::SACK && of == ChunkType::NR_SACK;
        self.in_flight.retain(|flight| {
            let packet = Packet::parse(&flight.bytes).ok();
            let mut chunks = packet.iter().flat_map(|p| p.chunks()).flatten();
            !chunks.any(|chunk| lost(chunk.kind))
        });
    }

    /// Advances the time by this many milliseconds; timers expire, nothing arrives.
    pub fn pass(&mut self, millis: u64) {
        let until = self.now + Duration::from_millis(millis);
        while self.next_timer(until) {}
        self.now = until;
    }

    /// Handles the next timer until then; `false` if there is none.
    pub fn next_timer(&mut self, until: Time) -> bool {
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

    pub fn deliver(&mut self, index: usize) {
        let Some(flight) = self.in_flight.remove(index) else {
            return;
        };
        self.ends[flight.to].handle_datagram(self.now, &flight.route, flight.bytes.clone());
        self.delivered.push_back(flight);
        if self.delivered.len() > 32 {
            self.delivered.pop_front();
        }
        self.drain();
    }

    fn deliver_one_of(&mut self, input: &mut Input<'_>) {
        if !self.in_flight.is_empty() {
            let index = input.below(self.in_flight.len());
            self.deliver(index);
        }
    }

    pub fn launch(&mut self, flight: InFlight) {
        if self.in_flight.len() < CAPACITY {
            self.in_flight.push_back(flight);
        }
    }

    fn duplicate(&mut self, input: &mut Input<'_>) {
        if self.in_flight.is_empty() {
            return;
        }
        let index = input.below(self.in_flight.len());
        let copy = self.in_flight[index].copy();
        self.launch(copy);
    }

    /// Delivers a packet that arrived before once more.
    fn replay(&mut self, input: &mut Input<'_>) {
        if self.delivered.is_empty() {
            return;
        }
        let copy = self.delivered[input.below(self.delivered.len())].copy();
        self.launch(copy);
    }

    fn lose_all(&mut self, end: usize) {
        self.in_flight.retain(|f| f.to == end);
    }

    /// Processes the events and packets of the endpoints.
    pub fn drain(&mut self) {
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
                    self.depart(end, &transmit, all.slice_ref(packet));
                }
            }
            while let Some((id, event)) = self.ends[end].poll_event() {
                self.on_event(end, id, &event);
            }
            self.check(end);
        }
    }

    fn depart(&mut self, end: usize, transmit: &Transmit, bytes: Bytes) {
        let route = &transmit.route;
        let packet = Packet::parse(&bytes).expect("endpoints send packets");
        let sides = &self.settings.sides;
        let may_be_zero = sides.iter().all(|side| side.extensions.zero_checksum);
        assert!(packet.checksum_is_valid() || may_be_zero && packet.checksum_is_zero());
        for raw in packet.chunks() {
            Chunk::parse(raw.expect("a whole chunk")).expect("a good chunk");
        }
        let (Some(local), to) = (route.local, 1 - end) else {
            return;
        };
        let searches = self.settings.sides[end].mtu.path_mtu_discovery.is_some();
        let header = if route.remote.is_ipv6() { 40 } else { 20 };
        let header = header + route.encapsulation.map_or(0, |_| 8);
        if searches && !transmit.may_fragment && header + bytes.len() > self.settings.link_mtu {
            return;
        }
        // Packets to or from an address that no longer exists, or never did, are lost.
        if self.ends[to].local_addresses().contains(&route.remote)
            && self.ends[end].local_addresses().contains(&local)
        {
            // Packets to a port without an endpoint are lost.
            let port = route.encapsulation;
            if self.port(to, route.remote) != port {
                return;
            }
            let route = Route {
                ecn: route.ecn,
                encapsulation: self.port(end, local),
                ..Route::plain(route.remote, local)
            };
            self.launch(InFlight {
                route,
                to,
                port,
                bytes,
            });
        }
    }

    fn on_event(&mut self, end: usize, id: AssociationId, event: &Event) {
        match event {
            Event::SendFailed(failure) => self.messages[end].failed(failure),
            Event::Restarted => {
                self.messages[end].restarted(id);
                self.messages[1 - end].abandon_parts(id);
            }
            Event::Closed(_) => self.messages[end].restarted(id),
            _ => {}
        }
    }

    /// Checks the limits of the buffers.
    fn check(&self, end: usize) {
        let mut count = 0;
        for id in self.ends[end].associations() {
            count += 1;
            let stats = self.ends[end].association(id).expect("it exists").stats();
            // One chunk that fills a gap may go over the limit.
            let buffers = &self.settings.sides[end].buffers;
            let most = buffers
                .receive_buffer
                .max(buffers.max_receive_buffer.unwrap_or(0))
                + 70_000;
            assert!(stats.receive_buffer_bytes <= most, "{stats:?}");
            let most = buffers
                .send_buffer
                .max(buffers.max_send_buffer.unwrap_or(0))
                + 70_000;
            assert!(stats.send_buffer_bytes <= most, "{stats:?}");
        }
        assert!(count <= 8, "{count} associations");
    }
}

impl InFlight {
    pub fn copy(&self) -> Self {
        Self {
            route: self.route,
            to: self.to,
            port: self.port,
            bytes: self.bytes.clone(),
        }
    }
}
