//! Endpoints in virtual time: a few lines per scenario, the public interface only.
//!
//! A [`World`] owns endpoints, delivers their packets after a latency, and keeps every packet and
//! every event. Rules decide what happens to chosen packets; a [`Puppet`] is a peer without a
//! protocol of its own, which says exactly what a test wants it to say. Whatever a scenario does,
//! the world checks every packet that leaves (see `invariants`).

// Every test binary uses its own part of this, as a module and not as a library.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    missing_docs,
    clippy::unused_self
)]

pub(crate) mod given_up;
mod invariants;
mod puppet;
mod seen;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{
    AssociationConfig, AssociationId, AssociationStats, Ecn, Endpoint, EndpointConfig, Event,
    MatchingAddress, Message, PathId, PathStats, Route, SendOptions, SourceSelection, Time,
};
use carrick_wire::ChunkType;

pub use puppet::{Link, Puppet};
pub use seen::{Seen, UserData, fix_checksum};

/// Port of the endpoint with this number.
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

/// What a rule does with a packet.
#[derive(Clone, Debug)]
pub enum Fate {
    /// Nothing; the next rule decides.
    Pass,
    Drop,
    /// It arrives this much later.
    Delay(Duration),
    /// It arrives twice.
    Duplicate,
    /// A router marks it "congestion experienced".
    Mark,
    /// Other bytes arrive in its place.
    Replace(Vec<u8>),
}

type Rule = Box<dyn FnMut(&Seen) -> Fate>;

/// A packet on its way.
struct Flight {
    route: Route,
    bytes: Bytes,
}

pub struct World {
    pub now: Time,
    pub ends: Vec<Endpoint>,
    /// What associations made with [`World::connect`] start with.
    pub config: AssociationConfig,
    pub latency: Duration,
    /// UDP port of each endpoint on encapsulated paths, as its peers see it.
    pub udp_ports: Vec<u16>,
    /// Translators: what packets in UDP from an address seem to come from, and the only way back.
    pub translated: BTreeMap<IpAddr, (IpAddr, u16)>,
    /// Every packet that left, oldest first.
    pub log: Vec<Seen>,
    /// Packets to the addresses of puppets, not taken yet.
    pub to_puppets: VecDeque<Seen>,
    /// An endpoint that is not told which of its addresses a packet came to: what it sends without a
    /// source leaves from the first one.
    pub blind: Option<usize>,
    /// No longer keep the log (for long transfers).
    pub forget: bool,
    flights: BTreeMap<(Time, u64), Flight>,
    sequence: u64,
    rules: Vec<Rule>,
    dead: BTreeSet<IpAddr>,
    events: Vec<VecDeque<(AssociationId, Event)>>,
}

/// Addresses of the endpoint with this number: one in each of two networks.
pub fn addresses(end: usize) -> [IpAddr; 2] {
    [
        IpAddr::from([10, 0, 0, 1 + end as u8]),
        IpAddr::from([10, 1, 0, 1 + end as u8]),
    ]
}

/// The IPv6 address that an endpoint has in the place of an IPv4 address.
pub fn in_v6(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let [_, network, _, host] = v4.octets().map(u16::from);
            IpAddr::from([0xfd00, network, 0, 0, 0, 0, 0, host])
        }
        v6 @ IpAddr::V6(_) => v6,
    }
}

/// What the links of hosts take.
pub const LINK_MTU: usize = 1500;

/// A host that knows its routes, and that they all take so many bytes.
#[derive(Debug)]
pub struct KnownRoutes(pub usize);

impl SourceSelection for KnownRoutes {
    fn select(&self, local: &[IpAddr], remote: IpAddr, avoid: Option<IpAddr>) -> Option<IpAddr> {
        MatchingAddress.select(local, remote, avoid)
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

    /// Endpoints whose configuration the closure changes.
    pub fn with(count: usize, mut change: impl FnMut(usize, &mut EndpointConfig)) -> Self {
        let ends = (0..count).map(|i| {
            let seed = [i as u8 + 1; 32];
            let mut config = EndpointConfig::new(port(i), addresses(i).to_vec(), seed);
            change(i, &mut config);
            Endpoint::new(config).expect("a valid configuration")
        });
        Self {
            now: Time::from_millis(1000),
            ends: ends.collect(),
            config: AssociationConfig::default(),
            latency: ms(10),
            udp_ports: (0..count).map(|i| 9899 + i as u16).collect(),
            translated: BTreeMap::new(),
            log: Vec::new(),
            to_puppets: VecDeque::new(),
            blind: None,
            forget: false,
            flights: BTreeMap::new(),
            sequence: 0,
            rules: Vec::new(),
            dead: BTreeSet::new(),
            events: (0..count).map(|_| VecDeque::new()).collect(),
        }
    }

    // ---- What happens to packets ----

    /// Adds a rule for packets that leave; the first that doesn't say `Pass` decides.
    pub fn rule(&mut self, rule: impl FnMut(&Seen) -> Fate + 'static) {
        self.rules.push(Box::new(rule));
    }

    pub fn clear_rules(&mut self) {
        self.rules.clear();
    }

    /// Loses the first `count` packets of an endpoint that carry a chunk of this type.
    pub fn lose(&mut self, end: usize, kind: ChunkType, count: usize) {
        self.lose_from(end, kind, 0, count);
    }

    /// Passes `skip` packets with such a chunk, then loses `count`.
    pub fn lose_from(&mut self, end: usize, kind: ChunkType, skip: usize, count: usize) {
        let mut met = 0;
        self.rule(move |seen| {
            if seen.from != end || !seen.has(kind) {
                return Fate::Pass;
            }
            met += 1;
            if met > skip && met <= skip + count {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
    }

    /// Loses DATA chunks of an endpoint with these numbers (0 is its first), once each.
    pub fn lose_data(&mut self, end: usize, numbers: &[u64]) {
        let numbers = numbers.to_vec();
        let mut next = 0_u64;
        let mut highest: Option<carrick_wire::Tsn> = None;
        self.rule(move |seen| {
            if seen.from != end {
                return Fate::Pass;
            }
            let mut hit = false;
            for data in seen.user_data() {
                if highest.is_none_or(|h| data.tsn.is_after(h)) {
                    highest = Some(data.tsn);
                    hit |= numbers.contains(&next);
                    next += 1;
                }
            }
            if hit { Fate::Drop } else { Fate::Pass }
        });
    }

    /// Packets from and to this address are lost from now on.
    pub fn kill(&mut self, address: IpAddr) {
        self.dead.insert(address);
    }

    pub fn revive(&mut self, address: IpAddr) {
        self.dead.remove(&address);
    }

    /// A link behind a router takes packets up to this size, and drops others. Those that may be are
    /// fragmented: IPv4 packets by the router, IPv6 packets by their sender, if they are larger than
    /// its own link takes.
    pub fn narrow(&mut self, path: usize, mtu: usize) {
        self.rule(move |seen| {
            let same = |end: usize| {
                let there = addresses(end)[path];
                seen.to() == there || seen.to() == in_v6(there)
            };
            let on_path = same(0) || same(1);
            let fragmented = seen.may_fragment && (seen.to().is_ipv4() || seen.ip_len() > LINK_MTU);
            if on_path && seen.ip_len() > mtu && !fragmented {
                Fate::Drop
            } else {
                Fate::Pass
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

    /// Runs until the condition holds; returns whether it did within `limit`.
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

    /// Goes on to the next thing that happens; `false` if there is none until `until`.
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
            // The contract: after each input, the outputs.
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

    /// Takes what the endpoints have to say now.
    pub fn pump(&mut self) {
        for end in 0..self.ends.len() {
            let mut buf = Vec::new();
            let mut calls = 0;
            while let Some(transmit) = self.ends[end].poll_transmit(self.now, &mut buf) {
                calls += 1;
                assert!(calls < 100_000, "an endpoint never stops sending");
                assert_eq!(transmit.len, buf.len(), "the length is what was written");
                let all = Bytes::from(std::mem::take(&mut buf));
                for packet in all.chunks(transmit.segment_size.unwrap_or(all.len())) {
                    self.depart(end, &transmit, all.slice_ref(packet));
                }
            }
            assert!(buf.is_empty(), "bytes without a transmit");
            while let Some(event) = self.ends[end].poll_event() {
                self.events[end].push_back(event);
            }
        }
    }

    fn depart(&mut self, end: usize, transmit: &carrick_proto::Transmit, bytes: Bytes) {
        let first = self.blind.filter(|b| *b == end).map(|_| addresses(end)[0]);
        let route = Route {
            local: transmit.route.local.or(first),
            ..transmit.route
        };
        let mut seen = Seen {
            time: self.now,
            from: end,
            route,
            bytes,
            may_fragment: transmit.may_fragment,
            probe: transmit.probe,
            lost: false,
        };
        invariants::check(&seen, &self.ends[end]);
        let fate = self
            .rules
            .iter_mut()
            .map(|rule| rule(&seen))
            .find(|fate| !matches!(fate, Fate::Pass))
            .unwrap_or(Fate::Pass);
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
        let arrival = match fate {
            Fate::Mark => Route {
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
        match fate {
            _ if dead => seen.lost = true,
            Fate::Drop => seen.lost = true,
            Fate::Pass | Fate::Mark => fly(Duration::ZERO, seen.bytes.clone()),
            Fate::Delay(by) => fly(by, seen.bytes.clone()),
            Fate::Duplicate => {
                fly(Duration::ZERO, seen.bytes.clone());
                fly(Duration::ZERO, seen.bytes.clone());
            }
            Fate::Replace(bytes) => fly(Duration::ZERO, bytes.into()),
        }
        if destination.is_some_and(|to| self.owner(to).is_none()) && !seen.lost {
            self.to_puppets.push_back(seen.clone());
        }
        if !self.forget {
            self.log.push(seen);
        }
    }

    /// Where a packet to this address and port gets to; nowhere if a translator knows nobody there.
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
            local: route.local.filter(|_| self.blind != Some(end)),
            ..*route
        };
        self.ends[end].handle_datagram(self.now, &seen, bytes);
    }

    /// Gives an endpoint a datagram now.
    pub fn inject(&mut self, end: usize, route: &Route, bytes: impl Into<Bytes>) {
        self.ends[end].handle_datagram(self.now, route, bytes.into());
        self.pump();
    }

    // ---- Associations ----

    /// Endpoint 0 connects to the first address of endpoint 1; both are established after this.
    pub fn connect(&mut self) -> (AssociationId, AssociationId) {
        let a = self.begin_connect(&[addresses(1)[0]]);
        assert!(self.run_until(secs(10), |w| {
            w.states() == [Some("Established"), Some("Established")]
        }));
        // Unverified addresses are verified.
        self.run(secs(1));
        (a, self.only(1))
    }

    /// Endpoint 0 begins to connect to these addresses of endpoint 1.
    pub fn begin_connect(&mut self, peers: &[IpAddr]) -> AssociationId {
        self.begin_connect_from(0, peers, port(1))
    }

    pub fn begin_connect_from(&mut self, end: usize, peers: &[IpAddr], to: u16) -> AssociationId {
        self.ends[end]
            .connect(self.now, peers, to, None, self.config.clone())
            .expect("connect")
    }

    /// The only association of an endpoint.
    pub fn only(&self, end: usize) -> AssociationId {
        let mut all = self.ends[end].associations();
        let id = all.next().expect("an association");
        assert_eq!(all.next(), None, "one association only");
        id
    }

    /// The state of the only association of endpoints 0 and 1.
    pub fn states(&self) -> [Option<&'static str>; 2] {
        [0, 1].map(|end| {
            let end = self.ends.get(end)?;
            let id = end.associations().next()?;
            Some(state_name(&end.association_stats(id)?))
        })
    }

    pub fn stats(&self, end: usize, id: AssociationId) -> AssociationStats {
        self.ends[end].association_stats(id).expect("association")
    }

    pub fn path(&self, end: usize, id: AssociationId, path: u8) -> PathStats {
        self.ends[end].path_stats(id, PathId(path)).expect("path")
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

    /// Everything that the user of an endpoint can read now.
    pub fn receive(&mut self, end: usize, id: AssociationId) -> Vec<Message> {
        let all = std::iter::from_fn(|| self.ends[end].receive(id)).collect();
        self.pump();
        all
    }

    /// The lengths of everything that can be read now.
    pub fn receive_lengths(&mut self, end: usize, id: AssociationId) -> Vec<usize> {
        let all = self.receive(end, id);
        all.iter().map(|m| m.payload.len()).collect()
    }

    /// The events of an endpoint since this was last called.
    pub fn events(&mut self, end: usize) -> Vec<Event> {
        self.pump();
        self.events[end].drain(..).map(|e| e.1).collect()
    }

    /// Packets of an endpoint that carry such a chunk.
    pub fn sent(&self, end: usize, kind: ChunkType) -> Vec<&Seen> {
        self.log
            .iter()
            .filter(|p| p.from == end && p.has(kind))
            .collect()
    }

    /// DATA chunks of an endpoint in the log, retransmissions included.
    pub fn data_sent(&self, end: usize) -> usize {
        self.log
            .iter()
            .filter(|p| p.from == end)
            .map(|p| p.data().len())
            .sum()
    }
}

/// The state as a word.
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

/// A message whose bytes show their place.
pub fn pattern(size: usize) -> Bytes {
    (0..size)
        .map(|i| (i * 7 + i / 251) as u8)
        .collect::<Vec<u8>>()
        .into()
}
