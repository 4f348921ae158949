//! Testkit: endpoints in virtual time, driven through the public interface.
//!
//! A [`World`] owns endpoints, delivers their packets after a latency, and records every packet and
//! every event. Rules drop, delay or modify packets. A [`Puppet`] is a peer without a protocol
//! implementation: the test writes each of its packets. Every packet that an endpoint sends is
//! checked against the rules in `invariants`.
//!
//! A test with two endpoints:
//!
//! ```ignore
//! let (mut w, a, b) = World::single_homed().connected();
//! w.lose_data(0, &[3]);
//! w.send(0, a, 0, pattern(10_000));
//! w.run(secs(2));
//! assert_eq!(w.receive_lengths(1, b), [10_000]);
//! ```
//!
//! A test of one endpoint, with a puppet as its peer. Chunks and TSNs are numbered from 0:
//!
//! ```ignore
//! let mut w = World::single(|config| config.buffers.receive_buffer = 5000);
//! let (peer, id) = Puppet::new().connect(&mut w);
//! peer.message(&mut w, 0, (1, Some(0)), 10);
//! let answers = peer.message(&mut w, 2, (1, Some(2)), 10);
//! expect_sack(&answers, 0, &[(2, 2)]);
//! assert_eq!(w.read_numbers(0, id), [0]);
//! ```

#![allow(unreachable_pub, missing_docs, clippy::unused_self)]

pub(crate) mod abandonment;
pub(crate) mod handover;
mod invariants;
mod packet;
mod puppet;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{
    Association, AssociationConfig, AssociationId, AssociationMut, AssociationStats, Ecn, Endpoint,
    EndpointConfig, Event, MatchingAddress, Message, PathId, PathStats, Route, SendOptions, Shard,
    SourceSelection, Time,
};
use carrick_wire::ChunkType;

pub use packet::{SentPacket, UserData, fix_checksum};
pub use puppet::{BEGINNING, ENDING, Link, MIDDLE, Puppet, expect_abort, expect_sack, tsn};

/// SCTP port of an endpoint.
pub const fn port(end: usize) -> u16 {
    5000 + end as u16
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Verdict of a rule on a packet.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The next rule decides; delivered if there is none.
    Pass,
    Drop,
    /// Delivered this much later.
    Delay(Duration),
    /// Delivered twice.
    Duplicate,
    /// Delivered with the ECN codepoint CE.
    Mark,
    /// Replaced by these bytes.
    Replace(Vec<u8>),
}

type Rule = Box<dyn FnMut(&SentPacket) -> Verdict>;

/// A packet in flight.
struct Flight {
    route: Route,
    bytes: Bytes,
}

pub struct World {
    pub now: Time,
    pub ends: Vec<Endpoint>,
    /// Configuration of associations that [`World::connect`] makes.
    pub config: AssociationConfig,
    pub latency: Duration,
    /// UDP port of each endpoint on encapsulated paths.
    pub udp_ports: Vec<u16>,
    /// Address translators for UDP: external address and port of an internal address.
    pub translated: BTreeMap<IpAddr, (IpAddr, u16)>,
    /// All packets sent, oldest first.
    pub log: Vec<SentPacket>,
    /// Packets sent to puppets, not received yet.
    pub to_puppets: VecDeque<SentPacket>,
    /// An endpoint whose driver does not report destination addresses. Packets that it sends
    /// without a source address leave from its first one.
    pub destination_unknown: Option<usize>,
    /// Shards of one endpoint, which are the ends from this number on, with the same addresses. A packet
    /// arrives at one of them in turn, which passes it on.
    pub shards: Option<(usize, Vec<Shard>)>,
    /// Packets that another shard than that of their arrival has processed.
    pub passed_on: usize,
    arrivals: usize,
    /// Discards the log (for long transfers).
    pub discard_log: bool,
    /// Every endpoint hands over whenever its outputs are drained. Set by the environment variable
    /// `CARRICK_HANDOVER=1`, so that all tests can run with handovers.
    pub hands_over: bool,
    handover: Vec<handover::Parts>,
    flights: BTreeMap<(Time, u64), Flight>,
    sequence: u64,
    rules: Vec<Rule>,
    dead: BTreeSet<IpAddr>,
    events: Vec<VecDeque<(AssociationId, Event)>>,
}

/// Addresses of an endpoint, one in each of two networks.
pub fn addresses(end: usize) -> [IpAddr; 2] {
    [
        IpAddr::from([10, 0, 0, 1 + end as u8]),
        IpAddr::from([10, 1, 0, 1 + end as u8]),
    ]
}

/// The IPv6 address that corresponds to an IPv4 address of an endpoint.
pub fn in_v6(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let [_, network, _, host] = v4.octets().map(u16::from);
            IpAddr::from([0xfd00, network, 0, 0, 0, 0, 0, host])
        }
        v6 @ IpAddr::V6(_) => v6,
    }
}

/// MTU of the links of hosts.
pub const LINK_MTU: usize = 1500;

/// A host whose routes all have this MTU.
#[derive(Debug)]
pub struct KnownRoutes(pub usize);

impl SourceSelection for KnownRoutes {
    fn select(&self, local: &[IpAddr], remote: IpAddr) -> Option<IpAddr> {
        MatchingAddress.select(local, remote)
    }

    fn route_mtu(&self, _: Option<IpAddr>, _: IpAddr) -> Option<usize> {
        Some(self.0)
    }
}

impl World {
    /// Two endpoints with two addresses each.
    pub fn new() -> Self {
        Self::with(2, |_, _| {})
    }

    /// Two endpoints with one address each.
    pub fn single_homed() -> Self {
        Self::with(2, |_, config| config.local_addresses.truncate(1))
    }

    /// Two endpoints with one address each and these configurations of associations.
    pub fn pair(configs: [AssociationConfig; 2]) -> Self {
        let mut w = Self::with(2, |end, config| {
            config.local_addresses.truncate(1);
            config.association = configs[end].clone();
        });
        [w.config, _] = configs;
        w
    }

    /// One endpoint with one address, for puppets. The closure changes the configuration of its
    /// associations.
    pub fn single(change: impl Fn(&mut AssociationConfig)) -> Self {
        let mut w = Self::with(1, |_, config| {
            config.local_addresses.truncate(1);
            change(&mut config.association);
        });
        change(&mut w.config);
        w
    }

    /// Endpoints with their configuration changed by the closure.
    pub fn with(count: usize, mut change: impl FnMut(usize, &mut EndpointConfig)) -> Self {
        let ends = (0..count).map(|i| {
            let seed = [i as u8 + 1; 32];
            let mut config = EndpointConfig::new(port(i), addresses(i).to_vec(), seed);
            change(i, &mut config);
            let parts = handover::Parts::of(&mut config);
            (Endpoint::new(config).expect("a valid configuration"), parts)
        });
        let (ends, handover) = ends.unzip();
        Self {
            now: Time::from_millis(1000),
            ends,
            hands_over: std::env::var("CARRICK_HANDOVER").is_ok_and(|on| on == "1"),
            handover,
            config: AssociationConfig::rfc9260(),
            latency: ms(10),
            udp_ports: (0..count).map(|i| 9899 + i as u16).collect(),
            translated: BTreeMap::new(),
            log: Vec::new(),
            to_puppets: VecDeque::new(),
            destination_unknown: None,
            shards: None,
            passed_on: 0,
            arrivals: 0,
            discard_log: false,
            flights: BTreeMap::new(),
            sequence: 0,
            rules: Vec::new(),
            dead: BTreeSet::new(),
            events: (0..count).map(|_| VecDeque::new()).collect(),
        }
    }

    // ---- Packets in flight ----

    /// Adds a rule for sent packets. The first verdict other than `Pass` applies.
    pub fn rule(&mut self, rule: impl FnMut(&SentPacket) -> Verdict + 'static) {
        self.rules.push(Box::new(rule));
    }

    pub fn clear_rules(&mut self) {
        self.rules.clear();
    }

    /// Drops the first `count` packets of an endpoint with a chunk of this type.
    pub fn lose(&mut self, end: usize, kind: ChunkType, count: usize) {
        self.lose_from(end, kind, 0, count);
    }

    /// Passes `skip` packets with such a chunk, then drops `count`.
    pub fn lose_from(&mut self, end: usize, kind: ChunkType, skip: usize, count: usize) {
        let mut met = 0;
        self.rule(move |seen| {
            if seen.from != end || !seen.has(kind) {
                return Verdict::Pass;
            }
            met += 1;
            if met > skip && met <= skip + count {
                Verdict::Drop
            } else {
                Verdict::Pass
            }
        });
    }

    /// Drops the first transmission of the DATA chunks with these numbers, counted from 0.
    pub fn lose_data(&mut self, end: usize, numbers: &[u64]) {
        let numbers = numbers.to_vec();
        let mut next = 0_u64;
        let mut highest: Option<carrick_wire::Tsn> = None;
        self.rule(move |seen| {
            if seen.from != end {
                return Verdict::Pass;
            }
            let mut hit = false;
            for data in seen.user_data() {
                if highest.is_none_or(|h| data.tsn.is_after(h)) {
                    highest = Some(data.tsn);
                    hit |= numbers.contains(&next);
                    next += 1;
                }
            }
            if hit { Verdict::Drop } else { Verdict::Pass }
        });
    }

    /// Drops all packets from and to this address from now on.
    pub fn block(&mut self, address: IpAddr) {
        self.dead.insert(address);
    }

    pub fn unblock(&mut self, address: IpAddr) {
        self.dead.remove(&address);
    }

    /// Limits the MTU of a link behind a router; larger packets are dropped unless they may be
    /// fragmented. IPv4 packets are fragmented by the router, IPv6 packets by their sender if they
    /// exceed the MTU of the sender's link.
    pub fn narrow(&mut self, path: usize, mtu: usize) {
        self.rule(move |seen| {
            let same = |end: usize| {
                let there = addresses(end)[path];
                seen.to() == there || seen.to() == in_v6(there)
            };
            let on_path = same(0) || same(1);
            let fragmented = seen.may_fragment && (seen.to().is_ipv4() || seen.ip_len() > LINK_MTU);
            if on_path && seen.ip_len() > mtu && !fragmented {
                Verdict::Drop
            } else {
                Verdict::Pass
            }
        });
    }

    // ---- Time ----

    /// Runs for this long.
    pub fn run(&mut self, duration: Duration) {
        let until = self.now + duration;
        while self.step(until) {}
        self.now = until;
    }

    /// Runs until the condition holds; `false` if it does not within `limit`.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let until = self.now + limit;
        self.pump();
        loop {
            if done(self) {
                return true;
            }
            if !self.step(until) {
                self.now = until;
                return done(self);
            }
        }
    }

    /// Advances to the next arrival or timer; `false` if there is none until `until`.
    fn step(&mut self, until: Time) -> bool {
        self.pump();
        let arrival = self.flights.keys().next().map(|k| k.0);
        let timer = self.ends.iter().filter_map(Endpoint::poll_timeout).min();
        let next = [arrival, timer].into_iter().flatten().min();
        let Some(next) = next.filter(|t| *t <= until) else {
            return false;
        };
        self.now = self.now.max(next);
        while let Some(entry) = self.flights.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let flight = entry.remove();
            self.deliver(&flight.route, flight.bytes);
            // The outputs are drained after each input.
            self.pump();
        }
        for end in &mut self.ends {
            end.handle_timeout(self.now);
            assert!(
                end.poll_timeout().is_none_or(|at| at > self.now),
                "a timer is due after all timers have been handled"
            );
        }
        self.pump();
        true
    }

    /// Drains packets and events of all endpoints.
    pub fn pump(&mut self) {
        for end in 0..self.ends.len() {
            let mut buf = Vec::new();
            let mut calls = 0;
            while let Some(transmit) = self.ends[end].poll_transmit(self.now, &mut buf) {
                calls += 1;
                assert!(calls < 100_000, "an endpoint sends without end");
                assert_eq!(
                    transmit.len,
                    buf.len(),
                    "the length equals the bytes written"
                );
                let all = Bytes::from(std::mem::take(&mut buf));
                for packet in all.chunks(transmit.segment_size.unwrap_or(all.len())) {
                    self.depart(end, &transmit, all.slice_ref(packet));
                }
            }
            assert!(buf.is_empty(), "bytes without a transmit");
            while let Some(event) = self.ends[end].poll_event() {
                self.events[end].push_back(event);
            }
            if self.hands_over
                && let Some(parts) = self.handover.get(end)
            {
                parts.hand_over(self.now, &mut self.ends[end]);
            }
        }
    }

    fn depart(&mut self, end: usize, transmit: &carrick_proto::Transmit, bytes: Bytes) {
        let first = self
            .destination_unknown
            .filter(|b| *b == end)
            .map(|_| addresses(end)[0]);
        let route = Route {
            local: transmit.route.local.or(first),
            ..transmit.route
        };
        let mut seen = SentPacket {
            time: self.now,
            from: end,
            route,
            bytes,
            may_fragment: transmit.may_fragment,
            probe: transmit.probe,
            lost: false,
        };
        invariants::check(&seen, &self.ends[end]);
        let verdict = self
            .rules
            .iter_mut()
            .map(|rule| rule(&seen))
            .find(|verdict| !matches!(verdict, Verdict::Pass))
            .unwrap_or(Verdict::Pass);
        let local = route.local.expect("a source address");
        let destination = self.translate_back(&transmit.route);
        let dead = self.dead.contains(&local)
            || self.dead.contains(&transmit.route.remote)
            || destination.is_none();
        let translated = self.translated.get(&local).copied();
        let in_udp = transmit.route.encapsulation.is_some();
        let source = translated.filter(|_| in_udp);
        let source = source.unwrap_or((local, self.udp_ports[end]));
        let arrival = Route {
            local: destination,
            remote: source.0,
            encapsulation: in_udp.then_some(source.1),
            ..transmit.route
        };
        let arrival = match verdict {
            Verdict::Mark => Route {
                ecn: Ecn::CongestionExperienced,
                ..arrival
            },
            _ => arrival,
        };
        let mut fly = |delay: Duration, bytes: Bytes| {
            let key = (self.now + self.latency + delay, self.sequence);
            self.sequence += 1;
            let flight = Flight {
                route: arrival,
                bytes,
            };
            self.flights.insert(key, flight);
        };
        match verdict {
            _ if dead => seen.lost = true,
            Verdict::Drop => seen.lost = true,
            Verdict::Pass | Verdict::Mark => fly(Duration::ZERO, seen.bytes.clone()),
            Verdict::Delay(by) => fly(by, seen.bytes.clone()),
            Verdict::Duplicate => {
                fly(Duration::ZERO, seen.bytes.clone());
                fly(Duration::ZERO, seen.bytes.clone());
            }
            Verdict::Replace(bytes) => fly(Duration::ZERO, bytes.into()),
        }
        if destination.is_some_and(|to| self.owner(to).is_none()) && !seen.lost {
            self.to_puppets.push_back(seen.clone());
        }
        if !self.discard_log {
            self.log.push(seen);
        }
    }

    /// Address that a packet is delivered to; `None` if a translator has no mapping for its port.
    fn translate_back(&self, route: &Route) -> Option<IpAddr> {
        let Some(port) = route.encapsulation else {
            return Some(route.remote);
        };
        let mut behind = self
            .translated
            .iter()
            .filter(|(_, outside)| outside.0 == route.remote);
        if behind.clone().next().is_none() {
            return Some(route.remote);
        }
        let found = behind.find(|(_, outside)| outside.1 == port);
        found.map(|(inside, _)| *inside)
    }

    fn owner(&self, address: IpAddr) -> Option<usize> {
        self.ends
            .iter()
            .position(|e| e.local_addresses().contains(&address))
    }

    fn deliver(&mut self, route: &Route, bytes: Bytes) {
        let Some(end) = route.local.and_then(|a| self.owner(a)) else {
            return;
        };
        let seen = Route {
            local: route
                .local
                .filter(|_| self.destination_unknown != Some(end)),
            ..*route
        };
        let end = self.shard_of(end, |shard| shard.of_datagram(&seen, &bytes));
        self.ends[end].handle_datagram(self.now, &seen, bytes);
    }

    /// Returns the end that processes what arrives at a shard of the endpoint `end`, as that shard selects
    /// it: one shard after the other.
    pub fn shard_of(&mut self, end: usize, select: impl Fn(&Shard) -> u32) -> usize {
        let Some((first, shards)) = &self.shards else {
            return end;
        };
        if end != *first {
            return end;
        }
        self.arrivals += 1;
        let at = &shards[self.arrivals % shards.len()];
        let selected = select(at);
        self.passed_on += usize::from(selected != at.index);
        first + selected as usize
    }

    /// Delivers a datagram to an endpoint now.
    pub fn inject(&mut self, end: usize, route: &Route, bytes: impl Into<Bytes>) {
        self.ends[end].handle_datagram(self.now, route, bytes.into());
        self.pump();
    }

    // ---- Associations ----

    /// Connects with [`World::connect`], then clears the log and the events.
    pub fn connected(mut self) -> (Self, AssociationId, AssociationId) {
        let (a, b) = self.connect();
        for end in 0..self.ends.len() {
            self.events(end);
        }
        self.log.clear();
        (self, a, b)
    }

    /// Connects endpoint 0 to the first address of endpoint 1, until both are established.
    pub fn connect(&mut self) -> (AssociationId, AssociationId) {
        let a = self.begin_connect(&[addresses(1)[0]]);
        assert!(self.run_until(secs(10), |w| {
            w.states() == [Some("Established"), Some("Established")]
        }));
        // Unverified addresses are verified.
        self.run(secs(1));
        (a, self.association(1))
    }

    /// Starts to connect endpoint 0 to these addresses of endpoint 1.
    pub fn begin_connect(&mut self, peers: &[IpAddr]) -> AssociationId {
        self.begin_connect_from(0, peers, port(1))
    }

    pub fn begin_connect_from(&mut self, end: usize, peers: &[IpAddr], to: u16) -> AssociationId {
        self.ends[end]
            .connect(self.now, peers, to, None, self.config.clone())
            .expect("connect")
    }

    /// Starts to connect endpoint 0 to these addresses, in UDP to this port.
    pub fn begin_connect_with(
        &mut self,
        peers: &[IpAddr],
        encapsulation: Option<u16>,
    ) -> AssociationId {
        self.ends[0]
            .connect(self.now, peers, port(1), encapsulation, self.config.clone())
            .expect("connect")
    }

    /// The association of an endpoint that has exactly one.
    pub fn association(&self, end: usize) -> AssociationId {
        let mut all = self.ends[end].associations();
        let id = all.next().expect("an association");
        assert_eq!(all.next(), None, "one association only");
        id
    }

    /// States of the associations of endpoints 0 and 1.
    pub fn states(&self) -> [Option<&'static str>; 2] {
        [0, 1].map(|end| {
            let end = self.ends.get(end)?;
            let id = end.associations().next()?;
            Some(state_name(&end.association(id)?.stats()))
        })
    }

    pub fn read(&self, end: usize, id: AssociationId) -> &Association {
        self.ends[end].association(id).expect("association")
    }

    /// An association, to be changed now.
    pub fn change(&mut self, end: usize, id: AssociationId) -> AssociationMut<'_> {
        let association = self.ends[end].association_mut(self.now, id);
        association.expect("association")
    }

    pub fn stats(&self, end: usize, id: AssociationId) -> AssociationStats {
        self.read(end, id).stats()
    }

    /// The paths of an association; none if it is unknown.
    pub fn paths(&self, end: usize, id: AssociationId) -> impl Iterator<Item = PathStats> {
        let association = self.ends[end].association(id).into_iter();
        association.flat_map(|association| association.paths())
    }

    pub fn path(&self, end: usize, id: AssociationId, path: u8) -> PathStats {
        self.read(end, id).path_stats(PathId(path)).expect("path")
    }

    pub fn send(&mut self, end: usize, id: AssociationId, stream: u16, data: impl Into<Bytes>) {
        self.send_with(end, id, SendOptions::on_stream(stream), data);
    }

    pub fn send_with(
        &mut self,
        end: usize,
        id: AssociationId,
        options: SendOptions,
        data: impl Into<Bytes>,
    ) {
        self.ends[end]
            .send(self.now, id, options, data.into())
            .expect("send");
    }

    /// Messages that can be read now.
    pub fn receive(&mut self, end: usize, id: AssociationId) -> Vec<Message> {
        let all = std::iter::from_fn(|| self.ends[end].receive(id)).collect();
        self.pump();
        all
    }

    /// Reads all messages; returns the first byte of each, see [`Puppet::message`].
    pub fn read_numbers(&mut self, end: usize, id: AssociationId) -> Vec<u8> {
        let all = self.receive(end, id).into_iter();
        all.map(|m| m.payload.into_bytes()[0]).collect()
    }

    /// Lengths of the messages that can be read now.
    pub fn receive_lengths(&mut self, end: usize, id: AssociationId) -> Vec<usize> {
        let all = self.receive(end, id);
        all.iter().map(|m| m.payload.len()).collect()
    }

    /// Events of an endpoint since the last call.
    pub fn events(&mut self, end: usize) -> Vec<Event> {
        self.pump();
        self.events[end].drain(..).map(|e| e.1).collect()
    }

    /// Events of an endpoint since the last call, with their associations.
    pub fn events_of_all(&mut self, end: usize) -> Vec<(AssociationId, Event)> {
        self.pump();
        self.events[end].drain(..).collect()
    }

    /// Packets of an endpoint in the log with such a chunk.
    pub fn sent(&self, end: usize, kind: ChunkType) -> Vec<&SentPacket> {
        self.log
            .iter()
            .filter(|p| p.from == end && p.has(kind))
            .collect()
    }

    /// Number of DATA chunks of an endpoint in the log, with retransmissions.
    pub fn data_sent(&self, end: usize) -> usize {
        self.log
            .iter()
            .filter(|p| p.from == end)
            .map(|p| p.data().len())
            .sum()
    }
}

/// Name of the state.
pub fn state_name(stats: &AssociationStats) -> &'static str {
    use carrick_proto::StateName as S;
    match stats.state {
        S::CookieWait => "CookieWait",
        S::CookieEchoed => "CookieEchoed",
        S::Established => "Established",
        S::ShutdownPending => "ShutdownPending",
        S::ShutdownSent => "ShutdownSent",
        S::ShutdownReceived => "ShutdownReceived",
        S::ShutdownAckSent => "ShutdownAckSent",
        S::Closed => "Closed",
    }
}

/// A payload whose bytes depend on their position.
pub fn pattern(size: usize) -> Bytes {
    (0..size)
        .map(|i| (i * 7 + i / 251) as u8)
        .collect::<Vec<u8>>()
        .into()
}
