//! Counters of an association as it holds them: those that most associations never change are allocated by the
//! first change.

use alloc::boxed::Box;

use crate::export::{ExportReader, ExportWriter, ImportError, Portable};
use crate::stats::AssociationCounters;

macro_rules! counters {
    ($($name:ident),*) => {
        /// The counters that every association with data changes, named as in [`AssociationCounters`].
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: u64,)*
            other: Option<Box<AssociationCounters>>,
        }

        impl Counters {
            /// Returns all counters.
            pub(crate) fn all(&self) -> AssociationCounters {
                AssociationCounters {
                    $($name: self.$name,)*
                    ..self.other.as_deref().copied().unwrap_or_default()
                }
            }
        }

        impl From<AssociationCounters> for Counters {
            fn from(mut all: AssociationCounters) -> Self {
                Self {
                    $($name: core::mem::take(&mut all.$name),)*
                    other: (all != AssociationCounters::default()).then(|| Box::new(all)),
                }
            }
        }
    };
}

counters!(
    packets_sent,
    packets_received,
    data_chunks_sent,
    data_bytes_sent,
    data_chunks_received,
    data_bytes_received,
    sacks_sent,
    sacks_received,
    nr_sacks_sent,
    nr_sacks_received,
    control_chunks_sent,
    control_chunks_received,
    messages_sent,
    messages_delivered
);

impl Counters {
    /// Returns the further counters, to change one that is no field of this struct.
    #[cold]
    pub(crate) fn other(&mut self) -> &mut AssociationCounters {
        self.other.get_or_insert_with(Box::default)
    }
}

/// All counters.
impl Portable for Counters {
    fn write(&self, out: &mut ExportWriter) {
        self.all().write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        AssociationCounters::read(input).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_counters_are_allocated_when_changed() {
        let all = AssociationCounters {
            packets_sent: 2,
            ..AssociationCounters::default()
        };
        let mut counters = Counters::from(all);
        assert!(counters.other.is_none());
        assert_eq!(counters.all(), all);
        counters.other().reneged += 1;
        let all = AssociationCounters { reneged: 1, ..all };
        assert_eq!(counters.all(), all);
        assert_eq!(Counters::from(all).all(), all);
    }
}
