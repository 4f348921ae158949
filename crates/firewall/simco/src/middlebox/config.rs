//! Configuration of a middlebox: identity, agents, limits.

use std::net::IpAddr;
use std::time::Duration;

use crate::backend;
use crate::message::{Capabilities, IpVersion, Lifetime, MAX_MESSAGE, RequestKind};
use crate::session::{Identity, SharedKey};

/// Configuration of a middlebox.
#[derive(Clone, Debug)]
pub struct MiddleboxConfig {
    /// Name of the middlebox, for authentication.
    pub identity: Identity,
    /// Capabilities. They determine whether PDR, wildcards and IP versions are accepted.
    pub capabilities: Capabilities,
    /// Transport protocols that may be enabled and reserved; empty for all.
    pub protocols: Vec<u8>,
    /// Agents, in a fixed order.
    pub agents: Vec<AgentConfig>,
    /// Agent whose rights apply to sessions without authentication; `None` to require authentication.
    pub anonymous: Option<Identity>,
    /// True if the transport must be encrypted.
    pub require_security: bool,
    /// Limits of sessions, rules and messages.
    pub limits: Limits,
}

impl MiddleboxConfig {
    /// Returns a packet filter for IPv4 and IPv6 with all capabilities and no agents.
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

/// Configuration of an agent.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Its name, which owns its rules.
    pub identity: Identity,
    /// Key for authentication; without one, only its transport can authenticate it.
    pub key: Option<SharedKey>,
    /// Permitted transactions.
    pub rights: Rights,
    /// Owners whose rules it may see and is notified about.
    pub sees: RuleAccess,
    /// Owners whose rules it may change and delete, and therefore see.
    pub controls: RuleAccess,
    /// Networks of the internal hosts of its rules; empty for any.
    pub internal: Vec<Network>,
    /// Networks of the external hosts of its rules; empty for any.
    pub external: Vec<Network>,
    /// Maximum number of its rules without PDR.
    pub max_rules: usize,
    /// Maximum number of elements of the packet filter, or outside ports, of these rules.
    pub max_elements: usize,
    /// Maximum number of these elements with wildcards or prefixes. A packet filter may compare each
    /// packet with all of them.
    pub max_patterns: usize,
    /// Maximum number of its rules by PDR.
    pub max_disable_rules: usize,
    /// Maximum number of its sessions.
    pub max_sessions: usize,
}

impl AgentConfig {
    /// Returns an agent with all rights but PDR and wildcards, for its own rules and any network.
    pub fn new(identity: Identity, key: Option<SharedKey>) -> Self {
        Self {
            identity,
            key,
            rights: Rights {
                disable: false,
                wildcards: false,
                ..Rights::ALL
            },
            sees: RuleAccess::Own,
            controls: RuleAccess::Own,
            internal: Vec::new(),
            external: Vec::new(),
            max_rules: 100_000,
            max_elements: 200_000,
            max_patterns: 256,
            max_disable_rules: 512,
            max_sessions: 8,
        }
    }

    /// Returns an agent removed from the configuration, without rights; its rules stay.
    pub(super) fn without_rights(identity: Identity) -> Self {
        Self {
            rights: Rights::NONE,
            max_rules: 0,
            max_disable_rules: 0,
            max_sessions: 0,
            ..Self::new(identity, None)
        }
    }
}

/// Network prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Returns the network of an address; `None` if the prefix is too long.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let fits = prefix <= IpVersion::of(address).bits();
        let address = backend::network(address, prefix);
        fits.then_some(Self { address, prefix })
    }

    /// Returns whether all addresses of a prefix are in it.
    pub fn contains(&self, address: IpAddr, prefix: u8) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && self.prefix <= prefix
            && backend::network(address, self.prefix) == self.address
    }
}

/// Transactions that an agent may request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights {
    /// The agent may reserve rules (PRR).
    pub reserve: bool,
    /// The agent may enable rules (PER and PEA).
    pub enable: bool,
    /// The agent may disable rules (PDR).
    pub disable: bool,
    /// The agent may change lifetimes (PLC).
    pub change_lifetime: bool,
    /// The agent may query the status of rules (PRS).
    pub status: bool,
    /// The agent may list rules (PRL).
    pub list: bool,
    /// Wildcards of addresses, ports and the protocol in PER and PEA. PDR does not need it.
    pub wildcards: bool,
}

impl Rights {
    /// All rights.
    pub const ALL: Self = Self {
        reserve: true,
        enable: true,
        disable: true,
        change_lifetime: true,
        status: true,
        list: true,
        wildcards: true,
    };

    /// No rights.
    pub const NONE: Self = Self {
        reserve: false,
        enable: false,
        disable: false,
        change_lifetime: false,
        status: false,
        list: false,
        wildcards: false,
    };

    /// Returns whether requests of this kind are permitted.
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

/// Set of owners of rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleAccess {
    /// The agent itself.
    Own,
    /// The agent itself and these agents.
    Of(Vec<Identity>),
    /// All agents.
    All,
}

/// Limits and timeouts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of rules without PDR.
    pub rules: usize,
    /// Maximum number of rules by PDR. Counted apart, so that open pinholes never prevent a prohibit.
    pub disable_rules: usize,
    /// Maximum number of sessions in state OPEN.
    pub open_sessions: usize,
    /// Maximum number of connections without an open session. Beyond it the oldest is evicted.
    pub half_open: usize,
    /// Maximum number of them from one address (one /64 network in IPv6). Beyond it the oldest of this
    /// address is evicted.
    pub half_open_per_address: usize,
    /// Time limit for opening a session.
    pub establishment: Duration,
    /// Maximum number of messages queued in a session. Beyond it the session ends. The ends of rules
    /// that end at the same time count as one.
    pub queued_messages: usize,
    /// Maximum number of octets of these messages, unless it is a single message. The ends of rules
    /// that end at the same time count 16 octets for each owner.
    pub queued_octets: usize,
    /// Maximum size of a PRL reply in octets.
    pub max_reply: usize,
    /// Maximum number of ports in a request; each takes an element. A pattern would let each port of
    /// one side reach each of the other.
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
