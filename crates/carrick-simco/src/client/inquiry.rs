//! Requests whose outcome must be known: what is asked when there is no answer.

use super::error::RequestError;
use super::session::{Ask, AskError, Late};
use super::{Inner, Request};
use crate::message::{EnableStatus, Lifetime, NegativeReply, PolicyRuleId, Reply};

/// Unknown rules that are looked at to find one that was made without an answer.
const MOST_UNKNOWN: usize = 256;

/// A request that makes a rule: its reply, or what the middlebox says later.
pub(super) async fn create(inner: &Inner, request: &Request) -> Result<Reply, RequestError> {
    let late = match inner.ask(request.clone()).await {
        Ok(reply) => return Ok(reply),
        Err(AskError::TimedOut(late)) => late,
        Err(error) => return Err(error.into()),
    };
    let Late { transaction, reply } = late;
    tokio::select! {
        biased;
        Ok(delivery) = reply => match delivery.take().ok_or(RequestError::Ended)? {
            Reply::Negative(refused) => Err(RequestError::Refused(refused)),
            reply => Ok(reply),
        },
        found = look_for(inner, request) => {
            if found.is_ok() {
                // If the task is gone, nothing comes late.
                let _ = inner.asks.send(Ask::Forget(transaction)).await;
            }
            found
        }
    }
}

/// Looks for a rule that nobody here knows and that does what the request wanted.
async fn look_for(inner: &Inner, request: &Request) -> Result<Reply, RequestError> {
    let list = match inner.ask(Request::List).await {
        Ok(Reply::List(list)) => list,
        Ok(_) => return Err(RequestError::Unexpected),
        Err(error) => return Err(error.into()),
    };
    let known = inner.shelf.rules();
    let unknown = list.rules().iter().rev();
    let unknown = unknown.filter(|rule| !known.contains(rule));
    for rule in unknown.take(MOST_UNKNOWN) {
        match inner.ask(Request::Status(*rule)).await {
            Ok(status) => {
                if let Some(reply) = fits(request, *rule, &status) {
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
