//! The agents of a configuration file.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{ConfigError, identity, value};
use crate::middlebox::{Access, AgentConfig, Network, Rights};
use crate::private;
use crate::session::Key;

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AgentEntry {
    /// Its name, which owns its rules.
    pub name: String,
    /// Its key in hexadecimal digits, at least 32.
    pub key: Option<String>,
    /// A file with the same.
    pub key_file: Option<PathBuf>,
    /// What it may ask for: `all`, or some of `reserve`, `enable`, `disable`, `lifetime`, `status`,
    /// `list`, `wildcards`. Without: all but `disable` and `wildcards`.
    pub rights: Option<Words>,
    /// Whose rules it may see and is told of: `own`, `all`, or names of agents.
    pub sees: Option<Words>,
    /// Whose rules it may change and end; likewise.
    pub controls: Option<Words>,
    /// Networks of internal hosts that its rules may be about, as `10.0.0.0/8`; none for all.
    #[serde(default)]
    pub internal: Vec<String>,
    /// Likewise of external hosts.
    #[serde(default)]
    pub external: Vec<String>,
    /// Rules at a time, but those by PDR.
    pub max_rules: Option<usize>,
    /// Elements of the packet filter and outside ports at a time.
    pub max_elements: Option<usize>,
    /// Those of the elements that have wildcards or prefixes.
    pub max_patterns: Option<usize>,
    /// Rules by PDR at a time.
    pub max_disable_rules: Option<usize>,
    /// Sessions at a time.
    pub max_sessions: Option<usize>,
}

/// One word, or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "must be a word or a list of words")]
pub enum Words {
    /// Such as `"all"`.
    One(String),
    /// Such as `["enable", "list"]`.
    Many(Vec<String>),
}

impl AgentEntry {
    pub(super) fn agent(&self, all: &[Self]) -> Result<AgentConfig, ConfigError> {
        let place = |key: &str| format!("agent {:?}: {key}", self.name);
        let identity = identity(&place("name"), &self.name)?;
        let base = AgentConfig::new(identity, self.read_key(&place("key"))?);
        let rights = match &self.rights {
            None => base.rights,
            Some(words) => rights(&place("rights"), words)?,
        };
        let sees = access(&place("sees"), self.sees.as_ref(), all)?;
        let controls = access(&place("controls"), self.controls.as_ref(), all)?;
        Ok(AgentConfig {
            rights,
            sees,
            controls,
            internal: networks(&place("internal"), &self.internal)?,
            external: networks(&place("external"), &self.external)?,
            max_rules: self.max_rules.unwrap_or(base.max_rules),
            max_elements: self.max_elements.unwrap_or(base.max_elements),
            max_patterns: self.max_patterns.unwrap_or(base.max_patterns),
            max_disable_rules: self.max_disable_rules.unwrap_or(base.max_disable_rules),
            max_sessions: self.max_sessions.unwrap_or(base.max_sessions),
            ..base
        })
    }

    fn read_key(&self, place: &str) -> Result<Option<Key>, ConfigError> {
        match (&self.key, &self.key_file) {
            (None, None) => Ok(None),
            (Some(digits), None) => parse_key(place, digits).map(Some),
            (None, Some(path)) => read_key_file(path)
                .map(Some)
                .map_err(|why| value(format!("{place}-file"), why.to_string())),
            (Some(_), Some(_)) => Err(value(place, "give key or key-file, not both")),
        }
    }
}

/// Reads a key in hexadecimal digits from a file.
///
/// # Errors
/// When the file can't be read, other users can, or it has no such key.
pub fn read_key_file(path: &Path) -> Result<Key, ConfigError> {
    let digits = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.display().to_string(),
        source,
    })?;
    let place = path.display().to_string();
    private::check(path).map_err(|why| value(&place, why))?;
    parse_key(&place, &digits)
}

/// Reads a key in hexadecimal digits.
///
/// # Errors
/// When it is none; `place` says where it came from.
pub fn parse_key(place: &str, digits: &str) -> Result<Key, ConfigError> {
    let digits = digits.trim();
    let digit = |c: u8| (c as char).to_digit(16);
    let pairs = digits.as_bytes().chunks(2);
    let octets: Option<Vec<u8>> = pairs
        .map(|pair| match *pair {
            [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
            _ => None,
        })
        .collect();
    let octets = octets.ok_or_else(|| value(place, "must be an even number of digits 0-9, a-f"))?;
    Key::new(octets).ok_or_else(|| value(place, "must have at least 16 octets (32 digits)"))
}

fn rights(key: &str, words: &Words) -> Result<Rights, ConfigError> {
    let words = match words {
        Words::One(word) if word == "all" => return Ok(Rights::ALL),
        Words::One(word) if word == "none" => return Ok(Rights::NONE),
        Words::One(word) => std::slice::from_ref(word),
        Words::Many(words) => words,
    };
    let mut rights = Rights::NONE;
    for word in words {
        let right = match word.as_str() {
            "reserve" => &mut rights.reserve,
            "enable" => &mut rights.enable,
            "disable" => &mut rights.disable,
            "lifetime" => &mut rights.change_lifetime,
            "status" => &mut rights.status,
            "list" => &mut rights.list,
            "wildcards" => &mut rights.wildcards,
            _ => {
                let known =
                    "reserve, enable, disable, lifetime, status, list, wildcards; or \"all\"";
                return Err(value(key, format!("{word:?} is not known: give {known}")));
            }
        };
        *right = true;
    }
    Ok(rights)
}

fn networks(key: &str, texts: &[String]) -> Result<Vec<Network>, ConfigError> {
    let parse = |text: &String| {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, prefix.parse().ok()),
            None => (
                text.as_str(),
                Some(if text.contains(':') { 128 } else { 32 }),
            ),
        };
        let network = address.parse().ok().zip(prefix);
        let network = network.and_then(|(address, prefix)| Network::new(address, prefix));
        let why = || format!("{text:?} is no network: give ADDRESS/BITS, such as 10.0.0.0/8");
        network.ok_or_else(|| value(key, why()))
    };
    texts.iter().map(parse).collect()
}

fn access(key: &str, words: Option<&Words>, all: &[AgentEntry]) -> Result<Access, ConfigError> {
    let names = match words {
        None => return Ok(Access::Own),
        Some(Words::One(word)) if word == "own" => return Ok(Access::Own),
        Some(Words::One(word)) if word == "all" => return Ok(Access::All),
        Some(Words::One(name)) => std::slice::from_ref(name),
        Some(Words::Many(names)) => names,
    };
    let mut identities = Vec::new();
    for name in names {
        if !all.iter().any(|agent| agent.name == *name) {
            let known = "give \"own\", \"all\" or names of agents";
            return Err(value(
                key,
                format!("{name:?} is none of the agents: {known}"),
            ));
        }
        identities.push(identity(key, name)?);
    }
    Ok(Access::Of(identities))
}
