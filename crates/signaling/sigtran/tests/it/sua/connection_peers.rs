//! The ends of a connection against each other in virtual time, directly and through a relay.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::sua::connection::*;
use carrick_sigtran::sua::*;
use proptest::collection::vec;
use proptest::prelude::*;

use super::connection::{START, request};

use ConnectionIndication as Indication;

/// Request of a user, or an event of the network.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send { octets: usize },
    SendExpedited,
    Pause,
    Resume,
    Reset,
    Deliver { messages: usize },
    Wait { seconds: u64 },
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let step = prop_oneof![
        6 => (0..60_usize).prop_map(|octets| Step::Send { octets }),
        1 => Just(Step::SendExpedited),
        1 => Just(Step::Pause),
        2 => Just(Step::Resume),
        1 => Just(Step::Reset),
        6 => (1..6_usize).prop_map(|messages| Step::Deliver { messages }),
        1 => (0..400_u64).prop_map(|seconds| Step::Wait { seconds }),
    ];
    (0..2_usize, step)
}

/// Both ends, with messages on their way in both directions.
struct Pair {
    ends: [Connection; 2],
    /// Sections at a relay, by the end to which they lead.
    relay: Option<ConnectionTable<usize>>,
    /// Messages of each end to the relay.
    to_relay: [VecDeque<Message>; 2],
    /// Messages to each end.
    on_way: [VecDeque<Message>; 2],
    now: Time,
    /// Messages and expedited data that each user sent, since the last reset.
    sent: [Vec<Bytes>; 2],
    /// Messages that were indicated to each user, since the last reset.
    received: [Vec<Bytes>; 2],
    expedited: [usize; 2],
    expedited_received: [usize; 2],
    was_reset: bool,
    ended: [Vec<Indication>; 2],
}

impl Pair {
    /// Establishes a connection, through a relay with this credit.
    fn new(class: ServiceClass, credits: [u8; 2], relay: Option<u8>) -> Self {
        let config = |credit| ConnectionConfig {
            credit,
            max_segment: 10,
            ..ConnectionConfig::default()
        };
        let mut initiator =
            Connection::request(START, config(credits[0]), request(class)).expect("a request");
        let Some(Message::ConnectionRequest(core)) = initiator.poll_transmit() else {
            panic!("a CORE");
        };
        let mut relay = relay.map(|credit| {
            ConnectionTable::new(ConnectionTableConfig {
                connection: ConnectionConfig {
                    max_segment: 7,
                    max_queued_segments: 10,
                    ..config(credit)
                },
                ..ConnectionTableConfig::default()
            })
        });
        let core = relay.as_mut().map_or(core.clone(), |relay| {
            relay.relay(START, &0, &core, 1, core.clone());
            match relay.poll_transmit() {
                Some((1, Message::ConnectionRequest(relayed))) => relayed,
                other => panic!("{other:?}"),
            }
        });
        let mut responder =
            Connection::incoming(config(credits[1]), SourceReferenceNumber(7), &core)
                .expect("a CORE");
        responder
            .accept(START, class, None, None)
            .expect("a CORE waits");
        let mut pair = Self {
            ends: [initiator, responder],
            relay,
            to_relay: [VecDeque::new(), VecDeque::new()],
            on_way: [VecDeque::new(), VecDeque::new()],
            now: START,
            sent: [Vec::new(), Vec::new()],
            received: [Vec::new(), Vec::new()],
            expedited: [0; 2],
            expedited_received: [0; 2],
            was_reset: false,
            ended: [Vec::new(), Vec::new()],
        };
        pair.collect();
        pair.settle();
        assert_eq!(pair.states(), [ConnectionState::Active; 2]);
        pair
    }

    fn states(&self) -> [ConnectionState; 2] {
        [self.ends[0].state(), self.ends[1].state()]
    }

    /// Takes the outputs of both ends. A user answers the indication of a reset.
    fn collect(&mut self) {
        for end in 0..2 {
            while let Some(indication) = self.ends[end].poll_indication() {
                match indication {
                    Indication::Connected { .. } | Indication::ResetConfirmed => {}
                    Indication::Data(data) => self.received[end].push(data),
                    Indication::ExpeditedData(_) => self.expedited_received[end] += 1,
                    Indication::Reset(cause) => {
                        assert_eq!(cause, ResetCause::END_USER, "no procedure error");
                        self.ends[end].reset_response(self.now).expect("a reset");
                    }
                    other => self.ended[end].push(other),
                }
            }
            while let Some(message) = self.ends[end].poll_transmit() {
                let octets = message.encode().expect("a valid message");
                let message = Message::decode(&octets).expect("a valid message");
                if self.relay.is_some() {
                    self.to_relay[end].push_back(message);
                } else {
                    self.on_way[1 - end].push_back(message);
                }
            }
        }
        while let Some(relay) = &mut self.relay
            && let Some((end, message)) = relay.poll_transmit()
        {
            self.on_way[end].push_back(message);
        }
        let indication = self
            .relay
            .as_mut()
            .and_then(ConnectionTable::poll_indication);
        assert_eq!(indication, None, "a relay has no user");
    }

    fn deliver(&mut self, end: usize, messages: usize) {
        for _ in 0..messages {
            if let Some(relay) = &mut self.relay
                && let Some(message) = self.to_relay[1 - end].pop_front()
            {
                relay.handle_message(self.now, &(1 - end), &message);
                self.collect();
            }
            if let Some(message) = self.on_way[end].pop_front() {
                self.ends[end].handle_message(self.now, &message);
                self.collect();
            }
        }
    }

    /// Delivers all messages that are on their way.
    fn settle(&mut self) {
        let is_busy = |queue: &VecDeque<_>| !queue.is_empty();
        while self.on_way.iter().chain(&self.to_relay).any(is_busy) {
            self.deliver(0, 1);
            self.deliver(1, 1);
        }
    }

    /// Advances the time. Messages take less than a second.
    fn wait(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            self.settle();
            let timeouts = self.ends.iter().map(Connection::poll_timeout);
            let relay = self.relay.as_ref().map(ConnectionTable::poll_timeout);
            let next = timeouts.chain(relay).flatten().min();
            let Some(next) = next.filter(|&next| next <= end) else {
                break;
            };
            if let Some(relay) = &mut self.relay {
                relay.handle_timeout(next);
            }
            self.now = next;
            for connection in &mut self.ends {
                connection.handle_timeout(next);
            }
            self.collect();
        }
        self.now = end;
    }

    fn apply(&mut self, end: usize, step: Step) {
        let now = self.now;
        let is_active = self.ends[end].state() == ConnectionState::Active;
        match step {
            Step::Send { octets } => {
                let number = self.sent[end].len() as u8;
                let data = Bytes::from(vec![number; octets]);
                let result = self.ends[end].send(now, &data);
                assert!(
                    result.is_ok()
                        || !is_active
                        || result == Err(ConnectionRequestError::QueueFull)
                );
                if result.is_ok() {
                    self.sent[end].push(data);
                }
            }
            Step::SendExpedited => {
                let result = self.ends[end].send_expedited(now, Bytes::from_static(b"!"));
                self.expedited[end] += usize::from(result.is_ok());
            }
            Step::Pause => {
                let _ = self.ends[end].pause();
            }
            Step::Resume => self.ends[end].resume(now),
            Step::Reset => {
                if self.ends[end].reset(now, ResetCause::END_USER).is_ok() {
                    self.was_reset = true;
                }
            }
            Step::Deliver { messages } => self.deliver(end, messages),
            Step::Wait { seconds } => self.wait(Duration::from_secs(seconds)),
        }
        self.collect();
    }
}

/// Sets the sequence numbers of a CODT, or makes its data expedited.
pub(super) fn set_sequence_numbers(message: &mut Message, [sent, received, other]: [u8; 3]) {
    if let Message::ConnectionOrientedDataTransfer(body) = message {
        let number = |value| SequenceNumber::new(value % 4).expect("7 bits");
        body.sequence_numbers = (other > 9).then(|| SequenceNumbers {
            received: number(received),
            more: other % 2 == 0,
            sent: number(sent),
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// RFC 3868, sections 1.3.2 and 1.4.2: class 3 keeps the order, and without a reset loses nothing
    #[test]
    fn peers_transfer_everything_in_order(
        credits in [1..=127_u8, 1..=127_u8],
        class_3 in any::<bool>(),
        relay in proptest::option::of(1..=127_u8),
        steps in vec(step(), 0..120),
        releasing in 0..2_usize,
    ) {
        let class = if class_3 { ServiceClass::Class3 } else { ServiceClass::Class2 };
        let mut pair = Pair::new(class, credits, relay);
        for (end, step) in steps {
            pair.apply(end, step);
        }
        for end in 0..2 {
            pair.apply(end, Step::Resume);
        }
        pair.settle();
        prop_assert_eq!(pair.states(), [ConnectionState::Active; 2]);
        for end in 0..2 {
            let (sent, received) = (&pair.sent[1 - end], &pair.received[end]);
            if pair.was_reset {
                // A reset loses messages, but repeats none, and keeps the order.
                let mut rest = sent.iter();
                let in_order = received.iter().all(|message| rest.any(|sent| sent == message));
                prop_assert!(in_order, "{:?} of {:?}", received, sent);
                prop_assert!(pair.expedited_received[end] <= pair.expedited[1 - end]);
            } else {
                prop_assert_eq!(received, sent);
                prop_assert_eq!(pair.expedited_received[end], pair.expedited[1 - end]);
            }
        }
        // Nothing happens for an hour but inactivity tests, then either end releases the connection.
        pair.wait(Duration::from_secs(3600));
        prop_assert_eq!(pair.states(), [ConnectionState::Active; 2]);
        let now = pair.now;
        pair.ends[releasing].disconnect(now, ReleaseCause::END_USER, None).expect("a connection");
        pair.collect();
        pair.settle();
        prop_assert_eq!(pair.states(), [ConnectionState::Released; 2]);
        prop_assert_eq!(&pair.ended[releasing], &[Indication::Released { confirmed: true }]);
        let reason = DisconnectReason::Released(ReleaseCause::END_USER);
        prop_assert_eq!(&pair.ended[1 - releasing], &[Indication::Disconnected { reason, data: None }]);
        prop_assert!(pair.relay.is_none_or(|relay| relay.is_empty()));
    }

    /// RFC 3868, section 3.3: any messages in any state have bounded answers and end
    #[test]
    fn connections_handle_any_messages(
        class_3 in any::<bool>(),
        inputs in vec((0..35_usize, any::<[u8; 3]>(), 0..700_u64), 0..40),
    ) {
        let class = if class_3 { ServiceClass::Class3 } else { ServiceClass::Class2 };
        let mut connection =
            Connection::request(START, ConnectionConfig::default(), request(class)).expect("a request");
        let (mut now, full) = (START, super::samples::full());
        for (index, [sent, received, other], seconds) in inputs {
            let mut message = full[index].clone();
            set_sequence_numbers(&mut message, [sent, received, other]);
            connection.handle_message(now, &message);
            let _ = connection.send(now, &Bytes::from_static(b"data"));
            let _ = connection.reset_response(now);
            now += Duration::from_secs(seconds);
            connection.handle_timeout(now);
            prop_assert!(connection.poll_timeout().is_none_or(|next| next > now));
            let sent: Vec<_> = std::iter::from_fn(|| connection.poll_transmit()).collect();
            prop_assert!(sent.len() < 100);
            for message in sent {
                message.encode().expect("a valid message");
            }
            while connection.poll_indication().is_some() {}
        }
        // Without a peer each connection ends.
        for _ in 0..100 {
            if let Some(next) = connection.poll_timeout() {
                connection.handle_timeout(next);
            }
        }
        prop_assert_eq!(connection.state(), ConnectionState::Released);
    }
}
