//! Agents in the configuration file.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{ConfigError, identity, of_file, value};
use carrick_metrics::LocatedError;
use carrick_simco::middlebox::{AgentConfig, Network, Rights, RuleAccess};
use carrick_simco::private_files;
use carrick_simco::session::SharedKey;

/// Configuration of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AgentEntry {
    /// Its name, which owns its rules.
    pub name: String,
    /// Key in hexadecimal, at least 32 digits.
    pub key: Option<String>,
    /// File with the key.
    pub key_file: Option<PathBuf>,
    /// Rights: `all`, `none`, or some of `reserve`, `enable`, `disable`, `lifetime`, `status`, `list`,
    /// `wildcards`. Default: all but `disable` and `wildcards`.
    pub rights: Option<WordList>,
    /// Owners whose rules it may see and is notified about: `own`, `all`, or names of agents.
    pub sees: Option<WordList>,
    /// Owners whose rules it may change and delete, in the same form.
    pub controls: Option<WordList>,
    /// Networks of the internal hosts of its rules, such as `10.0.0.0/8`; empty for all.
    #[serde(default)]
    pub internal: Vec<String>,
    /// Networks of the external hosts of its rules.
    #[serde(default)]
    pub external: Vec<String>,
    /// Maximum number of rules without PDR.
    pub max_rules: Option<usize>,
    /// Maximum number of elements of the packet filter and of outside ports.
    pub max_elements: Option<usize>,
    /// Maximum number of these elements with wildcards or prefixes.
    pub max_patterns: Option<usize>,
    /// Maximum number of rules by PDR.
    pub max_disable_rules: Option<usize>,
    /// Maximum number of sessions.
    pub max_sessions: Option<usize>,
}

/// One word or a list of words.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "must be a word or a list of words")]
pub enum WordList {
    /// Such as `"all"`.
    One(String),
    /// Such as `["enable", "list"]`.
    Many(Vec<String>),
}

impl AgentEntry {
    /// Returns the configuration of the agent with this place in the list.
    pub(super) fn agent(&self, place: usize, all: &[Self]) -> Result<AgentConfig, ConfigError> {
        let place = |key: &str| format!("agents[{place}].{key}");
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

    fn read_key(&self, place: &str) -> Result<Option<SharedKey>, ConfigError> {
        match (&self.key, &self.key_file) {
            (None, None) => Ok(None),
            (Some(digits), None) => parse_key(digits)
                .map(Some)
                .map_err(|wrong| value(place, wrong.reason)),
            (None, Some(path)) => match read_key_file(path) {
                Err(ConfigError::Read { path, source }) => {
                    let why = format!("cannot read {path}: {source}");
                    Err(value(format!("{place}-file"), why))
                }
                read => read.map(Some),
            },
            (Some(_), Some(_)) => Err(value(place, "give key or key-file, not both")),
        }
    }
}

/// Reads a key in hexadecimal from a file.
///
/// # Errors
/// When the file can't be read, other users can read it, or it contains no valid key.
pub fn read_key_file(path: &Path) -> Result<SharedKey, ConfigError> {
    let digits = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.display().to_string(),
        source,
    })?;
    private_files::check(path).map_err(|why| of_file(path, why))?;
    parse_key(&digits).map_err(|InvalidKey { line, reason }| {
        ConfigError::Invalid(LocatedError {
            file: path.display().to_string(),
            line: Some(line),
            key: String::new(),
            reason,
        })
    })
}

/// Error of a key in hexadecimal. Does not quote the key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct InvalidKey {
    /// Line of the text, from 1 on.
    pub line: usize,
    /// Description of the error.
    pub reason: String,
}

/// Parses a key in hexadecimal.
///
/// # Errors
/// Another character than a digit, an odd number of digits, or less than 32.
pub fn parse_key(text: &str) -> Result<SharedKey, InvalidKey> {
    let digits = text.trim();
    let before = text.len() - text.trim_start().len();
    let first = text[..before].matches('\n').count() + 1;
    let wrong = |line, reason| InvalidKey { line, reason };
    if let Some(at) = digits.find(|c: char| !c.is_ascii_hexdigit()) {
        let line = first + digits[..at].matches('\n').count();
        let column = digits[..at]
            .chars()
            .rev()
            .take_while(|c| *c != '\n')
            .count()
            + 1;
        let reason = "the key must be hexadecimal digits, without other characters between them";
        return Err(wrong(
            line,
            format!("character {column} is no digit; {reason}"),
        ));
    }
    let expected = "expected an even number, at least 32 (16 octets)";
    let count = digits.len();
    let digit = |c: u8| (c as char).to_digit(16);
    let pairs = digits.as_bytes().chunks(2);
    let octets: Option<Vec<u8>> = pairs
        .map(|pair| match *pair {
            [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
            _ => None,
        })
        .collect();
    octets.and_then(SharedKey::new).ok_or_else(|| {
        wrong(
            first,
            format!("the key has {count} hexadecimal digits; {expected}"),
        )
    })
}

fn rights(key: &str, words: &WordList) -> Result<Rights, ConfigError> {
    let words = match words {
        WordList::One(word) if word == "all" => return Ok(Rights::ALL),
        WordList::One(word) if word == "none" => return Ok(Rights::NONE),
        WordList::One(word) => std::slice::from_ref(word),
        WordList::Many(words) => words,
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
                return Err(value(key, format!("unknown right {word:?}: give {known}")));
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
        let why = || format!("invalid network {text:?}: give ADDRESS/BITS, such as 10.0.0.0/8");
        network.ok_or_else(|| value(key, why()))
    };
    texts.iter().map(parse).collect()
}

fn access(
    key: &str,
    words: Option<&WordList>,
    all: &[AgentEntry],
) -> Result<RuleAccess, ConfigError> {
    let names = match words {
        None => return Ok(RuleAccess::Own),
        Some(WordList::One(word)) if word == "own" => return Ok(RuleAccess::Own),
        Some(WordList::One(word)) if word == "all" => return Ok(RuleAccess::All),
        Some(WordList::One(name)) => std::slice::from_ref(name),
        Some(WordList::Many(names)) => names,
    };
    let mut identities = Vec::new();
    for name in names {
        if !all.iter().any(|agent| agent.name == *name) {
            let known = "give \"own\", \"all\" or names of agents";
            return Err(value(
                key,
                format!("no agent has the name {name:?}: {known}"),
            ));
        }
        identities.push(identity(key, name)?);
    }
    Ok(RuleAccess::Of(identities))
}
