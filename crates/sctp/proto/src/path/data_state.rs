//! State of a path that exists while data is sent on it: an idle path needs no memory for it.

use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};

use super::Path;
use super::newly_acked::NewlyAcked;
use super::recovery::{MIN_RTT_VALIDITY, PathRecovery};
use crate::export::{ExportReader, ExportWriter, ImportError, Portable};
use crate::time::Time;

/// State that SACKs and timeouts change on a path that carries data.
#[derive(PartialEq, Debug)]
pub(super) struct DataState {
    /// Effect of the SACK that is being processed.
    pub(super) newly_acked: NewlyAcked,
    /// Loss recovery.
    pub(super) recovery: PathRecovery,
}

portable_struct! { DataState { newly_acked, recovery } }

impl DataState {
    /// State of a path without data.
    const UNUSED: &Self = &Self::new();

    const fn new() -> Self {
        Self {
            newly_acked: NewlyAcked::NONE,
            recovery: PathRecovery::new(),
        }
    }
}

/// [`DataState`], allocated by the first change.
#[derive(Debug, Default)]
pub(super) struct LazyDataState(Option<Box<DataState>>);

impl LazyDataState {
    /// Returns the state if it was changed before.
    pub(super) fn changed(&mut self) -> Option<&mut DataState> {
        self.0.as_deref_mut()
    }

    /// Frees the state if it is that of a path without data.
    fn free_if_unused(&mut self) {
        self.0.take_if(|data| **data == *DataState::UNUSED);
    }
}

impl Path {
    /// Frees the state once no data was sent or acknowledged for an RTO or longer, unless RACK has learned of
    /// reordering (RFC 8985, section 6.2, step 4). No chunk of the association is outstanding.
    pub(crate) fn free_unused_memory(&mut self, now: Time) {
        let idle = self.rto.value().max(MIN_RTT_VALIDITY);
        if !self.limits.were_unused_for(idle, now) {
            return;
        }
        if let Some(data) = self.data.changed() {
            data.newly_acked = NewlyAcked::NONE;
            data.recovery.forget_deliveries();
            self.data.free_if_unused();
        }
    }
}

#[cold]
fn allocate() -> Box<DataState> {
    Box::new(DataState::new())
}

impl Deref for LazyDataState {
    type Target = DataState;

    #[inline]
    fn deref(&self) -> &DataState {
        self.0.as_deref().unwrap_or(DataState::UNUSED)
    }
}

impl DerefMut for LazyDataState {
    #[inline]
    fn deref_mut(&mut self) -> &mut DataState {
        self.0.get_or_insert_with(allocate)
    }
}

/// The state, changed or not.
impl Portable for LazyDataState {
    fn write(&self, out: &mut ExportWriter) {
        DataState::write(self, out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let read = DataState::read(input)?;
        Ok(Self((read != *DataState::UNUSED).then(|| Box::new(read))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AssociationConfig;
    use crate::path::{Delivery, PathId};
    use crate::route::Route;

    fn second(n: u64) -> Time {
        Time::from_millis(n * 1000)
    }

    /// Path on which chunks with these indexes were sent and acknowledged in this order within two seconds.
    fn used_path(acknowledged: &[u64]) -> Path {
        let route = Route::plain("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let mut path = Path::new(PathId(0), route, true, &AssociationConfig::modern());
        path.on_data_departure(second(1));
        for &index in acknowledged {
            let delivery = Delivery {
                index,
                serial: index,
                sent: second(1),
                once: true,
                clear: true,
            };
            let rack = path.recovery_mut().rack_mut();
            rack.on_delivered(&delivery, second(2))
                .expect("a round trip");
            rack.on_sack_end(second(2));
        }
        path.on_data_acknowledged(second(2));
        path
    }

    #[test]
    fn an_idle_path_frees_its_data_state() {
        let mut path = used_path(&[1, 2]);
        path.recovery_mut().watch_duplicates();
        path.recovery_mut().on_retransmission(2);
        path.free_unused_memory(second(11));
        assert!(path.data.0.is_some(), "the minimum round trip is valid");
        path.free_unused_memory(second(12));
        assert!(path.data.0.is_none());
        assert!(path.recovery().is_open() && path.recovery().next_timeout().is_none());
        path.free_unused_memory(second(13));
        assert!(path.data.0.is_none(), "nothing to free");
    }

    /// RFC 8985, section 6.2, step 4
    #[test]
    fn an_idle_path_remembers_reordering() {
        let mut path = used_path(&[2, 1]);
        path.free_unused_memory(second(60));
        let rack = path.recovery_mut().rack_mut();
        rack.on_gap_ack(1 << 20);
        let delivery = Delivery {
            index: 3,
            serial: 3,
            sent: second(60),
            once: true,
            clear: true,
        };
        rack.on_delivered(&delivery, second(64));
        let window = rack.reordering_window(false, 1000, None);
        assert_eq!(
            window,
            core::time::Duration::from_secs(1),
            "a quarter of the round trip"
        );
    }
}
