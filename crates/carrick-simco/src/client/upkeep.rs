//! The task that keeps held rules alive.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::held::Entry;
use super::session::AskError;
use super::{ClientEvent, Events, Inner, inquiry};
use crate::message::{EnableRequest, Lifetime, NegativeReply, Reply, Request, ReserveRequest};

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
        // Later than the opening, nothing is sure of the session before.
        ClientEvent::Opened(_) => inner.shelf.doubt(),
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
    let lifetime = wanted(&entry.request);
    if entry.doubtful {
        match inner.ask(Request::Status(entry.rule)).await {
            Ok(status) if inquiry::is_same(&entry, &status) => {}
            // Another rule has its identifier now, or none has.
            Ok(_)
            | Err(AskError::Refused(
                NegativeReply::NoSuchRule | NegativeReply::RuleNotAuthorized,
            )) => return ask_again(&inner, key, &entry).await,
            Err(_) => return inner.shelf.again(key, RETRY),
        }
    }
    let rule = entry.rule;
    let request = Request::ChangeLifetime { rule, lifetime };
    match inner.ask(request).await {
        Ok(Reply::LifetimeChanged(lifetime)) => inner.shelf.refreshed(key, lifetime),
        Err(AskError::Refused(NegativeReply::NoSuchRule)) => {
            ask_again(&inner, key, &entry).await;
        }
        // It lives yet; PLC that was not answered can be asked again without harm.
        _ => inner.shelf.again(key, RETRY),
    }
}

fn wanted(request: &Request) -> Lifetime {
    match request {
        Request::Enable(EnableRequest { lifetime, .. })
        | Request::Reserve(ReserveRequest { lifetime, .. }) => *lifetime,
        Request::Disable(disable) => disable.lifetime,
        _ => Lifetime(0),
    }
}

/// The middlebox has forgotten the rule. A reservation is not asked for again: others were told its
/// addresses.
async fn ask_again(inner: &Arc<Inner>, key: u64, entry: &Entry) {
    let old = entry.rule;
    let request = match &entry.request {
        // The group is forgotten with its rules.
        Request::Enable(enable) => Request::Enable(EnableRequest {
            group: None,
            ..*enable
        }),
        Request::Disable(disable) => Request::Disable(*disable),
        _ => {
            inner.shelf.remove(key);
            return inner.tell(ClientEvent::Ended {
                rule: old,
                refused: Some(NegativeReply::NoSuchRule),
            });
        }
    };
    match inquiry::create(inner, &request).await {
        Ok(reply) => {
            let new = reply.rule().unwrap_or(old);
            if inner.shelf.renewed(key, &reply) {
                inner.tell(ClientEvent::Renewed { old, new });
            } else {
                // Nobody holds it any more.
                let _ = inquiry::change_lifetime(inner, new, Lifetime(0)).await;
            }
        }
        Err(super::RequestError::Refused(refused)) => {
            inner.shelf.remove(key);
            inner.tell(ClientEvent::Ended {
                rule: old,
                refused: Some(refused),
            });
        }
        Err(_) => inner.shelf.again(key, RETRY),
    }
}
