//! Sequences of failures of two planes between hosts that route by destination, or by source with
//! policy routing: the longest delay of an echo. `--nocapture` prints the delays.
//!
//! The hosts are those of real networks: a packet leaves by the route to its destination whatever
//! its source address is, so that a path whose source is an address of the other plane needs both
//! planes.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_hosts::sctp::{Application, HostRoutes, SctpHost};
use carrick_netsim::{
    Change, HostRouting, InputRule, InterfaceId, LinkConfig, Neighbor, Network, NetworkBuilder,
    NodeId, Time, Unreachable,
};
use carrick_proto::{
    AssociationConfig, AssociationId, Endpoint, EndpointConfig, Event, SendOptions,
};

const PORT: u16 = 5000;
const EVERY: Duration = Duration::from_millis(250);
/// Delay of each plane in one direction.
const DELAY: Duration = Duration::from_millis(10);
/// Time of the first failure.
const START: Duration = Duration::from_secs(10);
/// Time from the end of the last failure to the last message.
const AFTER: Duration = Duration::from_secs(30);
/// Longest time in which what is outstanding at the end has to arrive.
const SETTLE: Duration = Duration::from_secs(300);

/// Returns the parameters of the sockets API, which are those of a kernel: a path is potentially
/// failed after one timeout (RFC 7829, section 3).
fn config() -> AssociationConfig {
    AssociationConfig::default().with(|c| c.paths.potentially_failed_max_retrans = Some(0))
}

/// Returns the longest delay of an echo while one plane works: the request waits for a T3-rtx
/// expiry at the client, and the response, sent before the server has found the failure, for one
/// at the server; each retransmission takes the plane that works. An RTO is RTO.Min here. Half a
/// second is for the round trips and delayed SACKs.
fn bound(config: &AssociationConfig) -> Duration {
    2 * config.timers.rto_min + Duration::from_millis(500)
}

/// Returns the longest delay of an echo that waits for the end of an outage of all planes: after
/// it, no retransmission is further away than it was long, by the backoff of T3-rtx (RFC 9260,
/// section 6.3.3), and each of the two planes has its turn.
fn bound_after_outage(config: &AssociationConfig, outage: Duration) -> Duration {
    outage + 2 * (outage / 2 + config.timers.rto_min).min(config.timers.rto_max) + bound(config)
}

/// Kind of a failure of a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureKind {
    /// Both ends drop what arrives, silently.
    Silent,
    /// The interface of one host is down, which has no route over it then.
    DownAt(usize),
    /// The interfaces of both hosts are down.
    Down,
    /// One host drops what arrives, silently: one direction works.
    DropAt(usize),
    /// Packets that a host sends go nowhere.
    WrongNeighbor(usize),
    /// Each host waits for the other's link-layer address, then notes "host unreachable".
    Unresolved,
    /// One host rejects what arrives.
    RejectAt(usize, Unreachable),
}

/// A failure of one plane: 0 or 1.
#[derive(Clone, Copy, Debug)]
struct Failure {
    plane: usize,
    kind: FailureKind,
    /// Time after [`START`], and duration.
    from: Duration,
    length: Duration,
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn failure(plane: usize, kind: FailureKind, from: u64, length: u64) -> Failure {
    Failure {
        plane,
        kind,
        from: secs(from),
        length: secs(length),
    }
}

impl Failure {
    /// Returns the changes that begin and end the failure; `ports` are the interfaces by host.
    fn changes(&self, ports: [InterfaceId; 2]) -> Vec<[Change; 2]> {
        let input = |host: usize, rule| {
            let interface = ports[host];
            [rule, InputRule::Accept].map(|input| Change::SetInput { interface, input })
        };
        let down = |host: usize| {
            [
                Change::InterfaceDown(ports[host]),
                Change::InterfaceUp(ports[host]),
            ]
        };
        let neighbor = |host: usize, state| {
            let interface = ports[host];
            [state, Neighbor::Reachable].map(|neighbor| Change::SetNeighbor {
                interface,
                neighbor,
            })
        };
        let unresolved = Neighbor::Unresolved { after: secs(3) };
        match self.kind {
            FailureKind::Silent => [0, 1].map(|host| input(host, InputRule::Drop)).into(),
            FailureKind::DownAt(host) => vec![down(host)],
            FailureKind::Down => [0, 1].map(down).into(),
            FailureKind::DropAt(host) => vec![input(host, InputRule::Drop)],
            FailureKind::WrongNeighbor(host) => vec![neighbor(host, Neighbor::Wrong)],
            FailureKind::Unresolved => [0, 1].map(|host| neighbor(host, unresolved)).into(),
            FailureKind::RejectAt(host, reason) => vec![input(host, InputRule::Reject(reason))],
        }
    }
}

/// Sends its number as a message every 250 ms and records when the echo arrives.
struct EchoClient {
    peers: Vec<IpAddr>,
    next: Option<carrick_proto::Time>,
    /// Time from which no message is sent.
    end: carrick_proto::Time,
    id: Option<AssociationId>,
    /// Times at which the messages were sent and echoed.
    sent: Vec<carrick_proto::Time>,
    echoed: Vec<carrick_proto::Time>,
    closed: bool,
}

impl Application for EchoClient {
    fn next_timer(&self) -> Option<carrick_proto::Time> {
        self.next
    }

    fn on_timer(&mut self, now: carrick_proto::Time, endpoint: &mut Endpoint) {
        let Some(id) = self.id else {
            self.next = None;
            endpoint
                .connect(now, &self.peers, PORT, None, config())
                .expect("a valid address");
            return;
        };
        let number = Bytes::copy_from_slice(&(self.sent.len() as u64).to_be_bytes());
        endpoint
            .send(now, id, SendOptions::default(), number)
            .expect("space in the send buffer");
        self.sent.push(now);
        self.next = Some(now + EVERY).filter(|at| *at < self.end);
    }

    fn on_readable(
        &mut self,
        now: carrick_proto::Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
    ) {
        while let Some(message) = endpoint.receive(id) {
            let expected = (self.echoed.len() as u64).to_be_bytes();
            assert_eq!(message.payload.into_bytes()[..], expected, "in order");
            self.echoed.push(now);
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
                self.next = Some(now);
            }
            Event::Closed(_) => {
                self.closed = true;
                self.next = None;
            }
            _ => {}
        }
    }
}

/// Sends every message back.
struct EchoServer;

impl Application for EchoServer {
    fn on_readable(
        &mut self,
        now: carrick_proto::Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
    ) {
        while let Some(message) = endpoint.receive(id) {
            let payload = message.payload.into_bytes();
            endpoint
                .send(now, id, SendOptions::default(), payload)
                .expect("space in the send buffer");
        }
    }
}

/// Two hosts, joined by two planes, with an association between them.
struct Planes {
    net: Network,
    client: NodeId,
    /// Interfaces by plane and host.
    ports: Vec<[InterfaceId; 2]>,
}

impl Planes {
    fn new(routing: HostRouting, seed: u8, end: Duration) -> Self {
        let mut builder = NetworkBuilder::new(seed.into());
        let hosts = ["client", "server"].map(|name| builder.add_host(name));
        let addresses = [1, 2].map(|host| [1, 2].map(|plane| IpAddr::from([10, plane, 0, host])));
        let ports = [0, 1].map(|plane| {
            let ports =
                [0, 1].map(|host| builder.add_interface(hosts[host], [addresses[host][plane]]));
            builder.connect_both(ports[0], ports[1], LinkConfig::delay(DELAY));
            ports
        });
        let endpoint = |host: usize, routes: &HostRoutes| {
            let seed = [seed * 2 + host as u8; 32];
            let mut own = EndpointConfig::new(PORT, addresses[host].to_vec(), seed);
            own.association = config();
            own.source_selection = Box::new(routes.clone());
            Endpoint::new(own).expect("a valid configuration")
        };
        let program = EchoClient {
            peers: addresses[1].to_vec(),
            next: Some(carrick_proto::Time::ZERO),
            end: carrick_proto::Time::ZERO + end,
            id: None,
            sent: Vec::new(),
            echoed: Vec::new(),
            closed: false,
        };
        let routes = [(); 2].map(|()| HostRoutes::default());
        let client = SctpHost::new(endpoint(0, &routes[0]), program);
        let server = SctpHost::new(endpoint(1, &routes[1]), EchoServer);
        let [first, second] = routes;
        builder.set_node_program(hosts[0], Box::new(client.with_routes(first)));
        builder.set_node_program(hosts[1], Box::new(server.with_routes(second)));
        for host in hosts {
            builder.set_routing(host, routing);
        }
        Self {
            net: builder.build().expect("a valid network"),
            client: hosts[0],
            ports: ports.into(),
        }
    }
}

/// Runs a sequence of failures; returns for each the longest delay of a message that was sent
/// from a second before it to the next one.
fn delays(routing: HostRouting, seed: u8, failures: &[Failure]) -> Vec<Duration> {
    let ends = failures.iter().map(|f| f.from + f.length);
    let end = START + ends.max().expect("a failure") + AFTER;
    let mut world = Planes::new(routing, seed, end);
    for failure in failures {
        for [begin, finish] in failure.changes(world.ports[failure.plane]) {
            let from = Time::ZERO + START + failure.from;
            world.net.at(from, begin).expect("a time ahead");
            let to = from + failure.length;
            world.net.at(to, finish).expect("a time ahead");
        }
    }
    world.net.run_until(Time::ZERO + end + SETTLE);
    let client = world.net.node::<SctpHost<EchoClient>>(world.client);
    let client = client.application();
    assert!(!client.closed, "the association ended: {failures:?}");
    assert_eq!(client.echoed.len(), client.sent.len(), "{failures:?}");
    let begins = |failure: &Failure| (START + failure.from).saturating_sub(secs(1));
    let starts = failures.iter().map(begins);
    let until = failures.iter().skip(1).map(begins).chain([end]);
    let all = || client.sent.iter().zip(&client.echoed);
    let longest = |(from, to): (Duration, Duration)| {
        let [from, to] = [from, to].map(|at| carrick_proto::Time::ZERO + at);
        let within = all().filter(|(sent, _)| (from..to).contains(*sent));
        let delays = within.map(|(sent, echoed)| echoed.since(*sent));
        delays.max().unwrap_or_default()
    };
    starts.zip(until).map(longest).collect()
}

/// Runs a sequence with several seeds; returns a line for each whose delays exceed the bounds.
fn late(
    name: &str,
    routing: HostRouting,
    seeds: u8,
    failures: &[Failure],
    bounds: impl Fn(&Failure) -> Duration,
) -> Vec<String> {
    let mut late = Vec::new();
    for seed in 1..=seeds {
        let delays = delays(routing, seed, failures);
        let line = format!("{name}, {routing:?}, seed {seed}: {delays:.1?}");
        println!("{line}");
        let mut pairs = delays.iter().zip(failures);
        if pairs.any(|(delay, failure)| *delay > bounds(failure)) {
            late.push(line);
        }
    }
    late
}

fn assert_none_late(late: &[String]) {
    assert!(
        late.is_empty(),
        "later than the bound:\n{}",
        late.join("\n")
    );
}

/// One plane fails for 100 s and returns; 60 s later the other fails for 180 s.
fn one_after_the_other(first: usize, kind: FailureKind) -> Vec<Failure> {
    vec![
        failure(first, kind, 0, 100),
        failure(1 - first, kind, 160, 180),
    ]
}

const ROUTINGS: [HostRouting; 2] = [HostRouting::ByDestination, HostRouting::BySource];

/// RFC 9260, sections 6.4 and 8.2
#[test]
fn second_failure_finds_the_plane_that_returned() {
    let failures = one_after_the_other(0, FailureKind::Silent);
    let limit = |_: &Failure| bound(&config());
    assert_none_late(&late(
        "silent",
        HostRouting::ByDestination,
        8,
        &failures,
        limit,
    ));
}

/// RFC 9260, sections 6.4 and 8.2
#[test]
fn every_failure_moves_data_to_the_other_plane() {
    let kinds = [
        FailureKind::Silent,
        FailureKind::Down,
        FailureKind::DownAt(0),
        FailureKind::DownAt(1),
        FailureKind::DropAt(0),
        FailureKind::DropAt(1),
        FailureKind::WrongNeighbor(0),
        FailureKind::WrongNeighbor(1),
        FailureKind::Unresolved,
        FailureKind::RejectAt(0, Unreachable::Host),
        FailureKind::RejectAt(1, Unreachable::Net),
    ];
    let mut all = Vec::new();
    for routing in ROUTINGS {
        for kind in kinds {
            for first in [0, 1] {
                let failures = one_after_the_other(first, kind);
                let name = format!("{kind:?}, plane {} first", first + 1);
                all.extend(late(&name, routing, 2, &failures, |_| bound(&config())));
            }
        }
    }
    assert_none_late(&all);
}

/// RFC 9260, sections 6.4 and 8.2
#[test]
fn planes_fail_in_turn_twice_over() {
    let mut all = Vec::new();
    for routing in ROUTINGS {
        for kind in [FailureKind::Silent, FailureKind::Down] {
            for first in [0, 1] {
                let mut failures = one_after_the_other(first, kind);
                failures.extend(one_after_the_other(first, kind).iter().map(|f| Failure {
                    from: f.from + secs(400),
                    ..*f
                }));
                let name = format!("{kind:?}, plane {} first, twice", first + 1);
                all.extend(late(&name, routing, 2, &failures, |_| bound(&config())));
            }
        }
    }
    assert_none_late(&all);
}

/// RFC 9260, section 6.3.3
#[test]
fn data_follows_the_plane_that_returns_first() {
    let mut all = Vec::new();
    for routing in ROUTINGS {
        for returns in [0, 1] {
            for dead in [5, 30, 90] {
                // The other plane returns a minute after this one.
                let failures = [
                    failure(returns, FailureKind::Silent, 0, dead),
                    failure(1 - returns, FailureKind::Silent, 0, dead + 60),
                ];
                let name = format!("both dead for {dead} s, plane {} first", returns + 1);
                let limit = |_: &Failure| bound_after_outage(&config(), secs(dead));
                all.extend(late(&name, routing, 2, &failures, limit));
            }
        }
    }
    assert_none_late(&all);
}
