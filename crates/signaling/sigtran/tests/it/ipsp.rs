//! Two IPSPs connected to each other in virtual time.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::SctpNotification;
use carrick_sigtran::aspm::asp::{Asp, AspConfig, AspRequestError};
use carrick_sigtran::aspm::ipsp::{Ipsp, IpspConfigError, IpspExchange, IpspIndication, IpspLayer};
use carrick_sigtran::aspm::sgp::{AsState, AspKey, DeliveryError, GatewayConfig, SgpAspConfig};
use carrick_sigtran::aspm::{AspState, Layer, LayerMessage, Maintenance};
use carrick_sigtran::m3ua::M3ua;
use carrick_sigtran::message::kinds::common as kinds;
use carrick_sigtran::message::{MessageKind, RoutingContext, TrafficMode};
use carrick_sigtran::sua::Sua;
use carrick_sigtran::{m3ua, sua};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::world::WorldLayer;

/// Layer of IPSPs.
trait Peered: IpspLayer + WorldLayer + Layer<AsId = RoutingContext> {
    fn is_transfer(indication: &Self::AspIndication) -> bool;
}

impl Peered for M3ua {
    fn is_transfer(indication: &m3ua::asp::AspIndication) -> bool {
        matches!(indication, m3ua::asp::AspIndication::Transfer(_))
    }
}

impl Peered for Sua {
    fn is_transfer(indication: &sua::asp::AspIndication) -> bool {
        matches!(indication, sua::asp::AspIndication::Traffic(..))
    }
}

const UP: SctpNotification = SctpNotification::Up {
    outbound_streams: 4,
};
const RC_A: RoutingContext = RoutingContext(1);
const RC_B: RoutingContext = RoutingContext(2);
const A: usize = 0;
const B: usize = 1;

/// Both ends. Messages to an end are octets with the association, which is the index of IPSP-A's peer.
struct Network<L: Peered> {
    /// IPSP-A with one or more peers, then the peers.
    ends: Vec<Ipsp<L>>,
    /// Keys of the peers at IPSP-A, and IPSP-A's key at each of them.
    keys: Vec<(AspKey, AspKey)>,
    /// Messages on the way to IPSP-A from each peer, and to each peer.
    in_flight: Vec<[VecDeque<(u16, Bytes)>; 2]>,
    /// Requests, acknowledgements and traffic in order, with the sender; traffic has no kind.
    log: Vec<LogEntry>,
    /// Number of messages that each end received.
    received: Vec<usize>,
    now: Time,
}

type LogEntry = (usize, Option<MessageKind>, Vec<u32>);

impl<L: Peered> Network<L> {
    /// Network with this number of peers of IPSP-A. Each end receives the traffic of the contexts of its list.
    fn with(exchange: IpspExchange, mode: TrafficMode, peers: usize) -> Self {
        let (of_a, of_b) = match exchange {
            IpspExchange::Single => (RC_B, RC_B),
            IpspExchange::Double | IpspExchange::DoubleWithSingleAspsm => (RC_A, RC_B),
        };
        let new = |local: RoutingContext, remote: RoutingContext, peers: usize| {
            let mut ipsp = Ipsp::<L>::new(exchange, GatewayConfig::default());
            let server = L::server(remote.0, Some(mode), 1);
            ipsp.remote(Time::ZERO, |gateway| gateway.add_application_server(server))
                .expect("a valid application server");
            let keys = (0..peers).map(|_| {
                let peer = SgpAspConfig {
                    identifier: None,
                    application_servers: vec![remote],
                };
                let config = AspConfig {
                    application_servers: vec![L::served(local.0, Some(mode))],
                    ..AspConfig::default()
                };
                ipsp.add_peer(peer, config).expect("a valid peer")
            });
            let keys: Vec<_> = keys.collect();
            (ipsp, keys)
        };
        let (a, keys_at_a) = new(of_a, of_b, peers);
        let mut ends = vec![a];
        let mut keys = Vec::new();
        for key in keys_at_a {
            let (end, key_of_a) = new(of_b, of_a, 1);
            ends.push(end);
            keys.push((key, key_of_a[0]));
        }
        let mut network = Self {
            received: vec![0; ends.len()],
            ends,
            in_flight: keys.iter().map(|_| Default::default()).collect(),
            keys,
            log: Vec::new(),
            now: Time::from_millis(1),
        };
        for peer in 0..peers {
            network.notify(peer, UP);
        }
        network
    }

    fn new(exchange: IpspExchange) -> Self {
        Self::with(exchange, TrafficMode::OVERRIDE, 1)
    }

    fn notify(&mut self, peer: usize, notification: SctpNotification) {
        self.in_flight[peer] = Default::default();
        let (at_a, at_peer) = self.keys[peer];
        self.ends[A].handle_sctp(self.now, at_a, notification);
        self.ends[1 + peer].handle_sctp(self.now, at_peer, notification);
        self.collect();
    }

    /// Makes a request of an end towards its peer; of IPSP-A towards the first one. An impossible one has no effect.
    fn request(
        &mut self,
        end: usize,
        request: impl FnOnce(&mut Asp<L>) -> Result<(), AspRequestError<RoutingContext>>,
    ) {
        let peer = end.saturating_sub(1);
        self.request_to(end, peer, request);
    }

    fn request_to(
        &mut self,
        end: usize,
        peer: usize,
        request: impl FnOnce(&mut Asp<L>) -> Result<(), AspRequestError<RoutingContext>>,
    ) {
        let (at_a, at_peer) = self.keys[peer];
        let key = if end == A { at_a } else { at_peer };
        let result = self.ends[end].local(self.now, key, request);
        assert!(result.is_some(), "a known peer");
        self.collect();
    }

    fn up(&mut self, end: usize) {
        let now = self.now;
        self.request(end, |asp| asp.asp_up(now));
    }

    fn active(&mut self, end: usize) {
        let now = self.now;
        self.request(end, |asp| asp.asp_active(now, &[]));
    }

    fn inactive(&mut self, end: usize) {
        let now = self.now;
        self.request(end, |asp| asp.asp_inactive(now, &[]));
    }

    fn down(&mut self, end: usize) {
        let now = self.now;
        self.request(end, |asp| asp.asp_down(now));
    }

    /// Sends a message to the other end, in the application server with a context.
    fn transfer(
        &mut self,
        end: usize,
        context: RoutingContext,
    ) -> Result<(), DeliveryError<RoutingContext>> {
        let payload = L::payload(context.0);
        let result = self.ends[end].remote(self.now, |gateway| gateway.deliver(&context, payload));
        self.collect();
        result
    }

    fn collect(&mut self) {
        for (end, ipsp) in self.ends.iter_mut().enumerate() {
            while let Some((key, transmit)) = ipsp.poll_transmit() {
                let is_peer = |keys: &(AspKey, AspKey)| keys.0 == key;
                let peer = match end {
                    A => self.keys.iter().position(is_peer).expect("a peer"),
                    end => end - 1,
                };
                let message = transmit.message;
                let octets = message.encode().expect("a message that fits");
                let content = L::read(&message);
                if !matches!(content, Some(Maintenance::Notify(_))) {
                    let ids = L::ids(&message);
                    let ids = ids.iter().flat_map(|ids| ids.ranges());
                    let ids = ids.map(|(id, _)| id.0).collect();
                    let kind = content.map(|_| message.kind());
                    self.log.push((end, kind, ids));
                }
                let queue = &mut self.in_flight[peer][usize::from(end == A)];
                queue.push_back((transmit.stream, octets));
            }
            while let Some(indication) = ipsp.poll_indication() {
                if let IpspIndication::Local(_, indication) = indication {
                    self.received[end] += usize::from(L::is_transfer(&indication));
                }
            }
        }
    }

    /// Delivers the next message of an association to IPSP-A or to the peer; returns whether there was one.
    fn deliver(&mut self, peer: usize, to_peer: bool) -> bool {
        let Some((stream, octets)) = self.in_flight[peer][usize::from(to_peer)].pop_front() else {
            return false;
        };
        let message = L::decode(&octets).expect("a valid message");
        let (at_a, at_peer) = self.keys[peer];
        let (end, key) = if to_peer {
            (1 + peer, at_peer)
        } else {
            (A, at_a)
        };
        self.ends[end].handle_message(self.now, key, stream, &message);
        self.collect();
        true
    }

    fn settle(&mut self) {
        let mut delivered = true;
        while delivered {
            delivered = false;
            for peer in 0..self.keys.len() {
                delivered |= self.deliver(peer, true);
                delivered |= self.deliver(peer, false);
            }
        }
    }

    /// Lets time pass with immediate delivery.
    fn wait(&mut self, duration: Duration) {
        self.settle();
        let end = self.now + duration;
        loop {
            let timeouts = self.ends.iter().filter_map(Ipsp::poll_timeout);
            let Some(at) = timeouts.min().filter(|at| *at <= end) else {
                break;
            };
            self.now = at;
            for ipsp in &mut self.ends {
                ipsp.handle_timeout(at);
            }
            self.collect();
            self.settle();
        }
        self.now = end;
    }

    /// Returns the states of an association as IPSP-A has them, of itself and of the peer, then as the peer has them.
    fn states(&self, peer: usize) -> [Option<AspState>; 4] {
        let (at_a, at_peer) = self.keys[peer];
        let states = |end: usize, key| {
            let asp = self.ends[end].asp(key).expect("a known peer");
            let local = asp.application_servers().next().flatten();
            let gateway = self.ends[end].gateway();
            let remote = [RC_A, RC_B].map(|context| gateway.asp_state(key, context));
            [asp.state(local), remote[0].or(remote[1])]
        };
        let ([a, b_at_a], [b, a_at_b]) = (states(A, at_a), states(1 + peer, at_peer));
        [a, b_at_a, b, a_at_b]
    }

    fn take_log(&mut self) -> Vec<LogEntry> {
        std::mem::take(&mut self.log)
    }
}

const DOWN: [Option<AspState>; 4] = [Some(AspState::Down); 4];
const INACTIVE: [Option<AspState>; 4] = [Some(AspState::Inactive); 4];
const ACTIVE: [Option<AspState>; 4] = [Some(AspState::Active); 4];

fn one_exchange_changes_both_ends<L: Peered>() {
    let mut network = Network::<L>::new(IpspExchange::Single);
    assert_eq!(network.states(0), DOWN);
    network.up(A);
    network.settle();
    assert_eq!(
        network.take_log(),
        [
            (A, Some(kinds::ASPUP), vec![]),
            (B, Some(kinds::ASPUP_ACK), vec![])
        ]
    );
    assert_eq!(network.states(0), INACTIVE);

    network.active(B);
    network.settle();
    let rc_b = || vec![RC_B.0];
    let expected = [
        (B, Some(kinds::ASPAC), rc_b()),
        (A, Some(kinds::ASPAC_ACK), rc_b()),
    ];
    assert_eq!(network.take_log(), expected);
    assert_eq!(network.states(0), ACTIVE);

    assert_eq!(network.transfer(A, RC_B), Ok(()));
    assert_eq!(network.transfer(B, RC_B), Ok(()));
    network.settle();
    assert_eq!(network.received, [1, 1]);
    let expected = [(A, None, rc_b()), (B, None, rc_b())];
    assert_eq!(network.take_log(), expected);

    network.inactive(B);
    network.settle();
    let expected = [
        (B, Some(kinds::ASPIA), rc_b()),
        (A, Some(kinds::ASPIA_ACK), rc_b()),
    ];
    assert_eq!(network.take_log(), expected);
    assert_eq!(network.states(0), INACTIVE);

    network.down(B);
    network.settle();
    assert_eq!(
        network.take_log(),
        [
            (B, Some(kinds::ASPDN), vec![]),
            (A, Some(kinds::ASPDN_ACK), vec![])
        ]
    );
    assert_eq!(network.states(0), DOWN);
    network.wait(Duration::from_secs(60));
    assert_eq!(network.states(0), DOWN);
}

fn each_end_requests_its_own_states<L: Peered>() {
    let [down, inactive, active] = [AspState::Down, AspState::Inactive, AspState::Active].map(Some);
    let mut network = Network::<L>::new(IpspExchange::Double);
    network.up(B);
    network.settle();
    assert_eq!(
        network.take_log(),
        [
            (B, Some(kinds::ASPUP), vec![]),
            (A, Some(kinds::ASPUP_ACK), vec![])
        ]
    );
    assert_eq!(network.states(0), [down, inactive, inactive, down]);
    network.up(A);
    network.settle();
    assert_eq!(
        network.take_log(),
        [
            (A, Some(kinds::ASPUP), vec![]),
            (B, Some(kinds::ASPUP_ACK), vec![])
        ]
    );
    assert_eq!(network.states(0), INACTIVE);

    let (rc_a, rc_b) = (|| vec![RC_A.0], || vec![RC_B.0]);
    network.active(B);
    network.settle();
    let expected = [
        (B, Some(kinds::ASPAC), rc_b()),
        (A, Some(kinds::ASPAC_ACK), rc_b()),
    ];
    assert_eq!(network.take_log(), expected);
    assert_eq!(network.states(0), [inactive, active, active, inactive]);
    // Traffic flows in one direction.
    assert_eq!(network.transfer(A, RC_B), Ok(()));
    let error = DeliveryError::NotActive(AsState::Inactive);
    assert_eq!(network.transfer(B, RC_A), Err(error));
    network.active(A);
    network.settle();
    network.take_log();
    assert_eq!(network.states(0), ACTIVE);
    assert_eq!(network.transfer(B, RC_A), Ok(()));
    network.settle();
    assert_eq!(network.take_log(), [(B, None, rc_a())]);
    assert_eq!(network.received, [1, 1]);

    network.inactive(B);
    network.settle();
    let expected = [
        (B, Some(kinds::ASPIA), rc_b()),
        (A, Some(kinds::ASPIA_ACK), rc_b()),
    ];
    assert_eq!(network.take_log(), expected);
    assert_eq!(network.states(0), [active, inactive, inactive, active]);
    network.inactive(A);
    network.down(B);
    network.down(A);
    network.settle();
    assert_eq!(network.states(0), DOWN);
}

fn one_exchange_of_aspsm_suffices<L: Peered>() {
    let mut network = Network::<L>::new(IpspExchange::DoubleWithSingleAspsm);
    network.up(B);
    network.settle();
    assert_eq!(network.states(0), INACTIVE);
    network.active(A);
    network.settle();
    let [inactive, active] = [AspState::Inactive, AspState::Active].map(Some);
    assert_eq!(network.states(0), [active, inactive, inactive, active]);
    network.down(A);
    network.settle();
    assert_eq!(network.states(0), DOWN);
}

fn blocked_ipsp_stays_down<L: Peered>() {
    for exchange in [IpspExchange::Single, IpspExchange::Double] {
        let mut network = Network::<L>::new(exchange);
        let (_, key) = network.keys[0];
        let now = network.now;
        network.ends[B]
            .remote(now, |gateway| gateway.set_asp_blocked(now, key, true))
            .expect("a known peer");
        network.up(A);
        network.settle();
        assert_eq!(
            network.take_log(),
            [
                (A, Some(kinds::ASPUP), vec![]),
                (B, Some(kinds::ERR), vec![])
            ]
        );
        assert_eq!(network.states(0), DOWN);
    }
}

fn crossed_requests_leave_equal_states<L: Peered>() {
    let mut network = Network::<L>::new(IpspExchange::Single);
    network.up(A);
    network.up(B);
    network.settle();
    assert_eq!(network.states(0), INACTIVE);
    network.active(A);
    network.settle();
    network.inactive(A);
    network.active(B);
    network.settle();
    assert_eq!(network.states(0), INACTIVE);
    network.down(B);
    network.up(A);
    network.settle();
    assert_eq!(network.states(0), DOWN);
}

fn backup_ipsp_overrides<L: Peered>() {
    let mut network = Network::<L>::with(IpspExchange::Single, TrafficMode::OVERRIDE, 2);
    for end in [1, 2] {
        network.up(end);
        network.settle();
    }
    network.active(1);
    network.settle();
    network.active(2);
    network.settle();
    assert_eq!(network.states(0), INACTIVE);
    assert_eq!(network.states(1), ACTIVE);
    assert_eq!(network.transfer(A, RC_B), Ok(()));
    network.settle();
    assert_eq!(network.received, [0, 0, 1]);
    // IPSP-A activates the first peer in its turn.
    network.active(A);
    network.settle();
    assert_eq!(network.states(0), ACTIVE);
    assert_eq!(network.states(1), INACTIVE);
}

fn nothing_is_lost_while_a_peer_returns<L: Peered>() {
    let mut network = Network::<L>::new(IpspExchange::Single);
    network.up(B);
    network.settle();
    network.active(B);
    network.settle();
    network.notify(0, SctpNotification::Down);
    assert_eq!(network.states(0), DOWN);
    assert_eq!(network.transfer(A, RC_B), Ok(()));
    network.notify(0, UP);
    network.settle();
    assert_eq!(network.states(0), ACTIVE);
    assert_eq!(network.received[B], 1);
}

fn single_exchange_needs_equal_contexts<L: Peered>() {
    let mut ipsp = Ipsp::<L>::new(IpspExchange::Single, GatewayConfig::default());
    let server = L::server(RC_A.0, None, 1);
    ipsp.remote(Time::ZERO, |gateway| gateway.add_application_server(server))
        .expect("a valid application server");
    let remote = SgpAspConfig {
        identifier: None,
        application_servers: vec![RC_A],
    };
    let local = AspConfig {
        application_servers: vec![L::served(RC_B.0, None)],
        ..AspConfig::default()
    };
    let result = ipsp.add_peer(remote, local);
    assert_eq!(result, Err(IpspConfigError::RoutingContextsDiffer));
}

/// RFC 4666, section 5.6.1: single exchange
/// RFC 4666, section 4.3
#[test]
fn m3ua_one_exchange_changes_both_ends() {
    one_exchange_changes_both_ends::<M3ua>();
}

/// RFC 3868, section 4.3: single exchange
#[test]
fn sua_one_exchange_changes_both_ends() {
    one_exchange_changes_both_ends::<Sua>();
}

/// RFC 4666, section 5.6.2: double exchange
/// RFC 4666, section 4.3.4.3.1: four messages are needed
#[test]
fn m3ua_each_end_requests_its_own_states() {
    each_end_requests_its_own_states::<M3ua>();
}

/// RFC 3868, section 4.3: double exchange
/// RFC 3868, section 4.3.4.3.1
#[test]
fn sua_each_end_requests_its_own_states() {
    each_end_requests_its_own_states::<Sua>();
}

/// RFC 4666, section 5.6.2: the second exchange of ASPSM messages is optional
/// RFC 4666, section 4.3.1
#[test]
fn m3ua_one_exchange_of_aspsm_suffices() {
    one_exchange_of_aspsm_suffices::<M3ua>();
}

/// RFC 3868, section 4.3.1
#[test]
fn sua_one_exchange_of_aspsm_suffices() {
    one_exchange_of_aspsm_suffices::<Sua>();
}

/// RFC 4666, section 4.3.4.1.2: Management Blocking leaves the IPSP in ASP-DOWN
#[test]
fn m3ua_blocked_ipsp_stays_down() {
    blocked_ipsp_stays_down::<M3ua>();
}

/// RFC 3868, section 4.3.4.1.2
#[test]
fn sua_blocked_ipsp_stays_down() {
    blocked_ipsp_stays_down::<Sua>();
}

/// RFC 4666, section 4.3.4: requests of both ends cross
#[test]
fn m3ua_crossed_requests_leave_equal_states() {
    crossed_requests_leave_equal_states::<M3ua>();
}

/// RFC 3868, section 4.3.4
#[test]
fn sua_crossed_requests_leave_equal_states() {
    crossed_requests_leave_equal_states::<Sua>();
}

/// RFC 4666, section 4.3.2: an application server of several IPSPs
/// RFC 4666, section 4.3.4.3
#[test]
fn m3ua_backup_ipsp_overrides() {
    backup_ipsp_overrides::<M3ua>();
}

/// RFC 3868, section 4.3.4.3
#[test]
fn sua_backup_ipsp_overrides() {
    backup_ipsp_overrides::<Sua>();
}

/// RFC 4666, section 4.3.2: AS-PENDING towards IPSPs
#[test]
fn m3ua_nothing_is_lost_while_a_peer_returns() {
    nothing_is_lost_while_a_peer_returns::<M3ua>();
}

/// RFC 3868, section 4.3.2
#[test]
fn sua_nothing_is_lost_while_a_peer_returns() {
    nothing_is_lost_while_a_peer_returns::<Sua>();
}

/// RFC 4666, section 4.3: the routing key defines both sides of the traffic in the single exchange model
#[test]
fn m3ua_single_exchange_needs_equal_contexts() {
    single_exchange_needs_equal_contexts::<M3ua>();
}

/// RFC 3868, section 4.3
#[test]
fn sua_single_exchange_needs_equal_contexts() {
    single_exchange_needs_equal_contexts::<Sua>();
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Up,
    Down,
    Active,
    Inactive,
    Lose,
    Restart,
    Transfer,
}

fn step() -> impl Strategy<Value = (usize, usize, Step)> {
    use Step::*;
    let steps = vec![
        Up, Up, Down, Active, Active, Inactive, Lose, Restart, Transfer,
    ];
    (0..2_usize, 0..2_usize, prop::sample::select(steps))
}

impl<L: Peered> Network<L> {
    /// Makes a step at IPSP-A or at the peer.
    fn take_step(&mut self, end: usize, peer: usize, step: Step) {
        let (end, now) = (if end == A { A } else { 1 + peer }, self.now);
        match step {
            Step::Up => self.request_to(end, peer, |asp| asp.asp_up(now)),
            Step::Down => self.request_to(end, peer, |asp| asp.asp_down(now)),
            Step::Active => self.request_to(end, peer, |asp| asp.asp_active(now, &[])),
            Step::Inactive => self.request_to(end, peer, |asp| asp.asp_inactive(now, &[])),
            Step::Lose => {
                self.notify(peer, SctpNotification::Down);
                self.notify(peer, UP);
            }
            Step::Restart => {
                let outbound_streams = 4;
                self.notify(peer, SctpNotification::Restarted { outbound_streams });
            }
            Step::Transfer => {
                for context in [RC_A, RC_B] {
                    // It fails in the context of this end, and where the peer is not active.
                    let _ = self.transfer(end, context);
                }
            }
        }
    }

    fn assert_agreement(&self, exchange: IpspExchange) {
        for peer in 0..self.keys.len() {
            let states = self.states(peer);
            let [a, b_at_a, b, a_at_b] = states;
            assert_eq!((a, b), (a_at_b, b_at_a), "{peer}: {states:?}");
            if exchange == IpspExchange::Single {
                assert_eq!(a, b, "{peer}: {states:?}");
            }
        }
    }
}

/// Exchange, traffic mode and steps, each with the deliveries behind it.
type Course = (
    IpspExchange,
    TrafficMode,
    Vec<((usize, usize, Step), Vec<(usize, bool)>)>,
);

fn course(deliveries: std::ops::Range<usize>) -> impl Strategy<Value = Course> {
    let exchange = prop::sample::select(vec![
        IpspExchange::Single,
        IpspExchange::Double,
        IpspExchange::DoubleWithSingleAspsm,
    ]);
    let mode = (1..=3_u32).prop_map(TrafficMode);
    let deliveries = vec((0..2_usize, any::<bool>()), deliveries);
    (exchange, mode, vec((step(), deliveries), 0..60))
}

/// Both ends agree after each step if all is delivered, and in any case in the end.
fn check_agreement<L: Peered>((exchange, mode, steps): Course, settles: bool) {
    let mut network = Network::<L>::with(exchange, mode, 2);
    for ((end, peer, step), deliveries) in steps {
        network.take_step(end, peer, step);
        for (peer, to_peer) in deliveries {
            network.deliver(peer, to_peer);
        }
        if settles {
            network.settle();
            network.assert_agreement(exchange);
        }
    }
    network.wait(Duration::from_secs(60));
    network.assert_agreement(exchange);
    assert!(network.ends.iter().all(|end| end.poll_timeout().is_none()));
}

proptest! {
    /// RFC 4666, section 4.3: both ends agree after any requests
    #[test]
    fn m3ua_ends_agree(course in course(0..1)) {
        check_agreement::<M3ua>(course, true);
    }

    /// RFC 4666, section 4.3: both ends agree in the end, whatever crosses in flight
    #[test]
    fn m3ua_ends_agree_in_the_end(course in course(0..4)) {
        check_agreement::<M3ua>(course, false);
    }

    /// RFC 3868, section 4.3: both ends agree after any requests
    #[test]
    fn sua_ends_agree(course in course(0..1)) {
        check_agreement::<Sua>(course, true);
    }

    /// RFC 3868, section 4.3: both ends agree in the end, whatever crosses in flight
    #[test]
    fn sua_ends_agree_in_the_end(course in course(0..4)) {
        check_agreement::<Sua>(course, false);
    }
}
