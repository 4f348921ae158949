//! Pinholes by SIMCO.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use carrick_simco::client::{Client, HeldRule, RequestError, Wish};
use carrick_simco::message::{AddressTuple, EnableRequest, Lifetime, Scope};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::media::Opening;
use crate::pinholes::{Held, Pinholes, Refusal};

/// A middlebox that translates addresses: the descriptions of both sides would have to tell others than
/// they do, and this agent passes them on as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the middlebox translates addresses, and the addresses in session descriptions are not rewritten: the media of no call would arrive; use a middlebox that only filters (without `translation`)"
)]
pub struct Translates;

/// Requests at a time whose outcome is not known, those that were given up among them.
const MAX_ASKED: usize = 4096;

/// A middlebox that speaks SIMCO. Clones are the same; with the last one all that it does ends.
#[derive(Clone)]
pub struct MiddleboxAgent {
    client: Client,
    lifetime: Lifetime,
    patience: Duration,
    room: Arc<Semaphore>,
    end: CancellationToken,
    _ends: Arc<DropGuard>,
}

impl MiddleboxAgent {
    /// Rules are asked for in the client's session with this lifetime, and refreshed by the client. A
    /// caller doesn't wait longer than `patience` for a rule. What the middlebox grants, or has granted,
    /// after that is closed: in this session or, when it is lost, in a later one.
    ///
    /// # Errors
    /// When the middlebox is a translator.
    pub fn new(client: Client, lifetime: Lifetime, patience: Duration) -> Result<Self, Translates> {
        if client.capabilities().address_translator {
            return Err(Translates);
        }
        let end = CancellationToken::new();
        Ok(Self {
            client,
            lifetime,
            patience,
            room: Arc::new(Semaphore::new(MAX_ASKED)),
            _ends: Arc::new(end.clone().drop_guard()),
            end,
        })
    }

    /// Asks for a rule in a task of its own; `None` if there are too many of them.
    fn ask(&self, request: EnableRequest) -> Option<Asked> {
        let room = Arc::clone(&self.room).try_acquire_owned().ok()?;
        let (client, end) = (self.client.clone(), self.end.clone());
        let wish = Wish::default();
        let wished = wish.clone();
        let asking = async move { client.enable_wished(request, &wished).await };
        let asking = end.clone().run_until_cancelled_owned(asking);
        let task = tokio::spawn(async { asking.await.unwrap_or(Err(RequestError::Ended)) });
        Some(Asked {
            task: Some(task),
            wish,
            end,
            room: Some(room),
        })
    }
}

/// A request that is under way. Dropped before its outcome was taken, it is given up: what it brings is
/// closed.
struct Asked {
    task: Option<JoinHandle<Result<HeldRule, RequestError>>>,
    wish: Wish,
    end: CancellationToken,
    room: Option<OwnedSemaphorePermit>,
}

impl Asked {
    async fn outcome(&mut self) -> Result<HeldRule, RequestError> {
        let Some(task) = &mut self.task else {
            return Err(RequestError::Ended);
        };
        let outcome = task.await.unwrap_or(Err(RequestError::Ended));
        self.task = None;
        outcome
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let (Some(task), room) = (self.task.take(), self.room.take()) else {
            return;
        };
        self.wish.give_up();
        let closing = async move {
            if let Ok(Ok(rule)) = task.await {
                Held::close(rule).await;
            }
            drop(room);
        };
        // Without a runtime nothing is under way.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(self.end.clone().run_until_cancelled_owned(closing));
        }
    }
}

impl Pinholes for MiddleboxAgent {
    type Held = HeldRule;

    async fn open(&self, opening: &Opening) -> Result<HeldRule, Refusal> {
        let request = opening.request(self.lifetime);
        let Some(mut asked) = self.ask(request) else {
            return Err(Refusal::Silent(RequestError::TooMany.to_string()));
        };
        match tokio::time::timeout(self.patience, asked.outcome()).await {
            // It may have become a translator since.
            Ok(Ok(rule))
                if rule
                    .outside()
                    .is_some_and(|o| end(&o) != end(&request.internal)) =>
            {
                // The caller does not wait for that.
                let closing = Held::close(rule);
                tokio::spawn(self.end.clone().run_until_cancelled_owned(closing));
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
