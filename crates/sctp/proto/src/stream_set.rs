//! Some streams of one direction, or all of them.

use alloc::vec::Vec;

use carrick_wire::StreamId;

/// Streams of one direction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StreamSet {
    All,
    /// Ascending, each once, not empty.
    Listed(Vec<StreamId>),
}

portable_enum! { StreamSet { 0: All, 1: Listed(value) } }

impl StreamSet {
    /// Returns the streams of a list; an empty one means all (RFC 6525 section 4.1).
    pub(crate) fn new(streams: impl Iterator<Item = StreamId>) -> Self {
        let mut listed: Vec<StreamId> = streams.collect();
        if listed.is_empty() {
            return Self::All;
        }
        listed.sort_unstable();
        listed.dedup();
        Self::Listed(listed)
    }

    /// Returns the list as on the wire, where an empty one means all.
    pub(crate) fn listed(&self) -> &[StreamId] {
        match self {
            Self::All => &[],
            Self::Listed(listed) => listed,
        }
    }

    pub(crate) fn contains(&self, stream: StreamId) -> bool {
        match self {
            Self::All => true,
            Self::Listed(listed) => listed.binary_search(&stream).is_ok(),
        }
    }

    /// Returns whether all streams of the other set are in this one.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::Listed(_), Self::All) => false,
            (Self::Listed(_), Self::Listed(streams)) => streams.iter().all(|s| self.contains(*s)),
        }
    }

    /// Returns whether each listed stream is below this number of streams.
    pub(crate) fn fits(&self, streams: u16) -> bool {
        self.listed().last().is_none_or(|last| last.0 < streams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(streams: &[u16]) -> StreamSet {
        StreamSet::new(streams.iter().map(|s| StreamId(*s)))
    }

    /// RFC 6525, section 4.1
    #[test]
    fn empty_list_means_all() {
        let all = set(&[]);
        assert_eq!((&all, all.listed().len()), (&StreamSet::All, 0));
        assert!(all.contains(StreamId(9)) && all.covers(&set(&[1])) && all.fits(1));
    }

    #[test]
    fn list_is_sorted_without_repetition() {
        let some = set(&[7, 3, 7, 5]);
        assert_eq!(some.listed(), [StreamId(3), StreamId(5), StreamId(7)]);
        assert!(some.contains(StreamId(5)) && !some.contains(StreamId(4)));
        assert!(some.covers(&set(&[3, 7])) && !some.covers(&set(&[3, 4])));
        assert!(!some.covers(&StreamSet::All));
        assert!(some.fits(8) && !some.fits(7));
    }
}
