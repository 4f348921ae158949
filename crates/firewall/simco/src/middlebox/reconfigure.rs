//! Reconfiguration of a running middlebox.

use super::{Middlebox, MiddleboxConfig, SessionId};
use crate::backend::Backend;
use crate::rules::AgentIndex;
use crate::session::Identity;

impl<B: Backend> Middlebox<B> {
    /// Applies another configuration. Sessions and rules stay, even above new limits. Sessions that
    /// could no longer be opened end with AST: those of removed agents or agents with another key,
    /// unauthenticated ones if authentication is now required, and unencrypted ones if encryption is.
    pub fn reconfigure(&mut self, config: MiddleboxConfig) {
        let there = |name: &Identity| config.agents.iter().any(|agent| agent.identity == *name);
        let anonymous = config.anonymous.clone().filter(there);
        let before = |agent| self.agents.config(agent).key.clone();
        let open = self.sessions.all_open();
        let keys: Vec<_> = open
            .map(|(id, agent, _)| (id, agent, before(agent)))
            .collect();
        let mut ending = self.agents.replace(config.agents.clone());
        self.anonymous = anonymous.and_then(|name| self.agents.find(&name));
        self.config = config;
        let over = |(id, agent, key): &(SessionId, AgentIndex, _)| {
            let Some(session) = self.sessions.get(*id) else {
                return false;
            };
            let known = if session.key_authenticated {
                self.agents.config(*agent).key == *key
            } else {
                session.authenticated == Some(*agent) || self.anonymous == Some(*agent)
            };
            !known || (self.config.require_security && !session.secure)
        };
        ending.extend(keys.iter().filter(|key| over(key)).map(|(id, ..)| *id));
        for session in ending {
            self.terminate(session);
        }
    }
}
