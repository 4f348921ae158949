//! Expiration of T3-rtx (RFC 9260 section 6.3.3) and of the window probe timer.

use super::Sender;
use super::sack::window_event;
use crate::config::AssociationConfig;
use crate::path::{PathId, Paths};
use crate::policy::MarkedData;
use crate::time::{Time, earliest};
use crate::trace::{Trace, TraceEvent};

impl Sender {
    /// T3-rtx of a path expired. Returns whether that counts as an error: it does not while a
    /// closed window is probed and the peer answers.
    pub(crate) fn on_t3(
        &mut self,
        id: PathId,
        now: Time,
        paths: &mut Paths,
        config: &AssociationConfig,
        trace: &mut Trace,
    ) -> bool {
        let probing = self.window.is_refusing();
        let before = self.outstanding.in_flight();
        self.outstanding.mark_path(id, paths);
        self.window.marked(before - self.outstanding.in_flight());
        if let Some(forward) = self.abandonment.forward_mut() {
            forward.on_t3(id);
        }
        self.settle(now, paths);
        paths.pass_retransmission_turn(id);
        if config.policies.marked_data == MarkedData::HoldsPath {
            self.force_after_timeout(id, paths);
        }
        if !probing {
            self.couple(id, paths);
        }
        let path = &mut paths[id];
        path.t3 = None;
        path.earliest = None;
        path.timed = None;
        path.rto.back_off(config);
        path.recovery.probe.cancel();
        path.recovery.rack.timer = None;
        trace.record(now, TraceEvent::Timeout { path: id });
        trace.record(now, TraceEvent::rto_of(path));
        if probing {
            // Nothing but probes leaves: the window decays as on an idle path.
            path.congestion.on_idle(1);
            return false;
        }
        self.recovery.leave();
        self.on_timeout_of(path, config);
        path.congestion.on_timeout();
        path.ect.on_timeout();
        path.after_timeout = Some(config.policies.after_timeout);
        path.burst_limit = config.max_burst as usize * path.pmdcs();
        trace.record(now, window_event(path));
        true
    }

    /// All chunks leave again, because the packet that carried them with COOKIE ECHO was in vain.
    pub(crate) fn resend_all(&mut self, paths: &mut Paths) {
        let before = self.outstanding.in_flight();
        for id in paths.ids() {
            self.outstanding.mark_path(id, paths);
            let path = &mut paths[id];
            path.t3 = None;
            path.earliest = None;
            path.timed = None;
            path.recovery = super::PathRecovery::default();
        }
        self.window.marked(before - self.outstanding.in_flight());
        // What has a deadline is judged by that, when the association is set up.
        self.settle(Time::ZERO, paths);
        self.outstanding.forget_paths();
        for path in paths.iter_mut() {
            path.buffered = 0;
            path.chunks = 0;
        }
        self.count_on_new_paths(paths);
        let cumulative = self.outstanding.first_index() - 1;
        if let Some(forward) = self.abandonment.forward_mut() {
            forward.forget_paths(cumulative);
        }
        self.forced = self.outstanding.has_marked();
    }

    /// The paths were built anew: what was sent and is not acknowledged belongs to the first.
    pub(crate) fn count_on_new_paths(&self, paths: &mut Paths) {
        if let Some(first) = paths.iter_mut().next() {
            first.buffered = self.outstanding.held();
            first.chunks = self.outstanding.counted() as u32;
        }
    }

    /// Whether the peer may cause one more such move; see [`outstanding::Outstanding::affords_move`].
    pub(crate) fn affords_move(&self, from: PathId, paths: &Paths) -> bool {
        self.outstanding.affords_move(from, paths)
    }

    /// A path is removed, or what was sent on it is lost for certain without congestion: what
    /// belongs to it goes to another one, or leaves again on the same.
    pub(crate) fn move_path(&mut self, from: PathId, to: PathId, now: Time, paths: &mut Paths) {
        let before = self.outstanding.in_flight();
        self.outstanding.move_path(from, to, paths);
        self.window.marked(before - self.outstanding.in_flight());
        let path = &mut paths[from];
        path.t3 = None;
        path.earliest = None;
        path.timed = None;
        path.recovery.leave();
        path.recovery.probe.cancel();
        path.recovery.rack.timer = None;
        if from != to {
            self.queue.forget_path(from);
            self.held.forget_path(from);
        }
        let cumulative = self.outstanding.first_index() - 1;
        if let Some(forward) = self.abandonment.forward_mut() {
            forward.forget_path(from, cumulative);
        }
        self.settle(now, paths);
    }

    /// What is in flight on a path leaves again, because it was too large for it.
    pub(crate) fn resend_path(&mut self, id: PathId, now: Time, paths: &mut Paths) {
        let before = self.outstanding.in_flight();
        self.outstanding.mark_path(id, paths);
        self.window.marked(before - self.outstanding.in_flight());
        let path = &mut paths[id];
        // A FORWARD-TSN, which is small enough, still waits for its acknowledgement.
        if !self.abandonment.awaits_forward_on(id) {
            path.t3 = None;
        }
        path.earliest = None;
        path.timed = None;
        self.settle(now, paths);
        self.forced |= self.outstanding.has_marked();
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        earliest(self.window.next_timeout(), self.abandonment.next_deadline())
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.window.handle_timeout(now);
    }
}
