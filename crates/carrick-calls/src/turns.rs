//! Order of the requests in a dialog: the library drops a request whose number is below the last
//! (RFC 3261 section 12.2.2), and refuses one that arrives before the dialog's state has changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as Lock, MutexGuard, PoisonError};

use rsipstack::dialog::DialogId;
use rsipstack::sip::Request;
use rsipstack::sip::prelude::HeadersExt as _;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// A dialog: its Call-ID, and the tag of this side.
pub(crate) type Key = (String, String);

/// Turn of one dialog: held by the request that is being handled, and while the dialog's first INVITE
/// is being answered.
#[derive(Clone, Default)]
pub(crate) struct Turn {
    turn: Arc<Mutex<()>>,
    /// A 2xx to an INVITE has been received in the dialog.
    pub(crate) answered: bool,
}

impl Turn {
    /// Waits for the turn; first come, first served.
    pub(crate) async fn lock(self) -> OwnedMutexGuard<()> {
        self.turn.lock_owned().await
    }
}

/// Turns of all dialogs.
#[derive(Clone, Default)]
pub(crate) struct Turns(Arc<Lock<BTreeMap<Key, Turn>>>);

fn key(dialog: &DialogId) -> Key {
    (dialog.call_id.clone(), dialog.local_tag.clone())
}

fn key_of(request: &Request) -> Option<Key> {
    let call = request.call_id_header().ok()?;
    let tag = request.to_header().ok()?.tag().ok()??;
    Some((call.value().to_owned(), tag.value().to_owned()))
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Turn>> {
        // A panic leaves it whole: each change is one insertion.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a dialog that a received INVITE begins.
    pub(crate) fn begin(&self, dialog: &DialogId) {
        self.lock().insert(key(dialog), Turn::default());
    }

    /// Adds a dialog that a sent INVITE begins, with its turn taken.
    pub(crate) fn begin_taken(&self, dialog: &DialogId) -> Option<OwnedMutexGuard<()>> {
        let turn = Turn::default();
        let taken = Arc::clone(&turn.turn).try_lock_owned().ok();
        self.lock().insert(key(dialog), turn);
        taken
    }

    /// Notes a 2xx to an INVITE sent in this dialog.
    pub(crate) fn answered(&self, key: &Key) {
        if let Some(turn) = self.lock().get_mut(key) {
            turn.answered = true;
        }
    }

    /// Returns the turn of the dialog a received request belongs to, if there is such a dialog.
    pub(crate) fn of_request(&self, request: &Request) -> Option<Turn> {
        self.lock().get(&key_of(request)?).cloned()
    }

    /// Returns the turn of a dialog.
    pub(crate) fn of(&self, dialog: &DialogId) -> Turn {
        // A dialog that has just ended has no order to keep.
        self.lock().get(&key(dialog)).cloned().unwrap_or_default()
    }

    /// Removes a dialog that has ended.
    pub(crate) fn forget(&self, dialog: &DialogId) {
        self.lock().remove(&key(dialog));
    }
}
