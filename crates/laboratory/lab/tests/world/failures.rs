//! Worlds of failures: two hosts that route as real hosts do, one to four planes between them, and a
//! random sequence of failures at the ends of the planes, with the recommended configuration. No
//! message may be lost, and none may be later than a bound while one pair of addresses works.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use bytes::Bytes;
use carrick_hosts::sctp::{Application, HostRoutes, SctpHost};
use carrick_lab::seed::derive_bytes;
use carrick_netsim::{
    Change, HostRouting, InputRule, InterfaceId, LinkConfig, LinkId, Neighbor, Network,
    NetworkBuilder, NodeId, Prefix, Time,
};
use carrick_proto::{
    AssociationConfig, AssociationId, Endpoint, EndpointConfig, Event, SendOptions,
};

use super::dice::{Dice, Part};
use super::interface_failure::InterfaceFailure;
use super::plan::Side;

const PORT: u16 = 5000;
/// Number of retransmissions that no world reaches: an outage of all planes may be long.
const NEVER: u32 = 1 << 24;
/// Interval at which delays are checked.
const TICK: Duration = Duration::from_millis(100);
/// Time without failures at the start, in which all paths are confirmed, and at the end.
const QUIET: Duration = Duration::from_secs(10);
/// Time after the last message in which all messages have to arrive.
const SETTLE: Duration = Duration::from_secs(600);
/// Number of hops after which a route counts as a loop.
const MAX_HOPS: usize = 8;

/// Connection of the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaneShape {
    /// A link for each plane.
    Direct,
    /// A router in each plane.
    Routed,
    /// A router in each plane, and links from each router to the next.
    Crossed,
}

/// Kind of a failure of a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureKind {
    Interface(InterfaceFailure),
    /// One host sends packets for the peer's address of the plane by the next plane.
    MovedRoute(Side),
}

/// A failure of one plane.
#[derive(Clone, Copy, Debug)]
struct Failure {
    plane: usize,
    kind: FailureKind,
    from: Duration,
    to: Duration,
}

/// Messages of one side.
#[derive(Clone, Copy, Debug)]
struct Talk {
    interval: Duration,
    size: usize,
}

/// Choices of a world.
#[derive(Clone, Debug)]
struct FailurePlan {
    shape: PlaneShape,
    /// Addresses by side and plane.
    addresses: [Vec<IpAddr>; 2],
    routing: [HostRouting; 2],
    /// Delay of each plane in one direction.
    delays: Vec<Duration>,
    failures: Vec<Failure>,
    talks: [Option<Talk>; 2],
}

impl FailurePlan {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed, Part::Failures);
        let dice = &mut dice;
        let planes = dice.pick(&[1, 2, 2, 2, 2, 2, 3, 4]);
        let shape = dice.pick(&[
            PlaneShape::Direct,
            PlaneShape::Direct,
            PlaneShape::Routed,
            PlaneShape::Crossed,
        ]);
        let versions: Vec<bool> = match dice.range(0, 3) {
            0 => vec![false; planes],
            1 => (0..planes).map(|_| dice.chance(0.5)).collect(),
            _ => vec![true; planes],
        };
        let addresses = [1, 2].map(|end: u8| {
            let address = |(plane, v4): (u8, &bool)| {
                if *v4 {
                    return IpAddr::V4(Ipv4Addr::new(10, plane, 0, end));
                }
                let (plane, end) = (u16::from(plane), u16::from(end));
                IpAddr::V6(Ipv6Addr::new(0xfd00, plane, 0, 0, 0, 0, 0, end))
            };
            (1..).zip(&versions).map(address).collect()
        });
        let routing = [(); 2].map(|()| {
            dice.pick(&[
                HostRouting::ByDestination,
                HostRouting::ByDestination,
                HostRouting::PreferSource,
                HostRouting::BySource,
            ])
        });
        let far = dice.chance(0.2);
        let most = if far { 100 } else { 20 };
        let delays = (0..planes).map(|_| dice.log_millis(1, most)).collect();
        let mut talks = [(); 2].map(|()| {
            dice.chance(0.8).then(|| Talk {
                interval: dice.log_millis(100, 1000),
                size: dice.size(8, 64),
            })
        });
        if talks.iter().all(Option::is_none) {
            talks[0] = Some(Talk {
                interval: dice.log_millis(100, 1000),
                size: 8,
            });
        }
        let mut at = QUIET;
        let failures = (0..dice.range(1, 6))
            .map(|_| {
                at += dice.log_millis(100, 100_000);
                let failure = Failure {
                    plane: dice.size(0, planes - 1),
                    kind: kind(dice, planes),
                    from: at,
                    to: at + dice.log_millis(50, 200_000),
                };
                // The next failure begins after this one, or while it lasts.
                if dice.chance(0.6) {
                    at = failure.to;
                }
                failure
            })
            .collect();
        Self {
            shape,
            addresses,
            routing,
            delays,
            failures,
            talks,
        }
    }

    /// Returns the time of the last message.
    fn end(&self) -> Duration {
        let ends = self.failures.iter().map(|failure| failure.to);
        ends.max().unwrap_or_default() + QUIET
    }

    /// Returns the number of pairs of addresses of one IP version.
    fn pairs(&self) -> u32 {
        let [ours, theirs] = &self.addresses;
        let fits = |a: &IpAddr| theirs.iter().filter(|b| b.is_ipv4() == a.is_ipv4()).count();
        ours.iter().map(fits).sum::<usize>() as u32
    }

    /// Returns the longest round-trip time; a route may cross all planes.
    fn round_trip(&self) -> Duration {
        match self.shape {
            PlaneShape::Direct => 2 * self.delays.iter().max().copied().unwrap_or_default(),
            PlaneShape::Routed | PlaneShape::Crossed => 4 * self.delays.iter().sum::<Duration>(),
        }
    }

    /// Returns the changes of all failures in the order of time.
    fn changes(&self, built: &Built) -> Vec<(Time, Change)> {
        let mut all = Vec::new();
        for failure in &self.failures {
            let (from, to) = (Time::ZERO + failure.from, Time::ZERO + failure.to);
            for [begins, ends] in self.changes_of(failure, built) {
                all.extend([(from, begins), (to, ends)]);
            }
        }
        all.sort_by_key(|(at, _)| *at);
        all
    }

    /// Returns the changes that begin and end a failure.
    fn changes_of(&self, failure: &Failure, built: &Built) -> Vec<[Change; 2]> {
        let plane = failure.plane;
        match failure.kind {
            FailureKind::Interface(kind) => {
                kind.changes([0, 1].map(|side| built.ports[side][plane]))
            }
            FailureKind::MovedRoute(side) => {
                let (node, prefix) = (
                    built.hosts[side],
                    Prefix::host(self.addresses[1 - side][plane]),
                );
                let via = built.ports[side][(plane + 1) % self.delays.len()];
                let source = None;
                let moves = Change::AddRoute {
                    node,
                    prefix,
                    source,
                    via,
                };
                vec![[moves, Change::RemoveRoutes { node, prefix }]]
            }
        }
    }

    fn build(&self, seed: u64) -> Built {
        let mut builder = NetworkBuilder::new(seed);
        let hosts = ["left", "right"].map(|name| builder.add_host(name));
        let mut ports = [Vec::new(), Vec::new()];
        let mut routers = Vec::new();
        for (plane, delay) in self.delays.iter().enumerate() {
            let ends = [0, 1]
                .map(|side| builder.add_interface(hosts[side], [self.addresses[side][plane]]));
            (0..2).for_each(|side| ports[side].push(ends[side]));
            let link = LinkConfig::delay(*delay);
            if self.shape == PlaneShape::Direct {
                builder.connect_both(ends[0], ends[1], link);
                continue;
            }
            let router = builder.add_router(format!("r{}", plane + 1));
            for end in ends {
                let far = builder.add_interface(router, []);
                builder.connect_both(end, far, link.clone());
            }
            if let (PlaneShape::Crossed, Some(before)) = (self.shape, routers.last()) {
                let [a, b] = [*before, router].map(|node| builder.add_interface(node, []));
                builder.connect_both(a, b, link);
            }
            routers.push(router);
        }
        for side in 0..2 {
            builder.set_routing(hosts[side], self.routing[side]);
            let routes = HostRoutes::default();
            let own = self.addresses[side].clone();
            let mut config = EndpointConfig::new(PORT, own, derive_bytes(seed, &[side as u64]));
            config.association = settings();
            config.source_selection = Box::new(routes.clone());
            let endpoint = Endpoint::new(config).expect("a valid configuration");
            let talker = Talker {
                talk: self.talks[side],
                peers: self.addresses[1 - side].clone(),
                next: (side == 0).then_some(carrick_proto::Time::ZERO),
                end: carrick_proto::Time::ZERO + self.end(),
                id: None,
                sent: Vec::new(),
                received: Vec::new(),
                fault: None,
            };
            let host = SctpHost::new(endpoint, talker).with_routes(routes);
            builder.set_node_program(hosts[side], Box::new(host));
        }
        let net = builder.build().expect("a valid network");
        let mut links = BTreeMap::new();
        for link in net.links() {
            let [a, b] = net.link_ends(link);
            links.insert(a, (link, b));
            links.insert(b, (link, a));
        }
        Built {
            net,
            hosts,
            ports,
            links,
        }
    }
}

fn kind(dice: &mut Dice, planes: usize) -> FailureKind {
    if planes > 1 && dice.chance(0.1) {
        return FailureKind::MovedRoute(dice.size(0, 1));
    }
    FailureKind::Interface(InterfaceFailure::new(dice))
}

/// Returns the recommended configuration; the association outlives every outage.
fn settings() -> AssociationConfig {
    AssociationConfig::default().with(|c| {
        c.paths.association_max_retrans = NEVER;
    })
}

/// Returns the longest time for which a message may wait while one pair of addresses works, in both
/// directions and all the time.
///
/// The message was sent by a pair that does not work. T3-rtx expires after an RTO, and the
/// retransmission is sent by another pair. In the worst case every pair of addresses is tried before
/// the one that works, each for an RTO: a pair that is in doubt does not wait longer for its turn
/// (RFC 9260, sections 6.3.3 and 8.2; RFC 7829, section 3.2). The RTO of a path that works is
/// RTO.Min, or as the first sample of the round-trip time sets it, which a delayed SACK may lengthen
/// (section 6.3.1): three times the sample.
///
/// If no pair worked for some time before, T3-rtx has backed off: the next retransmission is no
/// further away than the outage was long, and than RTO.Max (section 6.3.3, E2).
///
/// What is added is for the messages that queued up meanwhile, whose window opens in slow start, and
/// for half a second of the tail loss probe, the delayed SACK and the checks of this test.
fn longest_wait(plan: &FailurePlan, outage: Duration) -> Duration {
    let timers = settings().timers;
    let sample = plan.round_trip() + timers.sack_delay;
    let rto = timers.rto_min.max(3 * sample);
    let backed_off = match outage > 2 * TICK {
        true => (outage + rto).min(timers.rto_max),
        false => Duration::ZERO,
    };
    let spare = 8 * plan.round_trip() + Duration::from_millis(500);
    backed_off + (plan.pairs() + 1) * rto + spare
}

/// The running network.
struct Built {
    net: Network,
    hosts: [NodeId; 2],
    /// Interfaces by side and plane.
    ports: [Vec<InterfaceId>; 2],
    /// Link of each interface, and the interface at its other end.
    links: BTreeMap<InterfaceId, (LinkId, InterfaceId)>,
}

impl Built {
    /// Returns whether a packet of a host would arrive, by the present state of the network.
    fn delivers(&self, from: Side, source: IpAddr, destination: IpAddr) -> bool {
        let net = &self.net;
        let receiver = self.hosts[1 - from];
        let mut node = self.hosts[from];
        for _ in 0..MAX_HOPS {
            let hop = net.route(node, source, destination);
            let Some((via, (link, far))) = hop.and_then(|via| Some((via, *self.links.get(&via)?)))
            else {
                return false;
            };
            let passes = net.neighbor(via) == Neighbor::Reachable
                && net.is_up(link)
                && net.is_interface_up(far)
                && net.input_rule(far) == InputRule::Accept;
            if !passes {
                return false;
            }
            node = net.node_of(far);
            if node == receiver {
                return true;
            }
        }
        false
    }

    fn talker(&self, side: Side) -> &Talker {
        self.net.node::<Host>(self.hosts[side]).application()
    }

    /// Describes the paths of a side.
    fn describe_paths(&self, side: Side) -> String {
        let endpoint = self.net.node::<Host>(self.hosts[side]).endpoint();
        let mut lines = String::new();
        for id in endpoint.associations() {
            let Some(association) = endpoint.association(id) else {
                continue;
            };
            let current = association.stats().current;
            for path in association.paths() {
                let state = match (path.status.active, path.status.potentially_failed) {
                    (false, _) => "inactive",
                    (true, true) => "potentially failed",
                    (true, false) => "active",
                };
                let local = path.local.map_or("any".into(), |local| local.to_string());
                let used = if current == Some(path.id) {
                    ", in use"
                } else {
                    ""
                };
                lines.push_str(&format!(
                    "    {}: {local} -> {}: {state}{used}, {} errors, RTO {:?}\n",
                    ["left", "right"][side],
                    path.remote,
                    path.error_count,
                    path.rto,
                ));
            }
        }
        lines
    }
}

type Host = SctpHost<Talker>;

/// Sends numbered messages at an interval and checks those of the peer.
struct Talker {
    talk: Option<Talk>,
    peers: Vec<IpAddr>,
    next: Option<carrick_proto::Time>,
    /// Time from which no message is sent.
    end: carrick_proto::Time,
    id: Option<AssociationId>,
    /// Times at which messages were sent, and at which the peer's arrived.
    sent: Vec<carrick_proto::Time>,
    received: Vec<carrick_proto::Time>,
    /// First violation.
    fault: Option<String>,
}

impl Application for Talker {
    fn next_timer(&self) -> Option<carrick_proto::Time> {
        self.next
    }

    fn on_timer(&mut self, now: carrick_proto::Time, endpoint: &mut Endpoint) {
        let (Some(id), Some(talk)) = (self.id, self.talk) else {
            self.next = None;
            if self.id.is_none() {
                endpoint
                    .connect(now, &self.peers, PORT, None, settings())
                    .expect("a valid address");
            }
            return;
        };
        let mut message = vec![0; talk.size];
        message[..8].copy_from_slice(&(self.sent.len() as u64).to_be_bytes());
        let options = SendOptions::default();
        // The send buffer holds what is sent in an outage.
        match endpoint.send(now, id, options, Bytes::from(message)) {
            Ok(()) => self.sent.push(now),
            Err(error) => {
                let fault = format!("message {} was refused: {error}", self.sent.len());
                self.fault.get_or_insert(fault);
            }
        }
        self.next = Some(now + talk.interval).filter(|at| *at < self.end);
    }

    fn on_readable(
        &mut self,
        now: carrick_proto::Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
    ) {
        while let Some(message) = endpoint.receive(id) {
            let (expected, bytes) = (self.received.len() as u64, message.payload.into_bytes());
            let number = bytes.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
            if number != Some(expected) {
                let fault = format!("message {number:?} arrived, not {expected}");
                self.fault.get_or_insert(fault);
            }
            self.received.push(now);
        }
    }

    fn on_event(
        &mut self,
        now: carrick_proto::Time,
        _: &mut Endpoint,
        id: AssociationId,
        event: Event,
    ) {
        match event {
            Event::Established { .. } => {
                self.id = Some(id);
                self.next = self.talk.map(|talk| now + talk.interval);
            }
            Event::Closed(_) | Event::SendFailed(_) => {
                self.fault.get_or_insert(format!("{event:?}"));
                self.next = None;
            }
            _ => {}
        }
    }
}

/// A pair of addresses, of left and right, by the true state of the network.
struct Pair {
    addresses: [IpAddr; 2],
    /// Time since which both directions work without interruption.
    since: Option<Time>,
    /// Time without any pair that worked before that.
    outage: Duration,
}

/// A message that is later than its bound.
struct Late {
    from: Side,
    number: usize,
    sent: Time,
    text: String,
}

/// Result of a world of failures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailureReport {
    pub(crate) messages: usize,
    pub(crate) seconds: f64,
    /// Number of times at which a pair of addresses began to work.
    pub(crate) returns: usize,
}

/// Runs the world of failures of `seed`. A message that is later than its bound is a violation.
///
/// # Errors
/// The first violation, in several lines.
pub(crate) fn run(seed: u64, verbose: bool) -> Result<FailureReport, String> {
    let plan = FailurePlan::new(seed);
    if verbose {
        println!("{plan:#?}");
    }
    FailureWorld::new(seed, plan).run()
}

struct FailureWorld {
    plan: FailurePlan,
    built: Built,
    pairs: Vec<Pair>,
    /// Last time at which a pair had worked for long enough for every message to arrive.
    good: Time,
    returns: usize,
    late: Option<Late>,
}

impl FailureWorld {
    fn new(seed: u64, plan: FailurePlan) -> Self {
        let mut pairs = Vec::new();
        for ours in &plan.addresses[0] {
            for theirs in &plan.addresses[1] {
                if ours.is_ipv4() == theirs.is_ipv4() {
                    pairs.push(Pair {
                        addresses: [*ours, *theirs],
                        since: None,
                        outage: Duration::ZERO,
                    });
                }
            }
        }
        let mut world = Self {
            built: plan.build(seed),
            plan,
            pairs,
            good: Time::ZERO,
            returns: 0,
            late: None,
        };
        world.update_pairs();
        world
    }

    fn run(mut self) -> Result<FailureReport, String> {
        let changes = self.plan.changes(&self.built);
        let (end, limit) = (self.plan.end(), self.plan.end() + SETTLE);
        let (end, limit) = (Time::ZERO + end, Time::ZERO + limit);
        let mut changes = changes.into_iter().peekable();
        loop {
            let now = self.built.net.now();
            let tick = now + TICK;
            let next = changes.peek().map_or(tick, |(at, _)| tick.min(*at));
            self.built.net.run_until(next);
            self.check_waiting();
            let mut changed = false;
            while let Some((_, change)) = changes.next_if(|(at, _)| *at <= next) {
                self.built.net.apply(change).map_err(|e| e.to_string())?;
                changed = true;
            }
            if changed {
                self.update_pairs();
            }
            let fault = (0..2).find_map(|side| {
                let fault = self.built.talker(side).fault.as_ref()?;
                Some(format!("{}: {fault}", ["left", "right"][side]))
            });
            if let Some(fault) = fault {
                return Err(format!("{fault} at {next} s\n{}", self.story()));
            }
            let all_arrived = (0..2).all(|side| {
                self.built.talker(side).sent.len() == self.built.talker(1 - side).received.len()
            });
            if next >= end && all_arrived {
                break;
            }
            if next >= limit {
                return Err(format!(
                    "messages are missing at {next} s\n{}",
                    self.story()
                ));
            }
        }
        if let Some(late) = &self.late {
            return Err(self.describe_late(late));
        }
        Ok(FailureReport {
            messages: (0..2).map(|side| self.built.talker(side).sent.len()).sum(),
            seconds: self.built.net.now().as_secs_f64(),
            returns: self.returns,
        })
    }

    /// Notes which pairs work now.
    fn update_pairs(&mut self) {
        let now = self.built.net.now();
        for pair in &mut self.pairs {
            let [left, right] = pair.addresses;
            let works = self.built.delivers(0, left, right) && self.built.delivers(1, right, left);
            match (works, pair.since) {
                (false, _) => pair.since = None,
                (true, Some(_)) => {}
                (true, None) => {
                    pair.since = Some(now);
                    pair.outage = now.saturating_duration_since(self.good);
                    self.returns += usize::from(now > Time::ZERO);
                }
            }
        }
    }

    /// Checks the oldest message of each side that has not arrived.
    fn check_waiting(&mut self) {
        let now = self.built.net.now();
        for from in 0..2 {
            let number = self.built.talker(1 - from).received.len();
            let Some(sent) = self.built.talker(from).sent.get(number) else {
                continue;
            };
            let sent = Time::from_nanos(sent.as_nanos());
            for pair in &self.pairs {
                let Some(since) = pair.since.filter(|_| self.late.is_none()) else {
                    continue;
                };
                let bound = longest_wait(&self.plan, pair.outage);
                if now.saturating_duration_since(since.max(sent)) <= bound {
                    continue;
                }
                let [left, right] = pair.addresses;
                let text = format!(
                    "{left} <-> {right} works since {since} s, after {:.1} s without a pair that works; bound {bound:.1?}\n  \
                     paths at {now} s:\n{}{}",
                    pair.outage.as_secs_f64(),
                    self.built.describe_paths(0),
                    self.built.describe_paths(1),
                );
                self.late = Some(Late {
                    from,
                    number,
                    sent,
                    text,
                });
            }
        }
        let proven = |pair: &Pair| {
            let bound = longest_wait(&self.plan, pair.outage);
            pair.since.is_some_and(|since| since + bound <= now)
        };
        if self.pairs.iter().any(proven) {
            self.good = now;
        }
    }

    fn describe_late(&self, late: &Late) -> String {
        let arrived = self.built.talker(1 - late.from).received.get(late.number);
        let delay = arrived.map_or(0.0, |at| at.as_secs_f64() - late.sent.as_secs_f64());
        format!(
            "message {} of {} arrived after {delay:.1} s (sent at {} s)\n  {}{}",
            late.number,
            ["left", "right"][late.from],
            late.sent,
            late.text,
            self.story()
        )
    }

    /// Describes the network and its failures.
    fn story(&self) -> String {
        let plan = &self.plan;
        let mut text = format!(
            "  {} planes, {:?}, routing {:?}, round trip up to {:?}\n",
            plan.delays.len(),
            plan.shape,
            plan.routing,
            plan.round_trip()
        );
        for failure in &plan.failures {
            text.push_str(&format!(
                "  {:>8.1} s to {:>8.1} s: plane {}, {:?}\n",
                failure.from.as_secs_f64(),
                failure.to.as_secs_f64(),
                failure.plane + 1,
                failure.kind,
            ));
        }
        text
    }
}
