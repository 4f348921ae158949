//! What an agent is told at the start.

use std::time::Duration;

use crate::session::{Identity, Key};

/// Everything an agent is made of.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// Who it is; `None` for an agent that the middlebox knows without proof.
    pub credentials: Option<Credentials>,
    /// The middlebox must prove that it has the key too. Only with `credentials`.
    pub verify_middlebox: bool,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Requests without an answer at a time.
    pub max_pending: usize,
    /// Rules whose stream is remembered.
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

/// A name and its proof.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The agent's name.
    pub agent: Identity,
    /// The key that it shares with the middlebox.
    pub key: Key,
    /// The middlebox's name; `None` to take any that has the key.
    pub middlebox: Option<Identity>,
}

impl Credentials {
    pub(super) fn expects(&self, middlebox: &Identity) -> bool {
        self.middlebox.as_ref().is_none_or(|name| name == middlebox)
    }
}
