//! ASPs and an SGP connected to each other in virtual time, and machines that get any messages.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::m3ua::asp::*;
use carrick_sigtran::m3ua::sgp::*;
use carrick_sigtran::m3ua::*;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::samples::{code, data, full, minimal};

const STREAMS: u16 = 4;
const UP: SctpNotification = SctpNotification::Up {
    outbound_streams: STREAMS,
};
const CONTEXT: RoutingContext = RoutingContext(1);

fn application_server(mode: TrafficMode) -> ApplicationServerConfig {
    let destinations = vec![RoutingKeyDestination::all(code(1001))];
    ApplicationServerConfig {
        traffic_mode: Some(mode),
        ..ApplicationServerConfig::new(CONTEXT, destinations)
    }
}

/// Two ASPs and an SGP; messages are encoded, delivered in order, and decoded.
struct Network {
    sgp: SignallingGatewayProcess,
    asps: Vec<(AspKey, Asp)>,
    connected: Vec<bool>,
    /// Messages to each ASP and from it.
    in_flight: Vec<(VecDeque<Transmit>, VecDeque<Transmit>)>,
    /// User data that reached ASPs, in order of arrival.
    received: Vec<u8>,
    now: Time,
}

impl Network {
    fn new(mode: TrafficMode) -> Self {
        Self::with(mode, Some(CONTEXT))
    }

    /// Network whose ASPs have this routing context in their configuration.
    fn with(mode: TrafficMode, routing_context: Option<RoutingContext>) -> Self {
        let mut sgp = SignallingGatewayProcess::new(SgpConfig::default());
        sgp.add_application_server(application_server(mode))
            .expect("a valid server");
        let asps = (0..2).map(|id| {
            let config = SgpAspConfig {
                identifier: Some(AspIdentifier(id)),
                application_servers: vec![CONTEXT],
            };
            let asp = Asp::new(AspConfig {
                identifier: Some(AspIdentifier(id)),
                application_servers: vec![AspApplicationServer {
                    routing_context,
                    ..AspApplicationServer::new(CONTEXT)
                }],
                ..AspConfig::default()
            });
            (
                sgp.add_asp(config).expect("a valid ASP"),
                asp.expect("a valid ASP"),
            )
        });
        let asps = asps.collect();
        let mut network = Self {
            sgp,
            asps,
            connected: vec![false; 2],
            in_flight: vec![Default::default(); 2],
            received: Vec::new(),
            now: Time::from_millis(1),
        };
        for asp in 0..2 {
            network.notify(asp, UP);
            network.asps[asp]
                .1
                .asp_up(network.now)
                .expect("an association");
        }
        network.settle();
        network
    }

    fn notify(&mut self, asp: usize, notification: SctpNotification) {
        self.collect();
        self.connected[asp] = notification != SctpNotification::Down;
        self.in_flight[asp] = Default::default();
        let (key, machine) = &mut self.asps[asp];
        machine.handle_sctp(self.now, notification);
        self.sgp.handle_sctp(self.now, *key, notification);
    }

    fn activate(&mut self, asp: usize) {
        let result = self.asps[asp].1.asp_active(self.now, &[]);
        result.expect("an ASP that is up");
        self.settle();
    }

    /// Takes what the machines send and indicate; messages for a lost association are discarded.
    fn collect(&mut self) {
        while let Some((key, transmit)) = self.sgp.poll_transmit() {
            let asp = self
                .asps
                .iter()
                .position(|(asp, _)| *asp == key)
                .expect("an ASP");
            if self.connected[asp] {
                self.in_flight[asp].0.push_back(transmit);
            }
        }
        for (index, (_, asp)) in self.asps.iter_mut().enumerate() {
            while let Some(transmit) = asp.poll_transmit() {
                if self.connected[index] {
                    self.in_flight[index].1.push_back(transmit);
                }
            }
            while let Some(indication) = asp.poll_indication() {
                if let AspIndication::Transfer(data) = indication {
                    self.received.push(data.protocol_data.user_data[0]);
                }
            }
        }
        while self.sgp.poll_indication().is_some() {}
    }

    /// Delivers the next message to an ASP or from it; returns whether there was one.
    fn deliver(&mut self, index: usize, to_asp: bool) -> bool {
        self.collect();
        let (key, asp) = &mut self.asps[index];
        let (down, up) = &mut self.in_flight[index];
        let queue = if to_asp { down } else { up };
        let Some(transmit) = queue.pop_front() else {
            return false;
        };
        let message = through_the_wire(&transmit.message);
        if to_asp {
            asp.handle_message(self.now, transmit.stream, &message);
        } else {
            self.sgp
                .handle_message(self.now, *key, transmit.stream, &message);
        }
        self.collect();
        true
    }

    /// Delivers messages until there are none.
    fn settle(&mut self) {
        let ways = [(0, true), (0, false), (1, true), (1, false)];
        while ways
            .into_iter()
            .any(|(asp, to_asp)| self.deliver(asp, to_asp))
        {}
    }

    /// Moves time to the next timer within a duration, or to its end.
    fn advance(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            let timers = self.asps.iter().filter_map(|(_, asp)| asp.poll_timeout());
            let next = timers.chain(self.sgp.poll_timeout()).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            self.sgp.handle_timeout(self.now);
            for (_, asp) in &mut self.asps {
                asp.handle_timeout(self.now);
            }
            self.settle();
        }
    }

    fn transfer(&mut self, number: u8) -> Result<(), TransferError> {
        let mut data = data(number % 16, &[number]).protocol_data;
        data.dpc = code(1001);
        let result = self.sgp.transfer(None, data).map(drop);
        self.settle();
        result
    }

    /// Takes a step; returns whether the SGP accepted a message.
    fn take_step(&mut self, index: usize, step: Step) -> bool {
        let now = self.now;
        let connected = self.connected[index];
        let (key, asp) = &mut self.asps[index];
        match step {
            Step::Up => drop(asp.asp_up(now)),
            Step::Down => drop(asp.asp_down(now)),
            Step::Active => drop(asp.asp_active(now, &[])),
            Step::Inactive => drop(asp.asp_inactive(now, &[CONTEXT])),
            Step::Lose if connected => self.notify(index, SctpNotification::Down),
            Step::Connect if !connected => self.notify(index, UP),
            Step::Restart if connected => {
                let outbound_streams = STREAMS;
                self.notify(index, SctpNotification::Restarted { outbound_streams });
            }
            Step::Block => {
                for blocked in [true, false] {
                    self.sgp
                        .set_asp_blocked(now, *key, blocked)
                        .expect("an ASP");
                }
            }
            Step::Transfer => {
                let mut data = data(0, &[0]).protocol_data;
                data.dpc = code(1001);
                return self.sgp.transfer(None, data).is_ok();
            }
            Step::Wait => self.pass(Duration::from_secs(1)),
            Step::Lose | Step::Connect | Step::Restart => {}
        }
        false
    }

    /// Moves time and expires timers without delivering messages.
    fn pass(&mut self, duration: Duration) {
        self.now += duration;
        self.sgp.handle_timeout(self.now);
        for (_, asp) in &mut self.asps {
            asp.handle_timeout(self.now);
        }
    }

    /// Checks that each ASP knows the state that the SGP has for it.
    fn assert_agreement(&self) {
        for (key, asp) in &self.asps {
            let state = self.sgp.asp_state(*key, CONTEXT);
            assert_eq!(asp.state(Some(CONTEXT)), state, "{key:?}");
        }
    }
}

fn through_the_wire(message: &Message) -> Message {
    let octets = message.encode().expect("a valid message");
    Message::decode(&octets).expect("a valid message")
}

/// RFC 4666, section 5.2.2: 1+1 sparing, backup override
#[test]
fn backup_overrides() {
    let mut network = Network::new(TrafficMode::OVERRIDE);
    network.activate(0);
    network.assert_agreement();
    network.activate(1);
    network.assert_agreement();
    assert_eq!(
        network.asps[0].1.state(Some(CONTEXT)),
        Some(AspState::Inactive)
    );
    assert_eq!(network.transfer(1), Ok(()));
    assert_eq!(network.received, [1]);
}

/// RFC 4666, section 5.2.1: 1+1 sparing, withdrawal of the ASP
/// RFC 4666, section 4.3.2
#[test]
fn nothing_is_lost_while_the_backup_takes_over() {
    let mut network = Network::new(TrafficMode::OVERRIDE);
    network.activate(0);
    for number in 0..100 {
        match number {
            30 => network.notify(0, SctpNotification::Down),
            60 => network.activate(1),
            _ => {}
        }
        assert_eq!(network.transfer(number), Ok(()));
        network.advance(Duration::from_millis(10));
    }
    assert_eq!(network.received, (0..100).collect::<Vec<_>>());
    network.assert_agreement();
}

/// RFC 4666, section 4.3.4.3: routing contexts are implied
#[test]
fn only_application_server_needs_no_context() {
    let mut network = Network::with(TrafficMode::OVERRIDE, None);
    network.activate(0);
    assert_eq!(network.transfer(1), Ok(()));
    network.activate(1);
    let states = network.asps.iter().map(|(_, asp)| asp.state(None));
    let expected = [Some(AspState::Inactive), Some(AspState::Active)];
    assert_eq!(states.collect::<Vec<_>>(), expected);
    assert_eq!(network.transfer(2), Ok(()));
    assert_eq!(network.received, [1, 2]);
}

/// RFC 4666, section 4.3.3
#[test]
fn restarted_association_returns_to_its_state() {
    let mut network = Network::new(TrafficMode::OVERRIDE);
    network.activate(0);
    let restarted = SctpNotification::Restarted {
        outbound_streams: STREAMS,
    };
    network.notify(0, restarted);
    assert_eq!(network.transfer(1), Ok(()));
    network.settle();
    network.assert_agreement();
    assert_eq!(
        network.asps[0].1.state(Some(CONTEXT)),
        Some(AspState::Active)
    );
    assert_eq!(network.received, [1]);
}

/// RFC 4666, section 3.8.1
#[test]
fn longest_lists_have_bounded_answers() {
    let contexts = RoutingContexts::new((100..16_400).map(RoutingContext));
    let body = AspInactive {
        routing_contexts: contexts.clone(),
        info: None,
    };
    let active = AspActive {
        routing_contexts: contexts.clone(),
        ..AspActive::default()
    };
    let notify = Notify {
        status: Status::AlternateAspActive,
        asp_identifier: None,
        routing_contexts: contexts,
        info: None,
    };
    let messages = [
        Message::AspInactive(body.clone()),
        Message::AspInactiveAck(body),
        Message::AspActive(active.clone()),
        Message::AspActiveAck(active),
        Message::Notify(notify),
    ];
    let mut network = Network::new(TrafficMode::OVERRIDE);
    for message in messages {
        let message = through_the_wire(&message);
        let (key, asp) = &mut network.asps[0];
        network.sgp.handle_message(network.now, *key, 1, &message);
        asp.handle_message(network.now, 1, &message);
        let answers = std::iter::from_fn(|| network.sgp.poll_transmit()).map(|(_, answer)| answer);
        let answers = answers.chain(std::iter::from_fn(|| asp.poll_transmit()));
        let octets: Vec<_> = answers
            .map(|answer| through_the_wire(&answer.message))
            .collect();
        assert!((1..50).contains(&octets.len()), "{} answers", octets.len());
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Up,
    Down,
    Active,
    Inactive,
    Lose,
    Connect,
    Restart,
    Block,
    Transfer,
    Wait,
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    use Step::*;
    let steps = vec![
        Up, Down, Active, Active, Inactive, Lose, Connect, Restart, Block, Transfer, Wait,
    ];
    (0..2_usize, prop::sample::select(steps))
}

proptest! {
    /// RFC 4666, section 4.3: both sides agree on the states after any events
    #[test]
    fn both_sides_agree(mode in 1..=3_u32, steps in vec(step(), 0..60)) {
        let mut network = Network::new(TrafficMode(mode));
        let mut sent = 0;
        for (asp, step) in steps {
            sent += usize::from(network.take_step(asp, step));
            network.settle();
            network.assert_agreement();
            let active = network.asps.iter().filter(|(key, _)| {
                network.sgp.asp_state(*key, CONTEXT) == Some(AspState::Active)
            });
            let state = network.sgp.as_state(CONTEXT);
            prop_assert_eq!(state == Some(AsState::Active), active.count() > 0);
        }
        network.advance(Duration::from_secs(60));
        // No message is delivered twice, except by broadcast.
        let copies = if mode == 3 { 2 } else { 1 };
        prop_assert!(network.received.len() <= sent * copies);
        prop_assert_eq!(network.sgp.buffered(CONTEXT), Some((0, 0)));
        prop_assert!(network.sgp.poll_timeout().is_none());
    }

    /// RFC 4666, section 4.3: both sides agree in the end, whatever crosses in flight
    #[test]
    fn both_sides_agree_in_the_end(
        mode in 1..=3_u32,
        steps in vec((step(), vec((0..2_usize, any::<bool>()), 0..4)), 0..60),
    ) {
        let mut network = Network::new(TrafficMode(mode));
        for ((asp, step), deliveries) in steps {
            network.take_step(asp, step);
            for (asp, to_asp) in deliveries {
                network.deliver(asp, to_asp);
            }
        }
        network.settle();
        network.advance(Duration::from_secs(60));
        network.assert_agreement();
        prop_assert!(network.sgp.poll_timeout().is_none());
        prop_assert!(network.asps.iter().all(|(_, asp)| asp.poll_timeout().is_none()));
    }

    /// RFC 4666, section 3.8.1: any message in any state leaves a bounded number of outputs
    #[test]
    fn any_messages_are_handled(
        steps in vec((0..46_usize, 0..4_u16, 0..3_u8, any::<prop::sample::Index>(), any::<u8>()), 0..60),
    ) {
        let samples: Vec<_> = full().into_iter().chain(minimal()).collect();
        let mut now = Time::from_millis(1);
        let mut sgp = SignallingGatewayProcess::new(SgpConfig {
            registration: RegistrationPolicy::NewKeys,
            ..SgpConfig::default()
        });
        sgp.add_application_server(application_server(TrafficMode::LOADSHARE)).expect("valid");
        let member = SgpAspConfig { identifier: None, application_servers: vec![CONTEXT] };
        let key = sgp.add_asp(member).expect("a valid ASP");
        sgp.handle_sctp(now, key, UP);
        let mut asp = Asp::new(AspConfig {
            application_servers: vec![AspApplicationServer::new(CONTEXT)],
            ..AspConfig::default()
        }).expect("a valid ASP");
        asp.handle_sctp(now, UP);
        for (index, stream, action, position, octet) in steps {
            match action {
                0 => drop(asp.asp_up(now)),
                1 => drop(asp.asp_active(now, &[])),
                _ => {}
            }
            let mut octets = samples[index].encode().expect("a valid message").to_vec();
            if action == 2 {
                let position = position.index(octets.len());
                octets[position] = octet;
            }
            let octets = Bytes::from(octets);
            match Message::decode(&octets) {
                Ok(message) => {
                    sgp.handle_message(now, key, stream, &message);
                    asp.handle_message(now, stream, &message);
                }
                Err(error) => {
                    sgp.handle_malformed(now, key, &error, &octets);
                    asp.handle_malformed(now, &error, &octets);
                }
            }
            now += Duration::from_millis(100);
            sgp.handle_timeout(now);
            asp.handle_timeout(now);
            let mut outputs = VecDeque::new();
            outputs.extend(std::iter::from_fn(|| asp.poll_transmit()));
            outputs.extend(std::iter::from_fn(|| sgp.poll_transmit()).map(|(_, transmit)| transmit));
            prop_assert!(outputs.len() < 50, "{} outputs", outputs.len());
            for transmit in outputs {
                prop_assert!(transmit.message.encode().is_ok(), "{:?}", transmit.message);
                prop_assert!(transmit.stream < STREAMS);
            }
            while asp.poll_indication().is_some() || sgp.poll_indication().is_some() {}
        }
    }
}
