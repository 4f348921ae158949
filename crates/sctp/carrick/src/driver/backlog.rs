//! Queue of associations that peers have set up and no program has accepted yet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use carrick_proto::SourceKey;
use tokio::sync::mpsc::{self, error::TrySendError};

use crate::association::Association;

/// Number of waiting associations that each source may have, whatever the length of the queue.
const MIN_PER_SOURCE: usize = 16;

/// Numbers of waiting associations by source.
type Sources = Mutex<BTreeMap<SourceKey, usize>>;

/// The sending end. One source may fill a quarter of the queue, so that peers elsewhere are admitted
/// while the program is slow.
#[derive(Clone)]
pub(crate) struct Backlog {
    queue: mpsc::Sender<WaitingAssociation>,
    sources: Arc<Sources>,
}

/// Association in the queue.
pub(crate) struct WaitingAssociation {
    association: Association,
    place: BacklogPlace,
}

/// Place in the queue, which is free again when this value is dropped.
struct BacklogPlace {
    source: SourceKey,
    sources: Arc<Sources>,
}

/// Returns a queue of this length, at least 1.
pub(crate) fn backlog(length: usize) -> (Backlog, mpsc::Receiver<WaitingAssociation>) {
    let (queue, accepted) = mpsc::channel(length);
    let sources = Arc::default();
    (Backlog { queue, sources }, accepted)
}

impl Backlog {
    /// Queues an association of a peer at this source.
    pub(super) fn push(
        &self,
        association: Association,
        source: SourceKey,
    ) -> Result<(), TrySendError<()>> {
        let most = (self.queue.max_capacity() / 4).max(MIN_PER_SOURCE);
        let place = BacklogPlace::take(&self.sources, source, most);
        let place = place.ok_or(TrySendError::Full(()))?;
        let waiting = WaitingAssociation { association, place };
        self.queue.try_send(waiting).map_err(|error| match error {
            TrySendError::Full(_) => TrySendError::Full(()),
            TrySendError::Closed(_) => TrySendError::Closed(()),
        })
    }
}

impl WaitingAssociation {
    /// Returns the association, whose place in the queue is free now.
    pub(crate) fn into_association(self) -> Association {
        drop(self.place);
        self.association
    }
}

impl BacklogPlace {
    /// Takes a place; `None` if the source has `most`.
    fn take(sources: &Arc<Sources>, source: SourceKey, most: usize) -> Option<Self> {
        let mut counts = lock(sources);
        let waiting = counts.get(&source).copied().unwrap_or(0);
        if waiting >= most {
            return None;
        }
        counts.insert(source, waiting + 1);
        let sources = Arc::clone(sources);
        Some(Self { source, sources })
    }
}

impl Drop for BacklogPlace {
    fn drop(&mut self) {
        let mut counts = lock(&self.sources);
        if let Some(waiting) = counts.get_mut(&self.source) {
            *waiting -= 1;
            if *waiting == 0 {
                counts.remove(&self.source);
            }
        }
    }
}

fn lock(sources: &Sources) -> MutexGuard<'_, BTreeMap<SourceKey, usize>> {
    // No code panics while it has the lock.
    sources.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_for_each_source() {
        let sources = Arc::default();
        let take = |address: &str| {
            BacklogPlace::take(&sources, SourceKey::of(address.parse().unwrap()), 2)
        };
        let first = take("2001:db8::1").unwrap();
        let _second = take("2001:db8::2").unwrap();
        assert!(
            take("2001:db8::3").is_none(),
            "the /64 network is one source"
        );
        assert!(take("192.0.2.1").is_some());
        drop(first);
        assert!(take("2001:db8::3").is_some());
        assert_eq!(lock(&sources).len(), 1);
    }
}
