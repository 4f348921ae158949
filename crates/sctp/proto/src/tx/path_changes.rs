//! Retransmission of what was sent on paths that are replaced, removed or rerouted, or whose MTU shrank.

use super::Sender;
use crate::path::{PathId, Paths};
use crate::time::Time;

impl Sender {
    /// Marks all chunks for retransmission: the packet that carried them with COOKIE ECHO was lost.
    pub(crate) fn resend_all(&mut self, paths: &mut Paths) {
        for id in paths.ids() {
            self.mark_in_flight(id, paths);
            let path = &mut paths[id];
            path.stop_t3();
            path.on_flight_marked();
            path.forget_recovery();
        }
        // Deadlines are examined once the association is established.
        self.process_abandonment(Time::ZERO, paths);
        self.outstanding.forget_paths();
        for path in paths.iter_mut() {
            path.flight_mut().set_chunks(0, 0);
        }
        self.count_on_new_paths(paths);
        let cumulative = self.outstanding.first_index() - 1;
        if let Some(forward) = self.abandonment.forward_mut() {
            forward.forget_paths(cumulative);
        }
        self.forced = self.outstanding.has_marked();
    }

    /// Counts all chunks on the first of the paths, which replace those before.
    pub(crate) fn count_on_new_paths(&self, paths: &mut Paths) {
        if let Some(first) = paths.iter_mut().next() {
            let chunks = self.outstanding.not_abandoned() as u32;
            first
                .flight_mut()
                .set_chunks(self.outstanding.held(), chunks);
        }
    }

    /// Returns whether the peer may cause another move of a path's chunks; see
    /// [`super::outstanding::Outstanding::permits_move`].
    pub(crate) fn permits_move(&self, from: PathId, paths: &Paths) -> bool {
        self.outstanding.permits_move(from, paths)
    }

    /// Moves what was sent on a path to another path, or marks it for retransmission on the same: the path
    /// is removed, or its packets were lost without congestion.
    pub(crate) fn move_path(&mut self, from: PathId, to: PathId, now: Time, paths: &mut Paths) {
        let before = self.outstanding.in_flight();
        self.outstanding.move_path(from, to, paths);
        self.window.marked(before - self.outstanding.in_flight());
        let path = &mut paths[from];
        path.stop_t3();
        path.on_flight_marked();
        if let Some(recovery) = path.used_recovery() {
            recovery.leave();
            recovery.cancel_detection();
        }
        if from != to {
            self.queue.forget_path(from);
        }
        let cumulative = self.outstanding.first_index() - 1;
        if let Some(forward) = self.abandonment.forward_mut() {
            forward.forget_path(from, cumulative);
        }
        self.process_abandonment(now, paths);
    }

    /// Marks what is in flight on a path for retransmission, because it was too large for the path.
    pub(crate) fn resend_path(&mut self, id: PathId, now: Time, paths: &mut Paths) {
        self.mark_in_flight(id, paths);
        let path = &mut paths[id];
        // A FORWARD-TSN, which is small enough, still waits for its acknowledgement.
        if !self.abandonment.awaits_forward_on(id) {
            path.stop_t3();
        }
        path.on_flight_marked();
        self.process_abandonment(now, paths);
        self.forced |= self.outstanding.has_marked();
    }
}
