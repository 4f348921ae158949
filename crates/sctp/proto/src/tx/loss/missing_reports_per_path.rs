//! Missing reports for each path (split fast retransmit): loss detection of all paths by the
//! state in each [`path::PathRecovery`](crate::path::PathRecovery). The chunks in flight on a path are linked in the order of their
//! transmission, so that only lost chunks are examined.

use alloc::vec::Vec;

use crate::path::Paths;
use crate::tx::LossSignal;
use crate::tx::outstanding::Outstanding;

/// Marks the lost chunks of all paths; returns them.
pub(super) fn detect(
    threshold: usize,
    outstanding: &mut Outstanding,
    paths: &mut Paths,
) -> Vec<u64> {
    let mut lost = Vec::new();
    for id in paths.ids() {
        let bound = paths[id].recovery().reports().bound(threshold);
        loop {
            let oldest = paths[id].recovery().oldest();
            let chunk = outstanding.chunk(oldest);
            if chunk.is_none_or(|c| c.serial >= bound) {
                break;
            }
            outstanding.mark(oldest, LossSignal::MissingReports, paths);
            lost.push(oldest);
        }
    }
    lost
}
