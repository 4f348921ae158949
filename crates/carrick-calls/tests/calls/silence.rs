//! Calls that a SIMCO middlebox does not answer in time, and what becomes of their rules.

use std::time::{Duration, Instant};

use carrick_calls::{B2bua, MiddleboxAgent, Opening};
use carrick_simco::message::{Direction, Lifetime, Request};
use carrick_simco_net::client::{Client, ClientConfig, Target};
use tokio::runtime::Runtime;

use crate::peer::{PATIENCE, Peer, audio};
use crate::simco::{Simco, Way};
use crate::world::start;

/// Far longer than a test takes: no rule ends by itself.
const LIFETIME: Lifetime = Lifetime(3600);

/// The agent between two peers, with a session to a middlebox.
struct Served {
    _runtime: Runtime,
    simco: Simco,
    b2bua: Option<B2bua<MiddleboxAgent>>,
    caller: Peer,
    callee: Peer,
}

impl Served {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let (simco, b2bua, [caller, callee]) = runtime.block_on(async {
            let simco = Simco::start().await;
            let mut config = ClientConfig::new(Target::tcp("127.0.0.1", simco.port));
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

    fn until(&self, what: &str, so: impl Fn(&Simco) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !so(&self.simco) {
            let rules = self.simco.rules();
            assert!(Instant::now() < until, "{what}: {rules} rules");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A call, until its callee has answered.
    fn answered(&mut self) {
        let invite = self.caller.fresh_invite(&mut self.callee);
        let answer = audio("192.0.2.1", 6000);
        self.callee.answer(&invite, "200 OK", &answer);
    }

    /// Until both sides know that it is refused, because the middlebox does not answer.
    fn refused(&mut self) {
        self.caller.expect("504");
        self.caller.request("ACK", "");
        self.callee.expect_bye();
    }

    /// How often a rule was asked for.
    fn asked(&self) -> usize {
        let opening = Opening {
            protocol: 17,
            internal: "10.0.0.1:4000".parse().unwrap(),
            external: "192.0.2.1:6000".parse().unwrap(),
            ports: 2,
            direction: Direction::Both,
        };
        self.simco
            .asked(&Request::Enable(opening.request(LIFETIME)))
    }
}

#[test]
fn rule_of_refused_call_closes_after_session_loss() {
    let mut served = Served::new();
    served.simco.way(Way::LosesReplies);
    served.answered();
    served.refused();
    served.until("granted", |simco| simco.rules() == 1);
    served.simco.way(Way::IsAway);
    served.until("lost", |simco| !simco.is_connected());
    served.simco.way(Way::Answers);
    served.until("nothing is open", |simco| simco.rules() == 0);
    assert_eq!(served.asked(), 1, "not once more");
}

#[test]
fn rule_of_refused_call_closes_after_long_silence() {
    let mut served = Served::new();
    served.simco.way(Way::LosesReplies);
    served.answered();
    served.refused();
    // The query for the outcome was not answered either, and is repeated.
    served.until("asked again", |simco| simco.asked(&Request::List) >= 2);
    served.simco.way(Way::IsAway);
    served.until("lost", |simco| !simco.is_connected());
    served.simco.way(Way::Answers);
    served.until("nothing is open", |simco| simco.rules() == 0);
}

#[test]
fn rule_of_refused_call_closes_in_next_session() {
    let mut served = Served::new();
    served.simco.way(Way::LosesReplies);
    served.answered();
    served.until("granted", |simco| simco.rules() == 1);
    served.simco.way(Way::IsAway);
    served.refused();
    served.simco.way(Way::Answers);
    served.until("nothing is open", |simco| simco.rules() == 0);
    assert_eq!(served.asked(), 1, "not once more");
}

#[test]
fn refused_call_requests_nothing_in_next_session() {
    let mut served = Served::new();
    served.simco.way(Way::IsAway);
    served.until("lost", |simco| !simco.is_connected());
    served.answered();
    served.refused();
    served.simco.way(Way::Answers);
    served.until("back", Simco::is_connected);
    served.answered();
    served.caller.expect("200");
    assert_eq!((served.simco.rules(), served.asked()), (1, 1));
}

#[test]
fn all_that_is_under_way_ends_with_the_agent() {
    let mut served = Served::new();
    served.simco.way(Way::LosesReplies);
    served.answered();
    served.refused();
    served.until("granted", |simco| simco.rules() == 1);
    assert!(served.simco.is_connected());
    served.b2bua = None;
    served.until("the session is over", |simco| !simco.is_connected());
}
