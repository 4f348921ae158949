//! Order in which the chunks in flight on each path were last sent.

use super::Outstanding;
use crate::path::{PathId, Paths};
use crate::time::Time;

impl Outstanding {
    /// Appends a chunk to the order of transmission.
    pub(super) fn link(&mut self, index: u64, to: PathId, paths: &mut Paths) {
        if !self.tracking.ordered {
            return;
        }
        let once_only = !self.tracking.repeated;
        if once_only && self.chunk(index).is_some_and(|c| c.fast_retransmitted) {
            if let Some(chunk) = self.chunk_mut(index) {
                (chunk.older, chunk.newer) = (0, 0);
            }
            return;
        }
        let older = paths[to].recovery_mut().order_mut().append(index);
        if let Some(chunk) = self.chunk_mut(older) {
            chunk.newer = index;
        }
        if let Some(chunk) = self.chunk_mut(index) {
            (chunk.older, chunk.newer) = (older, 0);
        }
    }

    /// Removes a chunk from the order of transmission.
    pub(super) fn unlink(&mut self, index: u64, path: PathId, paths: &mut Paths) {
        if !self.tracking.ordered {
            return;
        }
        let Some(chunk) = self.chunk(index) else {
            return;
        };
        let (older, newer) = (chunk.older, chunk.newer);
        let order = paths[path].recovery_mut().order_mut();
        if older == 0 && order.oldest() != index {
            return;
        }
        match self.chunk_mut(older) {
            Some(chunk) => chunk.newer = newer,
            None => order.replace_oldest(newer),
        }
        match self.chunk_mut(newer) {
            Some(chunk) => chunk.older = older,
            None => order.replace_newest(older),
        }
    }

    /// Moves a chunk in flight, the delivery of which is uncertain, to the end of the order: it counts as
    /// sent now.
    pub(in crate::tx) fn postpone(&mut self, index: u64, now: Time, paths: &mut Paths) {
        self.serial += 1;
        let serial = self.serial;
        let Some(path) = self.chunk(index).map(|c| c.path) else {
            return;
        };
        self.unlink(index, path, paths);
        if let Some(chunk) = self.chunk_mut(index) {
            chunk.delivery_uncertain = true;
            (chunk.sent, chunk.serial) = (now, serial);
        }
        self.link(index, path, paths);
    }
}
