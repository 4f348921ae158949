//! Pinholes by SIMCO.

use std::time::Duration;

use carrick_simco::client::{Client, HeldRule, RequestError};
use carrick_simco::message::Lifetime;

use crate::media::Opening;
use crate::pinholes::{Held, Pinholes, Refusal};

/// A middlebox that speaks SIMCO.
#[derive(Clone)]
pub struct MiddleboxAgent {
    client: Client,
    lifetime: Lifetime,
    patience: Duration,
}

impl MiddleboxAgent {
    /// Rules are asked for in the client's session with this lifetime, and refreshed by the client. A
    /// caller doesn't wait longer than `patience` for a rule.
    pub fn new(client: Client, lifetime: Lifetime, patience: Duration) -> Self {
        Self {
            client,
            lifetime,
            patience,
        }
    }
}

impl Pinholes for MiddleboxAgent {
    type Held = HeldRule;

    async fn open(&self, opening: &Opening) -> Result<HeldRule, Refusal> {
        let enabling = self.client.enable(opening.request(self.lifetime));
        // What is granted after that, the client closes.
        match tokio::time::timeout(self.patience, enabling).await {
            Ok(Ok(rule)) => Ok(rule),
            Ok(Err(error @ RequestError::Refused(_))) => Err(Refusal::Refused(error.to_string())),
            Ok(Err(error)) => Err(Refusal::Silent(error.to_string())),
            Err(_) => Err(Refusal::Silent(format!("no answer in {:?}", self.patience))),
        }
    }
}

impl Held for HeldRule {
    async fn lost(&self) {
        HeldRule::lost(self).await;
    }

    async fn close(self) {
        // Without an answer the rule is not refreshed, and lives out its life.
        let _ = HeldRule::close(self).await;
    }
}
