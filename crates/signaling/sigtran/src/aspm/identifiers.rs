//! Lists of application servers in messages.

/// Application servers that a message lists: identifiers and ranges of them, in order and without overlap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AsIds<I>(Vec<(I, I)>);

impl<I: Clone + Ord> AsIds<I> {
    /// List of these identifiers, each once, `None` if there is none.
    pub fn new(ids: impl IntoIterator<Item = I>) -> Option<Self> {
        Self::of_ranges(ids.into_iter().map(|id| (id.clone(), id)))
    }

    /// List of these ranges with their first and last identifier, `None` if there is none. Ranges that overlap are joined, so
    /// that an application server is addressed once, however often a message lists it.
    pub fn of_ranges(ranges: impl IntoIterator<Item = (I, I)>) -> Option<Self> {
        let mut ranges: Vec<_> = ranges.into_iter().collect();
        ranges.sort_unstable();
        ranges.dedup_by(|next, kept| {
            let overlaps = next.0 <= kept.1;
            if overlaps && next.1 > kept.1 {
                kept.1 = next.1.clone();
            }
            overlaps
        });
        (!ranges.is_empty()).then_some(Self(ranges))
    }

    /// Returns the ranges; a single identifier is both ends of one.
    pub fn ranges(&self) -> &[(I, I)] {
        &self.0
    }

    /// Returns the single identifiers.
    pub(crate) fn singles(&self) -> impl Iterator<Item = &I> {
        let singles = self.0.iter().filter(|(first, last)| first == last);
        singles.map(|(id, _)| id)
    }

    /// Returns the single identifiers.
    pub(crate) fn into_singles(self) -> impl Iterator<Item = I> {
        let singles = self.0.into_iter().filter(|(first, last)| first == last);
        singles.map(|(id, _)| id)
    }

    /// Returns whether an identifier is in the list.
    pub fn contains(&self, id: &I) -> bool {
        let above = self.0.partition_point(|(first, _)| first <= id);
        above > 0 && *id <= self.0[above - 1].1
    }

    /// Returns the first ranges of the list.
    pub(crate) fn truncated(mut self, maximum: usize) -> Self {
        self.0.truncate(maximum);
        self
    }
}
