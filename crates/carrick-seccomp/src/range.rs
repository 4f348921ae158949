//! Numbers of descriptors that are reserved for Carrick's.

use std::ffi::c_int;
use std::ops::RangeInclusive;

/// Reserved numbers, in the order of their use. The first are below `FD_SETSIZE`, for `select`; the second range needs a limit
/// of open files (`RLIMIT_NOFILE`) above it.
pub(crate) const RANGES: [RangeInclusive<u32>; 2] = [900..=1023, 32_768..=40_959];

/// Limit of open files that the first range needs.
pub(crate) const NEEDED_LIMIT: u64 = 1024;

/// Returns whether a number is reserved.
pub(crate) fn contains(number: c_int) -> bool {
    let number = number as u32;
    RANGES.iter().any(|range| range.contains(&number))
}
