//! Another configuration for a middlebox that lives.

use super::{Middlebox, MiddleboxConfig, SessionId};
use crate::backend::Backend;
use crate::rules::AgentIndex;
use crate::session::Identity;

impl<B: Backend> Middlebox<B> {
    /// Another configuration from now on. Sessions and rules stay, also where they exceed new
    /// limits. Sessions that could not be opened any more end with AST: of agents that are no longer
    /// there or have another key, of strangers where none may come, and on plain transports where they
    /// must be encrypted.
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
            let known = if session.proved {
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
