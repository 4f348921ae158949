//! Requests that may be given up while they are under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// That somebody wants what is asked for. Clones are the same wish.
#[derive(Clone, Debug, Default)]
pub struct Wish(Arc<State>);

#[derive(Debug, Default)]
struct State {
    given_up: AtomicBool,
    sent: AtomicBool,
}

impl Wish {
    /// What is asked for is not wanted any more.
    pub fn give_up(&self) {
        self.0.given_up.store(true, Ordering::Relaxed);
    }

    /// Whether it is not wanted any more.
    pub fn is_given_up(&self) -> bool {
        self.0.given_up.load(Ordering::Relaxed)
    }

    /// The request is on its way to the middlebox.
    pub(super) fn send(&self) {
        self.0.sent.store(true, Ordering::Relaxed);
    }

    /// Whether the middlebox may know of it.
    pub(super) fn was_sent(&self) -> bool {
        self.0.sent.load(Ordering::Relaxed)
    }
}
