//! What is done about losses: detection by the association's policy, the answer of the congestion
//! control, probes, and the undoing of what was needless.

use alloc::vec::Vec;
use core::time::Duration;

use carrick_wire::Tsn;

use super::tail_loss_probe::{Sent, Situation};
use super::{Phase, Reduction};
use crate::config::AssociationConfig;
use crate::path::{AckNews, Path, PathId, Paths};
use crate::policy::{LossDetection, LossSignal};
use crate::send::sack::{SackContext, window_event};
use crate::send::{Sender, outstanding::ChunkState};
use crate::time::{Time, earliest};
use crate::trace::TraceEvent;

/// Chunks of which a SACK has no room to tell that are put off at once, and when the next ones are: a
/// peer chooses how many there are.
const MAX_POSTPONED: usize = 256;
const AGAIN: Duration = Duration::from_millis(1);

impl Sender {
    /// A SACK acknowledged something: looks for losses.
    pub(in crate::send) fn detect_losses(&mut self, cx: &mut SackContext<'_>) {
        let lost = if self.by_time {
            self.detect_by_time(cx)
        } else if self.split {
            self.detect_by_path(cx)
        } else if self.every_report.is_some() {
            Vec::new()
        } else {
            self.recovery.detect(&mut self.outstanding, cx.paths)
        };
        if !lost.is_empty() {
            self.on_lost(&lost, cx);
        }
    }

    /// Missing reports are counted as RFC 9260 says, for the association.
    pub(in crate::send) fn awaits_reports(&self) -> bool {
        !self.by_time && !self.split && self.every_report.is_none()
    }

    /// A SACK reported everything missing below this index: RFC 2960's counters.
    pub(in crate::send) fn count_reports(&mut self, below: u64, cx: &mut SackContext<'_>) {
        let Some(counters) = &mut self.every_report else {
            return;
        };
        let lost = counters.on_sack(below, &mut self.outstanding, cx.paths);
        if !lost.is_empty() {
            self.on_lost(&lost, cx);
        }
    }

    /// RACK on each path (RFC 8985 section 6.2, step 5): the oldest transmissions come first, so
    /// that only what is lost is looked at. Starts the reordering timers.
    fn detect_by_time(&mut self, cx: &mut SackContext<'_>) -> Vec<u64> {
        let mut lost = Vec::new();
        let mut postponed = 0;
        for id in cx.paths.ids() {
            let path = &cx.paths[id];
            let recovering = path.recovery.phase != Phase::Open;
            let window =
                path.recovery
                    .rack
                    .reordering_window(recovering, path.pmdcs(), path.rto.srtt());
            let timer = loop {
                let rack = &cx.paths[id].recovery.rack;
                let oldest = cx.paths[id].recovery.order.oldest;
                let Some(chunk) = self.outstanding.chunk(oldest) else {
                    break None;
                };
                match rack.lost_at(chunk.serial, chunk.sent, window) {
                    None => break None,
                    Some(at) if at > cx.now => break Some(rack.all_lost_at(window).max(at)),
                    Some(_) if oldest > self.reach => {
                        if postponed == MAX_POSTPONED {
                            break Some(cx.now + AGAIN);
                        }
                        postponed += 1;
                        self.outstanding.postpone(oldest, cx.now, cx.paths);
                        continue;
                    }
                    Some(_) => {}
                }
                self.outstanding
                    .mark(oldest, LossSignal::MissingReports, cx.paths);
                lost.push(oldest);
            };
            cx.paths[id].recovery.rack.timer = timer;
        }
        lost
    }

    /// Missing reports of each path.
    fn detect_by_path(&mut self, cx: &mut SackContext<'_>) -> Vec<u64> {
        let mut lost = Vec::new();
        let threshold = usize::from(cx.config.policies.missing_reports);
        for id in cx.paths.ids() {
            let bound = cx.paths[id].recovery.split.bound(threshold);
            loop {
                let oldest = cx.paths[id].recovery.order.oldest;
                let chunk = self.outstanding.chunk(oldest);
                if chunk.is_none_or(|c| c.serial >= bound) {
                    break;
                }
                self.outstanding
                    .mark(oldest, LossSignal::MissingReports, cx.paths);
                lost.push(oldest);
            }
        }
        lost
    }

    /// Chunks, already marked, were lost: their paths slow down, once an event.
    fn on_lost(&mut self, lost: &[u64], cx: &mut SackContext<'_>) {
        let mut bytes = 0;
        for &index in lost {
            let Some(chunk) = self.outstanding.chunk(index) else {
                continue;
            };
            let path = &mut cx.paths[chunk.path];
            // With RACK, what was sent before the window was reduced is part of the same event.
            path.news.loss |= if self.by_time {
                !chunk.taken_back && chunk.serial > path.recovery.reduced_at
            } else {
                !self.split || !path.recovery.is_fast()
            };
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
        if self.awaits_reports() && !self.recovery.enter(exit) {
            return;
        }
        for id in cx.paths.ids() {
            if cx.paths[id].news.loss {
                self.force(id, cx.paths);
                self.slow_down(id, exit, cx);
            }
        }
    }

    /// Fast Recovery of a path begins.
    fn slow_down(&mut self, id: PathId, exit: u64, cx: &mut SackContext<'_>) {
        self.couple(id, cx.paths);
        let path = &mut cx.paths[id];
        path.congestion.on_loss();
        path.recovery.phase = Phase::Fast(exit);
        path.recovery.reduced_at = self.outstanding.transmissions();
        path.recovery.probe.cancel();
        self.watch(path, cx.config);
        path.recovery.reduction = cx
            .config
            .policies
            .proportional_rate_reduction
            .then(|| Reduction::new(path.news.flight_before, path.flight_size));
        cx.trace.record(cx.now, window_event(path));
    }

    /// After losses were looked for: how much may be in flight while the window is reduced.
    pub(in crate::send) fn reduce_in_proportion(paths: &mut Paths) {
        for path in paths.iter_mut() {
            let (ssthresh, pmdcs) = (path.congestion.cwnd(), path.pmdcs());
            if let Some(reduction) = &mut path.recovery.reduction {
                reduction.on_sack(path.news.bytes, path.flight_size, ssthresh, pmdcs);
            }
        }
    }

    /// The reordering timer or the probe timer of a path may have expired. Returns whether a probe
    /// is due, which takes the place of T3-rtx.
    pub(crate) fn on_path_timers(&mut self, id: PathId, cx: &mut SackContext<'_>) {
        let due = |timer: Option<Time>| timer.is_some_and(|at| at <= cx.now);
        let recovery = &cx.paths[id].recovery;
        let (reordering, probe) = (due(recovery.rack.timer), due(recovery.probe.timer));
        if reordering {
            for path in cx.paths.iter_mut() {
                path.news = AckNews {
                    flight_before: path.flight_size,
                    ..AckNews::default()
                };
            }
            self.detect_losses(cx);
            self.settle(cx.now, cx.paths);
        }
        // A peer without room is probed by other rules (RFC 8985 section 8).
        let refused = self.window.is_probing();
        let path = &mut cx.paths[id];
        let useful = path.usable() && path.flight_size > 0 && !refused;
        if probe && useful && path.recovery.probe.expire() {
            if !self.may_probe_with_new(id, cx.paths, cx.config) {
                self.abandon_instead_of_probe(id, cx);
            }
            let path = &mut cx.paths[id];
            // Where all of the flight was abandoned, a FORWARD-TSN asks for the SACK.
            if path.flight_size > 0 {
                path.recovery.probe.due = true;
                self.probe_due = true;
                path.t3 = Some(cx.now + path.rto.value());
            }
        } else if probe {
            path.recovery.probe.timer = None;
        }
    }

    /// A tail loss probe would send the last chunk in flight again (RFC 8985 section 7.3). If its message
    /// may not be sent again, it is abandoned, as with any other retransmission (RFC 3758 section 4.1 TR4,
    /// RFC 7496 section 3.1), and the chunk before it is the last.
    fn abandon_instead_of_probe(&mut self, id: PathId, cx: &mut SackContext<'_>) {
        if !self.abandon_newest(id, cx.now, cx.paths) {
            return;
        }
        // RFC 3758 section 3.5 F5: whether it was lost is not found out any more; RFC 8985 section 7.4.2
        // has this reduction for a loss that a probe repairs.
        let exit = self.outstanding.next_index() - 1;
        self.slow_down(id, exit, cx);
        cx.paths[id].recovery.leave();
    }

    /// Starts the probe timer of a path again, where a probe would be of use (RFC 8985 section 7.2).
    pub(in crate::send) fn arm_probe(path: &mut Path, now: Time, config: &AssociationConfig) {
        if !probes(config) {
            return;
        }
        let repairing = path.recovery.phase != Phase::Open || path.recovery.rack.above_gap() > 0;
        if path.flight_size == 0 || repairing {
            path.recovery.probe.timer = None;
            return;
        }
        let situation = Situation {
            srtt: path.rto.srtt(),
            one_packet: path.flight_size <= path.pmdcs(),
            sack_delay: config.sack_delay,
            t3: path.t3,
        };
        path.recovery.probe.arm(now, &situation);
    }

    /// The path whose probe is to leave, with the chunk if it is to be one sent before.
    pub(in crate::send) fn take_probe(&mut self, paths: &mut Paths) -> Option<PathId> {
        if !self.probe_due {
            return None;
        }
        let due = paths.iter().find(|p| p.recovery.probe.due).map(|p| p.id);
        self.probe_due = due.is_some();
        due
    }

    /// The probe of a path has left with this chunk.
    pub(in crate::send) fn probe_sent(index: u64, again: bool, path: &mut Path, at: Time) {
        path.recovery.probe.due = false;
        path.recovery.probe.timer = None;
        path.recovery.probe.sent = Some(Sent { index, at, again });
        path.t3 = Some(at + path.rto.value());
    }

    /// Something of a path was acknowledged; was it the probe (RFC 8985 section 7.4)?
    pub(in crate::send) fn probe_acknowledged(path: &mut Path, index: u64, now: Time) {
        let Some(sent) = path.recovery.probe.sent.filter(|s| s.index <= index) else {
            return;
        };
        if sent.index == index && sent.again && !path.recovery.rack.was_before(now.since(sent.at)) {
            path.news.probe = Some(index);
        }
        path.recovery.probe.sent = None;
    }

    /// What the duplicates in a SACK say: which of the probes and retransmissions were needless.
    /// Returns how many reductions were undone.
    pub(in crate::send) fn on_duplicates(
        &mut self,
        duplicates: impl Iterator<Item = Tsn> + Clone,
        cx: &mut SackContext<'_>,
    ) -> u64 {
        self.settle_probes(&duplicates, cx);
        if !cx.config.policies.undo_spurious && !self.by_time {
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
                if cx.config.policies.undo_spurious && path.recovery.undo.take_spurious() {
                    undo(path);
                    cx.trace.record(cx.now, window_event(path));
                    undone += 1;
                }
            }
        }
        undone
    }

    /// A probe with a chunk sent before that was acknowledged, and is no duplicate, repaired a loss
    /// that no SACK tells of (RFC 8985 section 7.4.2).
    fn settle_probes(
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
            if cx.paths[id].recovery.phase != Phase::Open || needless {
                continue;
            }
            let exit = self.outstanding.next_index() - 1;
            self.slow_down(id, exit, cx);
            let recovery = &mut cx.paths[id].recovery;
            recovery.undo.on_resent(index);
            // Nothing is left to repair.
            recovery.leave();
        }
    }

    /// T3-rtx of a path expired.
    pub(in crate::send) fn on_timeout_of(&mut self, path: &mut Path, config: &AssociationConfig) {
        let exit = self.outstanding.next_index() - 1;
        path.recovery.leave();
        path.recovery.phase = Phase::Timeout(exit);
        path.recovery.reduced_at = self.outstanding.transmissions();
        path.recovery.probe.cancel();
        path.recovery.rack.timer = None;
        self.watch(path, config);
    }

    /// From here on duplicates tell whether retransmissions are needless, and so whether RACK's
    /// reordering window is large enough.
    fn watch(&self, path: &mut Path, config: &AssociationConfig) {
        if self.by_time || config.policies.undo_spurious {
            path.recovery.undo.begin();
        }
    }

    /// When a timer of this path expires.
    pub(crate) fn next_path_timeout(path: &Path) -> Option<Time> {
        earliest(path.recovery.rack.timer, path.recovery.probe.timer)
    }

    /// The chunk that a probe of this path sends again: the last one sent there, unless its message
    /// would rather be given up.
    pub(in crate::send) fn last_in_flight(&self, path: &Path, now: Time) -> Option<u64> {
        let newest = path.recovery.order.newest;
        let chunk = self.outstanding.chunk(newest)?;
        let again = chunk.state == ChunkState::InFlight && self.may_send_again(chunk, now);
        again.then_some(newest)
    }
}

/// Whether tail loss probes are sent.
fn probes(config: &AssociationConfig) -> bool {
    config.policies.tail_loss_probe && config.policies.loss_detection == LossDetection::Rack
}

/// The last reduction of a path was for nothing.
fn undo(path: &mut Path) {
    path.congestion.on_undo();
    path.recovery.leave();
    path.after_timeout = None;
}
