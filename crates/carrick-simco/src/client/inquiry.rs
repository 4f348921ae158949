//! Requests whose outcome must be known: what is asked when there is no answer.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::error::RequestError;
use super::held::Entry;
use super::session::{Ask, AskError, Late};
use super::survey::Status;
use super::{Inner, Request, Wish};
use crate::message::{
    AddressTuple, EnableRequest, EnableStatus, Enabled, IpVersion, Lifetime, NatMode,
    NegativeReply, Parity, PolicyRuleId, PrrParameters, Reply, Scope,
};

/// Unknown rules that are looked at to find one that was made without an answer.
const MOST_UNKNOWN: usize = 256;

/// Rules that were found so and are remembered.
const MOST_CLAIMED: usize = 4096;

/// The pause before a question is asked again that no session took.
const AGAIN: Duration = Duration::from_millis(50);

/// The pause before a rule is looked for again that may have been made for a wish.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

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

    fn is_claimed(&self, rule: PolicyRuleId) -> bool {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.contains(&rule)
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
    create_for(inner, request, None).await
}

/// The same, but what became of it is asked for as long as a rule that was made may live. What is given
/// up is not asked for once more.
pub(super) async fn create_wished(
    inner: &Inner,
    request: &Request,
    wish: &Wish,
) -> Result<Reply, RequestError> {
    let asked = Instant::now();
    let mut outcome = create_for(inner, request, Some(wish)).await;
    let Lifetime(lifetime) = request.lifetime().unwrap_or_default();
    let lived_out = Instant::now() + Duration::from_secs(u64::from(lifetime));
    while wish.was_sent() && is_unknown(&outcome) && Instant::now() < lived_out {
        tokio::time::sleep(LOOK_AGAIN).await;
        outcome = look_for(inner, request, asked, Instant::now()).await;
    }
    outcome
}

/// Whether there may be a rule all the same.
fn is_unknown(outcome: &Result<Reply, RequestError>) -> bool {
    matches!(
        outcome,
        Err(RequestError::Unanswered
            | RequestError::NotConnected
            | RequestError::Lost
            | RequestError::TooMany)
    )
}

async fn create_for(
    inner: &Inner,
    request: &Request,
    wish: Option<&Wish>,
) -> Result<Reply, RequestError> {
    let mut again = true;
    let asked = Instant::now();
    loop {
        match inner.ask_for(request.clone(), wish).await {
            Ok(reply) => return Ok(reply),
            Err(AskError::TimedOut(late)) => {
                return answer_or_rule(inner, request, late, asked).await;
            }
            Err(AskError::Lost(lost)) => match look_for(inner, request, asked, lost).await {
                Err(RequestError::NotDone) if again && !wish.is_some_and(Wish::is_given_up) => {
                    again = false;
                }
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
    asked: Instant,
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
        found = look_for(inner, request, asked, Instant::now()) => found,
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
pub(super) async fn persist(inner: &Inner, question: &Request) -> Result<Reply, AskError> {
    let until = Instant::now() + 2 * inner.timeout;
    loop {
        match inner.ask(question.clone()).await {
            Err(AskError::Lost(_) | AskError::NotConnected) if Instant::now() < until => {
                tokio::time::sleep(AGAIN).await;
            }
            outcome => return outcome,
        }
    }
}

/// Looks for a rule that nobody here knows, that does what the request wanted, and that may have been
/// made since that was `asked`, by what the middlebox has said `since` the answer was given up.
async fn look_for(
    inner: &Inner,
    request: &Request,
    asked: Instant,
    since: Instant,
) -> Result<Reply, RequestError> {
    let survey = inner.surveys.since(inner, since).await?;
    let known = inner.shelf.rules();
    let unknown = survey.rules().iter().rev();
    let unknown = unknown.filter(|rule| !known.contains(rule) && !inner.claims.is_claimed(**rule));
    for rule in unknown.take(MOST_UNKNOWN) {
        if let Some(Status { reply, told }) = survey.status(inner, *rule).await?
            && let Some(found) = fits(request, *rule, &reply)
            && may_be_new(inner, request, &reply, told - asked)
            && inner.claims.claim(*rule)
        {
            return Ok(found);
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
            let same = gives(
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

/// Whether a reservation of these addresses is what was wanted.
fn gives(wanted: PrrParameters, outside: &AddressTuple, inside: Option<&AddressTuple>) -> bool {
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
    // A packet filter does not look at the mode.
    let filter = matches!(outside.scope, Scope::ProtocolsOnly(_));
    wanted.protocol == outside.protocol
        && version(wanted.outside, outside)
        && ports
        && (twice || filter)
}

/// Whether a rule may have been made since it was asked for, at this age: one that was made before with
/// that lifetime, and not prolonged, has less left. Only whole seconds are told, and the middlebox may
/// grant less.
fn may_be_new(inner: &Inner, request: &Request, status: &Reply, age: Duration) -> bool {
    let granted = request.lifetime().unwrap_or_default();
    let Lifetime(granted) = granted.min(inner.capabilities.max_lifetime);
    let age = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
    remaining(status)
        .is_some_and(|Lifetime(left)| left.saturating_add(age).saturating_add(1) >= granted)
}

/// Whether this is the rule that is held, by its status.
pub(super) fn is_same(entry: &Entry, status: &Reply) -> bool {
    if let Some(enabled) = entry.enabled {
        let wanted = Request::Enable(EnableRequest {
            group: None,
            ..enabled
        });
        return fits(&wanted, entry.rule, status).is_some();
    }
    if fits(&entry.request, entry.rule, status).is_some() {
        return true;
    }
    // A reservation that was enabled, and nobody here knows it.
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
        Err(AskError::Lost(_)) => RequestError::Lost,
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
