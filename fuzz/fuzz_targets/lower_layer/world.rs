//! A server, two clients behind one address, and other hosts, driven by the input.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::sessions::{SessionLayer, SessionLayerConfig};
use carrick_proto::{
    AssociationConfig, AssociationId, Ecn, Endpoint, EndpointConfig, Route, SendOptions, Time,
};

use crate::input::Input;
use crate::toy::{ANSWER, HELLO, Toys};

const PORT: u16 = 5000;
const ENDS: usize = 3;
const SERVER: usize = 0;

/// Limits of each end, low enough to be reached.
const LIMITS: SessionLayerConfig = SessionLayerConfig {
    max_sessions: 5,
    max_handshakes: 2,
    handshake_timeout: Duration::from_secs(20),
    idle_timeout: Duration::from_secs(10),
};

/// Maximum number of associations of each end.
const ASSOCIATIONS: usize = 8;

/// Maximum number of datagrams in datagram; further ones are lost.
const CAPACITY: usize = 256;

const MAX_SENDS: usize = 200;

struct LayeredEndpoint {
    core: Endpoint,
    layer: SessionLayer<Toys>,
}

impl LayeredEndpoint {
    /// Creates an end; `restarts` is the number of times it has lost its state.
    fn new(number: usize, restarts: u8) -> Self {
        let address = address(number).ip();
        let seed = [number as u8 + 1 + (restarts << 2); 32];
        let mut config = EndpointConfig::new(PORT, vec![address], seed);
        config.max_associations = ASSOCIATIONS;
        config.association = AssociationConfig::modern().with(|c| {
            // A peer that has disappeared is unreachable after half a minute.
            c.timers.rto_max = Duration::from_secs(4);
            c.paths.association_max_retrans = 4;
            c.timers.max_init_retransmits = 4;
            c.paths.hb_interval = Duration::from_secs(5);
            c.buffers.receive_buffer = 20_000;
            c.buffers.send_buffer = 20_000;
        });
        let toys = Toys {
            runs: restarts << 5,
            ..Toys::new(number as u8)
        };
        let layer = SessionLayer::new(toys, LIMITS, &mut config);
        Self {
            core: Endpoint::new(config).expect("a valid configuration"),
            layer,
        }
    }
}

#[derive(Clone)]
struct InFlight {
    from: SocketAddr,
    to: usize,
    bytes: Vec<u8>,
}

pub struct World {
    now: Time,
    ends: Vec<LayeredEndpoint>,
    in_flight: VecDeque<InFlight>,
    delivered: VecDeque<InFlight>,
    sends: usize,
    restarts: u8,
    /// True if a datagram was changed, or forged with the address of one of the ends.
    tampered: bool,
    /// True if an end lost its state or aborted.
    state_lost: bool,
}

/// Returns the address of an end. The clients share an address and have different ports.
fn address(end: usize) -> SocketAddr {
    let host = if end == SERVER { 1 } else { 2 };
    SocketAddr::new(IpAddr::from([192, 0, 2, host]), 4000 + end as u16)
}

impl World {
    pub fn new() -> Self {
        Self {
            now: Time::from_millis(1000),
            ends: (0..ENDS).map(|end| LayeredEndpoint::new(end, 0)).collect(),
            in_flight: VecDeque::new(),
            delivered: VecDeque::new(),
            sends: 0,
            restarts: 0,
            tampered: false,
            state_lost: false,
        }
    }

    /// Performs the step that the next byte of the input selects.
    pub fn step(&mut self, input: &mut Input<'_>) {
        let code = input.byte();
        let end = usize::from(code >> 6) % ENDS;
        match code & 31 {
            0 | 1 => self.connect(end, input),
            2..=5 => self.send(end, input),
            6..=9 => self.deliver(0),
            10 => (0..input.below(32)).for_each(|_| self.deliver(0)),
            11 => self.deliver(input.below(CAPACITY)),
            12 => drop(self.in_flight.pop_front()),
            13 => self.repeat(input),
            14 | 15 => self.change(input),
            16..=18 => self.inject(end, input),
            19 | 20 => self.hello(end, input),
            21 | 22 => self.pass(Duration::from_millis(1 << (input.byte() & 15))),
            23 => self.with(end, input, |core, now, id| {
                let _ = core.shutdown(now, id);
            }),
            24 => {
                self.state_lost = true;
                self.with(end, input, |core, now, id| {
                    let _ = core.abort(now, id, b"enough");
                });
            }
            25 => {
                self.state_lost = true;
                let LayeredEndpoint { core, layer } = &mut self.ends[end];
                layer.close(self.now, core);
            }
            26 => self.restart(end),
            27 => self.in_flight.clear(),
            _ => self.run(Duration::from_millis(u64::from(input.byte()) * 10)),
        }
        self.drain();
    }

    fn connect(&mut self, from: usize, input: &mut Input<'_>) {
        let what = input.byte();
        let to = (from + 1 + usize::from(what & 1)) % ENDS;
        // In some cases, another peer is expected at the address.
        let peer = if what & 2 != 0 { 9 } else { to as u8 };
        let LayeredEndpoint { core, layer } = &mut self.ends[from];
        let config = (*core.default_config()).clone();
        let _ = layer.connect(self.now, core, (address(to), PORT), peer, config);
    }

    fn with(
        &mut self,
        end: usize,
        input: &mut Input<'_>,
        work: impl FnOnce(&mut Endpoint, Time, AssociationId),
    ) {
        let core = &mut self.ends[end].core;
        let all: Vec<AssociationId> = core.associations().collect();
        if !all.is_empty() {
            work(core, self.now, all[input.below(all.len())]);
        }
    }

    fn send(&mut self, end: usize, input: &mut Input<'_>) {
        self.sends += 1;
        let len = usize::from(input.half() & 0x1fff) + 1;
        if self.sends > MAX_SENDS {
            return;
        }
        self.with(end, input, |core, now, id| {
            let options = SendOptions::on_stream(len as u16 % 3);
            // A full or missing association refuses the message.
            let _ = core.send(now, id, options, Bytes::from(vec![7; len]));
        });
    }

    /// Delivers a datagram again, one in datagram or one delivered before.
    fn repeat(&mut self, input: &mut Input<'_>) {
        let from = if input.byte() & 1 == 0 {
            &self.in_flight
        } else {
            &self.delivered
        };
        if !from.is_empty() {
            let copy = from[input.below(from.len())].clone();
            self.launch(copy);
        }
    }

    fn change(&mut self, input: &mut Input<'_>) {
        if self.in_flight.is_empty() {
            return;
        }
        self.tampered = true;
        let index = input.below(self.in_flight.len());
        let bytes = &mut self.in_flight[index].bytes;
        let (at, value) = (input.below(bytes.len().clamp(1, 64)), input.byte());
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
        if input.byte() & 1 != 0 {
            bytes.truncate(input.below(bytes.len().max(1)));
        }
    }

    /// Returns the address of one of the ends, or of another host.
    fn any_address(&mut self, input: &mut Input<'_>) -> SocketAddr {
        let who = input.byte();
        if usize::from(who) < ENDS * 32 {
            self.tampered = true;
            return address(usize::from(who) % ENDS);
        }
        SocketAddr::new(IpAddr::from([198, 51, 100, who]), 4000 + u16::from(who & 7))
    }

    /// Delivers arbitrary bytes.
    fn inject(&mut self, to: usize, input: &mut Input<'_>) {
        let from = self.any_address(input);
        let len = input.below(120);
        let bytes = input.bytes(len).to_vec();
        self.launch(InFlight { from, to, bytes });
    }

    /// Starts or continues a handshake from any address.
    fn hello(&mut self, to: usize, input: &mut Input<'_>) {
        let from = self.any_address(input);
        let kind = [HELLO, ANSWER][usize::from(input.byte() & 1)];
        let bytes = vec![kind, input.byte() & 7, input.byte() & 3];
        self.launch(InFlight { from, to, bytes });
    }

    /// Ends the program without an ABORT, and starts it again at the same address.
    fn restart(&mut self, end: usize) {
        self.state_lost = true;
        self.restarts = (self.restarts + 1) & 7;
        self.ends[end] = LayeredEndpoint::new(end, self.restarts);
    }

    fn launch(&mut self, datagram: InFlight) {
        if self.in_flight.len() < CAPACITY {
            self.in_flight.push_back(datagram);
        }
    }

    fn deliver(&mut self, index: usize) {
        let Some(datagram) = self.in_flight.remove(index) else {
            return;
        };
        let route = Route {
            local: Some(address(datagram.to).ip()),
            remote: datagram.from.ip(),
            encapsulation: Some(datagram.from.port()),
            ecn: Ecn::NotCapable,
        };
        let LayeredEndpoint { core, layer } = &mut self.ends[datagram.to];
        layer.handle_datagram(self.now, core, &route, &datagram.bytes);
        self.delivered.push_back(datagram);
        if self.delivered.len() > 32 {
            self.delivered.pop_front();
        }
        self.drain();
    }

    fn next_timer(&mut self, until: Time) -> bool {
        let next = self
            .ends
            .iter()
            .filter_map(|e| e.layer.poll_timeout(&e.core));
        let Some(at) = next.min().filter(|at| *at <= until) else {
            return false;
        };
        self.now = self.now.max(at);
        for LayeredEndpoint { core, layer } in &mut self.ends {
            layer.handle_timeout(self.now, core);
            let next = layer.poll_timeout(core);
            assert!(next.is_none_or(|at| at > self.now), "a timer stays due");
        }
        self.drain();
        true
    }

    /// Advances the time; nothing arrives.
    fn pass(&mut self, by: Duration) {
        let until = self.now + by;
        while self.next_timer(until) {}
        self.now = until;
    }

    /// Advances the time; all packets arrive.
    fn run(&mut self, by: Duration) {
        let until = self.now + by;
        let mut turns = 0_u32;
        loop {
            while !self.in_flight.is_empty() {
                (0..64).for_each(|_| self.deliver(0));
                self.now += Duration::from_millis(1);
                turns += 1;
                assert!(turns < 100_000, "the ends never stop sending");
            }
            if !self.next_timer(until) {
                break;
            }
        }
        self.now = self.now.max(until);
    }

    /// Processes the events and datagrams of the ends.
    fn drain(&mut self) {
        for number in 0..ENDS {
            let mut buf = Vec::new();
            let mut calls = 0;
            loop {
                let LayeredEndpoint { core, layer } = &mut self.ends[number];
                let Some(transmit) = layer.poll_transmit(self.now, core, &mut buf) else {
                    break;
                };
                calls += 1;
                assert!(calls < 20_000, "a layer never stops sending");
                assert_eq!(transmit.len, buf.len(), "the length is what was written");
                let all = std::mem::take(&mut buf);
                let port = transmit.route.encapsulation.expect("sessions are in UDP");
                let target = SocketAddr::new(transmit.route.remote, port);
                let to = (0..ENDS).find(|end| address(*end) == target);
                for bytes in all.chunks(transmit.segment_size.unwrap_or(all.len())) {
                    let (from, bytes) = (address(number), bytes.to_vec());
                    // Datagrams to other hosts are lost.
                    if let Some(to) = to {
                        self.launch(InFlight { from, to, bytes });
                    }
                }
            }
            let LayeredEndpoint { core, layer } = &mut self.ends[number];
            while layer.poll_event(self.now, core).is_some() {}
            while layer.poll_session_event().is_some() {}
            let ids: Vec<AssociationId> = core.associations().collect();
            for id in ids {
                while core.receive(id).is_some() {}
            }
            self.check(number);
        }
    }

    fn check(&self, end: usize) {
        let LayeredEndpoint { core, layer } = &self.ends[end];
        assert!(layer.sessions().count() <= LIMITS.max_sessions);
        let mut count = 0;
        for id in core.associations() {
            count += 1;
            let session = layer
                .session_of(id)
                .expect("each association has a session");
            assert!(layer.remote(session).is_some(), "the session exists");
        }
        assert!(count <= ASSOCIATIONS, "{count} associations");
    }

    /// Repairs the network. Undisturbed associations complete, and ended ones leave no session.
    pub fn settle(&mut self) {
        self.drain();
        self.run(Duration::from_secs(90));
        if !self.tampered && !self.state_lost {
            for LayeredEndpoint { core, .. } in &self.ends {
                for stats in core
                    .associations()
                    .filter_map(|id| core.association(id).map(|a| a.stats()))
                {
                    let left = (stats.queued_messages, stats.outstanding_chunks);
                    assert_eq!(left, (0, 0), "stuck: {stats:?}");
                }
            }
        }
        for number in 0..ENDS {
            let core = &mut self.ends[number].core;
            let ids: Vec<AssociationId> = core.associations().collect();
            for id in ids {
                let _ = core.abort(self.now, id, b"the end");
            }
            self.drain();
        }
        self.run(Duration::from_secs(40));
        for LayeredEndpoint { core, layer } in &self.ends {
            assert_eq!(core.associations().count(), 0);
            assert_eq!(layer.sessions().count(), 0, "unused sessions time out");
        }
    }
}
