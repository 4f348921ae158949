//! What a middlebox is told at the start: itself, its agents, its limits.

use std::net::IpAddr;
use std::time::Duration;

use crate::backend;
use crate::message::{Capabilities, IpVersion, Lifetime, MAX_MESSAGE, RequestKind};
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
    /// Where the internal hosts of its rules must be; empty for anywhere.
    pub internal: Vec<Network>,
    /// Likewise the external hosts.
    pub external: Vec<Network>,
    /// Rules it may own at a time, but those by PDR.
    pub max_rules: usize,
    /// Elements in the packet filter, or ports of a translator, that these may have at a time.
    pub max_elements: usize,
    /// Those of them that may let more pass than single flows: with wildcards or prefixes. A packet
    /// filter may compare each packet with all of them.
    pub max_patterns: usize,
    /// Rules by PDR that it may own at a time.
    pub max_disable_rules: usize,
    /// Sessions it may have at a time.
    pub max_sessions: usize,
}

impl AgentConfig {
    /// An agent that may do everything but PDR and wildcards, with its own rules, anywhere.
    pub fn new(identity: Identity, key: Option<Key>) -> Self {
        Self {
            identity,
            key,
            rights: Rights {
                disable: false,
                wildcards: false,
                ..Rights::ALL
            },
            sees: Access::Own,
            controls: Access::Own,
            internal: Vec::new(),
            external: Vec::new(),
            max_rules: 100_000,
            max_elements: 200_000,
            max_patterns: 256,
            max_disable_rules: 512,
            max_sessions: 8,
        }
    }

    /// An agent that is no longer known: it may do nothing; its rules live on.
    pub(super) fn dismissed(identity: Identity) -> Self {
        Self {
            rights: Rights::NONE,
            max_rules: 0,
            max_disable_rules: 0,
            max_sessions: 0,
            ..Self::new(identity, None)
        }
    }
}

/// Addresses with the same first bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// The network of an address; `None` if the prefix is longer than it.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let fits = prefix <= IpVersion::of(address).bits();
        let address = backend::network(address, prefix);
        fits.then_some(Self { address, prefix })
    }

    /// Whether all addresses with these first bits are in it.
    pub fn contains(&self, address: IpAddr, prefix: u8) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && self.prefix <= prefix
            && backend::network(address, self.prefix) == self.address
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
    /// Wildcards of addresses, ports and the protocol in PER and PEA. PDR has them in any case.
    pub wildcards: bool,
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
        wildcards: true,
    };

    /// Nothing.
    pub const NONE: Self = Self {
        reserve: false,
        enable: false,
        disable: false,
        change_lifetime: false,
        status: false,
        list: false,
        wildcards: false,
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
    /// Rules at a time, but those by PDR.
    pub rules: usize,
    /// Rules by PDR at a time. They have places of their own, so that nobody who opens keeps out who
    /// must block.
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
    /// session ends. The ends of rules that end at the same time count as one.
    pub queued_messages: usize,
    /// The octets of these messages; a single message may have more. The ends of rules that end at
    /// the same time count 16 octets for each owner.
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
