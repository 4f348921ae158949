//! Values of ranges of point codes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::m3ua::AffectedPointCode;

/// Values of point codes, set by ranges: a point code has the value of the smallest range that contains it.
#[derive(Debug)]
pub(super) struct RangeMap<V> {
    /// Value of point codes in no range.
    pub(super) default: Option<V>,
    /// Ranges in the order of their first point code; those with the same one from large to small. A range precedes those
    /// inside it.
    entries: BTreeMap<(u32, Reverse<u8>), V>,
}

/// Key of a range whose wildcarded bits are 0.
const fn key(range: AffectedPointCode) -> (u32, Reverse<u8>) {
    (range.point_code.value(), Reverse(range.mask))
}

impl<V: Copy + Eq> RangeMap<V> {
    pub(super) const fn new(default: Option<V>) -> Self {
        Self {
            default,
            entries: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Returns the value of the smallest range that contains a range: one step for each length of the mask.
    pub(super) fn get(&self, range: AffectedPointCode) -> Option<V> {
        let mut masks = range.mask..=AffectedPointCode::ALL.mask;
        let found = masks.find_map(|mask| self.entries.get(&key(range.widened(mask))));
        found.copied().or(self.default)
    }

    /// Returns the ranges inside a range, itself included.
    pub(super) fn inside(
        &self,
        range: AffectedPointCode,
    ) -> impl Iterator<Item = (AffectedPointCode, V)> + '_ {
        let last = (range.last().value(), Reverse(0));
        let inside = self.entries.range(key(range)..=last);
        inside
            .map(|(&(first, Reverse(mask)), value)| (AffectedPointCode::range(first, mask), *value))
    }

    /// Returns whether all point codes of a range have one value, because no smaller range is inside.
    pub(super) fn is_uniform(&self, range: AffectedPointCode) -> bool {
        let mut inside = self.inside(range);
        inside.all(|(inner, _)| inner == range)
    }

    /// Sets the value of all point codes of a range. Smaller ranges inside are removed, so that each is visited once.
    /// Returns `false` if this needs more than `limit` ranges.
    pub(super) fn set(&mut self, range: AffectedPointCode, value: V, limit: usize) -> bool {
        let inside: Vec<_> = self.inside(range).map(|(inner, _)| key(inner)).collect();
        if inside.is_empty() {
            if self.get(range) == Some(value) {
                return true;
            }
            if self.len() >= limit {
                return false;
            }
        }
        for inner in inside {
            self.entries.remove(&inner);
        }
        if self.get(range) != Some(value) {
            self.entries.insert(key(range), value);
        }
        true
    }
}

/// Calls `visit` with the parts of a range, in order, that are uniform.
pub(super) fn split(
    range: AffectedPointCode,
    is_uniform: &impl Fn(AffectedPointCode) -> bool,
    visit: &mut impl FnMut(AffectedPointCode),
) {
    if is_uniform(range) {
        visit(range);
    } else {
        for half in range.halves() {
            split(half, is_uniform, visit);
        }
    }
}

/// Adds the next part to a list, and joins both halves of a range for which `join` returns a common value.
pub(super) fn push_joined<T: Copy>(
    parts: &mut Vec<(AffectedPointCode, T)>,
    mut range: AffectedPointCode,
    mut value: T,
    join: impl Fn(T, T) -> Option<T>,
) {
    while let Some(&(last, last_value)) = parts.last()
        && last.mask == range.mask
        && last.widened(range.mask + 1) == range.widened(range.mask + 1)
        && let Some(joined) = join(last_value, value)
    {
        parts.pop();
        range = range.widened(range.mask + 1);
        value = joined;
    }
    parts.push((range, value));
}

/// Returns the ranges of a list that are not in another one of it, in order.
pub(super) fn without_overlap(ranges: &[AffectedPointCode]) -> Vec<AffectedPointCode> {
    let mut ranges: Vec<_> = ranges.iter().map(|range| range.aligned()).collect();
    ranges.sort_unstable_by_key(|range| key(*range));
    ranges.dedup_by(|next, kept| kept.contains(next.point_code));
    ranges
}
