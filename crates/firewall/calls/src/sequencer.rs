//! Order of the requests in a dialog. The SIP library drops a request whose `CSeq` is below the last one
//! (RFC 3261, section 12.2.2) and refuses one that arrives before the dialog's state has changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as Lock, MutexGuard, PoisonError};

use rsipstack::dialog::DialogId;
use rsipstack::sip::Request;
use rsipstack::sip::prelude::HeadersExt as _;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Call-ID and local tag, which identify a dialog.
pub(crate) type DialogKey = (String, String);

/// Lock of one dialog. Held while a request is being handled and while the first INVITE of the dialog
/// is being answered.
#[derive(Clone, Default)]
pub(crate) struct DialogLock {
    mutex: Arc<Mutex<()>>,
    /// True if a 2xx to an INVITE was received in the dialog.
    pub(crate) answered: bool,
}

impl DialogLock {
    /// Acquires the lock, in the order of calls.
    pub(crate) async fn lock(self) -> OwnedMutexGuard<()> {
        self.mutex.lock_owned().await
    }
}

/// Locks of all dialogs.
#[derive(Clone, Default)]
pub(crate) struct DialogSequencer(Arc<Lock<BTreeMap<DialogKey, DialogLock>>>);

fn key(dialog: &DialogId) -> DialogKey {
    (dialog.call_id.clone(), dialog.local_tag.clone())
}

/// Returns the dialog to which a received request belongs.
fn key_of(request: &Request) -> Option<DialogKey> {
    let call = request.call_id_header().ok()?;
    let tag = request.to_header().ok()?.tag().ok()??;
    Some((call.value().to_owned(), tag.value().to_owned()))
}

impl DialogSequencer {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<DialogKey, DialogLock>> {
        // A panic leaves the map consistent: each change is one insertion.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a dialog that a received INVITE creates.
    pub(crate) fn begin(&self, dialog: &DialogId) {
        self.lock().insert(key(dialog), DialogLock::default());
    }

    /// Adds the dialog of an INVITE that `create` hands to the library, with its lock taken. The INVITE is not
    /// sent before ([`Self::wait_for_begun`]), so that no response or request of the callee precedes its dialog.
    pub(crate) fn begin_locked<T>(
        &self,
        create: impl FnOnce() -> Option<(DialogId, T)>,
    ) -> Option<(T, Option<OwnedMutexGuard<()>>)> {
        let mut dialogs = self.lock();
        let (dialog, created) = create()?;
        let lock = DialogLock::default();
        let guard = Arc::clone(&lock.mutex).try_lock_owned().ok();
        dialogs.insert(key(&dialog), lock);
        Some((created, guard))
    }

    /// Waits until the dialogs of INVITEs that are being created have been added.
    pub(crate) fn wait_for_begun(&self) {
        drop(self.lock());
    }

    /// Records a 2xx to an INVITE sent in this dialog.
    pub(crate) fn answered(&self, key: &DialogKey) {
        if let Some(lock) = self.lock().get_mut(key) {
            lock.answered = true;
        }
    }

    /// Returns the lock of the dialog to which a received request belongs.
    pub(crate) fn of_request(&self, request: &Request) -> Option<DialogLock> {
        self.lock().get(&key_of(request)?).cloned()
    }

    /// Returns the lock of a dialog.
    pub(crate) fn of(&self, dialog: &DialogId) -> DialogLock {
        // A dialog that has just ended needs no order.
        self.lock().get(&key(dialog)).cloned().unwrap_or_default()
    }

    /// Removes a dialog that has ended.
    pub(crate) fn forget(&self, dialog: &DialogId) {
        self.lock().remove(&key(dialog));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn a_fast_answer_finds_its_dialog() {
        let sequencer = DialogSequencer::default();
        let dialog = DialogId {
            call_id: "call".into(),
            local_tag: "local".into(),
            remote_tag: String::new(),
        };
        let (waits, is_waiting) = channel();
        let begun = sequencer.begin_locked(|| {
            // The library's task, which sends the INVITE and receives the answer.
            let (dialogs, answered) = (sequencer.clone(), key(&dialog));
            let task = thread::spawn(move || {
                waits.send(()).unwrap();
                dialogs.wait_for_begun();
                dialogs.answered(&answered);
            });
            is_waiting.recv().unwrap();
            Some((dialog.clone(), task))
        });
        let (task, guard) = begun.unwrap();
        assert!(guard.is_some());
        task.join().unwrap();
        assert!(sequencer.of(&dialog).answered);
    }
}
