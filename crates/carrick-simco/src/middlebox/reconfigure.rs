//! Another configuration for a middlebox that lives.

use super::{Middlebox, MiddleboxConfig};
use crate::backend::Backend;
use crate::session::Identity;

impl<B: Backend> Middlebox<B> {
    /// Another configuration from now on. Sessions and rules stay, also where they exceed new
    /// limits; sessions of agents that are no longer there end with AST.
    pub fn reconfigure(&mut self, config: MiddleboxConfig) {
        let there = |name: &Identity| config.agents.iter().any(|agent| agent.identity == *name);
        let anonymous = config.anonymous.clone().filter(there);
        for session in self.agents.replace(config.agents.clone()) {
            self.terminate(session);
        }
        self.anonymous = anonymous.and_then(|name| self.agents.find(&name));
        self.config = config;
    }
}
