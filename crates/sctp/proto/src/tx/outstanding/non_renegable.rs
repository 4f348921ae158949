//! Chunks acknowledged as non-renegable (draft-natarajan-tsvwg-sctp-nrsack).
//!
//! Ranges are found by index, so that the cost of an NR-SACK is in proportion to what it reports for the
//! first time; a block that was reported before takes one search.

use alloc::vec::Vec;

use super::{Outstanding, Ranges};
use crate::path::Paths;

impl Outstanding {
    /// Records chunks, all of them acknowledged, as non-renegable, and frees their bytes. Calls `each` with
    /// the message of each chunk and its bytes, if the chunk was renegable before.
    pub(in crate::tx) fn record_non_renegable(
        &mut self,
        reported: &Ranges,
        paths: &mut Paths,
        mut each: impl FnMut(u64, usize),
    ) {
        let mut added = Vec::new();
        for &(first, last) in reported {
            self.non_renegable
                .insert_range(first, last, |from, to| added.push((from, to)));
        }
        for index in added.into_iter().flat_map(|(first, last)| first..=last) {
            if let Some((message, bytes)) = self.release(index, paths) {
                each(message, bytes);
            }
        }
    }
}
