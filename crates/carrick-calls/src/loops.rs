//! Requests that come twice: by two ways (RFC 3261 section 8.2.2.2), or back to where they were
//! (section 16.3).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rsipstack::dialog::DialogId;
use rsipstack::sip::prelude::HeadersExt as _;
use rsipstack::sip::{Request, Uri};

/// A Call-ID, and the tag of who calls.
type Key = (String, String);

/// The calls that are there, by what their INVITEs keep when proxies pass them on.
#[derive(Default)]
pub(crate) struct Loops(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// INVITEs that came, with their numbers.
    taken: BTreeSet<(Key, u32)>,
    /// INVITEs that were sent, and where to.
    sent: BTreeMap<Key, String>,
}

impl Loops {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // Whoever panicked with it left it whole: each change is one insertion.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether such an INVITE is being answered already: it has come another way.
    pub(crate) fn is_merged(&self, invite: &Request) -> bool {
        numbered(invite).is_some_and(|key| self.lock().taken.contains(&key))
    }

    pub(crate) fn take(&self, invite: &Request) {
        if let Some(key) = numbered(invite) {
            self.lock().taken.insert(key);
        }
    }

    /// Whether an INVITE was sent from here, and would be sent to where it went before.
    pub(crate) fn is_back(&self, invite: &Request, to: &Uri) -> bool {
        let Some((key, _)) = numbered(invite) else {
            return false;
        };
        self.lock().sent.get(&key) == Some(&to.to_string())
    }

    pub(crate) fn send(&self, dialog: &DialogId, to: &Uri) {
        let key = (dialog.call_id.clone(), dialog.local_tag.clone());
        self.lock().sent.insert(key, to.to_string());
    }

    /// Calls that came and went are over.
    pub(crate) fn forget_taken(&self, invite: &Request) {
        if let Some(key) = numbered(invite) {
            self.lock().taken.remove(&key);
        }
    }

    pub(crate) fn forget_sent(&self, dialog: &DialogId) {
        let key = (dialog.call_id.clone(), dialog.local_tag.clone());
        self.lock().sent.remove(&key);
    }
}

fn numbered(invite: &Request) -> Option<(Key, u32)> {
    let call = invite.call_id_header().ok()?.value().to_owned();
    let tag = invite.from_header().ok()?.tag().ok()??;
    let number = invite.cseq_header().ok()?.seq().ok()?;
    Some(((call, tag.value().to_owned()), number))
}
