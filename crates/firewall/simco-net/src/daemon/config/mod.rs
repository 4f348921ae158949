//! Configuration file of a middlebox: TOML with known keys only. Errors name the line or the key.

mod agents;
mod limits;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use carrick::{EventLog, Preset};
use carrick_metrics::located_error;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use carrick_simco::message::{Capabilities, Lifetime};
use carrick_simco::middlebox::{AgentConfig, MiddleboxConfig};
use carrick_simco::private_files;
use carrick_simco::session::Identity;

pub use agents::{AgentEntry, WordList, parse_key, read_key_file};
pub use limits::LimitsEntry;

/// Help for the choice of a backend.
const BACKENDS: &str = "give [backend] with kind = \"nftables\" (the Linux kernel's packet filter) or kind = \"memory\" (filters no packets, for tests)";

/// Upper bound of `rule-traffic`.
const MAX_RULE_TRAFFIC: usize = 10_000;

/// Error of a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// Not TOML, or unknown keys or values.
    #[error("{0}")]
    Form(String),
    /// A value is out of range or contradicts another one.
    #[error("{key}: {why}")]
    Value {
        /// The key.
        key: String,
        /// The error and how to correct it.
        why: String,
    },
}

pub(super) fn value(key: impl Into<String>, why: impl Into<String>) -> ConfigError {
    ConfigError::Value {
        key: key.into(),
        why: why.into(),
    }
}

/// Settings of a middlebox: contents of its configuration file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DaemonSettings {
    /// Name of the middlebox, for authentication and in the audit log.
    pub name: String,
    /// Transports and addresses to listen on.
    pub listen: ListenEntry,
    /// Backend. Required, because only one of the two filters packets.
    pub backend: BackendEntry,
    /// Folder that keeps rules across restarts. Without it, rules end with the program.
    pub state: Option<PathBuf>,
    /// File to which events are appended as JSON lines.
    pub audit: Option<PathBuf>,
    /// Address for metrics over HTTP.
    pub metrics: Option<SocketAddr>,
    /// Maximum number of rules whose traffic is part of the metrics, up to 10,000.
    #[serde(default)]
    pub rule_traffic: usize,
    /// Agent whose rights apply to sessions without authentication.
    pub anonymous: Option<String>,
    /// True if only encrypted connections are accepted.
    #[serde(default)]
    pub require_encryption: bool,
    /// Maximum lifetime of a rule in seconds.
    #[serde(default = "default_lifetime")]
    pub max_lifetime: u32,
    /// Transport protocols allowed in rules, by number or name; empty for all.
    #[serde(default)]
    pub protocols: Vec<ProtocolEntry>,
    /// True if wildcards in addresses and ports are allowed.
    #[serde(default = "yes")]
    pub wildcards: bool,
    /// Limits of sessions, rules and messages.
    #[serde(default)]
    pub limits: LimitsEntry,
    /// Agents that may open sessions.
    #[serde(default)]
    pub agents: Vec<AgentEntry>,
}

fn default_lifetime() -> u32 {
    3600
}

fn yes() -> bool {
    true
}

/// Transports and addresses to listen on, at least one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ListenEntry {
    /// SCTP.
    pub sctp: Option<SctpListen>,
    /// TCP, on each of these addresses.
    #[serde(default)]
    pub tcp: Vec<SocketAddr>,
    /// TLS on TCP.
    pub tls: Option<TlsListen>,
}

/// SCTP endpoint with one or more addresses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SctpListen {
    /// Its addresses; empty for all of the host.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// The SCTP port.
    #[serde(default = "default_port")]
    pub port: u16,
    /// UDP port for SCTP in UDP (RFC 6951); 0 lets the system choose.
    pub udp_port: Option<u16>,
    /// SCTP directly over IP, which needs `CAP_NET_RAW`; combined with `udp-port`, both.
    #[serde(default)]
    pub raw: bool,
    /// Maximum number of stream pairs of an association.
    #[serde(default = "default_streams")]
    pub streams: u16,
    /// Parameters of the associations.
    #[serde(default, deserialize_with = "preset")]
    pub preset: Preset,
    /// Control socket of a `carrick daemon` whose UDP port is shared ([`carrick::Config::daemon`]) if neither
    /// `udp-port` nor `raw` is set; Linux only. Not read from the file.
    #[serde(skip)]
    pub daemon: Option<PathBuf>,
    /// Log of what the endpoint decides. Not read from the file.
    #[serde(skip)]
    pub event_log: Option<EventLog>,
}

fn preset<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Preset, D::Error> {
    let name = String::deserialize(deserializer)?;
    name.parse().map_err(D::Error::custom)
}

fn default_port() -> u16 {
    carrick_simco::PORT
}

fn default_streams() -> u16 {
    64
}

/// TLS over TCP.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TlsListen {
    /// Addresses with ports.
    pub addresses: Vec<SocketAddr>,
    /// Certificate chain in PEM format.
    pub certificate: PathBuf,
    /// Private key in PEM format.
    pub key: PathBuf,
}

/// Backend that enforces the rules.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "kind")]
pub enum BackendEntry {
    /// Memory, for tests and load: packets are not filtered.
    Memory {
        /// Maximum number of elements.
        #[serde(default = "default_elements")]
        elements: usize,
    },
    /// Packet filter of the Linux kernel.
    Nftables(NftablesEntry),
}

/// Packet filter of the Linux kernel, in a table owned by the middlebox.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NftablesEntry {
    /// Name of the table.
    #[serde(default = "default_table")]
    pub table: String,
    /// True if packets that no rule enables are dropped; otherwise only PDR has an effect.
    #[serde(default = "yes")]
    pub drop: bool,
    /// Priority of the chain at the forward hook.
    #[serde(default)]
    pub priority: i32,
    /// Interface to the internal hosts.
    pub internal_interface: Option<String>,
    /// Maximum number of elements of a set.
    #[serde(default = "default_elements")]
    pub elements: usize,
    /// Maximum number of rules with wildcards or port ranges.
    #[serde(default = "default_patterns")]
    pub patterns: usize,
    /// Outside addresses and ports for traditional NAT.
    #[serde(default)]
    pub translation: Vec<PoolEntry>,
}

/// Port range of an outside address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PoolEntry {
    /// The address.
    pub address: IpAddr,
    /// The first port.
    pub first_port: u16,
    /// The last port.
    pub last_port: u16,
}

fn default_table() -> String {
    "carrick".into()
}

fn default_patterns() -> usize {
    1024
}

fn default_elements() -> usize {
    1 << 20
}

impl BackendEntry {
    /// Returns a warning for a backend that filters no packets.
    pub fn warning(&self) -> Option<&'static str> {
        match self {
            Self::Memory { .. } => {
                Some("backend memory: packets are not filtered; use it for tests only")
            }
            Self::Nftables(_) => None,
        }
    }
}

/// Transport protocol.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "must be the name of a protocol or a number from 0 to 255"
)]
pub enum ProtocolEntry {
    /// Protocol number of the IP header.
    Number(u8),
    /// `udp`, `tcp`, `sctp`, `dccp`, `icmp`.
    Name(String),
}

impl ProtocolEntry {
    fn number(&self) -> Result<u8, ConfigError> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Name(name) => match name.as_str() {
                "icmp" => Ok(1),
                "tcp" => Ok(6),
                "udp" => Ok(17),
                "dccp" => Ok(33),
                "sctp" => Ok(132),
                _ => Err(value(
                    "protocols",
                    format!(
                        "unknown protocol {name:?}: give udp, tcp, sctp, dccp, icmp or a number"
                    ),
                )),
            },
        }
    }
}

impl DaemonSettings {
    /// Reads a file. Relative file names in it are resolved against its folder.
    ///
    /// # Errors
    /// The error with its line or key, also if other users can read keys in the file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.display().to_string(),
            source,
        })?;
        let parsed = Self::parse(&text);
        let mut settings = parsed.map_err(|error| match error {
            ConfigError::Form(why) => ConfigError::Form(format!("{}: {why}", path.display())),
            other => other,
        })?;
        if settings.agents.iter().any(|agent| agent.key.is_some()) {
            private_files::check(path).map_err(|why| value(path.display().to_string(), why))?;
        }
        let beside = path.parent().unwrap_or(Path::new("")).to_owned();
        let place = |file: &mut PathBuf| *file = beside.join(&*file);
        settings.state.iter_mut().for_each(place);
        settings.audit.iter_mut().for_each(place);
        if let Some(tls) = &mut settings.listen.tls {
            place(&mut tls.certificate);
            place(&mut tls.key);
        }
        for agent in &mut settings.agents {
            agent.key_file.iter_mut().for_each(place);
        }
        Ok(settings)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// The error with its line and key, if known.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| {
            let message = match error.message() {
                // The library does not describe the format.
                what @ "invalid socket address syntax" => {
                    format!("{what}: give ADDRESS:PORT, an IPv6 address in brackets")
                }
                "missing field `backend`" => return value("backend", BACKENDS),
                "missing field `kind`" => format!("kind: {BACKENDS}"),
                what => what.to_owned(),
            };
            ConfigError::Form(located_error(text, error.span(), &message))
        })
    }

    /// Returns the pools of a translator; none for a packet filter only.
    fn pools(&self) -> Result<&[PoolEntry], ConfigError> {
        let BackendEntry::Nftables(nftables) = &self.backend else {
            return Ok(&[]);
        };
        for pool in &nftables.translation {
            if pool.first_port == 0 || pool.last_port < pool.first_port {
                let why = "first-port must be at least 1, and last-port not below first-port";
                return Err(value("backend.translation", why));
            }
        }
        Ok(&nftables.translation)
    }

    /// Returns the capabilities (RFC 4540, section 4.3.3). A translator supports the IP versions of
    /// its pools only.
    fn capabilities(&self, base: Capabilities) -> Result<Capabilities, ConfigError> {
        let pools = self.pools()?;
        let translates = !pools.is_empty();
        let has = |v4: bool| !translates || pools.iter().any(|pool| pool.address.is_ipv4() == v4);
        let (v4, v6) = (has(true), has(false));
        Ok(Capabilities {
            internal_address_wildcards: self.wildcards,
            external_address_wildcards: self.wildcards,
            port_wildcards: self.wildcards,
            address_translator: translates,
            port_translation: translates,
            internal_v4: v4,
            internal_v6: v6,
            external_v4: v4,
            external_v6: v6,
            persistent: self.state.is_some(),
            max_lifetime: Lifetime(self.max_lifetime),
            ..base
        })
    }

    /// Checks that a session can be opened on one of the listeners.
    fn check_listen(&self) -> Result<(), ConfigError> {
        let ListenEntry { sctp, tcp, tls } = &self.listen;
        let plain = sctp.is_some() || !tcp.is_empty();
        let secure = tls.as_ref().is_some_and(|tls| !tls.addresses.is_empty());
        if !plain && !secure {
            return Err(value("listen", "give at least one of sctp, tcp and tls"));
        }
        if self.require_encryption && !secure {
            let why = "no session can be opened, because sctp and tcp are not encrypted: give listen.tls or remove require-encryption";
            return Err(value("require-encryption", why));
        }
        if sctp.as_ref().is_some_and(|sctp| sctp.streams == 0) {
            return Err(value("listen.sctp.streams", "must be at least 1"));
        }
        Ok(())
    }

    /// Checks that at least one agent can open a session.
    fn check_agents(
        agents: &[AgentConfig],
        anonymous: Option<&Identity>,
    ) -> Result<(), ConfigError> {
        let can_open =
            |agent: &AgentConfig| agent.key.is_some() || anonymous == Some(&agent.identity);
        if !agents.iter().any(can_open) {
            let why = "no session can be opened: give an agent a key or set anonymous";
            return Err(value("agents", why));
        }
        Ok(())
    }

    /// Returns the configuration of the state machine. Reads key files.
    ///
    /// # Errors
    /// The invalid key and its error.
    pub fn middlebox(&self) -> Result<MiddleboxConfig, ConfigError> {
        self.check_listen()?;
        if self.rule_traffic > MAX_RULE_TRAFFIC {
            let why = format!(
                "must be at most {MAX_RULE_TRAFFIC}: each rule adds two lines to the metrics"
            );
            return Err(value("rule-traffic", why));
        }
        if self.max_lifetime == 0 {
            return Err(value("max-lifetime", "must be at least 1 second"));
        }
        let identity = identity("name", &self.name)?;
        let base = MiddleboxConfig::packet_filter(identity);
        let mut agents = Vec::new();
        for entry in &self.agents {
            agents.push(entry.agent(&self.agents)?);
        }
        for (place, agent) in agents.iter().enumerate() {
            let before = &agents[..place];
            if before.iter().any(|a| a.identity == agent.identity) {
                let name = &agent.identity;
                return Err(value("agents", format!("duplicate agent {name:?}")));
            }
            let same_key = |a: &&AgentConfig| a.key.is_some() && a.key == agent.key;
            if let Some(other) = before.iter().find(same_key) {
                let names = format!("{:?} and {:?}", other.identity, agent.identity);
                let why = "each could open sessions as the other: give each its own key";
                return Err(value("agents", format!("{names} have the same key: {why}")));
            }
        }
        let anonymous = match &self.anonymous {
            None => None,
            Some(name) => {
                let known = agents.iter().find(|a| a.identity.as_str() == name);
                let known = known
                    .ok_or_else(|| value("anonymous", format!("no agent has the name {name:?}")))?;
                Some(known.identity.clone())
            }
        };
        Self::check_agents(&agents, anonymous.as_ref())?;
        let protocols: Result<Vec<u8>, _> =
            self.protocols.iter().map(ProtocolEntry::number).collect();
        Ok(MiddleboxConfig {
            capabilities: self.capabilities(base.capabilities)?,
            protocols: protocols?,
            agents,
            anonymous,
            require_security: self.require_encryption,
            limits: self.limits.limits()?,
            ..base
        })
    }
}

pub(super) fn identity(key: &str, name: &str) -> Result<Identity, ConfigError> {
    Identity::new(name).ok_or_else(|| value(key, "must have 1 to 255 octets"))
}

#[cfg(test)]
mod tests;
