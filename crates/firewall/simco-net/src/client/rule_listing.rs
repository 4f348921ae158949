//! Listings of the rules that the middlebox has for this agent, shared by all requests that were lost
//! together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::ClientState;
use super::error::RequestError;
use super::outcome::query_until_answered;
use super::session::TransactionError;
use carrick_simco::message::{PolicyRuleId, Reply, Request};

/// Time for which a status is reused.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Last listing, or the error of its query.
#[derive(Debug, Default)]
pub(super) struct RuleListings(tokio::sync::Mutex<Option<LastListing>>);

#[derive(Debug)]
struct LastListing {
    begun: Instant,
    outcome: Result<Arc<RuleListing>, RequestError>,
}

/// Rules listed by the middlebox, and the statuses queried so far.
#[derive(Debug)]
pub(super) struct RuleListing {
    rules: Vec<PolicyRuleId>,
    statuses: Mutex<BTreeMap<PolicyRuleId, Arc<OnceCell<Option<RuleStatus>>>>>,
}

/// Status of a rule and the time of its reply.
#[derive(Clone, Debug)]
pub(super) struct RuleStatus {
    pub(super) reply: Reply,
    pub(super) received: Instant,
}

impl RuleListings {
    /// Returns a listing begun at `since` or later. Concurrent callers share one listing.
    pub(super) async fn since(
        &self,
        inner: &ClientState,
        since: Instant,
    ) -> Result<Arc<RuleListing>, RequestError> {
        let mut last = self.0.lock().await;
        if let Some(LastListing { begun, outcome }) = &*last
            && *begun >= since
        {
            return outcome.clone();
        }
        let begun = Instant::now();
        let outcome = match query_until_answered(inner, &Request::List).await {
            Ok(Reply::List(list)) => Ok(Arc::new(RuleListing {
                rules: list.rules().to_vec(),
                statuses: Mutex::default(),
            })),
            Ok(_) => Err(RequestError::Unexpected),
            // More rules than a reply can list, or no right to list them: the query is refused, not
            // the request.
            Err(TransactionError::Refused(_)) => Err(RequestError::Unanswered),
            Err(error) => Err(error.into()),
        };
        *last = Some(LastListing {
            begun,
            outcome: outcome.clone(),
        });
        outcome
    }
}

impl RuleListing {
    /// Returns the rules in the order of their identifiers.
    pub(super) fn rules(&self) -> &[PolicyRuleId] {
        &self.rules
    }

    /// Returns the current or a recent status of a rule; `None` if it has ended or belongs to another
    /// agent.
    pub(super) async fn status(
        &self,
        inner: &ClientState,
        rule: PolicyRuleId,
    ) -> Result<Option<RuleStatus>, RequestError> {
        let cell = {
            let mut statuses = self.statuses.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(statuses.entry(rule).or_default())
        };
        let status = cell.get_or_try_init(|| query_status(inner, rule)).await?;
        match status {
            Some(status) if status.received.elapsed() > MAX_AGE => query_status(inner, rule).await,
            status => Ok(status.clone()),
        }
    }
}

async fn query_status(
    inner: &ClientState,
    rule: PolicyRuleId,
) -> Result<Option<RuleStatus>, RequestError> {
    match query_until_answered(inner, &Request::Status(rule)).await {
        Ok(reply) => Ok(Some(RuleStatus {
            reply,
            received: Instant::now(),
        })),
        Err(TransactionError::Refused(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
