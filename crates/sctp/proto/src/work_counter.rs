//! Counter of steps of work, for the tests that bound the work; without effect in other builds.

use crate::export::{ExportReader, ExportWriter, ImportError, Portable};

/// Number of steps of work.
#[derive(Debug, Default)]
pub(crate) struct WorkCounter {
    #[cfg(test)]
    count: core::sync::atomic::AtomicUsize,
}

impl Portable for WorkCounter {
    fn write(&self, _: &mut ExportWriter) {}

    fn read(_: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        Ok(Self::default())
    }
}

impl WorkCounter {
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "counts in tests")]
    pub(crate) fn note(&self) {}

    /// Counts a step.
    #[cfg(test)]
    pub(crate) fn note(&self) {
        use core::sync::atomic::Ordering;
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of steps since the last call.
    #[cfg(test)]
    pub(crate) fn take(&self) -> usize {
        self.count.swap(0, core::sync::atomic::Ordering::Relaxed)
    }
}
