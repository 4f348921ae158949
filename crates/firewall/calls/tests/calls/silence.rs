//! Calls whose rules a SIMCO middlebox does not confirm in time, and the end of these rules.

use std::time::{Duration, Instant};

use carrick_calls::{B2bua, MiddleboxAgent, PinholeRequest};
use carrick_simco::message::{Direction, Lifetime, Request};
use carrick_simco_net::client::{Client, ClientConfig, ConnectTarget};
use tokio::runtime::Runtime;

use crate::peer::{PATIENCE, Peer, audio};
use crate::simco::{MiddleboxState, Simco};
use crate::world::start;

/// Far longer than a test takes: no rule expires.
const LIFETIME: Lifetime = Lifetime(3600);

/// Back-to-back user agent between two peers, with a SIMCO session to a middlebox.
struct SimcoWorld {
    _runtime: Runtime,
    simco: Simco,
    b2bua: Option<B2bua<MiddleboxAgent>>,
    caller: Peer,
    callee: Peer,
}

impl SimcoWorld {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let (simco, b2bua, [caller, callee]) = runtime.block_on(async {
            let simco = Simco::start().await;
            let mut config = ClientConfig::new(ConnectTarget::tcp("127.0.0.1", simco.port));
            config.settings.timeout = Duration::from_millis(500);
            config.first_pause = Duration::from_millis(20);
            config.longest_pause = Duration::from_millis(100);
            let client = Client::connect(config).await.unwrap();
            let patience = Duration::from_millis(200);
            let agent = MiddleboxAgent::new(client, LIFETIME, patience).unwrap();
            let (b2bua, peers) = start("127.0.0.1", |_| (), agent).await;
            (simco, b2bua, peers)
        });
        Self {
            _runtime: runtime,
            simco,
            b2bua: Some(b2bua),
            caller,
            callee,
        }
    }

    fn until(&self, what: &str, holds: impl Fn(&Simco) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !holds(&self.simco) {
            let rules = self.simco.rules();
            assert!(Instant::now() < until, "{what}: {rules} rules");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Runs a call until the callee has answered.
    fn answered(&mut self) {
        let invite = self.caller.fresh_invite(&mut self.callee);
        let answer = audio("192.0.2.1", 6000);
        self.callee.answer(&invite, "200 OK", &answer);
    }

    /// Waits until both sides know that the call is refused because the middlebox does not answer.
    fn refused(&mut self) {
        self.caller.expect("504");
        self.caller.request("ACK", "");
        self.callee.expect_bye();
    }

    /// Number of requests for the rule of a call.
    fn rule_requests(&self) -> usize {
        let opening = PinholeRequest {
            protocol: 17,
            internal: "10.0.0.1:4000".parse().unwrap(),
            external: "192.0.2.1:6000".parse().unwrap(),
            ports: 2,
            direction: Direction::Both,
        };
        self.simco
            .requests(&Request::Enable(opening.request(LIFETIME)))
    }
}

#[test]
fn rule_of_refused_call_closes_after_session_loss() {
    let mut world = SimcoWorld::new();
    world.simco.set_state(MiddleboxState::LosingReplies);
    world.answered();
    world.refused();
    world.until("the rule is granted", |simco| simco.rules() == 1);
    world.simco.set_state(MiddleboxState::Unreachable);
    world.until("the session is lost", |simco| !simco.is_connected());
    world.simco.set_state(MiddleboxState::Answering);
    world.until("the rule is deleted", |simco| simco.rules() == 0);
    assert_eq!(world.rule_requests(), 1, "the rule is not requested again");
}

#[test]
fn rule_of_refused_call_closes_after_long_silence() {
    let mut world = SimcoWorld::new();
    world.simco.set_state(MiddleboxState::LosingReplies);
    world.answered();
    world.refused();
    // The query for the outcome was not answered either, and is repeated.
    world.until("the list was requested again", |simco| {
        simco.requests(&Request::List) >= 2
    });
    world.simco.set_state(MiddleboxState::Unreachable);
    world.until("the session is lost", |simco| !simco.is_connected());
    world.simco.set_state(MiddleboxState::Answering);
    world.until("the rule is deleted", |simco| simco.rules() == 0);
}

#[test]
fn rule_of_refused_call_closes_in_next_session() {
    let mut world = SimcoWorld::new();
    world.simco.set_state(MiddleboxState::LosingReplies);
    world.answered();
    world.until("the rule is granted", |simco| simco.rules() == 1);
    world.simco.set_state(MiddleboxState::Unreachable);
    world.refused();
    world.simco.set_state(MiddleboxState::Answering);
    world.until("the rule is deleted", |simco| simco.rules() == 0);
    assert_eq!(world.rule_requests(), 1, "the rule is not requested again");
}

#[test]
fn refused_call_requests_nothing_in_next_session() {
    let mut world = SimcoWorld::new();
    world.simco.set_state(MiddleboxState::Unreachable);
    world.until("the session is lost", |simco| !simco.is_connected());
    world.answered();
    world.refused();
    world.simco.set_state(MiddleboxState::Answering);
    world.until("the session is established again", Simco::is_connected);
    world.answered();
    world.caller.expect("200");
    assert_eq!((world.simco.rules(), world.rule_requests()), (1, 1));
}

#[test]
fn pending_requests_end_with_the_agent() {
    let mut world = SimcoWorld::new();
    world.simco.set_state(MiddleboxState::LosingReplies);
    world.answered();
    world.refused();
    world.until("the rule is granted", |simco| simco.rules() == 1);
    assert!(world.simco.is_connected());
    world.b2bua = None;
    world.until("the session is over", |simco| !simco.is_connected());
}
