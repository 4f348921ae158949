//! What a middlebox is told at the start: itself, its agents, its limits.

use std::time::Duration;

use crate::message::{Capabilities, Lifetime, MAX_MESSAGE, RequestKind};
use crate::session::{Identity, Key};

/// Everything a middlebox is made of.
#[derive(Clone, Debug)]
pub struct MiddleboxConfig {
    /// Its name, for authentication.
    pub identity: Identity,
    /// What it can do. PDR requests are taken if this says so; wildcards and IP versions likewise.
    pub capabilities: Capabilities,
    /// Transport protocols that may be enabled and reserved; empty for all.
    pub protocols: Vec<u8>,
    /// The agents. Their order doesn't change while the middlebox lives.
    pub agents: Vec<AgentConfig>,
    /// The agent that whoever doesn't authenticate itself counts as; `None` to demand
    /// authentication of all.
    pub anonymous: Option<Identity>,
    /// Whether the transport must be encrypted.
    pub require_security: bool,
    /// What is bounded.
    pub limits: Limits,
}

impl MiddleboxConfig {
    /// A packet filter for IPv4 and IPv6 with all capabilities, that knows no agent yet.
    pub fn packet_filter(identity: Identity) -> Self {
        Self {
            identity,
            capabilities: Capabilities {
                packet_filter: true,
                disable_rules: true,
                internal_address_wildcards: true,
                external_address_wildcards: true,
                port_wildcards: true,
                internal_v4: true,
                internal_v6: true,
                external_v4: true,
                external_v6: true,
                max_lifetime: Lifetime(3600),
                ..Capabilities::default()
            },
            protocols: Vec::new(),
            agents: Vec::new(),
            anonymous: None,
            require_security: false,
            limits: Limits::default(),
        }
    }
}

/// One agent.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Its name, which owns its rules.
    pub identity: Identity,
    /// What it proves itself with; without one it can't, except by its transport.
    pub key: Option<Key>,
    /// Which transactions it may ask for.
    pub rights: Rights,
    /// Whose rules it may see and is told of.
    pub sees: Access,
    /// Whose rules it may change and end, and so see too.
    pub controls: Access,
    /// Rules it may own at a time.
    pub max_rules: usize,
    /// Elements in the packet filter, or ports of a translator, that its rules may have at a time.
    pub max_elements: usize,
    /// Sessions it may have at a time.
    pub max_sessions: usize,
}

impl AgentConfig {
    /// An agent that may do everything but PDR, with its own rules.
    pub fn new(identity: Identity, key: Option<Key>) -> Self {
        Self {
            identity,
            key,
            rights: Rights {
                disable: false,
                ..Rights::ALL
            },
            sees: Access::Own,
            controls: Access::Own,
            max_rules: 100_000,
            max_elements: 200_000,
            max_sessions: 8,
        }
    }

    /// An agent that is no longer known: it may do nothing; its rules live on.
    pub(super) fn dismissed(identity: Identity) -> Self {
        Self {
            rights: Rights::NONE,
            max_rules: 0,
            max_sessions: 0,
            ..Self::new(identity, None)
        }
    }
}

/// Transactions that an agent may ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights {
    /// PRR.
    pub reserve: bool,
    /// PER and PEA.
    pub enable: bool,
    /// PDR.
    pub disable: bool,
    /// PLC.
    pub change_lifetime: bool,
    /// PRS.
    pub status: bool,
    /// PRL.
    pub list: bool,
}

impl Rights {
    /// Everything.
    pub const ALL: Self = Self {
        reserve: true,
        enable: true,
        disable: true,
        change_lifetime: true,
        status: true,
        list: true,
    };

    /// Nothing.
    pub const NONE: Self = Self {
        reserve: false,
        enable: false,
        disable: false,
        change_lifetime: false,
        status: false,
        list: false,
    };

    /// Whether a request of this kind may be asked for.
    pub const fn allow(self, kind: RequestKind) -> bool {
        match kind {
            RequestKind::Reserve => self.reserve,
            RequestKind::Enable | RequestKind::EnableReserved => self.enable,
            RequestKind::Disable => self.disable,
            RequestKind::ChangeLifetime => self.change_lifetime,
            RequestKind::Status => self.status,
            RequestKind::List => self.list,
            RequestKind::Establish | RequestKind::Authenticate | RequestKind::Terminate => true,
        }
    }
}

/// Whose rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Access {
    /// One's own.
    Own,
    /// One's own and those of these agents.
    Of(Vec<Identity>),
    /// Those of all agents.
    All,
}

/// What is bounded, and how long things may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Rules at a time.
    pub rules: usize,
    /// Rules by PDR at a time.
    pub disable_rules: usize,
    /// Sessions in state OPEN.
    pub open_sessions: usize,
    /// Connections on which no session is open yet. When there are as many, the oldest gives way.
    pub half_open: usize,
    /// Those of them from one address (of one network with 64 bits in IPv6). When there are as many,
    /// the oldest of this address gives way, and no other.
    pub half_open_per_address: usize,
    /// How long a session may take to get into state OPEN.
    pub establishment: Duration,
    /// Messages that wait to be sent in a session. With more, its agent doesn't keep up, and the
    /// session ends.
    pub queued_messages: usize,
    /// The octets of these messages; a single message may have more.
    pub queued_octets: usize,
    /// Octets of a PRL reply at most.
    pub max_reply: usize,
    /// Ports of a request that lets a range pass: each is an element. More are refused, because a
    /// pattern would let each port of one side pass to each of the other.
    pub exact_ports: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            rules: 1 << 20,
            disable_rules: 1024,
            open_sessions: 1024,
            half_open: 256,
            half_open_per_address: 32,
            establishment: Duration::from_secs(10),
            queued_messages: 4096,
            queued_octets: 1 << 20,
            max_reply: MAX_MESSAGE,
            exact_ports: 64,
        }
    }
}
