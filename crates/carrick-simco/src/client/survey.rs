//! Which rules a middlebox knows of this agent, and what they do: asked once for all requests whose
//! answers were lost together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::Inner;
use super::error::RequestError;
use super::inquiry::persist;
use super::session::AskError;
use crate::message::{PolicyRuleId, Reply, Request};

/// How long a status is told again.
const FRESH: Duration = Duration::from_secs(1);

/// The last survey, or why there was none.
#[derive(Debug, Default)]
pub(super) struct Surveys(tokio::sync::Mutex<Option<Last>>);

#[derive(Debug)]
struct Last {
    begun: Instant,
    outcome: Result<Arc<Survey>, RequestError>,
}

/// The rules that the middlebox listed, and the status of those that somebody wanted to know.
#[derive(Debug)]
pub(super) struct Survey {
    rules: Vec<PolicyRuleId>,
    statuses: Mutex<BTreeMap<PolicyRuleId, Arc<OnceCell<Option<Status>>>>>,
}

/// The status of a rule, and when it was told.
#[derive(Clone, Debug)]
pub(super) struct Status {
    pub(super) reply: Reply,
    pub(super) told: Instant,
}

impl Surveys {
    /// A survey that was begun then or later. Whoever comes while one is asked for waits for it, and
    /// has the same if it is late enough.
    pub(super) async fn since(
        &self,
        inner: &Inner,
        since: Instant,
    ) -> Result<Arc<Survey>, RequestError> {
        let mut last = self.0.lock().await;
        if let Some(Last { begun, outcome }) = &*last
            && *begun >= since
        {
            return outcome.clone();
        }
        let begun = Instant::now();
        let outcome = match persist(inner, &Request::List).await {
            Ok(Reply::List(list)) => Ok(Arc::new(Survey {
                rules: list.rules().to_vec(),
                statuses: Mutex::default(),
            })),
            Ok(_) => Err(RequestError::Unexpected),
            // More rules than a reply can name, or no right to list them. Not what was asked for is
            // refused, but the question.
            Err(AskError::Refused(_)) => Err(RequestError::Unanswered),
            Err(error) => Err(error.into()),
        };
        *last = Some(Last {
            begun,
            outcome: outcome.clone(),
        });
        outcome
    }
}

impl Survey {
    /// The rules, in the order of their identifiers.
    pub(super) fn rules(&self) -> &[PolicyRuleId] {
        &self.rules
    }

    /// How a rule is, or was a moment ago; `None` if it is gone, or another's.
    pub(super) async fn status(
        &self,
        inner: &Inner,
        rule: PolicyRuleId,
    ) -> Result<Option<Status>, RequestError> {
        let cell = {
            let mut statuses = self.statuses.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(statuses.entry(rule).or_default())
        };
        let status = cell.get_or_try_init(|| ask(inner, rule)).await?;
        match status {
            Some(status) if status.told.elapsed() > FRESH => ask(inner, rule).await,
            status => Ok(status.clone()),
        }
    }
}

async fn ask(inner: &Inner, rule: PolicyRuleId) -> Result<Option<Status>, RequestError> {
    match persist(inner, &Request::Status(rule)).await {
        Ok(reply) => Ok(Some(Status {
            reply,
            told: Instant::now(),
        })),
        Err(AskError::Refused(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
