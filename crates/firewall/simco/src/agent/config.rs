//! Configuration of an agent.

use std::time::Duration;

use crate::session::{Identity, SharedKey};

/// Configuration of an agent.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// Name and key; `None` for an agent that does not authenticate itself.
    pub credentials: Option<Credentials>,
    /// True if the middlebox must authenticate itself. Only with `credentials`.
    pub verify_middlebox: bool,
    /// Reply timeout.
    pub timeout: Duration,
    /// Maximum number of outstanding requests.
    pub max_pending: usize,
    /// Maximum number of rules whose stream is remembered.
    pub max_bindings: usize,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            credentials: None,
            verify_middlebox: true,
            timeout: Duration::from_secs(30),
            max_pending: 1 << 16,
            max_bindings: 1 << 20,
        }
    }
}

/// Name and key of an agent.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The agent's name.
    pub agent: Identity,
    /// Key shared with the middlebox.
    pub key: SharedKey,
    /// Expected name of the middlebox; `None` to accept any with the key.
    pub middlebox: Option<Identity>,
}

impl Credentials {
    pub(super) fn expects(&self, middlebox: &Identity) -> bool {
        self.middlebox.as_ref().is_none_or(|name| name == middlebox)
    }
}
