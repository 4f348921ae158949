//! Response to losses: congestion control, tail loss probes, and the undoing of needless reductions.

use carrick_wire::Tsn;

use crate::config::AssociationConfig;
use crate::observer::ObservedEvent;
use crate::path::{Path, PathId, Paths};
use crate::research::ReducedPath;
use crate::time::Time;
use crate::tx::Sender;
use crate::tx::loss::SackReport;
use crate::tx::outstanding::ChunkState;
use crate::tx::sack_processing::{SackContext, window_event};

impl Sender {
    /// Detects the losses that a SACK shows, and responds to them.
    pub(super) fn detect_losses(&mut self, sack: &SackReport, cx: &mut SackContext<'_>) {
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
            if self.detector.is_congestion_event(chunk, path.recovery()) {
                path.on_congestion_loss();
            }
            if self.rate_based {
                let weight = self.outstanding.weight(chunk.payload.len());
                path.on_data_lost(chunk.serial, weight, cx.now);
            }
            bytes += chunk.payload.len();
            cx.observation
                .record(cx.now, || ObservedEvent::LossDetected {
                    tsn: self.outstanding.tsn(index),
                    path: chunk.path,
                });
        }
        self.window.marked(bytes);
        let exit = self.outstanding.next_index() - 1;
        if !self.detector.enter_fast_recovery(exit) {
            return;
        }
        for id in cx.paths.ids() {
            if cx.paths[id].newly_acked().loss {
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
        // A rate-based controller paces, and does not reduce its window to a share of the flight.
        let proportional =
            cx.config.research.policies.proportional_rate_reduction && !self.rate_based;
        path.enter_fast_recovery(exit, self.outstanding.transmissions(), proportional);
        self.watch_duplicates(path, cx.config);
        cx.observation.record_chunk(cx.now, || window_event(path));
    }

    /// Handles the reordering timer and the probe timer of a path, if they expired.
    pub(crate) fn on_path_timers(&mut self, id: PathId, cx: &mut SackContext<'_>) {
        let due = |timer: Option<Time>| timer.is_some_and(|at| at <= cx.now);
        let recovery = cx.paths[id].recovery();
        let (reordering, probe) = (due(recovery.rack().timer()), due(recovery.probe().timer()));
        if reordering {
            // Only a detector that needs it again starts it again.
            cx.paths[id].recovery_mut().rack_mut().set_timer(None);
            self.on_reordering_timer(cx);
        }
        // A peer without room is probed by other rules (RFC 8985, section 8).
        let refused = self.window.is_probing();
        let path = &mut cx.paths[id];
        let useful = path.is_usable() && path.flight().size() > 0 && !refused;
        if probe && useful && path.recovery_mut().probe_mut().expire() {
            if !self.may_probe_with_new(id, cx.paths, cx.config) {
                self.abandon_instead_of_probe(id, cx);
            }
            let path = &mut cx.paths[id];
            // If all of the flight was abandoned, a FORWARD-TSN elicits the SACK.
            if path.flight().size() > 0 {
                path.recovery_mut().probe_mut().set_due(true);
                self.probe_due = true;
                path.restart_t3(cx.now);
            }
        } else if probe {
            path.recovery_mut().probe_mut().stop_timer();
        }
    }

    /// Sends a tail loss probe at once on a path that passed the check of its silence.
    pub(crate) fn probe_after_silence(&mut self, path: &mut Path) {
        let useful = path.is_usable() && path.flight().size() > 0 && !self.window.is_probing();
        if useful && self.detector.sends_probes() {
            path.recovery_mut().probe_mut().repeat();
            self.probe_due = true;
        }
    }

    fn on_reordering_timer(&mut self, cx: &mut SackContext<'_>) {
        cx.paths.iter_mut().for_each(Path::begin_sack);
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
        cx.paths[id].recovery_mut().leave();
    }

    /// Selects the path whose tail loss probe is due.
    pub(super) fn take_probe(&mut self, paths: &mut Paths) -> Option<PathId> {
        if !self.probe_due {
            return None;
        }
        let due = paths.iter().find(|p| p.recovery().probe().is_due());
        let due = due.map(Path::id);
        self.probe_due = due.is_some();
        due
    }

    /// Processes the Duplicate TSNs of a SACK: finds needless probes and retransmissions. Returns the
    /// number of reductions undone.
    pub(super) fn on_duplicates(
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
                let Some(recovery) = path.used_recovery() else {
                    continue;
                };
                if !recovery.on_duplicate(index, first - 1, next) {
                    continue;
                }
                if cx.config.research.policies.undo_spurious && recovery.take_spurious() {
                    path.undo_reduction();
                    let event = ObservedEvent::ReductionUndone { path: path.id() };
                    cx.observation.record(cx.now, || event);
                    cx.observation.record_chunk(cx.now, || window_event(path));
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
            let Some(index) = cx.paths[id].take_acknowledged_probe() else {
                continue;
            };
            let tsn = self.outstanding.tsn(index);
            let needless = duplicates.clone().any(|d| d == tsn);
            if !cx.paths[id].recovery().is_open() || needless {
                continue;
            }
            let exit = self.outstanding.next_index() - 1;
            self.reduce_window(id, exit, cx);
            let recovery = cx.paths[id].recovery_mut();
            recovery.on_retransmission(index);
            // The loss is repaired.
            recovery.leave();
        }
    }

    /// Begins the repair of a path after T3-rtx expired.
    pub(super) fn begin_timeout_recovery(&self, path: &mut Path, config: &AssociationConfig) {
        let exit = self.outstanding.next_index() - 1;
        let transmissions = self.outstanding.transmissions();
        path.recovery_mut()
            .enter_timeout_recovery(exit, transmissions);
        self.watch_duplicates(path, config);
    }

    /// Watches from now on for duplicates of the retransmissions on a path.
    fn watch_duplicates(&self, path: &mut Path, config: &AssociationConfig) {
        if self.uses_duplicates(config) {
            path.recovery_mut().watch_duplicates();
        }
    }

    fn uses_duplicates(&self, config: &AssociationConfig) -> bool {
        config.research.policies.undo_spurious || self.detector.learns_from_duplicates()
    }

    /// Next expiry of the timers of loss detection of a path.
    pub(crate) fn next_path_timeout(path: &Path) -> Option<Time> {
        path.recovery().next_timeout()
    }

    /// Chunk that a probe of this path retransmits: the last one sent there, unless its message would be
    /// abandoned.
    pub(super) fn last_in_flight(&self, path: &Path, now: Time) -> Option<u64> {
        let newest = path.recovery().newest();
        let chunk = self.outstanding.chunk(newest)?;
        let again = chunk.state == ChunkState::InFlight && self.may_send_again(chunk, now);
        again.then_some(newest)
    }
}
