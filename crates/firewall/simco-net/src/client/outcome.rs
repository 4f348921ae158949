//! Requests whose outcome must be determined, also without a reply.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::RequestError;
use super::held::HeldRuleState;
use super::rule_listing::RuleStatus;
use super::session::{Cancellation, LateReply, SessionCommand, TransactionError};
use super::{ClientState, Request};
use carrick_simco::message::{
    AddressTuple, EnableReply, EnableRequest, EnableStatus, IpVersion, Lifetime, NatMode,
    NegativeReply, Parity, PolicyRuleId, PrrParameters, Reply, Scope,
};

/// Maximum number of unknown rules examined to find the rule of a request without a reply.
const MAX_UNKNOWN: usize = 256;

/// Maximum number of remembered rules that were found this way.
const MAX_CLAIMED: usize = 4096;

/// Pause before a query is repeated that no session accepted.
const QUERY_PAUSE: Duration = Duration::from_millis(50);

/// Interval between queries for a rule that a request without an answer may have created.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(1);

/// Rules of this session found by queries, so that two equal requests find different rules. The oldest
/// are dropped.
#[derive(Debug, Default)]
pub(super) struct ClaimedRules(Mutex<VecDeque<PolicyRuleId>>);

impl ClaimedRules {
    /// Returns whether the rule was not found before, and marks it.
    fn claim(&self, rule: PolicyRuleId) -> bool {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if found.contains(&rule) {
            return false;
        }
        found.push_back(rule);
        while found.len() > MAX_CLAIMED {
            found.pop_front();
        }
        true
    }

    fn is_claimed(&self, rule: PolicyRuleId) -> bool {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.contains(&rule)
    }

    /// Clears the rules of a session that has ended: identifiers may be reused in the next one.
    pub(super) fn clear(&self) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.clear();
    }
}

/// Creates a rule. Returns the reply, or the outcome found by queries. After a lost session the next
/// one is queried, and a request that was not carried out is repeated once.
pub(super) async fn create(inner: &ClientState, request: &Request) -> Result<Reply, RequestError> {
    create_with(inner, request, None).await
}

/// Like [`create`], but queries the outcome as long as one that was created may be in force. A cancelled
/// request is not repeated.
pub(super) async fn create_cancellable(
    inner: &ClientState,
    request: &Request,
    cancelled: &CancellationToken,
) -> Result<Reply, RequestError> {
    let requested_at = Instant::now();
    let cancellation = Cancellation::new(cancelled);
    let mut outcome = create_with(inner, request, Some(&cancellation)).await;
    let Lifetime(lifetime) = request.lifetime().unwrap_or_default();
    let has_expired = Instant::now() + Duration::from_secs(u64::from(lifetime));
    while cancellation.was_sent() && is_unknown(&outcome) && Instant::now() < has_expired {
        tokio::time::sleep(LOOKUP_INTERVAL).await;
        outcome = query_outcome(inner, request, requested_at, Instant::now()).await;
    }
    outcome
}

/// Returns whether a rule may exist despite the error.
fn is_unknown(outcome: &Result<Reply, RequestError>) -> bool {
    matches!(
        outcome,
        Err(RequestError::Unanswered
            | RequestError::NotConnected
            | RequestError::Lost
            | RequestError::TooMany)
    )
}

async fn create_with(
    inner: &ClientState,
    request: &Request,
    cancellation: Option<&Cancellation>,
) -> Result<Reply, RequestError> {
    let mut may_repeat = true;
    let requested_at = Instant::now();
    loop {
        match inner.send_cancellable(request.clone(), cancellation).await {
            Ok(reply) => return Ok(reply),
            Err(TransactionError::TimedOut(late)) => {
                return await_late_reply(inner, request, late, requested_at).await;
            }
            Err(TransactionError::Lost(lost)) => {
                match query_outcome(inner, request, requested_at, lost).await {
                    Err(RequestError::NotDone)
                        if may_repeat && !cancellation.is_some_and(Cancellation::is_cancelled) =>
                    {
                        may_repeat = false;
                    }
                    Err(RequestError::Unanswered | RequestError::NotConnected) => {
                        return Err(RequestError::Lost);
                    }
                    found => return found,
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits for a late reply and queries the middlebox at the same time.
async fn await_late_reply(
    inner: &ClientState,
    request: &Request,
    late: LateReply,
    requested_at: Instant,
) -> Result<Reply, RequestError> {
    let LateReply {
        transaction,
        mut reply,
    } = late;
    let answer = |delivery: super::session::ReplyDelivery| match delivery.take() {
        Some(Reply::Negative(refused)) => Err(RequestError::Refused(refused)),
        Some(reply) => Ok(reply),
        None => Err(RequestError::Ended),
    };
    let found = tokio::select! {
        biased;
        Ok(delivery) = &mut reply => return answer(delivery),
        found = query_outcome(inner, request, requested_at, Instant::now()) => found,
    };
    match found {
        Ok(found) => {
            // If the session task has ended, no reply can arrive.
            let _ = inner
                .commands
                .send(SessionCommand::IgnoreLateReply(transaction))
                .await;
            Ok(found)
        }
        // A middlebox that does not answer the query may still answer the request.
        Err(RequestError::Unanswered) if !reply.is_terminated() => {
            match tokio::time::timeout(inner.timeout, reply).await {
                Ok(Ok(delivery)) => answer(delivery),
                _ => Err(RequestError::Unanswered),
            }
        }
        Err(error) => Err(error),
    }
}

/// Repeats a query until a session answers, at most for the time of two replies. Queries have no side
/// effects.
pub(super) async fn query_until_answered(
    inner: &ClientState,
    query: &Request,
) -> Result<Reply, TransactionError> {
    let until = Instant::now() + 2 * inner.timeout;
    loop {
        match inner.send(query.clone()).await {
            Err(TransactionError::Lost(_) | TransactionError::NotConnected)
                if Instant::now() < until =>
            {
                tokio::time::sleep(QUERY_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

/// Queries the middlebox for an unknown rule that matches the request and may have been created since
/// `requested_at`, in a listing begun at `since` or later.
async fn query_outcome(
    inner: &ClientState,
    request: &Request,
    requested_at: Instant,
    since: Instant,
) -> Result<Reply, RequestError> {
    let listing = inner.listings.since(inner, since).await?;
    let known = inner.held_rules.rules();
    let unknown = listing.rules().iter().rev();
    let unknown = unknown.filter(|rule| !known.contains(rule) && !inner.claims.is_claimed(**rule));
    for rule in unknown.take(MAX_UNKNOWN) {
        if let Some(RuleStatus { reply, received }) = listing.status(inner, *rule).await?
            && let Some(found) = matches_request(request, *rule, &reply)
            && may_be_new(inner, request, &reply, received - requested_at)
            && inner.claims.claim(*rule)
        {
            return Ok(found);
        }
    }
    Err(RequestError::NotDone)
}

/// Returns the reply that the request would have got if it created this rule.
pub(super) fn matches_request(
    request: &Request,
    rule: PolicyRuleId,
    status: &Reply,
) -> Option<Reply> {
    match (request, status) {
        (Request::Enable(wanted), Reply::EnableStatus(status)) => {
            let EnableStatus {
                enabled,
                parameters,
                internal,
                external,
                ..
            } = &**status;
            let same = (wanted.parameters, wanted.internal, wanted.external)
                == (*parameters, *internal, *external)
                && wanted.group.is_none_or(|group| group == enabled.group);
            same.then_some(Reply::Enabled(*enabled))
        }
        (Request::Reserve(wanted), Reply::ReserveStatus { reserved, .. }) => {
            let same = matches_reservation(
                wanted.parameters,
                &reserved.outside,
                reserved.inside.as_ref(),
            ) && wanted.group.is_none_or(|group| group == reserved.group);
            same.then_some(Reply::Reserved(*reserved))
        }
        (Request::Disable(wanted), Reply::DisableStatus { disable, .. }) => {
            let same = (wanted.internal, wanted.external) == (disable.internal, disable.external);
            same.then_some(Reply::Disabled {
                rule,
                lifetime: disable.lifetime,
            })
        }
        _ => None,
    }
}

/// Returns whether a reservation of these addresses matches the request.
fn matches_reservation(
    wanted: PrrParameters,
    outside: &AddressTuple,
    inside: Option<&AddressTuple>,
) -> bool {
    let version = |wanted: Option<IpVersion>, tuple: &AddressTuple| {
        wanted.is_none_or(|wanted| wanted == tuple.version())
    };
    let ports = match outside.scope {
        // A packet filter reserves no address.
        Scope::ProtocolsOnly(_) => true,
        Scope::Full { port, ports, .. } => {
            let parity = match wanted.parity {
                Parity::Any => true,
                Parity::Odd => port % 2 == 1,
                Parity::Even => port % 2 == 0,
            };
            port == 0 || (ports == wanted.ports && parity)
        }
    };
    let twice = inside.is_some() == (wanted.nat_mode == NatMode::Twice)
        && inside.is_none_or(|inside| version(wanted.inside, inside));
    // A packet filter ignores the NAT mode.
    let filter = matches!(outside.scope, Scope::ProtocolsOnly(_));
    wanted.protocol == outside.protocol
        && version(wanted.outside, outside)
        && ports
        && (twice || filter)
}

/// Returns whether a rule of this age may have been created by the request. An older rule of that
/// lifetime, not extended, has less left. Lifetimes are whole seconds, and the middlebox may grant
/// less.
fn may_be_new(inner: &ClientState, request: &Request, status: &Reply, age: Duration) -> bool {
    let granted = request.lifetime().unwrap_or_default();
    let Lifetime(granted) = granted.min(inner.capabilities.max_lifetime);
    let age = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
    remaining(status)
        .is_some_and(|Lifetime(left)| left.saturating_add(age).saturating_add(1) >= granted)
}

/// Returns whether a status is that of the held rule.
pub(super) fn is_same(entry: &HeldRuleState, status: &Reply) -> bool {
    if let Some(enabled) = entry.enabled {
        let wanted = Request::Enable(EnableRequest {
            group: None,
            ..enabled
        });
        return matches_request(&wanted, entry.rule, status).is_some();
    }
    if matches_request(&entry.request, entry.rule, status).is_some() {
        return true;
    }
    // A reservation that was enabled without this client's knowledge.
    let (Request::Reserve(_), Reply::EnableStatus(status)) = (&entry.request, status) else {
        return false;
    };
    let EnableReply { group, outside, .. } = status.enabled;
    entry.group == Some(group)
        && entry.outside.is_none_or(|reserved| match reserved.scope {
            // A packet filter reserves no address.
            Scope::ProtocolsOnly(_) => [0, outside.protocol].contains(&reserved.protocol),
            Scope::Full { .. } => reserved == outside,
        })
}

/// PEA on a held reservation: returns the reply or the outcome found by a query.
pub(super) async fn enable_reserved(
    inner: &ClientState,
    enable: EnableRequest,
    rule: PolicyRuleId,
) -> Result<Reply, RequestError> {
    let unknown = match inner.send(Request::EnableReserved { enable, rule }).await {
        Ok(reply) => return Ok(reply),
        Err(TransactionError::TimedOut(late)) => {
            // If the session task has ended, no reply can arrive.
            let _ = inner
                .commands
                .send(SessionCommand::IgnoreLateReply(late.transaction))
                .await;
            RequestError::Unanswered
        }
        Err(TransactionError::Lost(_)) => RequestError::Lost,
        Err(error) => return Err(error.into()),
    };
    let wanted = Request::Enable(EnableRequest {
        group: None,
        ..enable
    });
    match query_until_answered(inner, &Request::Status(rule)).await {
        Ok(status) => match matches_request(&wanted, rule, &status) {
            Some(reply) => Ok(reply),
            None if matches!(status, Reply::ReserveStatus { .. }) => Err(RequestError::NotDone),
            None => Err(unknown),
        },
        Err(TransactionError::Refused(refused)) => Err(RequestError::Refused(refused)),
        Err(_) => Err(unknown),
    }
}

/// Deletes a held rule, even if the session is lost meanwhile.
pub(super) async fn end(inner: &ClientState, entry: &HeldRuleState) -> Result<(), RequestError> {
    let rule = entry.rule;
    match change_lifetime(inner, rule, Lifetime(0)).await {
        Err(RequestError::Lost) => {}
        ended => return ended.map(|_| ()),
    }
    match query_until_answered(inner, &Request::Status(rule)).await {
        Ok(status) if is_same(entry, &status) => {
            change_lifetime(inner, rule, Lifetime(0)).await.map(|_| ())
        }
        // The rule has ended; its identifier may be another rule's.
        Ok(_)
        | Err(TransactionError::Refused(
            NegativeReply::NoSuchRule | NegativeReply::RuleNotAuthorized,
        )) => Ok(()),
        Err(_) => Err(RequestError::Lost),
    }
}

/// PLC: returns the granted lifetime, zero for a rule that has ended.
pub(super) async fn change_lifetime(
    inner: &ClientState,
    rule: PolicyRuleId,
    lifetime: Lifetime,
) -> Result<Lifetime, RequestError> {
    let request = Request::ChangeLifetime { rule, lifetime };
    let late = match inner.send(request).await {
        Ok(reply) => return granted(&reply),
        // The rule has ended already.
        Err(TransactionError::Refused(NegativeReply::NoSuchRule)) if lifetime == Lifetime(0) => {
            return Ok(Lifetime(0));
        }
        Err(TransactionError::TimedOut(late)) => late,
        Err(error) => return Err(error.into()),
    };
    tokio::select! {
        biased;
        Ok(delivery) = late.reply => match delivery.take().ok_or(RequestError::Ended)? {
            Reply::Negative(refused) => Err(RequestError::Refused(refused)),
            reply => granted(&reply),
        },
        status = inner.send(Request::Status(rule)) => match status {
            // Replies of a stream arrive in order: the PLC was processed before this query or not at
            // all.
            Ok(status) => {
                let left = remaining(&status).ok_or(RequestError::Unexpected)?;
                if lifetime == Lifetime(0) {
                    Err(RequestError::NotDone)
                } else {
                    Ok(left)
                }
            }
            Err(TransactionError::Refused(NegativeReply::NoSuchRule)) if lifetime == Lifetime(0) => {
                Ok(Lifetime(0))
            }
            Err(error) => Err(error.into()),
        },
    }
}

fn granted(reply: &Reply) -> Result<Lifetime, RequestError> {
    match reply {
        Reply::LifetimeChanged(lifetime) => Ok(*lifetime),
        Reply::Deleted => Ok(Lifetime(0)),
        _ => Err(RequestError::Unexpected),
    }
}

/// Returns the remaining lifetime in a status.
fn remaining(status: &Reply) -> Option<Lifetime> {
    match status {
        Reply::EnableStatus(status) => Some(status.enabled.lifetime),
        Reply::ReserveStatus { reserved, .. } => Some(reserved.lifetime),
        Reply::DisableStatus { disable, .. } => Some(disable.lifetime),
        _ => None,
    }
}
