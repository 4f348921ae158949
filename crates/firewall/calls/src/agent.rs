//! Pinholes of a SIMCO middlebox.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use carrick_simco::message::{AddressTuple, EnableRequest, Lifetime, Scope};
use carrick_simco_net::client::{Client, HeldRule, RequestError};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::media::PinholeRequest;
use crate::pinholes::{OpenPinhole, PinholeRefusal, Pinholes};

/// Error: the middlebox translates addresses. Session descriptions would have to be rewritten, which
/// this agent does not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the middlebox translates addresses, but addresses in session descriptions are not rewritten, so media would not arrive: use a middlebox without `translation`"
)]
pub struct TranslatorUnsupported;

/// Maximum number of requests whose outcome is unknown, including cancelled ones.
const MAX_REQUESTS: usize = 4096;

/// SIMCO middlebox. Clones share state; dropping the last one ends all of its tasks.
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
    /// Creates an agent that requests rules with this lifetime in the client's session; the client
    /// refreshes them. A call waits at most `patience` for a rule. A rule granted later is deleted, in
    /// a later session if this one is lost.
    ///
    /// # Errors
    /// The middlebox is a translator.
    pub fn new(
        client: Client,
        lifetime: Lifetime,
        patience: Duration,
    ) -> Result<Self, TranslatorUnsupported> {
        if client.capabilities().address_translator {
            return Err(TranslatorUnsupported);
        }
        let end = CancellationToken::new();
        Ok(Self {
            client,
            lifetime,
            patience,
            room: Arc::new(Semaphore::new(MAX_REQUESTS)),
            _ends: Arc::new(end.clone().drop_guard()),
            end,
        })
    }

    /// Requests a rule in a separate task; `None` if [`MAX_REQUESTS`] are in progress.
    fn request(&self, request: EnableRequest) -> Option<PendingRequest> {
        let room = Arc::clone(&self.room).try_acquire_owned().ok()?;
        let (client, end) = (self.client.clone(), self.end.clone());
        let cancelled = CancellationToken::new();
        let token = cancelled.clone();
        let requesting = async move { client.enable_cancellable(request, &token).await };
        let requesting = end.clone().run_until_cancelled_owned(requesting);
        let task = tokio::spawn(async { requesting.await.unwrap_or(Err(RequestError::Ended)) });
        Some(PendingRequest {
            task: Some(task),
            cancelled,
            end,
            room: Some(room),
        })
    }
}

/// Request in progress. Dropping it cancels the request and deletes a rule that it created.
struct PendingRequest {
    task: Option<JoinHandle<Result<HeldRule, RequestError>>>,
    cancelled: CancellationToken,
    end: CancellationToken,
    room: Option<OwnedSemaphorePermit>,
}

impl PendingRequest {
    async fn outcome(&mut self) -> Result<HeldRule, RequestError> {
        let Some(task) = &mut self.task else {
            return Err(RequestError::Ended);
        };
        let outcome = task.await.unwrap_or(Err(RequestError::Ended));
        self.task = None;
        outcome
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let (Some(task), room) = (self.task.take(), self.room.take()) else {
            return;
        };
        self.cancelled.cancel();
        let closing = async move {
            if let Ok(Ok(rule)) = task.await {
                OpenPinhole::close(rule).await;
            }
            drop(room);
        };
        // Without a runtime there is no request in progress.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(self.end.clone().run_until_cancelled_owned(closing));
        }
    }
}

impl Pinholes for MiddleboxAgent {
    type Held = HeldRule;

    async fn open(&self, opening: &PinholeRequest) -> Result<HeldRule, PinholeRefusal> {
        let request = opening.request(self.lifetime);
        let Some(mut pending) = self.request(request) else {
            return Err(PinholeRefusal::NoAnswer(RequestError::TooMany.to_string()));
        };
        match tokio::time::timeout(self.patience, pending.outcome()).await {
            // The middlebox may have become a translator since.
            Ok(Ok(rule))
                if rule
                    .outside()
                    .is_some_and(|o| first_port(&o) != first_port(&request.internal)) =>
            {
                // Not awaited, so that the caller gets its answer now.
                let closing = OpenPinhole::close(rule);
                tokio::spawn(self.end.clone().run_until_cancelled_owned(closing));
                Err(PinholeRefusal::Refused(TranslatorUnsupported.to_string()))
            }
            Ok(Ok(rule)) => Ok(rule),
            Ok(Err(error @ RequestError::Refused(_))) => {
                Err(PinholeRefusal::Refused(error.to_string()))
            }
            Ok(Err(error)) => Err(PinholeRefusal::NoAnswer(error.to_string())),
            Err(_) => Err(PinholeRefusal::NoAnswer(format!(
                "no answer in {:?}",
                self.patience
            ))),
        }
    }
}

/// Returns the first address and port of a tuple for one host.
fn first_port(tuple: &AddressTuple) -> Option<(IpAddr, u16)> {
    match tuple.scope {
        Scope::Full { address, port, .. } => Some((address, port)),
        Scope::ProtocolsOnly(_) => None,
    }
}

impl OpenPinhole for HeldRule {
    async fn lost(&self) {
        HeldRule::lost(self).await;
    }

    async fn close(self) {
        // Without a reply, the rule expires because it is no longer refreshed.
        let _ = HeldRule::close(self).await;
    }
}
