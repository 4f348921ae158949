//! Task that refreshes held rules.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::held::{GroupChoice, HeldRuleState};
use super::session::TransactionError;
use super::{ClientEvent, ClientState, Events, RequestError, outcome};
use carrick_simco::message::{EnableRequest, GroupId, Lifetime, NegativeReply, Reply, Request};

/// Maximum number of rules refreshed concurrently.
const WINDOW: usize = 64;

/// Pause before a failed refresh is repeated.
const RETRY: Duration = Duration::from_secs(1);

/// Interval at which the task checks for remaining handles.
const HANDLE_CHECK: Duration = Duration::from_secs(1);

/// Runs until the last handle is dropped.
pub(super) async fn run(client: Weak<ClientState>, mut events: Events) {
    let mut in_progress = JoinSet::new();
    loop {
        let Some(inner) = client.upgrade() else {
            return;
        };
        while in_progress.len() < WINDOW
            && let Some((key, entry)) = inner.held_rules.take_due(Instant::now())
        {
            in_progress.spawn(refresh_or_request(Arc::clone(&inner), key, entry));
        }
        let room = in_progress.len() < WINDOW;
        let due = inner.held_rules.next_due().filter(|_| room);
        let wake = Instant::now() + HANDLE_CHECK;
        let due = due.map_or(wake, |due| due.min(wake));
        tokio::select! {
            event = events.next() => match event {
                None => return,
                Some(event) => handle_event(&inner, &event),
            },
            _ = in_progress.join_next(), if !in_progress.is_empty() => {}
            () = tokio::time::sleep_until(due) => {}
            () = inner.held_rules.changed.notified() => {}
        }
    }
}

fn handle_event(inner: &ClientState, event: &ClientEvent) {
    match event {
        ClientEvent::Closed(_) => inner.claims.clear(),
        // State of an earlier session is uncertain after an opening. A lost event may have been an
        // opening or the end of a rule.
        ClientEvent::Opened(_) | ClientEvent::Lagged(_) => inner.held_rules.mark_unverified(),
        ClientEvent::Rule {
            rule,
            lifetime: Lifetime(0),
        } if inner.held_rules.ended(*rule) => inner.emit(ClientEvent::Ended {
            rule: *rule,
            refused: None,
        }),
        _ => {}
    }
}

/// Refreshes one rule, or requests it again.
async fn refresh_or_request(inner: Arc<ClientState>, key: u64, entry: HeldRuleState) {
    let lifetime = entry.requested_lifetime();
    if entry.unverified {
        match inner.send(Request::Status(entry.rule)).await {
            Ok(status) if outcome::is_same(&entry, &status) => {}
            // The rule has ended; its identifier may be another rule's.
            Ok(_)
            | Err(TransactionError::Refused(
                NegativeReply::NoSuchRule | NegativeReply::RuleNotAuthorized,
            )) => return request_again(&inner, key, &entry).await,
            // Without the right to query it, the identifier may be another rule's.
            Err(TransactionError::Refused(reply)) if is_permanent(reply) => {
                return request_again(&inner, key, &entry).await;
            }
            Err(_) => return inner.held_rules.schedule(key, RETRY),
        }
    }
    let rule = entry.rule;
    let request = Request::ChangeLifetime { rule, lifetime };
    match inner.send(request).await {
        Ok(Reply::LifetimeChanged(lifetime)) => inner.held_rules.refreshed(key, lifetime),
        Err(TransactionError::Refused(reply))
            if reply == NegativeReply::NoSuchRule || is_permanent(reply) =>
        {
            request_again(&inner, key, &entry).await;
        }
        // The rule is still in force, and PLC is idempotent.
        _ => inner.held_rules.schedule(key, RETRY),
    }
}

/// Returns whether a repeated request would be refused again.
fn is_permanent(reply: NegativeReply) -> bool {
    matches!(
        reply,
        NegativeReply::AgentNotAuthorized
            | NegativeReply::RuleNotAuthorized
            | NegativeReply::LifetimeNotAuthorized
            | NegativeReply::TransactionNotSupported
    )
}

/// Requests a rule that the middlebox has lost or does not extend. Reservations are not requested
/// again, since peers were given their addresses.
async fn request_again(inner: &Arc<ClientState>, key: u64, entry: &HeldRuleState) {
    let old = entry.rule;
    let granted = match &entry.request {
        Request::Enable(enable) => enable_again(inner, key, enable).await,
        Request::Disable(disable) => outcome::create(inner, &Request::Disable(*disable)).await,
        _ => {
            inner.held_rules.remove(key);
            return inner.emit(ClientEvent::Ended {
                rule: old,
                refused: Some(NegativeReply::NoSuchRule),
            });
        }
    };
    match granted {
        Ok(reply) => {
            let new = reply.rule().unwrap_or(old);
            if inner.held_rules.renewed(key, &reply) {
                inner.emit(ClientEvent::Renewed { old, new });
            } else {
                // The rule is no longer held.
                let _ = outcome::change_lifetime(inner, new, Lifetime(0)).await;
            }
        }
        Err(RequestError::Refused(refused)) => {
            inner.held_rules.remove(key);
            inner.emit(ClientEvent::Ended {
                rule: old,
                refused: Some(refused),
            });
        }
        Err(_) => inner.held_rules.schedule(key, RETRY),
    }
}

/// Requests an enabled rule again. Rules of a group stay together, even if the group was lost.
async fn enable_again(
    inner: &ClientState,
    key: u64,
    enable: &EnableRequest,
) -> Result<Reply, RequestError> {
    let request = async |group: Option<GroupId>| {
        let request = Request::Enable(EnableRequest { group, ..*enable });
        outcome::create(inner, &request).await
    };
    let (group, successor) = match inner.held_rules.regroup(key) {
        GroupChoice::New => return request(None).await,
        GroupChoice::Same(group) => (Some(group), None),
        GroupChoice::Successor(successor) => {
            let successor = successor.lock_owned().await;
            (*successor, Some(successor))
        }
    };
    // The first rule of the group is awaited; the remaining ones run concurrently.
    let first = successor.filter(|_| group.is_none());
    let granted = match request(group).await {
        Err(RequestError::Refused(
            NegativeReply::NoSuchGroup | NegativeReply::GroupNotAuthorized,
        )) if group.is_some() => return request(None).await,
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
    use crate::client::held::{HeldRule, HeldRules};
    use crate::client::outcome::ClaimedRules;
    use carrick_simco::message::{
        AddressTuple, Capabilities, DisableRequest, IpVersion, Location, PolicyRuleId, Scope,
    };

    /// Returns a held rule with a lifetime of 100 s.
    fn held() -> (Arc<ClientState>, HeldRule) {
        let (commands, _to_session) = mpsc::channel(1);
        let (events, _) = broadcast::channel(1);
        let inner = Arc::new(ClientState {
            commands,
            events,
            held_rules: HeldRules::default(),
            claims: ClaimedRules::default(),
            listings: crate::client::rule_listing::RuleListings::default(),
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
    async fn rules_are_verified_after_lost_events() {
        let (inner, _held) = held();
        assert!(
            inner.held_rules.take_due(Instant::now()).is_none(),
            "not yet"
        );
        handle_event(&inner, &ClientEvent::Lagged(3));
        let (_, entry) = inner.held_rules.take_due(Instant::now()).unwrap();
        assert!(entry.unverified && entry.rule == PolicyRuleId(7));
    }

    #[tokio::test(start_paused = true)]
    async fn expired_rule_is_requested_again() {
        let over = ClientEvent::Rule {
            rule: PolicyRuleId(7),
            lifetime: Lifetime(0),
        };
        for (age, ended) in [(98.0, true), (99.5, false), (101.0, false)] {
            let (inner, held) = held();
            // The refresh was late and is repeated much later.
            inner
                .held_rules
                .take_due(Instant::now() + Duration::from_secs(50))
                .unwrap();
            inner.held_rules.schedule(0, Duration::from_secs(1000));
            tokio::time::advance(Duration::from_secs_f64(age)).await;
            handle_event(&inner, &over);
            assert_eq!(held.is_held(), !ended, "{age}");
            let due = inner.held_rules.take_due(Instant::now());
            assert_eq!(due.is_some(), !ended, "{age}");
        }
    }
}
