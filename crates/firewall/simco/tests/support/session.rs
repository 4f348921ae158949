//! A middlebox and agents driven by the input: connections open and close, messages of all kinds arrive,
//! time passes, agents don't read, the packet filter fails.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use carrick_simco::Time;
use carrick_simco::agent::{Agent, AgentSettings};
use carrick_simco::backend::{Backend, BackendError, Element, MemoryBackend, MemoryLimits};
use carrick_simco::message::{
    AddressTuple, Direction, DisableRequest, EnableRequest, FromMiddlebox, GroupId, Lifetime,
    Location, NatMode, Notification, Parity, PerParameters, PolicyRuleId, PortParity,
    PrrParameters, Reply, Request, ReserveRequest, Scope, TransactionId, VERSION,
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
    half_open_per_address: 4,
    establishment: Duration::from_secs(10),
    queued_messages: 20,
    queued_octets: 900,
    max_reply: 200,
    exact_ports: 4,
};

/// Maximum number of elements of the packet filter.
const ELEMENTS: usize = 60;

/// Maximum number of elements of an agent.
const AGENT_ELEMENTS: usize = 50;

/// Maximum number of rules of an agent without those by PDR.
const AGENT_RULES: usize = 30;

/// Maximum number of patterns of an agent.
const AGENT_PATTERNS: usize = 7;

/// Packet filter that fails on demand; bits: 1 for add, 2 for extend, 4 for remove.
#[derive(Debug)]
struct FailingBackend {
    inner: MemoryBackend,
    faults: Rc<Cell<u8>>,
}

impl FailingBackend {
    fn works(&self, fault: u8) -> Result<(), BackendError> {
        match self.faults.get() & fault {
            0 => Ok(()),
            _ => Err(BackendError::System("simulated failure".into())),
        }
    }
}

impl Backend for FailingBackend {
    fn add(&mut self, now: Time, what: &[Element], life: Lifetime) -> Result<(), BackendError> {
        self.works(1)?;
        self.inner.add(now, what, life)
    }

    fn extend(&mut self, now: Time, what: &[Element], life: Lifetime) -> Result<(), BackendError> {
        self.works(2)?;
        self.inner.extend(now, what, life)
    }

    fn remove(&mut self, now: Time, what: &[Element]) -> Result<(), BackendError> {
        self.works(4)?;
        self.inner.remove(now, what)
    }
}

/// Source of the actions of the agents.
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

/// Effects of an input.
#[derive(Clone, Copy, Default, Debug)]
pub struct SessionOutcome {
    /// Requests with a positive reply.
    pub accepted: u64,
    /// Maximum number of rules at a time.
    pub rules: usize,
}

/// Runs a middlebox with agents that act as the octets determine, and checks that all limits are kept, that
/// every message can be parsed, and that no rule and no element is left.
pub fn run(octets: &[u8]) -> SessionOutcome {
    let mut input = Input(octets);
    let faults = Rc::new(Cell::new(0));
    let mut failed = false;
    let mut extension_failed = false;
    let backend = FailingBackend {
        inner: MemoryBackend::new(MemoryLimits {
            elements: ELEMENTS,
            blocks: LIMITS.disable_rules,
        }),
        faults: Rc::clone(&faults),
    };
    let mut middlebox = Middlebox::new(config(), backend, [7; 32]);
    let mut now = Time::ZERO;
    let mut sessions: Vec<SessionId> = Vec::new();
    let mut outcome = SessionOutcome::default();
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
                fault @ 0xf0..=0xf7 => {
                    faults.set(fault & 7);
                    failed |= fault & 4 != 0;
                    // An element that outlives a removed rule is extended to a shorter time.
                    extension_failed |= fault & 2 != 0;
                }
                rule => middlebox.end_rule(now, PolicyRuleId(u32::from(rule))),
            },
            (_, Some(session)) => {
                transaction = transaction.next();
                let request = input.request().to_bytes(transaction);
                middlebox.handle_message(now, session, 1, &request);
            }
        }
        while middlebox.poll_event().is_some() {}
        check(&middlebox, now, failed);
        if !failed && !extension_failed {
            assert_eq!(middlebox.stats().backend_failures, 0);
        }
        outcome.rules = outcome.rules.max(middlebox.rules().len());
    }
    outcome.accepted = middlebox.stats().accepted;
    faults.set(0);
    finish(&mut middlebox, now, failed);
    arbitrary_replies(octets);
    outcome
}

fn config() -> MiddleboxConfig {
    let name = Identity::new("agent").unwrap();
    let agent = AgentConfig {
        rights: Rights::ALL,
        max_rules: AGENT_RULES,
        max_elements: AGENT_ELEMENTS,
        max_patterns: AGENT_PATTERNS,
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

fn drain(middlebox: &mut Middlebox<FailingBackend>, session: SessionId) {
    let (mut sent, mut octets, mut ends) = (0, 0, 0);
    while let Some(output) = middlebox.poll_output(session) {
        if let SessionOutput::Send { message, .. } = output {
            let (_, message_is) = FromMiddlebox::parse(&message).unwrap();
            let end = matches!(
                message_is,
                FromMiddlebox::Notification(Notification::RuleEvent {
                    lifetime: Lifetime(0),
                    ..
                })
            );
            // Ends of rules that end at the same time count as one.
            if end {
                ends += 1;
            } else {
                sent += 1;
                octets += message.len();
            }
        }
    }
    assert!(
        sent <= LIMITS.queued_messages + 3,
        "{sent} messages are queued"
    );
    // Ends of existing rules, and of rules whose replies are queued.
    let most = AGENT_RULES + LIMITS.disable_rules + LIMITS.queued_messages;
    assert!(ends <= most, "{ends} ends are queued");
    // One message above the limit, BFM and AST.
    let most = LIMITS.queued_octets + LIMITS.max_reply + 16;
    assert!(octets <= most, "{octets} octets are queued");
}

fn check(middlebox: &Middlebox<FailingBackend>, now: Time, failed: bool) {
    let (open, half_open) = middlebox.session_counts();
    assert!(
        open <= 5 && half_open <= LIMITS.half_open,
        "{open} and {half_open} sessions"
    );
    let rules = middlebox.rules();
    assert!(rules.disable_rules() <= LIMITS.disable_rules);
    assert!(rules.len() - rules.disable_rules() <= AGENT_RULES);
    let elements: BTreeSet<Element> = middlebox.backend().inner.live(now).copied().collect();
    assert!(elements.len() <= ELEMENTS + LIMITS.disable_rules);
    let live = rules.iter().filter(|rule| rule.expires > now);
    let granted: BTreeSet<Element> = live.flat_map(|rule| rule.elements()).collect();
    assert!(
        granted.is_subset(&elements),
        "granted rules have their elements"
    );
    let weights = || rules.iter().map(|rule| rule.weight());
    let weight: usize = weights().map(|weight| weight.elements).sum();
    assert!(weight <= AGENT_ELEMENTS, "{weight} elements of one agent");
    let patterns: usize = weights().map(|weight| weight.patterns).sum();
    assert!(
        patterns <= AGENT_PATTERNS,
        "{patterns} patterns of one agent"
    );
    if !failed {
        let all: BTreeSet<Element> = rules.iter().flat_map(|rule| rule.elements()).collect();
        assert!(elements.is_subset(&all), "no other element exists");
    }
}

/// Lets all rules and timeouts expire.
fn finish(middlebox: &mut Middlebox<FailingBackend>, mut now: Time, failed: bool) {
    now += Duration::from_secs(10_000);
    while middlebox.poll_timeout().is_some_and(|due| due <= now) {
        middlebox.handle_timeout(now);
    }
    assert!(middlebox.rules().is_empty() && middlebox.poll_timeout().is_none());
    // An element that could not be removed has expired or was removed later.
    let since = if failed { now } else { Time::ZERO };
    assert_eq!(middlebox.backend().inner.live(since).count(), 0);
    while let Some(session) = middlebox.poll_ready() {
        drain(middlebox, session);
    }
}

/// Passes the octets to an agent with an open session as messages: complete ones, or attributes under the
/// header of a reply to one of its requests.
fn arbitrary_replies(octets: &[u8]) {
    let settings = AgentSettings {
        max_pending: 8,
        max_bindings: 8,
        ..AgentSettings::default()
    };
    let mut agent = Agent::new(settings, [9; 32]);
    let mut now = Time::ZERO;
    let mut input = Input(octets);
    let mut transaction = TransactionId(0);
    while !input.0.is_empty() {
        if !agent.is_open() {
            agent.connected(now, 3);
            let (_, establish) = agent.poll_transmit().unwrap();
            let (transaction, _) = Request::parse(&establish).unwrap();
            let capabilities = config().capabilities;
            let reply = Reply::Established(capabilities).to_bytes(transaction);
            agent.handle_message(now, 0, &reply);
            assert!(agent.is_open());
        }
        if let Ok(submitted) = agent.submit(now, &input.request()) {
            transaction = submitted;
        }
        let kind = input.octet();
        let length = usize::from(input.octet() & 0x3f);
        let value = input.octets(length);
        let answer = [2 + (kind & 1), kind >> 2, 0, value.len() as u8];
        let message = match kind & 2 {
            0 => value,
            _ => [&answer[..], &transaction.0.to_be_bytes(), &value]
                .concat()
                .into(),
        };
        agent.handle_message(now, u16::from(kind), &message);
        now += Duration::from_secs(u64::from(kind & 3));
        agent.handle_timeout(now);
        assert!(agent.pending() <= 8 && agent.streams().bound() <= 8);
        assert!(agent.queued() <= 2 * 8 + 64 && agent.remembered_ends() <= 8);
        while agent.poll_event().is_some() {}
        if kind & 0x80 != 0 {
            while let Some((stream, _)) = agent.poll_transmit() {
                assert!(stream < 3);
            }
        }
    }
    agent.disconnected();
    assert!(agent.poll_timeout().is_none() && agent.pending() == 0);
}
