//! The load generator with an agent and a middlebox in one process, in virtual time.

use std::time::Duration;

use carrick_simco::Time;
use carrick_simco::agent::{Agent, AgentEvent, AgentSettings};
use carrick_simco::load::{LoadFailure, LoadGenerator, Workload};
use carrick_simco::message::NegativeReply;
use carrick_simco::middlebox::SessionId;

use crate::network::{Net, config, credentials};

fn workload() -> Workload {
    Workload {
        opening_interval: Duration::from_millis(100),
        holding: Duration::from_secs(20),
        refresh: Duration::from_secs(12),
        preload: 200,
        ..Workload::default()
    }
}

struct Load {
    net: Net,
    agent: Agent,
    session: SessionId,
    generator: LoadGenerator,
}

impl Load {
    fn new(workload: Workload, max_rules: usize) -> Self {
        let mut config = config();
        config.agents[0].max_rules = max_rules;
        let mut net = Net::new(config);
        let settings = AgentSettings {
            credentials: Some(credentials("alice")),
            ..AgentSettings::default()
        };
        let (mut agent, session, _) = net.agent(settings);
        let mut generator = LoadGenerator::new(workload, 5);
        generator.start(net.now, &mut agent);
        let mut load = Self {
            net,
            agent,
            session,
            generator,
        };
        load.carry();
        load
    }

    fn carry(&mut self) {
        loop {
            let events: Vec<AgentEvent> = self.net.carry(&mut self.agent, self.session);
            if events.is_empty() {
                return;
            }
            for event in events {
                self.generator
                    .handle_event(self.net.now, &mut self.agent, &event);
            }
        }
    }

    fn run(&mut self, seconds: u64) {
        let end = self.net.now + Duration::from_secs(seconds);
        while let Some(timeout) = self.next().filter(|timeout| *timeout <= end) {
            self.net.now = timeout;
            self.net.middlebox.handle_timeout(timeout);
            self.generator.handle_timeout(timeout, &mut self.agent);
            self.carry();
        }
        self.net.now = end;
    }

    fn next(&self) -> Option<Time> {
        let timers = [
            self.generator.poll_timeout(),
            self.net.middlebox.poll_timeout(),
        ];
        timers.into_iter().flatten().min()
    }
}

#[test]
fn load_stays_in_steady_state() {
    let mut load = Load::new(workload(), 100_000);
    assert_eq!(
        load.generator.steady_since(),
        Some(Time::ZERO),
        "a connection without delay"
    );
    load.generator.start_measuring();
    for _ in 0..20 {
        load.run(60);
        let (pinholes, rules) = (load.generator.pinholes(), load.net.middlebox.rules().len());
        assert_eq!((pinholes, load.net.elements()), (rules, rules));
        assert!((130..290).contains(&pinholes), "{pinholes}, not about 200");
    }
    let measures = load.generator.measures();
    assert_eq!(measures.failures(), 0, "no rule expired: {measures:?}");
    let opened = measures.enable.count();
    assert!((11_400..12_600).contains(&opened), "{opened} in 1200 s");
    let refreshes = measures.refresh.count() as f64 / opened as f64;
    let expected = workload().demand();
    let expected = expected.opening_interval / expected.exact_interval() - 2.0;
    assert!(
        (refreshes / expected - 1.0).abs() < 0.05,
        "{refreshes}, not {expected}"
    );
}

/// Kiesel and Scharf (2006), equation 1
#[test]
fn offered_load_matches_without_refresh() {
    let short = Workload {
        opening_interval: Duration::from_millis(10),
        holding: Duration::from_secs(5),
        refresh: Duration::from_secs(120),
        preload: 500,
        ..workload()
    };
    let mut load = Load::new(short, 100_000);
    load.generator.start_measuring();
    load.run(120);
    let done = load.generator.measures().transactions() as f64 / 120.0;
    let offered = 1e3 / short.demand().exact_interval();
    assert!((done / offered - 1.0).abs() < 0.05, "{done}, not {offered}");
    assert!((offered - 200.0).abs() < 0.1, "two requests per pinhole");
}

#[test]
fn calls_open_and_close_their_pinholes_together() {
    let calls = Workload {
        pinholes_per_call: 2,
        preload: 0,
        ..workload()
    };
    let mut load = Load::new(calls, 100_000);
    load.run(300);
    assert_eq!(load.generator.pinholes() % 2, 0);
    let rules = load.net.middlebox.rules().len();
    assert!((130..290).contains(&rules), "{rules}");
}

#[test]
fn refusals_are_counted_and_leave_no_rules() {
    let mut load = Load::new(workload(), 50);
    load.run(60);
    assert!(load.generator.measures().refused > 100);
    let refused = LoadFailure::Refused(NegativeReply::NoResources);
    assert_eq!(load.generator.failure(), Some(&refused));
    assert_eq!(load.generator.pinholes(), load.net.middlebox.rules().len());
}

#[test]
fn ended_pinhole_is_not_refreshed_forever() {
    let no_openings = Workload {
        opening_interval: Duration::ZERO,
        holding: Duration::from_secs(100_000),
        preload: 20,
        ..workload()
    };
    let mut load = Load::new(no_openings, 100_000);
    let rules: Vec<_> = load.net.middlebox.rules().iter().map(|r| r.id).collect();
    for rule in &rules[..5] {
        load.net.middlebox.end_rule(load.net.now, *rule);
    }
    // No notification, as if it had happened between two sessions.
    load.net.received(load.session);
    load.run(60);
    assert_eq!(load.generator.pinholes(), load.net.middlebox.rules().len());
    assert_eq!(load.generator.measures().refused, 5, "once each");
}

#[test]
fn interval_of_zero_makes_no_requests() {
    let none = Workload {
        opening_interval: Duration::ZERO,
        ..workload()
    };
    let mut load = Load::new(none, 100_000);
    load.run(1000);
    assert_eq!(
        load.generator.pinholes(),
        0,
        "all preloaded pinholes were closed"
    );
}

#[test]
fn preload_continues_after_lost_replies() {
    let mut net = Net::new(config());
    let settings = AgentSettings {
        credentials: Some(credentials("alice")),
        ..AgentSettings::default()
    };
    let (mut agent, _, _) = net.agent(settings);
    let mut generator = LoadGenerator::new(workload(), 5);
    generator.start(net.now, &mut agent);
    let window = std::iter::from_fn(|| agent.poll_transmit()).count();
    assert!((1..200).contains(&window), "{window}");
    net.now += Duration::from_secs(31);
    agent.handle_timeout(net.now);
    let events: Vec<AgentEvent> = std::iter::from_fn(|| agent.poll_event()).collect();
    for event in events {
        generator.handle_event(net.now, &mut agent, &event);
    }
    let next = std::iter::from_fn(|| agent.poll_transmit()).count();
    assert_eq!(next, window, "the next pinholes are requested");
}
