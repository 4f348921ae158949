//! A middlebox and agents that the input steers: connections come and go, messages of all kinds
//! arrive, time goes on, agents don't read.

use std::time::Duration;

use bytes::Bytes;
use carrick_simco::Time;
use carrick_simco::agent::{Agent, AgentSettings};
use carrick_simco::backend::{MemoryBackend, MemoryLimits};
use carrick_simco::message::{
    AddressTuple, Direction, DisableRequest, EnableRequest, FromMiddlebox, GroupId, Lifetime,
    Location, NatMode, Parity, PerParameters, PolicyRuleId, PortParity, PrrParameters, Request,
    ReserveRequest, Scope, TransactionId, VERSION,
};
use carrick_simco::middlebox::{
    AgentConfig, Connection, Limits, Middlebox, MiddleboxConfig, Rights, SessionId, SessionOutput,
};
use carrick_simco::session::Identity;

const LIMITS: Limits = Limits {
    rules: 40,
    disable_rules: 5,
    open_sessions: 6,
    half_open: 4,
    establishment: Duration::from_secs(10),
    queued_messages: 20,
    max_reply: 200,
    exact_ports: 4,
};

/// Elements that the packet filter holds.
const ELEMENTS: usize = 60;

/// Takes what the middlebox does from octets.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn octet(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn octets(&mut self, count: usize) -> Bytes {
        let (now, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        Bytes::copy_from_slice(now)
    }

    fn tuple(&mut self, location: Location, protocol: u8) -> AddressTuple {
        let bits = self.octet();
        let scope = Scope::Full {
            address: [10, 0, 0, bits & 3].into(),
            prefix: if bits & 0x80 == 0 { 32 } else { bits & 0x3f },
            port: u16::from(bits >> 2 & 3),
            ports: u16::from(bits >> 4 & 7),
        };
        AddressTuple {
            location,
            protocol,
            scope,
        }
    }

    fn lifetime(&mut self) -> Lifetime {
        Lifetime(u32::from(self.octet()))
    }

    fn rule(&mut self) -> PolicyRuleId {
        PolicyRuleId(u32::from(self.octet()))
    }

    fn enable(&mut self) -> EnableRequest {
        let bits = self.octet();
        let protocol = if bits & 8 == 0 { 17 } else { 0 };
        EnableRequest {
            parameters: PerParameters {
                parity: PortParity::Any,
                direction: match bits & 3 {
                    0 => Direction::Both,
                    1 => Direction::Outbound,
                    _ => Direction::Inbound,
                },
            },
            internal: self.tuple(Location::Internal, protocol),
            external: self.tuple(Location::External, protocol),
            lifetime: self.lifetime(),
            group: (bits & 4 != 0).then(|| GroupId(u32::from(bits >> 4))),
        }
    }

    fn request(&mut self) -> Request {
        match self.octet() % 10 {
            0 => Request::Establish {
                version: VERSION,
                challenge: None,
            },
            1 => Request::Authenticate(None),
            2 => Request::Terminate,
            3 => Request::Reserve(ReserveRequest {
                parameters: PrrParameters {
                    nat_mode: NatMode::Traditional,
                    parity: Parity::Any,
                    inside: None,
                    outside: None,
                    protocol: 17,
                    ports: u16::from(self.octet() & 3),
                },
                lifetime: self.lifetime(),
                group: None,
            }),
            4 | 5 => Request::Enable(self.enable()),
            6 => Request::EnableReserved {
                enable: EnableRequest {
                    group: None,
                    ..self.enable()
                },
                rule: self.rule(),
            },
            7 => Request::Disable(DisableRequest {
                internal: self.tuple(Location::Internal, 17),
                external: self.tuple(Location::External, 17),
                lifetime: self.lifetime(),
            }),
            8 => Request::ChangeLifetime {
                rule: self.rule(),
                lifetime: self.lifetime(),
            },
            _ => match self.octet() {
                0 => Request::List,
                rule => Request::Status(PolicyRuleId(u32::from(rule))),
            },
        }
    }
}

/// What came of an input.
#[derive(Clone, Copy, Default, Debug)]
pub struct Outcome {
    /// Requests with a positive reply.
    pub accepted: u64,
    /// Rules at most at a time.
    pub rules: usize,
}

/// Steers. No panic, every limit kept, every message readable, and in the end no rule and no element
/// is left.
pub fn steer(octets: &[u8]) -> Outcome {
    let mut input = Input(octets);
    let mut middlebox = Middlebox::new(
        config(),
        MemoryBackend::new(MemoryLimits { elements: ELEMENTS }),
        [7; 32],
    );
    let mut now = Time::ZERO;
    let mut sessions: Vec<SessionId> = Vec::new();
    let mut outcome = Outcome::default();
    let mut transaction = TransactionId(0);
    while !input.0.is_empty() {
        let command = input.octet();
        let session = sessions
            .get(usize::from(command >> 4) % sessions.len().max(1))
            .copied();
        match (command & 7, session) {
            (0, _) | (_, None) => {
                sessions
                    .push(middlebox.connected(now, &Connection::plain(u16::from(command >> 4))));
            }
            (1, Some(session)) => middlebox.disconnected(session),
            (2, Some(session)) => {
                let length = usize::from(input.octet());
                let message = input.octets(length);
                middlebox.handle_message(now, session, 0, &message);
            }
            (3, Some(_)) => {
                now += Duration::from_secs(u64::from(input.octet()));
                while middlebox.poll_timeout().is_some_and(|due| due <= now) {
                    middlebox.handle_timeout(now);
                }
            }
            (4, Some(session)) => {
                drain(&mut middlebox, session);
            }
            (5, Some(session)) if command & 8 != 0 => match input.octet() {
                0 => middlebox.terminate(session),
                1 => middlebox.stream_failed(session),
                rule => middlebox.end_rule(now, PolicyRuleId(u32::from(rule))),
            },
            (_, Some(session)) => {
                transaction = transaction.next();
                let request = input.request().to_bytes(transaction);
                middlebox.handle_message(now, session, 1, &request);
            }
        }
        while middlebox.poll_event().is_some() {}
        check(&middlebox, now);
        outcome.rules = outcome.rules.max(middlebox.rules().len());
    }
    outcome.accepted = middlebox.stats().accepted;
    finish(&mut middlebox, now);
    arbitrary_replies(octets);
    outcome
}

fn config() -> MiddleboxConfig {
    let name = Identity::new("agent").unwrap();
    let agent = AgentConfig {
        rights: Rights::ALL,
        max_rules: 30,
        max_sessions: 5,
        ..AgentConfig::new(name.clone(), None)
    };
    MiddleboxConfig {
        agents: vec![agent],
        anonymous: Some(name.clone()),
        limits: LIMITS,
        ..MiddleboxConfig::packet_filter(name)
    }
}

fn drain(middlebox: &mut Middlebox<MemoryBackend>, session: SessionId) {
    let mut sent = 0;
    while let Some(output) = middlebox.poll_output(session) {
        if let SessionOutput::Send { message, .. } = output {
            FromMiddlebox::parse(&message).unwrap();
            sent += 1;
        }
    }
    assert!(sent <= LIMITS.queued_messages + 3, "{sent} messages waited");
}

fn check(middlebox: &Middlebox<MemoryBackend>, now: Time) {
    let (open, half_open) = middlebox.session_counts();
    assert!(
        open <= 5 && half_open <= LIMITS.half_open,
        "{open} and {half_open} sessions"
    );
    let rules = middlebox.rules();
    assert!(rules.len() <= 30 && rules.disable_rules() <= LIMITS.disable_rules);
    let elements = middlebox.backend().live(now).count();
    assert!(elements <= ELEMENTS);
    assert!(
        elements == 0 || !rules.is_empty(),
        "{elements} elements of no rule"
    );
    assert_eq!(middlebox.stats().backend_failures, 0);
}

/// All lives and times come to their end.
fn finish(middlebox: &mut Middlebox<MemoryBackend>, mut now: Time) {
    now += Duration::from_secs(10_000);
    while middlebox.poll_timeout().is_some_and(|due| due <= now) {
        middlebox.handle_timeout(now);
    }
    assert!(middlebox.rules().is_empty() && middlebox.poll_timeout().is_none());
    assert_eq!(middlebox.backend().live(Time::ZERO).count(), 0);
    while let Some(session) = middlebox.poll_ready() {
        drain(middlebox, session);
    }
}

/// An agent gets the octets as messages.
fn arbitrary_replies(octets: &[u8]) {
    let mut agent = Agent::new(AgentSettings::default(), [9; 32]);
    agent.connected(Time::ZERO, 3);
    let mut input = Input(octets);
    while !input.0.is_empty() {
        let length = usize::from(input.octet());
        let message = input.octets(length);
        agent.handle_message(Time::ZERO, 2, &message);
        let _ = agent.submit(Time::ZERO, &Request::List);
        while agent.poll_transmit().is_some() || agent.poll_event().is_some() {}
    }
    agent.disconnected();
    assert!(agent.poll_timeout().is_none() && agent.pending() == 0);
}
