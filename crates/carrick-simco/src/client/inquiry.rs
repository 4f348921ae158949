//! Requests whose outcome must be known: what is asked when there is no answer.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::error::RequestError;
use super::held::Entry;
use super::session::{Ask, AskError, Late};
use super::{Inner, Request};
use crate::message::{
    EnableRequest, EnableStatus, Enabled, Lifetime, NegativeReply, PolicyRuleId, Reply, Scope,
};

/// Unknown rules that are looked at to find one that was made without an answer.
const MOST_UNKNOWN: usize = 256;

/// Rules that were found so and are remembered.
const MOST_CLAIMED: usize = 4096;

/// The pause before a question is asked again that no session took.
const AGAIN: Duration = Duration::from_millis(50);

/// Rules of this session that were found by asking, so that of two who look for the same each finds
/// one of its own. Of too many, the first are forgotten.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<VecDeque<PolicyRuleId>>);

impl Claims {
    /// Whether nobody has found it before.
    fn claim(&self, rule: PolicyRuleId) -> bool {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if found.contains(&rule) {
            return false;
        }
        found.push_back(rule);
        while found.len() > MOST_CLAIMED {
            found.pop_front();
        }
        true
    }

    /// The session is over: its identifiers may be others' in the next.
    pub(super) fn clear(&self) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.clear();
    }
}

/// A request that makes a rule: its reply, or what the middlebox says later. When the session is lost
/// before the answer, the next one is asked; what it knows nothing of is asked for once more.
pub(super) async fn create(inner: &Inner, request: &Request) -> Result<Reply, RequestError> {
    let mut again = true;
    loop {
        match inner.ask(request.clone()).await {
            Ok(reply) => return Ok(reply),
            Err(AskError::TimedOut(late)) => return answer_or_rule(inner, request, late).await,
            Err(AskError::Lost) => match look_for(inner, request).await {
                Err(RequestError::NotDone) if again => again = false,
                Err(RequestError::Unanswered | RequestError::NotConnected) => {
                    return Err(RequestError::Lost);
                }
                found => return found,
            },
            Err(error) => return Err(error.into()),
        }
    }
}

/// The answer that comes late, or the rule that is found meanwhile.
async fn answer_or_rule(
    inner: &Inner,
    request: &Request,
    late: Late,
) -> Result<Reply, RequestError> {
    let Late {
        transaction,
        mut reply,
    } = late;
    let answer = |delivery: super::session::Delivery| match delivery.take() {
        Some(Reply::Negative(refused)) => Err(RequestError::Refused(refused)),
        Some(reply) => Ok(reply),
        None => Err(RequestError::Ended),
    };
    let found = tokio::select! {
        biased;
        Ok(delivery) = &mut reply => return answer(delivery),
        found = look_for(inner, request) => found,
    };
    match found {
        Ok(found) => {
            // If the task is gone, nothing comes late.
            let _ = inner.asks.send(Ask::Forget(transaction)).await;
            Ok(found)
        }
        // Who can't be asked may answer yet.
        Err(RequestError::Unanswered) if !reply.is_terminated() => {
            match tokio::time::timeout(inner.timeout, reply).await {
                Ok(Ok(delivery)) => answer(delivery),
                _ => Err(RequestError::Unanswered),
            }
        }
        Err(error) => Err(error),
    }
}

/// Asks until a session answers, as long as two answers may take. For questions, which change nothing.
async fn persist(inner: &Inner, question: &Request) -> Result<Reply, AskError> {
    let until = Instant::now() + 2 * inner.timeout;
    loop {
        match inner.ask(question.clone()).await {
            Err(AskError::Lost | AskError::NotConnected) if Instant::now() < until => {
                tokio::time::sleep(AGAIN).await;
            }
            outcome => return outcome,
        }
    }
}

/// Looks for a rule that nobody here knows and that does what the request wanted.
async fn look_for(inner: &Inner, request: &Request) -> Result<Reply, RequestError> {
    let list = match persist(inner, &Request::List).await {
        Ok(Reply::List(list)) => list,
        Ok(_) => return Err(RequestError::Unexpected),
        // More rules than a reply can name, or no right to list them. Not what was asked for is
        // refused, but the question.
        Err(AskError::Refused(_)) => return Err(RequestError::Unanswered),
        Err(error) => return Err(error.into()),
    };
    let known = inner.shelf.rules();
    let unknown = list.rules().iter().rev();
    let unknown = unknown.filter(|rule| !known.contains(rule));
    for rule in unknown.take(MOST_UNKNOWN) {
        match persist(inner, &Request::Status(*rule)).await {
            Ok(status) => {
                if let Some(reply) = fits(request, *rule, &status)
                    && inner.claims.claim(*rule)
                {
                    return Ok(reply);
                }
            }
            // Gone meanwhile, or another's.
            Err(AskError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(RequestError::NotDone)
}

/// The reply that the request would have got, if the rule is what it asked for.
pub(super) fn fits(request: &Request, rule: PolicyRuleId, status: &Reply) -> Option<Reply> {
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
            let same = wanted.parameters.protocol == reserved.outside.protocol
                && wanted.group.is_none_or(|group| group == reserved.group);
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

/// Whether this is the rule that is held, by its status.
pub(super) fn is_same(entry: &Entry, status: &Reply) -> bool {
    if fits(&entry.request, entry.rule, status).is_some() {
        return true;
    }
    // A reservation that was enabled.
    let (Request::Reserve(_), Reply::EnableStatus(status)) = (&entry.request, status) else {
        return false;
    };
    let Enabled { group, outside, .. } = status.enabled;
    entry.group == Some(group)
        && entry.outside.is_none_or(|reserved| match reserved.scope {
            // A packet filter reserves no address.
            Scope::ProtocolsOnly(_) => [0, outside.protocol].contains(&reserved.protocol),
            Scope::Full { .. } => reserved == outside,
        })
}

/// PEA on a reservation that is held: its reply, or what the middlebox says of the rule later.
pub(super) async fn enable_reserved(
    inner: &Inner,
    enable: EnableRequest,
    rule: PolicyRuleId,
) -> Result<Reply, RequestError> {
    let unknown = match inner.ask(Request::EnableReserved { enable, rule }).await {
        Ok(reply) => return Ok(reply),
        Err(AskError::TimedOut(late)) => {
            // If the task is gone, nothing comes late.
            let _ = inner.asks.send(Ask::Forget(late.transaction)).await;
            RequestError::Unanswered
        }
        Err(AskError::Lost) => RequestError::Lost,
        Err(error) => return Err(error.into()),
    };
    let wanted = Request::Enable(EnableRequest {
        group: None,
        ..enable
    });
    match persist(inner, &Request::Status(rule)).await {
        Ok(status) => match fits(&wanted, rule, &status) {
            Some(reply) => Ok(reply),
            None if matches!(status, Reply::ReserveStatus { .. }) => Err(RequestError::NotDone),
            None => Err(unknown),
        },
        Err(AskError::Refused(refused)) => Err(RequestError::Refused(refused)),
        Err(_) => Err(unknown),
    }
}

/// Ends a rule that was held, also when the session is lost meanwhile.
pub(super) async fn end(inner: &Inner, entry: &Entry) -> Result<(), RequestError> {
    let rule = entry.rule;
    match change_lifetime(inner, rule, Lifetime(0)).await {
        Err(RequestError::Lost) => {}
        ended => return ended.map(|_| ()),
    }
    match persist(inner, &Request::Status(rule)).await {
        Ok(status) if is_same(entry, &status) => {
            change_lifetime(inner, rule, Lifetime(0)).await.map(|_| ())
        }
        // Another rule has its identifier now, or none has.
        Ok(_)
        | Err(AskError::Refused(NegativeReply::NoSuchRule | NegativeReply::RuleNotAuthorized)) => {
            Ok(())
        }
        Err(_) => Err(RequestError::Lost),
    }
}

/// PLC: what was granted, zero for a rule that has ended.
pub(super) async fn change_lifetime(
    inner: &Inner,
    rule: PolicyRuleId,
    lifetime: Lifetime,
) -> Result<Lifetime, RequestError> {
    let request = Request::ChangeLifetime { rule, lifetime };
    let late = match inner.ask(request).await {
        Ok(reply) => return granted(&reply),
        // What is to end has ended.
        Err(AskError::Refused(NegativeReply::NoSuchRule)) if lifetime == Lifetime(0) => {
            return Ok(Lifetime(0));
        }
        Err(AskError::TimedOut(late)) => late,
        Err(error) => return Err(error.into()),
    };
    tokio::select! {
        biased;
        Ok(delivery) = late.reply => match delivery.take().ok_or(RequestError::Ended)? {
            Reply::Negative(refused) => Err(RequestError::Refused(refused)),
            reply => granted(&reply),
        },
        status = inner.ask(Request::Status(rule)) => match status {
            // The stream keeps the order: whatever became of PLC, it was before this.
            Ok(status) => {
                let left = remaining(&status).ok_or(RequestError::Unexpected)?;
                if lifetime == Lifetime(0) {
                    Err(RequestError::NotDone)
                } else {
                    Ok(left)
                }
            }
            Err(AskError::Refused(NegativeReply::NoSuchRule)) if lifetime == Lifetime(0) => {
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

/// What is left of the life of a rule by its status.
fn remaining(status: &Reply) -> Option<Lifetime> {
    match status {
        Reply::EnableStatus(status) => Some(status.enabled.lifetime),
        Reply::ReserveStatus { reserved, .. } => Some(reserved.lifetime),
        Reply::DisableStatus { disable, .. } => Some(disable.lifetime),
        _ => None,
    }
}
