//! Requests in a call are looked at in the order in which they come: one with a number below the last
//! is dropped by the library (RFC 3261 section 12.2.2).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as Lock, MutexGuard, PoisonError};

use rsipstack::dialog::DialogId;
use rsipstack::sip::Request;
use rsipstack::sip::prelude::HeadersExt as _;
use tokio::sync::Mutex;

type Key = (String, String);

/// Whose turn it is in each dialog.
#[derive(Clone, Default)]
pub(crate) struct Turns(Arc<Lock<BTreeMap<Key, Arc<Mutex<()>>>>>);

fn key(dialog: &DialogId) -> Key {
    (dialog.call_id.clone(), dialog.local_tag.clone())
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Mutex<()>>>> {
        // Whoever panicked with it left it whole: each change is one insertion.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A dialog begins.
    pub(crate) fn begin(&self, dialog: &DialogId) {
        self.lock().insert(key(dialog), Arc::default());
    }

    /// Whether a request is for a dialog that is there.
    pub(crate) fn knows(&self, request: &Request) -> bool {
        let call = request.call_id_header().ok();
        let tag = request.to_header().ok().and_then(|to| to.tag().ok()?);
        let (Some(call), Some(tag)) = (call, tag) else {
            return false;
        };
        let key = (call.value().to_owned(), tag.value().to_owned());
        self.lock().contains_key(&key)
    }

    /// What gives turns in a dialog, first come, first served.
    pub(crate) fn of(&self, dialog: &DialogId) -> Arc<Mutex<()>> {
        // In one that is just over there is no order to keep.
        self.lock().get(&key(dialog)).cloned().unwrap_or_default()
    }

    /// A dialog is over.
    pub(crate) fn forget(&self, dialog: &DialogId) {
        self.lock().remove(&key(dialog));
    }
}
