//! ASP's side of the procedures, in virtual time.

mod requests;
mod states;
mod user;

use std::time::Duration;

use carrick_proto::Time;
use carrick_sigtran::m3ua::asp::*;
use carrick_sigtran::m3ua::*;

use crate::samples::{affected, contexts, data};

const UP: SctpNotification = SctpNotification::Up {
    outbound_streams: 5,
};
const T_ACK: Duration = Duration::from_secs(2);

fn rc(value: u32) -> RoutingContext {
    RoutingContext(value)
}

/// ASP with what it sends and indicates.
struct Bench {
    asp: Asp,
    now: Time,
}

impl Bench {
    fn new(config: AspConfig) -> Self {
        let asp = Asp::new(config).expect("a valid configuration");
        let now = Time::from_millis(1000);
        Self { asp, now }
    }

    /// ASP with an established association that serves routing contexts 1 and 2.
    fn connected() -> Self {
        let mut bench = Self::new(AspConfig {
            identifier: Some(AspIdentifier(7)),
            application_servers: vec![
                AspApplicationServer::new(rc(1)),
                AspApplicationServer::new(rc(2)),
            ],
            ..AspConfig::default()
        });
        bench.asp.handle_sctp(bench.now, UP);
        bench.indications();
        bench
    }

    fn inactive() -> Self {
        let mut bench = Self::connected();
        bench.asp.asp_up(bench.now).expect("an association");
        bench.receive(&up_ack());
        assert_eq!(bench.states(), [AspState::Inactive; 2]);
        bench.drain();
        bench
    }

    fn active() -> Self {
        let mut bench = Self::inactive();
        bench
            .asp
            .asp_active(bench.now, &[])
            .expect("an ASP that is up");
        bench.receive(&active_ack(&[1, 2]));
        assert_eq!(bench.states(), [AspState::Active; 2]);
        bench.drain();
        bench
    }

    fn states(&self) -> [AspState; 2] {
        [1, 2].map(|context| self.asp.state(Some(rc(context))).expect("a served context"))
    }

    fn receive(&mut self, message: &Message) {
        self.receive_on(1, message);
    }

    fn receive_on(&mut self, stream: u16, message: &Message) {
        self.asp.handle_message(self.now, stream, message);
    }

    fn advance(&mut self, duration: Duration) {
        self.now += duration;
        self.asp.handle_timeout(self.now);
    }

    fn sent(&mut self) -> Vec<Message> {
        std::iter::from_fn(|| self.asp.poll_transmit())
            .map(|transmit| transmit.message)
            .collect()
    }

    fn indications(&mut self) -> Vec<AspIndication> {
        std::iter::from_fn(|| self.asp.poll_indication()).collect()
    }

    fn drain(&mut self) {
        self.sent();
        self.indications();
    }

    /// Expects one Error message with this code; returns it.
    fn sent_error(&mut self, code: ErrorCode) -> ErrorMessage {
        let sent = self.sent();
        let [Message::Error(error)] = &sent[..] else {
            panic!("not one Error message: {sent:?}");
        };
        assert_eq!(error.code, code);
        error.clone()
    }
}

fn up() -> Message {
    Message::AspUp(AspUp {
        asp_identifier: Some(AspIdentifier(7)),
        info: None,
    })
}

fn up_ack() -> Message {
    Message::AspUpAck(AspUp::default())
}

fn down() -> Message {
    Message::AspDown(AspDown::default())
}

fn down_ack() -> Message {
    Message::AspDownAck(AspDown::default())
}

fn active_body(list: &[u32]) -> AspActive {
    AspActive {
        routing_contexts: contexts(list),
        ..AspActive::default()
    }
}

fn inactive_body(list: &[u32]) -> AspInactive {
    AspInactive {
        routing_contexts: contexts(list),
        info: None,
    }
}

fn active_ack(list: &[u32]) -> Message {
    Message::AspActiveAck(active_body(list))
}

fn inactive_ack(list: &[u32]) -> Message {
    Message::AspInactiveAck(inactive_body(list))
}

fn notify(status: Status, list: &[u32]) -> Notify {
    Notify {
        status,
        asp_identifier: None,
        routing_contexts: contexts(list),
        info: None,
    }
}
