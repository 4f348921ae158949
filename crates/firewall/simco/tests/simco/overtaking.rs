//! Streams that overtake each other: in the end, the agent knows exactly the rules of the middlebox.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use carrick_simco::agent::{Agent, AgentEvent, AgentSettings};
use carrick_simco::message::{
    Lifetime, NatMode, NegativeReply, Parity, PolicyRuleId, PrrParameters, Reply, Request,
    ReserveRequest, TransactionId,
};
use carrick_simco::middlebox::{MiddleboxConfig, Rights, SessionId, SessionOutput};
use proptest::prelude::*;

use crate::network::{Net, UDP, agent_config, block, change, config, credentials, pinhole};

const STREAMS: usize = 4;

/// Messages in transit in one direction, by stream.
type InTransit = [VecDeque<Bytes>; STREAMS];

/// Agent whose user follows its events in order.
struct World {
    net: Net,
    agent: Agent,
    alice: SessionId,
    police: SessionId,
    to_middlebox: InTransit,
    to_agent: InTransit,
    known: BTreeSet<PolicyRuleId>,
}

impl World {
    fn new() -> Self {
        let mut police = agent_config("police");
        police.rights = Rights::ALL;
        let mut net = Net::new(MiddleboxConfig {
            agents: vec![agent_config("alice"), police],
            ..config()
        });
        let police = net.open("police");
        let settings = AgentSettings {
            credentials: Some(credentials("alice")),
            ..AgentSettings::default()
        };
        let (agent, alice, _) = net.agent(settings);
        assert!(agent.is_open());
        Self {
            net,
            agent,
            alice,
            police,
            to_middlebox: InTransit::default(),
            to_agent: InTransit::default(),
            known: BTreeSet::new(),
        }
    }

    /// Puts the messages of both sides on their streams.
    fn collect(&mut self) {
        while let Some((stream, message)) = self.agent.poll_transmit() {
            self.to_middlebox[usize::from(stream)].push_back(message);
        }
        while let Some(output) = self.net.middlebox.poll_output(self.alice) {
            let SessionOutput::Send { stream, message } = output else {
                panic!("the session has ended");
            };
            self.to_agent[usize::from(stream)].push_back(message);
        }
    }

    fn deliver(&mut self, index: usize) -> bool {
        let stream = index % STREAMS;
        let now = self.net.now;
        if (index / STREAMS).is_multiple_of(2) {
            let Some(message) = self.to_middlebox[stream].pop_front() else {
                return false;
            };
            let middlebox = &mut self.net.middlebox;
            middlebox.handle_message(now, self.alice, stream as u16, &message);
        } else {
            let Some(message) = self.to_agent[stream].pop_front() else {
                return false;
            };
            self.agent.handle_message(now, stream as u16, &message);
            while let Some(event) = self.agent.poll_event() {
                self.apply(&event);
            }
        }
        self.collect();
        true
    }

    fn apply(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Reply { rule, reply, .. } => match (reply, rule) {
                (Reply::Reserved(reserved), _) => {
                    self.known.insert(reserved.rule);
                }
                (Reply::Enabled(enabled), _) => {
                    self.known.insert(enabled.rule);
                }
                (Reply::List(list), _) => self.known.extend(list.rules()),
                (Reply::Deleted | Reply::Negative(NegativeReply::NoSuchRule), Some(rule)) => {
                    self.known.remove(rule);
                }
                (Reply::Negative(_), _) | (_, None) => {}
                // After a change or a status reply, the rule is in force.
                (_, Some(rule)) => {
                    self.known.insert(*rule);
                }
            },
            AgentEvent::Rule { rule, lifetime } => {
                assert_eq!(*lifetime, Lifetime(0), "no other agent changes it");
                self.known.remove(rule);
            }
            other => panic!("{other:?}"),
        }
    }

    fn submit(&mut self, request: &Request) {
        self.agent.submit(self.net.now, request).unwrap();
        self.collect();
    }

    fn step(&mut self, [what, which]: [u8; 2]) {
        let index = usize::from(which);
        let rule = self
            .known
            .iter()
            .nth(index % self.known.len().max(1))
            .copied();
        let life = Lifetime(u32::from(which >> 4) + 1);
        let mut enable = pinhole(u16::from(which & 3) + 1);
        enable.lifetime = life;
        match (what % 16, rule) {
            (0 | 1, _) => self.submit(&Request::Enable(enable)),
            (2, _) => self.submit(&Request::Reserve(ReserveRequest {
                parameters: PrrParameters {
                    nat_mode: NatMode::Traditional,
                    parity: Parity::Any,
                    inside: None,
                    outside: None,
                    protocol: UDP,
                    ports: 1,
                },
                lifetime: life,
                group: None,
            })),
            (3, Some(rule)) => self.submit(&Request::EnableReserved { enable, rule }),
            (4, Some(rule)) => self.submit(&change(rule, life.0)),
            (5, Some(rule)) => self.submit(&change(rule, 0)),
            (6, Some(rule)) => self.submit(&Request::Status(rule)),
            (7, _) => self.submit(&Request::List),
            (8, _) => {
                // A PDR that ends immediately.
                let block = block(enable).to_bytes(TransactionId(1));
                self.net.raw(self.police, 0, &block);
                self.net.received(self.police);
                self.collect();
            }
            (9, _) => {
                self.net.wait(u64::from(which & 3));
                self.collect();
            }
            _ => {
                self.deliver(index);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// RFC 4540, section 5.3.19
    #[test]
    fn events_in_order_yield_the_rules(
        steps in proptest::collection::vec(any::<[u8; 2]>(), 1..300)
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        while (0..2 * STREAMS).any(|index| world.deliver(index)) {}
        let rules: BTreeSet<PolicyRuleId> = world
            .net
            .middlebox
            .rules()
            .iter()
            .filter(|rule| world.net.middlebox.owner(rule).as_str() == "alice")
            .map(|rule| rule.id)
            .collect();
        prop_assert_eq!(&world.known, &rules);
        prop_assert_eq!(world.agent.pending(), 0);
        prop_assert_eq!(world.agent.remembered_ends(), 0);
        prop_assert!(world.agent.streams().bound() <= rules.len());
    }
}
