//! Memory for what the protocol has passed on and no program can receive yet, or has not received: parts
//! of messages that are being reassembled, and notifications.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use carrick_proto::{Event, SourceKey};

/// Bytes of notifications that each association may have regardless of the limit, so that peers
/// elsewhere cannot suppress all of them.
const MIN_NOTIFICATIONS: usize = 1024;

/// Cost of a notification besides the data on the heap that it refers to.
const NOTIFICATION_COST: usize = 128;

/// Memory of all associations of an endpoint, with a limit that the sources of their peers share.
///
/// A source may take as much as is still free, as in [`carrick_proto::EndpointConfig::receive_memory`]:
/// a single one half of the limit, n of them 1/(n+1) each.
#[derive(Debug)]
pub(crate) struct UnreadMemory {
    limit: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    /// Bytes of each source that has taken any.
    sources: BTreeMap<SourceKey, usize>,
}

impl UnreadMemory {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            taken: Mutex::default(),
        }
    }

    /// Returns the account of a source.
    pub(crate) fn of(&self, source: SourceKey) -> SourceMemory<'_> {
        SourceMemory {
            memory: self,
            source,
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // No code panics while it has the lock.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Account of one source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceMemory<'a> {
    memory: &'a UnreadMemory,
    source: SourceKey,
}

impl SourceMemory<'_> {
    /// Takes memory. Returns false, and takes none, if the source would have more than is left free.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        if bytes == 0 {
            return true;
        }
        let mut taken = self.memory.taken();
        let total = taken.total.saturating_add(bytes);
        let held = taken.sources.get(&self.source).copied().unwrap_or(0);
        let held = held.saturating_add(bytes);
        if held > self.memory.limit.saturating_sub(total) {
            return false;
        }
        taken.total = total;
        taken.sources.insert(self.source, held);
        true
    }

    /// Returns memory that [`Self::take`] took.
    pub(crate) fn give_back(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut taken = self.memory.taken();
        taken.total -= bytes;
        if let Some(held) = taken.sources.get_mut(&self.source) {
            *held -= bytes;
            if *held == 0 {
                taken.sources.remove(&self.source);
            }
        }
    }
}

/// Memory of the notifications of one association that no program has received.
#[derive(Debug, Default)]
pub(crate) struct NotificationMemory(Mutex<usize>);

impl NotificationMemory {
    /// Counts a notification that is queued. Returns false if there is no memory for it. For the task.
    pub(crate) fn add(&self, event: &Event, memory: &SourceMemory<'_>) -> bool {
        let mut held = self.held();
        let more = *held + cost(event);
        let added = memory.take(charged(more) - charged(*held));
        if added {
            *held = more;
        }
        added
    }

    /// Counts a notification that has left the queue. For the user.
    pub(crate) fn remove(&self, event: &Event, memory: &SourceMemory<'_>) {
        let mut held = self.held();
        // Zero after the queue was discarded.
        let less = held.saturating_sub(cost(event));
        memory.give_back(charged(*held) - charged(less));
        *held = less;
    }

    /// Counts all notifications as discarded.
    pub(crate) fn clear(&self, memory: &SourceMemory<'_>) {
        let held = std::mem::take(&mut *self.held());
        memory.give_back(charged(held));
    }

    fn held(&self) -> MutexGuard<'_, usize> {
        // No code panics while it has the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how many of the bytes that an association has in notifications count in the memory of all.
fn charged(held: usize) -> usize {
    held.saturating_sub(MIN_NOTIFICATIONS)
}

/// Returns the memory of a notification. A failed message belongs to the program, whose send queue and
/// send buffer bound it.
fn cost(event: &Event) -> usize {
    let referred = match event {
        Event::SendFailed(_) => return 0,
        Event::PeerError(error) => error.cause.information.len(),
        Event::StreamsReset { streams, .. } => size_of_val(&streams[..]),
        _ => 0,
    };
    NOTIFICATION_COST + referred
}

#[cfg(test)]
mod tests {
    use carrick_proto::{AbortCause, PathId, PeerError};

    use super::*;

    fn source(host: u8) -> SourceKey {
        SourceKey::of([192, 0, 2, host].into())
    }

    fn fill(memory: &UnreadMemory, host: u8) -> usize {
        let account = memory.of(source(host));
        let mut held = 0;
        while account.take(100) {
            held += 100;
        }
        held
    }

    #[test]
    fn sources_share_the_limit() {
        let memory = UnreadMemory::new(1_200_000);
        assert_eq!(fill(&memory, 1), 600_000, "half of it");
        assert_eq!(fill(&memory, 2), 300_000, "half of what was left");
        assert_eq!(fill(&memory, 1), 0);
        memory.of(source(1)).give_back(600_000);
        memory.of(source(2)).give_back(300_000);
        assert!(memory.taken().sources.is_empty());
        assert_eq!(memory.taken().total, 0);
    }

    #[test]
    fn an_association_always_has_some_notifications() {
        let memory = UnreadMemory::new(0);
        let account = memory.of(source(1));
        let queue = NotificationMemory::default();
        let event = Event::PathConfirmed(PathId(0));
        let mut queued = 0;
        while queue.add(&event, &account) {
            queued += 1;
        }
        assert_eq!(queued, MIN_NOTIFICATIONS / NOTIFICATION_COST);
        queue.remove(&event, &account);
        let long = Event::PeerError(PeerError {
            cause: AbortCause {
                code: 13,
                information: vec![0; 1024],
            },
        });
        assert!(!queue.add(&long, &account));
        assert!(queue.add(&event, &account));
    }

    #[test]
    fn notifications_are_charged_until_they_are_received() {
        let memory = UnreadMemory::new(100_000);
        let account = memory.of(source(1));
        let queue = NotificationMemory::default();
        let event = Event::Dormant;
        (0..20).for_each(|_| assert!(queue.add(&event, &account)));
        assert_eq!(
            memory.taken().total,
            20 * NOTIFICATION_COST - MIN_NOTIFICATIONS
        );
        (0..12).for_each(|_| queue.remove(&event, &account));
        assert_eq!(memory.taken().total, 0);
        (0..12).for_each(|_| assert!(queue.add(&event, &account)));
        queue.clear(&account);
        queue.remove(&event, &account);
        assert_eq!((memory.taken().total, *queue.held()), (0, 0));
    }
}
