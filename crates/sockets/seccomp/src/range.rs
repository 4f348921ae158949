//! Numbers of descriptors that are reserved for Carrick's.

use std::ffi::c_int;
use std::ops::RangeInclusive;

/// Reserved numbers, in the order of their use. The first are below `FD_SETSIZE`, for `select`; the second range needs a limit
/// of open files (`RLIMIT_NOFILE`) above it.
pub(crate) const RANGES: [RangeInclusive<u32>; 2] = [900..=1023, 32_768..=40_959];

/// Limit of open files that the first range needs.
pub(crate) const NEEDED_LIMIT: u64 = 1024;

/// Returns all reserved numbers in the order in which a free one is searched: those of the first range, and those of the
/// second range from behind the last one that was used. The system shows by one call for each number whether it is free,
/// so that a search from the first one would cost as much as the program has sockets.
pub(crate) fn behind(last: u32) -> impl Iterator<Item = u32> {
    let [near, far] = RANGES;
    let split = (last + 1).clamp(*far.start(), *far.end());
    near.chain(split..=*far.end()).chain(*far.start()..split)
}

/// Returns whether a number is reserved.
pub(crate) fn contains(number: c_int) -> bool {
    let number = number as u32;
    RANGES.iter().any(|range| range.contains(&number))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_search_begins_behind_the_last_number() {
        let [near, far] = RANGES;
        let near = near.count();
        for (last, first) in [
            (0, *far.start()),
            (32_768, 32_769),
            (*far.end(), *far.end()),
        ] {
            assert_eq!(behind(last).nth(near), Some(first));
            let all: BTreeSet<u32> = behind(last).collect();
            assert!(all.into_iter().eq(RANGES.into_iter().flatten()));
            assert_eq!(behind(last).count(), RANGES.into_iter().flatten().count());
        }
    }
}
