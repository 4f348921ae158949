//! Pinholes by SIMCO.

use std::net::IpAddr;
use std::time::Duration;

use carrick_simco::client::{Client, HeldRule, RequestError};
use carrick_simco::message::{AddressTuple, Lifetime, Scope};

use crate::media::Opening;
use crate::pinholes::{Held, Pinholes, Refusal};

/// A middlebox that translates addresses: the descriptions of both sides would have to tell others than
/// they do, and this agent passes them on as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the middlebox translates addresses, and the addresses in session descriptions are not rewritten: the media of no call would arrive; use a middlebox that only filters (without `translation`)"
)]
pub struct Translates;

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
    ///
    /// # Errors
    /// When the middlebox is a translator.
    pub fn new(client: Client, lifetime: Lifetime, patience: Duration) -> Result<Self, Translates> {
        if client.capabilities().address_translator {
            return Err(Translates);
        }
        Ok(Self {
            client,
            lifetime,
            patience,
        })
    }
}

impl Pinholes for MiddleboxAgent {
    type Held = HeldRule;

    async fn open(&self, opening: &Opening) -> Result<HeldRule, Refusal> {
        let request = opening.request(self.lifetime);
        let enabling = self.client.enable(request);
        // What is granted after that, the client closes.
        match tokio::time::timeout(self.patience, enabling).await {
            // It may have become a translator since.
            Ok(Ok(rule))
                if rule
                    .outside()
                    .is_some_and(|o| end(&o) != end(&request.internal)) =>
            {
                Held::close(rule).await;
                Err(Refusal::Refused(Translates.to_string()))
            }
            Ok(Ok(rule)) => Ok(rule),
            Ok(Err(error @ RequestError::Refused(_))) => Err(Refusal::Refused(error.to_string())),
            Ok(Err(error)) => Err(Refusal::Silent(error.to_string())),
            Err(_) => Err(Refusal::Silent(format!("no answer in {:?}", self.patience))),
        }
    }
}

/// The first address and port of one host.
fn end(tuple: &AddressTuple) -> Option<(IpAddr, u16)> {
    match tuple.scope {
        Scope::Full { address, port, .. } => Some((address, port)),
        Scope::ProtocolsOnly(_) => None,
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
