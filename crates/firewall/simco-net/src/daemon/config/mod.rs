//! Configuration file of a middlebox: TOML with known keys only. Errors name file, line, key and value.

mod agents;
mod limits;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carrick::{EventLog, Preset};
use carrick_metrics::{ConfigText, LocatedError};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

use carrick_simco::message::{Capabilities, Lifetime};
use carrick_simco::middlebox::{AgentConfig, MiddleboxConfig};
use carrick_simco::private_files;
use carrick_simco::session::Identity;

pub use agents::{AgentEntry, InvalidKey, WordList, parse_key, read_key_file};
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
    /// A key or value is invalid, or contradicts another one.
    #[error(transparent)]
    Invalid(#[from] LocatedError),
}

/// Returns the error of a value, by the path of its key such as `agents[1].rights`; [`ConfigSource`] knows its line.
pub(super) fn value(key: impl Into<String>, why: impl Into<String>) -> ConfigError {
    ConfigError::Invalid(LocatedError {
        file: String::new(),
        line: None,
        key: key.into(),
        reason: why.into(),
    })
}

/// Returns the error of a file as a whole.
fn of_file(path: &Path, why: String) -> ConfigError {
    ConfigError::Invalid(LocatedError {
        file: path.display().to_string(),
        line: None,
        key: String::new(),
        reason: why,
    })
}

/// Text from which settings were parsed, and its file: for the lines of errors.
#[derive(Clone, Default)]
pub struct ConfigSource(Arc<(String, String)>);

impl fmt::Debug for ConfigSource {
    /// Writes the name of the file only: the text may have keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConfigSource").field(&self.0.0).finish()
    }
}

impl ConfigSource {
    fn text(&self) -> ConfigText<'_> {
        ConfigText::new(&self.0.0, &self.0.1).secrets(&["key"])
    }

    /// Returns the error of the key with this path, such as `backend.translation`, with its file and line.
    pub fn error(&self, key: &str, reason: impl Into<String>) -> ConfigError {
        self.text().of_key(key, reason).into()
    }

    /// Adds file and line to the error of a value that has none.
    fn locate(&self, error: ConfigError) -> ConfigError {
        match error {
            ConfigError::Invalid(error) if error.file.is_empty() => {
                self.error(&error.key, error.reason)
            }
            located => located,
        }
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
    /// Text of the file.
    #[serde(skip)]
    pub source: ConfigSource,
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
#[serde(try_from = "BackendFields")]
pub enum BackendEntry {
    /// Memory, for tests and load: packets are not filtered.
    Memory {
        /// Maximum number of elements.
        elements: usize,
    },
    /// Packet filter of the Linux kernel.
    Nftables(NftablesEntry),
}

/// Packet filter of the Linux kernel, in a table owned by the middlebox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NftablesEntry {
    /// Name of the table.
    pub table: String,
    /// True if packets that no rule enables are dropped; otherwise only PDR has an effect.
    pub drop: bool,
    /// Priority of the chain at the forward hook.
    pub priority: i32,
    /// Interface to the internal hosts.
    pub internal_interface: Option<String>,
    /// Maximum number of elements of a set.
    pub elements: usize,
    /// Maximum number of rules with wildcards or port ranges.
    pub patterns: usize,
    /// Outside addresses and ports for traditional NAT.
    pub translation: Vec<PoolEntry>,
}

/// Kind of a backend.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum BackendKind {
    Nftables,
    Memory,
}

/// Table `[backend]` with the keys of all kinds. An enum with tag `kind` would have no lines in its errors.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct BackendFields {
    kind: Option<BackendKind>,
    elements: Option<usize>,
    table: Option<String>,
    drop: Option<bool>,
    priority: Option<i32>,
    internal_interface: Option<String>,
    patterns: Option<usize>,
    translation: Option<Vec<PoolEntry>>,
}

impl TryFrom<BackendFields> for BackendEntry {
    type Error = String;

    fn try_from(fields: BackendFields) -> Result<Self, String> {
        let elements = fields.elements.unwrap_or(DEFAULT_ELEMENTS);
        match fields.kind {
            None => Err(format!("key kind is missing: {BACKENDS}")),
            Some(BackendKind::Memory) => {
                let of_nftables = [
                    ("table", fields.table.is_some()),
                    ("drop", fields.drop.is_some()),
                    ("priority", fields.priority.is_some()),
                    ("internal-interface", fields.internal_interface.is_some()),
                    ("patterns", fields.patterns.is_some()),
                    ("translation", fields.translation.is_some()),
                ];
                match of_nftables.into_iter().find(|(_, is_given)| *is_given) {
                    Some((key, _)) => Err(format!("{key} needs kind = \"nftables\"")),
                    None => Ok(Self::Memory { elements }),
                }
            }
            Some(BackendKind::Nftables) => Ok(Self::Nftables(NftablesEntry {
                table: fields.table.unwrap_or_else(|| "carrick".into()),
                drop: fields.drop.unwrap_or(true),
                priority: fields.priority.unwrap_or_default(),
                internal_interface: fields.internal_interface,
                elements,
                patterns: fields.patterns.unwrap_or(DEFAULT_PATTERNS),
                translation: fields.translation.unwrap_or_default(),
            })),
        }
    }
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

/// Default of `patterns`.
const DEFAULT_PATTERNS: usize = 1024;

/// Default of `elements`.
const DEFAULT_ELEMENTS: usize = 1 << 20;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolEntry {
    /// Protocol number of the IP header.
    Number(u8),
    /// `udp`, `tcp`, `sctp`, `dccp`, `icmp`.
    Name(String),
}

/// Reads a number or a name. An untagged enum would have no lines in its errors.
struct ProtocolVisitor;

impl Visitor<'_> for ProtocolVisitor {
    type Value = ProtocolEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a protocol or a number from 0 to 255")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<ProtocolEntry, E> {
        let entry = u8::try_from(number).ok().map(ProtocolEntry::Number);
        entry.ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<ProtocolEntry, E> {
        Ok(ProtocolEntry::Name(name.to_owned()))
    }
}

impl<'de> Deserialize<'de> for ProtocolEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ProtocolVisitor)
    }
}

impl ProtocolEntry {
    /// Returns the protocol number of the entry with this place in the list.
    fn number(&self, place: usize) -> Result<u8, ConfigError> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Name(name) => match name.as_str() {
                "icmp" => Ok(1),
                "tcp" => Ok(6),
                "udp" => Ok(17),
                "dccp" => Ok(33),
                "sctp" => Ok(132),
                _ => Err(value(
                    format!("protocols[{place}]"),
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
    /// The error with its line and key, also if other users can read keys in the file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.display().to_string(),
            source,
        })?;
        let mut settings = Self::parse(&path.display().to_string(), &text)?;
        if settings.agents.iter().any(|agent| agent.key.is_some()) {
            private_files::check(path).map_err(|why| of_file(path, why))?;
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

    /// Parses the text of the file of this path.
    ///
    /// # Errors
    /// The error with its line and key.
    pub fn parse(path: &str, text: &str) -> Result<Self, ConfigError> {
        let source = ConfigSource(Arc::new((path.to_owned(), text.to_owned())));
        let mut settings: Self = source.text().parse().map_err(|mut error| {
            if error.key == "backend" {
                error.reason = format!("{}: {BACKENDS}", error.reason);
            }
            error
        })?;
        settings.source = source;
        Ok(settings)
    }

    /// Returns the pools of a translator; none for a packet filter only.
    fn pools(&self) -> Result<&[PoolEntry], ConfigError> {
        let BackendEntry::Nftables(nftables) = &self.backend else {
            return Ok(&[]);
        };
        for (place, pool) in nftables.translation.iter().enumerate() {
            if pool.first_port == 0 || pool.last_port < pool.first_port {
                let why = format!(
                    "ports {} to {} are invalid; first-port must be at least 1, and last-port not below first-port",
                    pool.first_port, pool.last_port
                );
                return Err(value(format!("backend.translation[{place}]"), why));
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
            return Err(value(
                "listen.sctp.streams",
                "0 is invalid; must be at least 1",
            ));
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
    /// The invalid key and its error, with file and line.
    pub fn middlebox(&self) -> Result<MiddleboxConfig, ConfigError> {
        self.checked().map_err(|error| self.source.locate(error))
    }

    fn checked(&self) -> Result<MiddleboxConfig, ConfigError> {
        self.check_listen()?;
        if self.rule_traffic > MAX_RULE_TRAFFIC {
            let why = format!(
                "{} is invalid; must be at most {MAX_RULE_TRAFFIC}: each rule adds two lines to the metrics",
                self.rule_traffic
            );
            return Err(value("rule-traffic", why));
        }
        if self.max_lifetime == 0 {
            return Err(value(
                "max-lifetime",
                "0 is invalid; must be at least 1 second",
            ));
        }
        let identity = identity("name", &self.name)?;
        let base = MiddleboxConfig::packet_filter(identity);
        let mut agents = Vec::new();
        for (place, entry) in self.agents.iter().enumerate() {
            agents.push(entry.agent(place, &self.agents)?);
        }
        for (place, agent) in agents.iter().enumerate() {
            let before = &agents[..place];
            if before.iter().any(|a| a.identity == agent.identity) {
                let name = &agent.identity;
                let why = format!("another agent has the name {name:?}");
                return Err(value(format!("agents[{place}].name"), why));
            }
            let same_key = |a: &&AgentConfig| a.key.is_some() && a.key == agent.key;
            if let Some(other) = before.iter().find(same_key) {
                let names = format!("{:?} and {:?}", other.identity, agent.identity);
                let why = "each could open sessions as the other: give each its own key";
                let key = format!("agents[{place}].key");
                return Err(value(
                    key,
                    format!("agents {names} have the same key: {why}"),
                ));
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
        let protocols = self.protocols.iter().enumerate();
        let protocols: Result<Vec<u8>, _> = protocols
            .map(|(place, entry)| entry.number(place))
            .collect();
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
    Identity::new(name).ok_or_else(|| {
        value(
            key,
            format!("{name:?} is invalid; must have 1 to 255 octets"),
        )
    })
}

#[cfg(test)]
mod tests;
