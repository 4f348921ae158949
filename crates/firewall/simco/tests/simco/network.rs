//! Middlebox in memory, and connections that deliver messages immediately.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::Bytes;
use carrick_simco::Time;
use carrick_simco::agent::{Agent, AgentEvent, AgentSettings, Credentials};
use carrick_simco::backend::{Backend, MemoryBackend};
use carrick_simco::message::{
    AddressTuple, Capabilities, Direction, DisableRequest, EnableReply, EnableRequest,
    FromMiddlebox, GroupId, Lifetime, Location, NatMode, NegativeReply, Notification, Parity,
    PerParameters, PolicyRuleId, PortParity, PrrParameters, Reply, Request, ReserveRequest, Scope,
    TransactionId,
};
use carrick_simco::middlebox::{
    AgentConfig, Connection, Middlebox, MiddleboxConfig, SessionId, SessionOutput,
};
use carrick_simco::session::{Identity, SharedKey};

pub(crate) const UDP: u8 = 17;

pub(crate) fn name(name: &str) -> Identity {
    Identity::new(name).unwrap()
}

pub(crate) fn key(of: &str) -> SharedKey {
    SharedKey::new(of.repeat(16).into_bytes()).unwrap()
}

/// Returns the configuration of an agent with the key of [`credentials`].
pub(crate) fn agent_config(of: &str) -> AgentConfig {
    let mut config = AgentConfig::new(name(of), Some(key(of)));
    config.rights.wildcards = true;
    config
}

pub(crate) fn credentials(of: &str) -> Credentials {
    Credentials {
        agent: name(of),
        key: key(of),
        middlebox: Some(name("firewall")),
    }
}

/// Returns the configuration of a packet filter with the agents `alice` and `bob`.
pub(crate) fn config() -> MiddleboxConfig {
    MiddleboxConfig {
        agents: vec![agent_config("alice"), agent_config("bob")],
        ..MiddleboxConfig::packet_filter(name("firewall"))
    }
}

/// Message received in a session, with its stream.
pub(crate) type Received = (u16, TransactionId, FromMiddlebox);

/// Middlebox and its clock.
pub(crate) struct Net<B = MemoryBackend> {
    pub(crate) now: Time,
    pub(crate) middlebox: Middlebox<B>,
}

impl Net {
    pub(crate) fn new(config: MiddleboxConfig) -> Self {
        Self::with_backend(config, MemoryBackend::default())
    }

    pub(crate) fn elements(&self) -> usize {
        self.middlebox.backend().live(self.now).count()
    }

    pub(crate) fn passes(&self, port: u16, direction: Direction) -> bool {
        let (internal, external) = ends(port);
        let backend = self.middlebox.backend();
        backend.passes(self.now, UDP, internal.into(), external.into(), direction)
    }
}

impl<B: Backend> Net<B> {
    pub(crate) fn with_backend(config: MiddleboxConfig, backend: B) -> Self {
        Self {
            now: Time::ZERO,
            middlebox: Middlebox::new(config, backend, [1; 32]),
        }
    }

    pub(crate) fn connect(&mut self) -> SessionId {
        self.middlebox.connected(self.now, &Connection::plain(4))
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        while self
            .middlebox
            .poll_timeout()
            .is_some_and(|due| due <= self.now)
        {
            self.middlebox.handle_timeout(self.now);
        }
    }

    /// Sends octets in a session.
    pub(crate) fn raw(&mut self, session: SessionId, stream: u16, message: &[u8]) {
        let message = Bytes::copy_from_slice(message);
        self.middlebox
            .handle_message(self.now, session, stream, &message);
    }

    /// Returns the messages sent in a session since the last call, and whether the middlebox closed it.
    pub(crate) fn received(&mut self, session: SessionId) -> (Vec<Received>, bool) {
        let mut all = Vec::new();
        while let Some(output) = self.middlebox.poll_output(session) {
            match output {
                SessionOutput::Send { stream, message } => {
                    let (transaction, what) = FromMiddlebox::parse(&message).unwrap();
                    all.push((stream, transaction, what));
                }
                SessionOutput::Close => return (all, true),
            }
        }
        (all, false)
    }

    /// Returns the only message sent since the last call, and whether the middlebox closed the session.
    pub(crate) fn answer(&mut self, session: SessionId) -> (FromMiddlebox, bool) {
        let (mut all, closed) = self.received(session);
        assert_eq!(all.len(), 1, "{all:?}");
        (all.remove(0).2, closed)
    }

    /// Sends a request and returns the reply.
    pub(crate) fn ask(&mut self, session: SessionId, request: &Request) -> Reply {
        let tid = TransactionId(77);
        self.raw(session, 2, &request.to_bytes(tid));
        let (all, _) = self.received(session);
        let replies = all
            .into_iter()
            .filter_map(|(stream, transaction, what)| match what {
                FromMiddlebox::Reply(reply) => {
                    assert_eq!((stream, transaction), (2, tid), "on the request's stream");
                    Some(reply)
                }
                FromMiddlebox::Notification(_) => None,
            });
        let replies: Vec<Reply> = replies.collect();
        let [reply] = &replies[..] else {
            panic!("{request:?} was answered by {replies:?}");
        };
        reply.clone()
    }

    pub(crate) fn refusal(&mut self, session: SessionId, request: &Request) -> NegativeReply {
        match self.ask(session, request) {
            Reply::Negative(negative) => negative,
            reply => panic!("{request:?} was answered by {reply:?}"),
        }
    }

    pub(crate) fn enable(&mut self, session: SessionId, request: EnableRequest) -> EnableReply {
        match self.ask(session, &Request::Enable(request)) {
            Reply::Enabled(enabled) => enabled,
            reply => panic!("{request:?} was answered by {reply:?}"),
        }
    }

    /// Returns the AREs received in a session since the last call.
    pub(crate) fn rule_events(&mut self, session: SessionId) -> Vec<(PolicyRuleId, Lifetime)> {
        let (all, _) = self.received(session);
        let event = |(_, _, what)| match what {
            FromMiddlebox::Notification(Notification::RuleEvent { rule, lifetime }) => {
                (rule, lifetime)
            }
            other => panic!("{other:?} is not an ARE"),
        };
        all.into_iter().map(event).collect()
    }

    /// Delivers messages between an agent and its session until none is left.
    pub(crate) fn carry(&mut self, agent: &mut Agent, session: SessionId) -> Vec<AgentEvent> {
        loop {
            let mut idle = true;
            while let Some((stream, message)) = agent.poll_transmit() {
                self.middlebox
                    .handle_message(self.now, session, stream, &message);
                idle = false;
            }
            while let Some(output) = self.middlebox.poll_output(session) {
                match output {
                    SessionOutput::Send { stream, message } => {
                        agent.handle_message(self.now, stream, &message);
                    }
                    SessionOutput::Close => agent.disconnected(),
                }
                idle = false;
            }
            if idle {
                return std::iter::from_fn(|| agent.poll_event()).collect();
            }
        }
    }

    /// Returns an agent whose session was requested, after all messages were delivered.
    pub(crate) fn agent(&mut self, settings: AgentSettings) -> (Agent, SessionId, Vec<AgentEvent>) {
        let mut agent = Agent::new(settings, [2; 32]);
        let session = self.connect();
        agent.connected(self.now, 4);
        let events = self.carry(&mut agent, session);
        (agent, session, events)
    }

    /// Opens a session of this agent by its messages only.
    pub(crate) fn open(&mut self, of: &str) -> SessionId {
        let settings = AgentSettings {
            credentials: Some(credentials(of)),
            ..AgentSettings::default()
        };
        let (_, session, events) = self.agent(settings);
        assert!(
            matches!(events[..], [AgentEvent::Opened(Capabilities { .. })]),
            "{events:?}"
        );
        session
    }
}

pub(crate) fn ends(port: u16) -> ((Ipv4Addr, u16), (Ipv4Addr, u16)) {
    (([10, 0, 0, 1].into(), port), ([192, 0, 2, 1].into(), port))
}

/// Returns the request to enable UDP in both directions between this port of both hosts for 60 s.
pub(crate) fn pinhole(port: u16) -> EnableRequest {
    let ((a0, _), (a3, _)) = ends(port);
    EnableRequest {
        parameters: PerParameters {
            parity: PortParity::Any,
            direction: Direction::Both,
        },
        internal: AddressTuple::single(Location::Internal, UDP, a0.into(), port),
        external: AddressTuple::single(Location::External, UDP, a3.into(), port),
        lifetime: Lifetime(60),
        group: None,
    }
}

pub(crate) fn in_group(group: GroupId, port: u16) -> EnableRequest {
    EnableRequest {
        group: Some(group),
        ..pinhole(port)
    }
}

/// Returns the request to block the stream that this one would enable, for the same lifetime.
pub(crate) fn block(enable: EnableRequest) -> Request {
    Request::Disable(DisableRequest {
        internal: enable.internal,
        external: enable.external,
        lifetime: enable.lifetime,
    })
}

pub(crate) fn change(rule: PolicyRuleId, seconds: u32) -> Request {
    Request::ChangeLifetime {
        rule,
        lifetime: Lifetime(seconds),
    }
}

/// Returns the request to enable this number of consecutive ports.
pub(crate) fn range(port: u16, ports: u16) -> EnableRequest {
    let mut request = pinhole(port);
    for tuple in [&mut request.internal, &mut request.external] {
        if let Scope::Full { ports: count, .. } = &mut tuple.scope {
            *count = ports;
        }
    }
    request
}

/// Returns a request for a reservation of this number of ports.
pub(crate) fn reserve(protocol: u8, ports: u16, lifetime: u32) -> ReserveRequest {
    ReserveRequest {
        parameters: PrrParameters {
            nat_mode: NatMode::Traditional,
            parity: Parity::Any,
            inside: None,
            outside: None,
            protocol,
            ports,
        },
        lifetime: Lifetime(lifetime),
        group: None,
    }
}
