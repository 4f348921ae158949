//! The task that keeps held rules alive.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::held::{Entry, Regroup};
use super::session::AskError;
use super::{ClientEvent, Events, Inner, RequestError, inquiry};
use crate::message::{EnableRequest, GroupId, Lifetime, NegativeReply, Reply, Request};

/// Rules that are looked at at a time.
const WINDOW: usize = 64;

/// When a rule is looked at again that could not be refreshed now.
const RETRY: Duration = Duration::from_secs(1);

/// How often it is looked after whether there are handles left.
const LOOK_UP: Duration = Duration::from_secs(1);

/// Runs until the last handle is gone.
pub(super) async fn run(client: Weak<Inner>, mut events: Events) {
    let mut under_way = JoinSet::new();
    loop {
        let Some(inner) = client.upgrade() else {
            return;
        };
        while under_way.len() < WINDOW
            && let Some((key, entry)) = inner.shelf.take_due(Instant::now())
        {
            under_way.spawn(keep(Arc::clone(&inner), key, entry));
        }
        let room = under_way.len() < WINDOW;
        let due = inner.shelf.next_due().filter(|_| room);
        let wake = Instant::now() + LOOK_UP;
        let due = due.map_or(wake, |due| due.min(wake));
        tokio::select! {
            event = events.next() => match event {
                None => return,
                Some(event) => heard(&inner, &event),
            },
            _ = under_way.join_next(), if !under_way.is_empty() => {}
            () = tokio::time::sleep_until(due) => {}
            () = inner.shelf.changed.notified() => {}
        }
    }
}

fn heard(inner: &Inner, event: &ClientEvent) {
    match event {
        ClientEvent::Closed(_) => inner.claims.clear(),
        // Later than the opening, nothing is sure of the session before. What was lost here may
        // have been an opening, or the end of a rule.
        ClientEvent::Opened(_) | ClientEvent::Lagged(_) => inner.shelf.doubt(),
        ClientEvent::Rule {
            rule,
            lifetime: Lifetime(0),
        } if inner.shelf.ended(*rule) => inner.tell(ClientEvent::Ended {
            rule: *rule,
            refused: None,
        }),
        _ => {}
    }
}

/// Refreshes one rule, or asks for it again.
async fn keep(inner: Arc<Inner>, key: u64, entry: Entry) {
    let lifetime = entry.wanted();
    if entry.doubtful {
        match inner.ask(Request::Status(entry.rule)).await {
            Ok(status) if inquiry::is_same(&entry, &status) => {}
            // Another rule has its identifier now, or none has.
            Ok(_)
            | Err(AskError::Refused(
                NegativeReply::NoSuchRule | NegativeReply::RuleNotAuthorized,
            )) => return ask_again(&inner, key, &entry).await,
            // It may not ask, and so can't know which rule has that identifier now.
            Err(AskError::Refused(reply)) if never(reply) => {
                return ask_again(&inner, key, &entry).await;
            }
            Err(_) => return inner.shelf.again(key, RETRY),
        }
    }
    let rule = entry.rule;
    let request = Request::ChangeLifetime { rule, lifetime };
    match inner.ask(request).await {
        Ok(Reply::LifetimeChanged(lifetime)) => inner.shelf.refreshed(key, lifetime),
        Err(AskError::Refused(reply)) if reply == NegativeReply::NoSuchRule || never(reply) => {
            ask_again(&inner, key, &entry).await;
        }
        // It lives yet; PLC that was not answered can be asked again without harm.
        _ => inner.shelf.again(key, RETRY),
    }
}

/// Asked again, it would be refused again: the agent may not, or not with that rule.
fn never(reply: NegativeReply) -> bool {
    matches!(
        reply,
        NegativeReply::AgentNotAuthorized
            | NegativeReply::RuleNotAuthorized
            | NegativeReply::LifetimeNotAuthorized
            | NegativeReply::TransactionNotSupported
    )
}

/// The middlebox has forgotten the rule, or does not let it be prolonged. A reservation is not asked for again: others were told its
/// addresses.
async fn ask_again(inner: &Arc<Inner>, key: u64, entry: &Entry) {
    let old = entry.rule;
    let granted = match &entry.request {
        Request::Enable(enable) => enable_again(inner, key, enable).await,
        Request::Disable(disable) => inquiry::create(inner, &Request::Disable(*disable)).await,
        _ => {
            inner.shelf.remove(key);
            return inner.tell(ClientEvent::Ended {
                rule: old,
                refused: Some(NegativeReply::NoSuchRule),
            });
        }
    };
    match granted {
        Ok(reply) => {
            let new = reply.rule().unwrap_or(old);
            if inner.shelf.renewed(key, &reply) {
                inner.tell(ClientEvent::Renewed { old, new });
            } else {
                // Nobody holds it any more.
                let _ = inquiry::change_lifetime(inner, new, Lifetime(0)).await;
            }
        }
        Err(RequestError::Refused(refused)) => {
            inner.shelf.remove(key);
            inner.tell(ClientEvent::Ended {
                rule: old,
                refused: Some(refused),
            });
        }
        Err(_) => inner.shelf.again(key, RETRY),
    }
}

/// PER for a rule that was forgotten. Rules of a group stay together, also where the group was
/// forgotten with them.
async fn enable_again(
    inner: &Inner,
    key: u64,
    enable: &EnableRequest,
) -> Result<Reply, RequestError> {
    let ask = async |group: Option<GroupId>| {
        let request = Request::Enable(EnableRequest { group, ..*enable });
        inquiry::create(inner, &request).await
    };
    let (group, successor) = match inner.shelf.regroup(key) {
        Regroup::Alone => return ask(None).await,
        Regroup::Same(group) => (Some(group), None),
        Regroup::Successor(successor) => {
            let successor = successor.lock_owned().await;
            (*successor, Some(successor))
        }
    };
    // The first of them is waited for, the others need not wait for each other.
    let first = successor.filter(|_| group.is_none());
    let granted = match ask(group).await {
        Err(RequestError::Refused(
            NegativeReply::NoSuchGroup | NegativeReply::GroupNotAuthorized,
        )) if group.is_some() => return ask(None).await,
        granted => granted,
    };
    if let (Some(mut first), Ok(Reply::Enabled(enabled))) = (first, &granted) {
        *first = Some(enabled.group);
    }
    granted
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::{broadcast, mpsc};

    use super::*;
    use crate::client::held::{HeldRule, Shelf};
    use crate::client::inquiry::Claims;
    use crate::message::{
        AddressTuple, Capabilities, DisableRequest, IpVersion, Location, PolicyRuleId, Scope,
    };

    /// A rule of 100 s that is held.
    fn held() -> (Arc<Inner>, HeldRule) {
        let (asks, _to_ask) = mpsc::channel(1);
        let (events, _) = broadcast::channel(1);
        let inner = Arc::new(Inner {
            asks,
            events,
            shelf: Shelf::default(),
            claims: Claims::default(),
            surveys: crate::client::survey::Surveys::default(),
            timeout: Duration::from_secs(1),
            capabilities: Capabilities::default(),
        });
        let any = |location| AddressTuple {
            location,
            protocol: 0,
            scope: Scope::ProtocolsOnly(IpVersion::V4),
        };
        let request = Request::Disable(DisableRequest {
            internal: any(Location::Internal),
            external: any(Location::External),
            lifetime: Lifetime(100),
        });
        let reply = Reply::Disabled {
            rule: PolicyRuleId(7),
            lifetime: Lifetime(100),
        };
        let held = HeldRule::new(Arc::clone(&inner), request, &reply).unwrap();
        (inner, held)
    }

    #[tokio::test]
    async fn rules_are_looked_at_when_events_were_lost() {
        let (inner, _held) = held();
        assert!(inner.shelf.take_due(Instant::now()).is_none(), "not yet");
        heard(&inner, &ClientEvent::Lagged(3));
        let (_, entry) = inner.shelf.take_due(Instant::now()).unwrap();
        assert!(entry.doubtful && entry.rule == PolicyRuleId(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rule_that_lived_out_its_life_is_asked_for_again_and_one_that_was_ended_is_not() {
        let over = ClientEvent::Rule {
            rule: PolicyRuleId(7),
            lifetime: Lifetime(0),
        };
        for (age, ended) in [(98.0, true), (99.5, false), (101.0, false)] {
            let (inner, held) = held();
            // The refresh did not come in time, and is tried again much later.
            inner
                .shelf
                .take_due(Instant::now() + Duration::from_secs(50))
                .unwrap();
            inner.shelf.again(0, Duration::from_secs(1000));
            tokio::time::advance(Duration::from_secs_f64(age)).await;
            heard(&inner, &over);
            assert_eq!(held.is_held(), !ended, "{age}");
            let due = inner.shelf.take_due(Instant::now());
            assert_eq!(due.is_some(), !ended, "{age}");
        }
    }
}
