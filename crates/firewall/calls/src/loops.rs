//! Detection of merged requests (RFC 3261, section 8.2.2.2) and loops (RFC 3261, section 16.3).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rsipstack::dialog::DialogId;
use rsipstack::sip::prelude::HeadersExt as _;
use rsipstack::sip::{Request, Uri};

/// Call-ID and the tag of the caller.
type InviteKey = (String, String);

/// Current calls, identified by the headers of their INVITEs that proxies do not change.
#[derive(Default)]
pub(crate) struct LoopDetector(Mutex<CurrentInvites>);

#[derive(Default)]
struct CurrentInvites {
    /// Received INVITEs with their `CSeq` numbers.
    received: BTreeSet<(InviteKey, u32)>,
    /// Sent INVITEs with their targets.
    sent: BTreeMap<InviteKey, String>,
}

impl LoopDetector {
    fn lock(&self) -> MutexGuard<'_, CurrentInvites> {
        // A panic leaves the sets consistent: each change is one insertion.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the same INVITE, which arrived by another route, is being handled already.
    pub(crate) fn is_merged(&self, invite: &Request) -> bool {
        numbered(invite).is_some_and(|key| self.lock().received.contains(&key))
    }

    /// Adds a received INVITE.
    pub(crate) fn add_received(&self, invite: &Request) {
        if let Some(key) = numbered(invite) {
            self.lock().received.insert(key);
        }
    }

    /// Returns whether an INVITE was sent by this agent and would be routed as before.
    pub(crate) fn is_loop(&self, invite: &Request, to: &Uri) -> bool {
        let Some((key, _)) = numbered(invite) else {
            return false;
        };
        self.lock().sent.get(&key) == Some(&to.to_string())
    }

    /// Adds a sent INVITE.
    pub(crate) fn add_sent(&self, dialog: &DialogId, to: &Uri) {
        let key = (dialog.call_id.clone(), dialog.local_tag.clone());
        self.lock().sent.insert(key, to.to_string());
    }

    /// Removes a received INVITE.
    pub(crate) fn forget_received(&self, invite: &Request) {
        if let Some(key) = numbered(invite) {
            self.lock().received.remove(&key);
        }
    }

    /// Removes a sent INVITE.
    pub(crate) fn forget_sent(&self, dialog: &DialogId) {
        let key = (dialog.call_id.clone(), dialog.local_tag.clone());
        self.lock().sent.remove(&key);
    }
}

/// Returns the key and the `CSeq` number of an INVITE.
fn numbered(invite: &Request) -> Option<(InviteKey, u32)> {
    let call = invite.call_id_header().ok()?.value().to_owned();
    let tag = invite.from_header().ok()?.tag().ok()??;
    let number = invite.cseq_header().ok()?.seq().ok()?;
    Some(((call, tag.value().to_owned()), number))
}
