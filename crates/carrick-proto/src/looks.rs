//! Counts what is looked at, for the tests that bound the work; anywhere else it is nothing.

/// How often something was looked at.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    #[cfg(test)]
    count: core::sync::atomic::AtomicUsize,
}

impl Looks {
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "counts in tests")]
    pub(crate) fn note(&self) {}

    #[cfg(test)]
    pub(crate) fn note(&self) {
        use core::sync::atomic::Ordering;
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// How often since it was asked last.
    #[cfg(test)]
    pub(crate) fn take(&self) -> usize {
        self.count.swap(0, core::sync::atomic::Ordering::Relaxed)
    }
}
