//! State of a path that exists once data was sent on it: an idle path needs no memory for it.

use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};

use super::newly_acked::NewlyAcked;
use super::recovery::PathRecovery;
use crate::export::{ExportReader, ExportWriter, ImportError, Portable};

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
