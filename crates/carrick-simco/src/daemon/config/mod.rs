//! The configuration file of a middlebox: TOML, each key known, each mistake told with its line.

mod agents;
mod limits;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::message::{Capabilities, Lifetime};
use crate::middlebox::{AgentConfig, MiddleboxConfig};
use crate::private;
use crate::session::Identity;

pub use agents::{AgentEntry, Words, parse_key, read_key_file};
pub use limits::LimitsEntry;

/// The choice of a backend.
const BACKENDS: &str = "give [backend] with kind = \"nftables\", the Linux kernel's packet filter, or kind = \"memory\", which filters no packet and is for tests";

/// Rules whose traffic is shown at most.
const MAX_RULE_TRAFFIC: usize = 10_000;

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is no TOML, or has keys or values that are not known.
    #[error("{0}")]
    Form(String),
    /// A value is out of its range, or does not fit to another.
    #[error("{key}: {why}")]
    Value {
        /// The key.
        key: String,
        /// What is wrong, and what would be right.
        why: String,
    },
}

pub(super) fn value(key: impl Into<String>, why: impl Into<String>) -> ConfigError {
    ConfigError::Value {
        key: key.into(),
        why: why.into(),
    }
}

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// The middlebox's name, for authentication and in the audit log.
    pub name: String,
    /// Where agents connect.
    pub listen: Listen,
    /// What is changed by rules. Required, because only one of the two filters packets.
    pub backend: BackendEntry,
    /// The folder that keeps rules over restarts; without it they end with the program.
    pub state: Option<PathBuf>,
    /// The file to which events are appended as JSON lines.
    pub audit: Option<PathBuf>,
    /// Where metrics are served over HTTP.
    pub metrics: Option<SocketAddr>,
    /// Rules whose packets and octets are told with the metrics, at most; up to 10,000.
    #[serde(default)]
    pub rule_traffic: usize,
    /// The agent that whoever doesn't authenticate itself counts as.
    pub anonymous: Option<String>,
    /// Whether only encrypted connections are taken.
    #[serde(default)]
    pub require_encryption: bool,
    /// The longest lifetime of a rule in seconds.
    #[serde(default = "default_lifetime")]
    pub max_lifetime: u32,
    /// Transport protocols that rules may be about, by number or name; empty for all.
    #[serde(default)]
    pub protocols: Vec<Protocol>,
    /// Whether requests may have wildcards in addresses and ports.
    #[serde(default = "yes")]
    pub wildcards: bool,
    /// What is bounded.
    #[serde(default)]
    pub limits: LimitsEntry,
    /// The agents.
    #[serde(default)]
    pub agents: Vec<AgentEntry>,
}

fn default_lifetime() -> u32 {
    3600
}

fn yes() -> bool {
    true
}

/// Where agents connect: at least one transport.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Listen {
    /// SCTP.
    pub sctp: Option<SctpListen>,
    /// TCP, on each of these addresses.
    #[serde(default)]
    pub tcp: Vec<SocketAddr>,
    /// TLS on TCP.
    pub tls: Option<TlsListen>,
}

/// SCTP: one endpoint on several addresses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SctpListen {
    /// Its addresses; none for all of the host.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// The SCTP port.
    #[serde(default = "default_port")]
    pub port: u16,
    /// The UDP port that carries it (RFC 6951); 0 lets the system choose.
    pub udp_port: Option<u16>,
    /// SCTP directly on IP, which needs `CAP_NET_RAW`; with `udp-port`, both.
    #[serde(default)]
    pub raw: bool,
    /// Stream pairs of an association at most.
    #[serde(default = "default_streams")]
    pub streams: u16,
}

fn default_port() -> u16 {
    crate::PORT
}

fn default_streams() -> u16 {
    64
}

/// TLS on TCP.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TlsListen {
    /// Where.
    pub addresses: Vec<SocketAddr>,
    /// The certificate chain in PEM form.
    pub certificate: PathBuf,
    /// Its private key in PEM form.
    pub key: PathBuf,
}

/// What is changed by rules.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "kind")]
pub enum BackendEntry {
    /// Nothing but memory, for tests and load: no packet is filtered.
    Memory {
        /// Elements at most.
        #[serde(default = "default_elements")]
        elements: usize,
    },
    /// The Linux kernel's packet filter.
    Nftables(NftablesEntry),
}

/// The Linux kernel's packet filter, in a table that belongs to the middlebox.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NftablesEntry {
    /// The name of the table.
    #[serde(default = "default_table")]
    pub table: String,
    /// Whether packets that no rule lets pass are dropped; if not, only PDR has an effect.
    #[serde(default = "yes")]
    pub drop: bool,
    /// The priority of the chain at the hook forward.
    #[serde(default)]
    pub priority: i32,
    /// The interface to the internal hosts.
    pub internal_interface: Option<String>,
    /// Elements of a set at most.
    #[serde(default = "default_elements")]
    pub elements: usize,
    /// Rules with wildcards or port ranges, and prohibits, at most.
    #[serde(default = "default_patterns")]
    pub patterns: usize,
    /// Outside addresses and ports for traditional NAT.
    #[serde(default)]
    pub translation: Vec<PoolEntry>,
}

/// Ports of an outside address.
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
    /// Returns what an operator has to know of a backend that filters no packets.
    pub fn warning(&self) -> Option<&'static str> {
        match self {
            Self::Memory { .. } => {
                Some("backend memory: no packet is filtered, whatever rules are granted")
            }
            Self::Nftables(_) => None,
        }
    }
}

/// A transport protocol.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "must be the name of a protocol or a number from 0 to 255"
)]
pub enum Protocol {
    /// As in the IP header.
    Number(u8),
    /// `udp`, `tcp`, `sctp`, `dccp`, `icmp`.
    Name(String),
}

impl Protocol {
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
                    format!("{name:?} is not known: give udp, tcp, sctp, dccp, icmp or a number"),
                )),
            },
        }
    }
}

impl Settings {
    /// Reads a file. Names of files in it that are not absolute are beside it.
    ///
    /// # Errors
    /// Says what is wrong, with the line where that is known; also that other users can read keys in it.
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
            private::check(path).map_err(|why| value(path.display().to_string(), why))?;
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

    /// Reads the text of a file.
    ///
    /// # Errors
    /// Says what is wrong, with the line where that is known.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .map(|span| 1 + text[..span.start].matches('\n').count());
            let message = match error.message() {
                // The library tells no form.
                what @ "invalid socket address syntax" => {
                    format!("{what}: give ADDRESS:PORT, an IPv6 address in brackets")
                }
                "missing field `backend`" => return value("backend", BACKENDS),
                "missing field `kind`" => format!("kind: {BACKENDS}"),
                what => what.to_owned(),
            };
            ConfigError::Form(match line {
                Some(line) => format!("line {line}: {message}"),
                None => message,
            })
        })
    }

    /// The pools of a translator; none for a packet filter only.
    fn pools(&self) -> Result<&[PoolEntry], ConfigError> {
        let BackendEntry::Nftables(nftables) = &self.backend else {
            return Ok(&[]);
        };
        for pool in &nftables.translation {
            if pool.first_port == 0 || pool.last_port < pool.first_port {
                let why = "first-port must be at least 1 and last-port no less";
                return Err(value("backend.translation", why));
            }
        }
        Ok(&nftables.translation)
    }

    /// What the middlebox is and can do (RFC 4540 section 4.3.3). A translator knows the IP versions of
    /// its addresses only.
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

    /// It listens somewhere, and where a session can be opened.
    fn check_listen(&self) -> Result<(), ConfigError> {
        let Listen { sctp, tcp, tls } = &self.listen;
        let plain = sctp.is_some() || !tcp.is_empty();
        let secure = tls.as_ref().is_some_and(|tls| !tls.addresses.is_empty());
        if !plain && !secure {
            return Err(value("listen", "give at least one of sctp, tcp and tls"));
        }
        if self.require_encryption && !secure {
            let why = "no session could be opened without encryption on sctp and tcp: give listen.tls, or leave it out";
            return Err(value("require-encryption", why));
        }
        if sctp.as_ref().is_some_and(|sctp| sctp.streams == 0) {
            return Err(value("listen.sctp.streams", "must be at least 1"));
        }
        Ok(())
    }

    /// Somebody can have a session.
    fn check_agents(
        agents: &[AgentConfig],
        anonymous: Option<&Identity>,
    ) -> Result<(), ConfigError> {
        let comes = |agent: &AgentConfig| agent.key.is_some() || anonymous == Some(&agent.identity);
        if !agents.iter().any(comes) {
            let why = "no session could be opened: give an agent a key, or name one as anonymous";
            return Err(value("agents", why));
        }
        Ok(())
    }

    /// What the state machine is told. Reads key files.
    ///
    /// # Errors
    /// Says which key has which mistake.
    pub fn middlebox(&self) -> Result<MiddleboxConfig, ConfigError> {
        self.check_listen()?;
        if self.rule_traffic > MAX_RULE_TRAFFIC {
            let why =
                format!("must be at most {MAX_RULE_TRAFFIC}: each is two lines of the metrics");
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
                return Err(value("agents", format!("there are two agents {name:?}")));
            }
        }
        let anonymous = match &self.anonymous {
            None => None,
            Some(name) => {
                let known = agents.iter().find(|a| a.identity.as_str() == name);
                let known = known
                    .ok_or_else(|| value("anonymous", format!("{name:?} is none of the agents")))?;
                Some(known.identity.clone())
            }
        };
        Self::check_agents(&agents, anonymous.as_ref())?;
        let protocols: Result<Vec<u8>, _> = self.protocols.iter().map(Protocol::number).collect();
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
