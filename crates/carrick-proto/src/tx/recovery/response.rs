//! Response to losses: congestion control, tail loss probes, and the undoing of needless reductions.

use carrick_wire::Tsn;

use super::{RecoveryPhase, Reduction};
use crate::cc::CongestionEvent;
use crate::config::AssociationConfig;
use crate::path::{AckNews, Path, PathId, Paths};
use crate::research::ReducedPath;
use crate::time::{Time, earliest};
use crate::trace::TraceEvent;
use crate::tx::Sender;
use crate::tx::loss::{ProbeTransmission, SackReport};
use crate::tx::outstanding::ChunkState;
use crate::tx::sack_processing::{SackContext, window_event};

impl Sender {
    /// Detects the losses that a SACK shows, and responds to them.
    pub(in crate::tx) fn detect_losses(&mut self, sack: &SackReport, cx: &mut SackContext<'_>) {
        let lost = self.detector.on_sack(sack, &mut self.outstanding, cx.paths);
        self.on_lost(&lost, cx);
        self.detector.on_sack_end();
    }

    /// Responds to the loss of chunks, which are marked: reduces the windows of their paths, once for
    /// each congestion event.
    fn on_lost(&mut self, lost: &[u64], cx: &mut SackContext<'_>) {
        if lost.is_empty() {
            return;
        }
        let mut bytes = 0;
        for &index in lost {
            let Some(chunk) = self.outstanding.chunk(index) else {
                continue;
            };
            let path = &mut cx.paths[chunk.path];
            path.news.loss |= self.detector.is_congestion_event(chunk, &path.recovery);
            bytes += chunk.payload.len();
            cx.trace.record(
                cx.now,
                TraceEvent::LossDetected {
                    tsn: self.outstanding.tsn(index),
                },
            );
        }
        self.window.marked(bytes);
        let exit = self.outstanding.next_index() - 1;
        if !self.detector.enter_fast_recovery(exit) {
            return;
        }
        for id in cx.paths.ids() {
            if cx.paths[id].news.loss {
                self.force(id, cx.paths);
                let reduced = match cx.config.research.policies.reduced_path {
                    ReducedPath::OfLoss => id,
                    ReducedPath::OfSack => cx.arrived_on.unwrap_or(id),
                };
                self.reduce_window(reduced, exit, cx);
            }
        }
    }

    /// Begins Fast Recovery of a path (RFC 9260, section 7.2.4, step 2).
    fn reduce_window(&mut self, id: PathId, exit: u64, cx: &mut SackContext<'_>) {
        self.update_coupled_windows(id, cx.paths);
        let path = &mut cx.paths[id];
        path.congestion.on_congestion(CongestionEvent::Loss);
        path.recovery.phase = RecoveryPhase::Fast(exit);
        path.recovery.reduced_at = self.outstanding.transmissions();
        path.recovery.probe.cancel();
        self.watch_duplicates(path, cx.config);
        path.recovery.reduction = cx
            .config
            .research
            .policies
            .proportional_rate_reduction
            .then(|| Reduction::new(path.news.flight_before, path.flight_size));
        cx.trace.record(cx.now, window_event(path));
    }

    /// Updates what may be in flight on each path while its window is reduced (RFC 6937, section 3).
    pub(in crate::tx) fn reduce_in_proportion(paths: &mut Paths) {
        for path in paths.iter_mut() {
            let (ssthresh, pmdcs) = (path.congestion.window(), path.pmdcs());
            if let Some(reduction) = &mut path.recovery.reduction {
                reduction.on_sack(path.news.bytes, path.flight_size, ssthresh, pmdcs);
            }
        }
    }

    /// Handles the reordering timer and the probe timer of a path, if they expired.
    pub(crate) fn on_path_timers(&mut self, id: PathId, cx: &mut SackContext<'_>) {
        let due = |timer: Option<Time>| timer.is_some_and(|at| at <= cx.now);
        let recovery = &cx.paths[id].recovery;
        let (reordering, probe) = (due(recovery.rack.timer), due(recovery.probe.timer));
        if reordering {
            self.on_reordering_timer(cx);
        }
        // A peer without room is probed by other rules (RFC 8985, section 8).
        let refused = self.window.is_probing();
        let path = &mut cx.paths[id];
        let useful = path.usable() && path.flight_size > 0 && !refused;
        if probe && useful && path.recovery.probe.expire() {
            if !self.may_probe_with_new(id, cx.paths, cx.config) {
                self.abandon_instead_of_probe(id, cx);
            }
            let path = &mut cx.paths[id];
            // If all of the flight was abandoned, a FORWARD-TSN elicits the SACK.
            if path.flight_size > 0 {
                path.recovery.probe.due = true;
                self.probe_due = true;
                path.restart_t3(cx.now);
            }
        } else if probe {
            path.recovery.probe.timer = None;
        }
    }

    fn on_reordering_timer(&mut self, cx: &mut SackContext<'_>) {
        for path in cx.paths.iter_mut() {
            path.news = AckNews {
                flight_before: path.flight_size,
                ..AckNews::default()
            };
        }
        let (now, complete_up_to) = (cx.now, self.complete_up_to);
        let outstanding = &mut self.outstanding;
        let lost = self
            .detector
            .on_reordering_timer(now, complete_up_to, outstanding, cx.paths);
        self.on_lost(&lost, cx);
        self.process_abandonment(now, cx.paths);
    }

    /// Abandons the last messages in flight on a path that a tail loss probe would retransmit (RFC 8985,
    /// section 7.3) although they may not be sent again (RFC 3758, section 4.1, TR4; RFC 7496,
    /// section 3.1).
    fn abandon_instead_of_probe(&mut self, id: PathId, cx: &mut SackContext<'_>) {
        if !self.abandon_newest(id, cx.now, cx.paths) {
            return;
        }
        // Whether an abandoned chunk was lost (RFC 3758, section 3.5, F5) is not found out: reduces the
        // window as for a loss that a probe repairs (RFC 8985, section 7.4.2).
        let exit = self.outstanding.next_index() - 1;
        self.reduce_window(id, exit, cx);
        cx.paths[id].recovery.leave();
    }

    /// Selects the path whose tail loss probe is due.
    pub(in crate::tx) fn take_probe(&mut self, paths: &mut Paths) -> Option<PathId> {
        if !self.probe_due {
            return None;
        }
        let due = paths.iter().find(|p| p.recovery.probe.due).map(|p| p.id);
        self.probe_due = due.is_some();
        due
    }

    /// Records that the probe of a path left with this chunk.
    pub(in crate::tx) fn probe_sent(index: u64, retransmission: bool, path: &mut Path, at: Time) {
        path.recovery.probe.due = false;
        path.recovery.probe.timer = None;
        path.recovery.probe.sent = Some(ProbeTransmission {
            index,
            at,
            retransmission,
        });
        path.restart_t3(at);
    }

    /// Ends the probe of a path once its chunk or a later one is acknowledged (RFC 8985, section 7.4).
    pub(in crate::tx) fn probe_acknowledged(path: &mut Path, index: u64, now: Time) {
        let Some(sent) = path.recovery.probe.sent.filter(|s| s.index <= index) else {
            return;
        };
        let delivered = !path.recovery.rack.was_before(now.since(sent.at));
        if sent.index == index && sent.retransmission && delivered {
            path.news.probe = Some(index);
        }
        path.recovery.probe.sent = None;
    }

    /// Processes the Duplicate TSNs of a SACK: finds needless probes and retransmissions. Returns the
    /// number of reductions undone.
    pub(in crate::tx) fn on_duplicates(
        &mut self,
        duplicates: impl Iterator<Item = Tsn> + Clone,
        cx: &mut SackContext<'_>,
    ) -> u64 {
        self.respond_to_repaired_losses(&duplicates, cx);
        if !self.uses_duplicates(cx.config) {
            return 0;
        }
        let (first, next) = (
            self.outstanding.first_index(),
            self.outstanding.next_index(),
        );
        let mut undone = 0;
        for tsn in duplicates {
            let Some(index) = self.outstanding.index_of_any(tsn) else {
                continue;
            };
            for path in cx.paths.iter_mut() {
                if !path.recovery.undo.on_duplicate(index) {
                    continue;
                }
                path.recovery.rack.on_duplicate(first - 1, next);
                if cx.config.research.policies.undo_spurious && path.recovery.undo.take_spurious() {
                    undo_reduction(path);
                    cx.trace.record(cx.now, window_event(path));
                    undone += 1;
                }
            }
        }
        undone
    }

    /// Reduces the window for each loss that only a tail loss probe repaired: a retransmission that was
    /// acknowledged and is no duplicate (RFC 8985, section 7.4.2).
    fn respond_to_repaired_losses(
        &mut self,
        duplicates: &(impl Iterator<Item = Tsn> + Clone),
        cx: &mut SackContext<'_>,
    ) {
        for id in cx.paths.ids() {
            let Some(index) = cx.paths[id].news.probe.take() else {
                continue;
            };
            let tsn = self.outstanding.tsn(index);
            let needless = duplicates.clone().any(|d| d == tsn);
            if !cx.paths[id].recovery.is_open() || needless {
                continue;
            }
            let exit = self.outstanding.next_index() - 1;
            self.reduce_window(id, exit, cx);
            let recovery = &mut cx.paths[id].recovery;
            recovery.undo.on_retransmission(index);
            // The loss is repaired.
            recovery.leave();
        }
    }

    /// Begins the repair of a path after T3-rtx expired.
    pub(in crate::tx) fn begin_timeout_recovery(
        &self,
        path: &mut Path,
        config: &AssociationConfig,
    ) {
        let exit = self.outstanding.next_index() - 1;
        path.recovery.leave();
        path.recovery.phase = RecoveryPhase::Timeout(exit);
        path.recovery.reduced_at = self.outstanding.transmissions();
        path.recovery.cancel_detection();
        self.watch_duplicates(path, config);
    }

    /// Watches from now on for duplicates of the retransmissions on a path.
    fn watch_duplicates(&self, path: &mut Path, config: &AssociationConfig) {
        if self.uses_duplicates(config) {
            path.recovery.undo.begin();
        }
    }

    fn uses_duplicates(&self, config: &AssociationConfig) -> bool {
        config.research.policies.undo_spurious || self.detector.learns_from_duplicates()
    }

    /// Expiry of the reordering timer or the probe timer of a path.
    pub(crate) fn next_path_timeout(path: &Path) -> Option<Time> {
        earliest(path.recovery.rack.timer, path.recovery.probe.timer)
    }

    /// Chunk that a probe of this path retransmits: the last one sent there, unless its message would be
    /// abandoned.
    pub(in crate::tx) fn last_in_flight(&self, path: &Path, now: Time) -> Option<u64> {
        let newest = path.recovery.order.newest;
        let chunk = self.outstanding.chunk(newest)?;
        let again = chunk.state == ChunkState::InFlight && self.may_send_again(chunk, now);
        again.then_some(newest)
    }
}

/// Undoes the last reduction of a path.
fn undo_reduction(path: &mut Path) {
    path.congestion.on_undo();
    path.recovery.leave();
    path.after_timeout = None;
}
