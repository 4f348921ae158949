//! Processing of a received SACK or NR-SACK (RFC 9260 sections 6.2.1, 6.3.1 C4 and C5, 6.3.2, 7.2).

use carrick_wire::{GapAckBlock, NrSack, Sack, Tsn};

use super::ranges::{Ranges, ranges, union};
use super::{MANY_BLOCKS, Sender};
use crate::config::AssociationConfig;
use crate::congestion::Acknowledged;
use crate::path::{AckNews, PathId, Paths};
use crate::policy::LossSignal;
use crate::time::Time;
use crate::trace::{Trace, TraceEvent};

/// The cumulative TSN is all there is.
const NO_BLOCKS: Option<(
    core::iter::Empty<GapAckBlock>,
    core::iter::Empty<GapAckBlock>,
)> = None;

/// What a SACK changed, for the association.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SackOutcome {
    /// Older than what is known: nothing was done.
    pub(crate) stale: bool,
    /// It acknowledges a TSN that was not sent: the association must be aborted (section 12.4).
    pub(crate) unsent_tsn: bool,
    /// The cumulative TSN stops right below a chunk that the peer acknowledged as non-renegable, and the
    /// SACK does not list it: the peer has lost it, and its bytes are gone.
    pub(crate) broken_promise: bool,
    /// Data was acknowledged for the first time.
    pub(crate) acknowledged: bool,
    /// Chunks the peer took back.
    pub(crate) reneged: u64,
    /// Reductions of a window that turned out to be needless.
    pub(crate) undone: u64,
}

/// Everything besides the sender that a SACK touches.
pub(crate) struct SackContext<'a> {
    pub(crate) now: Time,
    /// The path the SACK came from.
    pub(crate) arrived_on: Option<PathId>,
    pub(crate) paths: &'a mut Paths,
    pub(crate) config: &'a AssociationConfig,
    pub(crate) trace: &'a mut Trace,
}

impl Sender {
    /// Takes a SACK.
    pub(crate) fn on_sack(&mut self, sack: &Sack<'_>, cx: &mut SackContext<'_>) -> SackOutcome {
        let blocks = (sack.gap_ack_blocks(), core::iter::empty());
        let news = (sack.cumulative_tsn_ack, sack.a_rwnd);
        self.on_report(news, blocks, sack.duplicate_tsns(), cx)
    }

    /// Takes an NR-SACK. Its A bit is not asked: what it stands for is listed as well, and the bit had
    /// another meaning once.
    pub(crate) fn on_nr_sack(
        &mut self,
        sack: &NrSack<'_>,
        cx: &mut SackContext<'_>,
    ) -> SackOutcome {
        let blocks = (sack.gap_ack_blocks(), sack.non_renegable_blocks());
        let news = (sack.cumulative_tsn_ack, sack.a_rwnd);
        self.on_report(news, blocks, sack.duplicate_tsns(), cx)
    }

    /// The cumulative TSN and the window; what else has arrived, and what more of it for good; and
    /// what came again.
    fn on_report(
        &mut self,
        (cumulative, a_rwnd): (Tsn, u32),
        blocks: (
            impl Iterator<Item = GapAckBlock>,
            impl Iterator<Item = GapAckBlock>,
        ),
        duplicates: impl Iterator<Item = Tsn> + Clone,
        cx: &mut SackContext<'_>,
    ) -> SackOutcome {
        let mut outcome = self.on_acknowledgement(cumulative, Some(blocks), cx);
        if !outcome.stale && !outcome.unsent_tsn {
            outcome.undone = self.on_duplicates(duplicates, cx);
            self.update_window(a_rwnd, cx);
            self.settle_after_sack(cx);
        }
        outcome
    }

    /// Takes the cumulative TSN of a SHUTDOWN, which says nothing about gaps (section 3.3.8).
    pub(crate) fn on_cumulative_tsn(&mut self, tsn: Tsn, cx: &mut SackContext<'_>) -> SackOutcome {
        let before = self.outstanding.in_flight();
        let outcome = self.on_acknowledgement(tsn, NO_BLOCKS, cx);
        // There is no window in a SHUTDOWN: what it acknowledges is taken as room again, or a
        // peer that sends no SACK any more would never get the rest.
        if outcome.acknowledged {
            let after = self.outstanding.in_flight();
            self.window.marked(before.saturating_sub(after));
        }
        if !outcome.stale && !outcome.unsent_tsn {
            self.settle_after_sack(cx);
        }
        outcome
    }

    fn on_acknowledgement(
        &mut self,
        cumulative: Tsn,
        blocks: Option<(
            impl Iterator<Item = GapAckBlock>,
            impl Iterator<Item = GapAckBlock>,
        )>,
        cx: &mut SackContext<'_>,
    ) -> SackOutcome {
        const STALE: SackOutcome = SackOutcome {
            stale: true,
            unsent_tsn: false,
            broken_promise: false,
            acknowledged: false,
            reneged: 0,
            undone: 0,
        };
        let tsn = cumulative;
        let Some(cumulative) = self.outstanding.index_of(tsn) else {
            return STALE;
        };
        let next = self.outstanding.next_index();
        let ignored = self.ignores_gaps(cumulative);
        let reported = blocks.map(|(renegable, settled)| {
            let settled = ranges(cumulative, settled);
            let believed = renegable.filter(|_| !ignored);
            (union(ranges(cumulative, believed), &settled), settled)
        });
        let highest_reported = reported
            .as_ref()
            .and_then(|r| r.0.back())
            .map_or(cumulative, |r| r.1);
        if highest_reported >= next && self.held.may_be_renumbered(tsn) {
            return STALE;
        }
        if highest_reported >= next {
            return SackOutcome {
                unsent_tsn: true,
                ..SackOutcome::default()
            };
        }
        if let Some((reported, _)) = &reported
            && self.is_overtaken(cumulative, reported, cx.arrived_on)
        {
            return STALE;
        }
        let many = reported.as_ref().is_some_and(|r| r.0.len() >= MANY_BLOCKS);
        self.reach = if many { highest_reported } else { u64::MAX };
        let advanced = cumulative >= self.outstanding.first_index();
        let adjacent = |r: &Ranges| r.front().is_some_and(|first| first.0 == cumulative + 1);
        let listed = reported.as_ref().is_some_and(|(all, _)| adjacent(all));
        for path in cx.paths.iter_mut() {
            path.news = AckNews {
                flight_before: path.flight_size,
                oldest: path.recovery.order.oldest,
                ..AckNews::default()
            };
        }
        let mut htna = None;
        let recovering = self.recovery.is_active();
        self.acknowledge_up_to(cumulative, &mut htna, cx);
        let reneged = match reported {
            Some((reported, settled)) => {
                let reneged = self.acknowledge_ranges(reported, &mut htna, cx);
                self.settle_for_good(&settled, cx.paths);
                // The peer did not renege on what is ignored.
                if ignored { 0 } else { reneged }
            }
            None => self.take_back_adjacent(cumulative, cx),
        };
        self.acknowledge_forward(cumulative, cx);
        // Over what was given up, the cumulative TSN advances without news of DATA.
        let acknowledged = htna.is_some() || advanced;
        if acknowledged {
            self.progress = cx.now;
        }
        self.recovery.on_cumulative(cumulative);
        for path in cx.paths.iter_mut() {
            path.recovery.rack.on_sack_end(cx.now);
        }
        self.leave_recoveries(cumulative, cx);
        self.grow_windows(advanced, cx);
        if let Some(htna) = htna {
            let below = if recovering && advanced {
                highest_reported.max(htna)
            } else {
                htna
            };
            self.recovery.on_report(below);
            self.detect_losses(cx);
        }
        self.count_reports(highest_reported, cx);
        self.recovery.on_sack_end();
        Self::reduce_in_proportion(cx.paths);
        self.restart_timers(advanced, cx);
        self.record_reneging(reneged, next);
        SackOutcome {
            acknowledged,
            reneged,
            // A peer that lists the next chunk, or repeats its cumulative TSN, takes nothing back.
            broken_promise: advanced
                && !listed
                && self.outstanding.settled.first() == Some(cumulative + 1),
            ..SackOutcome::default()
        }
    }

    /// C1 of RFC 3758 section 3.5. A FORWARD-TSN that arrived shows that its path works.
    fn acknowledge_forward(&mut self, cumulative: u64, cx: &mut SackContext<'_>) {
        let forward = self.abandonment.forward_mut();
        if let Some(Some(path)) = forward.and_then(|f| f.on_cumulative(cumulative)) {
            cx.paths[path].news.alive = true;
            cx.paths[path].after_timeout = None;
        }
    }

    fn grow_windows(&mut self, advanced: bool, cx: &mut SackContext<'_>) {
        let all_acknowledged = self.outstanding.is_empty();
        let next = self.outstanding.next_index();
        let growth = cx.config.policies.multipath.window_growth;
        for at in 0..cx.paths.len() {
            let Some(id) = cx.paths.nth(at) else { break };
            let bytes = cx.paths[id].news.bytes;
            if bytes > 0 {
                self.couple(id, cx.paths);
            }
            let path = &mut cx.paths[id];
            if bytes > 0 {
                path.last_ack = Some(cx.now);
            }
            let oldest = path.news.oldest != path.recovery.order.oldest;
            if bytes > 0 && growth.permits(oldest || all_acknowledged) {
                let fast_recovery = if self.by_time || self.split {
                    path.recovery.is_fast()
                } else {
                    self.recovery.is_active()
                };
                path.congestion.on_ack(&Acknowledged {
                    bytes,
                    flight_before: path.news.flight_before,
                    fast_recovery,
                    all_acknowledged,
                    advanced,
                    now: cx.now,
                    rtt: path.news.rtt,
                    window_limited: path.window_limited,
                    highest: path.news.highest,
                    next,
                });
            }
            // A SACK for n packets stands for the n/2 SACKs that RFC 9260 expects for them.
            let sacks = (bytes / (2 * path.pmdcs())).max(1);
            path.burst_limit =
                path.flight_size + cx.config.max_burst as usize * sacks * path.pmdcs();
            if bytes > 0 && cx.trace.enabled() {
                cx.trace.record(cx.now, window_event(path));
            }
        }
    }

    /// R2 and R3 of section 6.3.2.
    fn restart_timers(&mut self, advanced: bool, cx: &mut SackContext<'_>) {
        for path in cx.paths.iter_mut() {
            if path.flight_size == 0 {
                path.earliest = None;
                path.recovery.probe.timer = None;
                if !self.abandonment.awaits_forward_on(path.id) {
                    path.t3 = None;
                } else if advanced {
                    path.t3 = Some(cx.now + path.rto.value());
                }
                continue;
            }
            if path.news.earliest {
                path.t3 = Some(cx.now + path.rto.value());
            }
            if path.news.bytes > 0 {
                Self::arm_probe(path, cx.now, cx.config);
            }
            path.earliest = self.outstanding.find_earliest(path);
        }
    }

    fn update_window(&mut self, a_rwnd: u32, cx: &mut SackContext<'_>) {
        let mut next = self.next_payload(cx.paths, cx.config);
        let in_flight = self.outstanding.in_flight();
        let rwnd = (a_rwnd as usize).saturating_sub(in_flight);
        let full = cx.paths[cx.paths.current()].pmdcs() - self.outstanding.header_len();
        if self.is_silly(rwnd, full, cx.config) {
            // No room: the probe that is due some day must not wait for ever for the SACKs to end
            // that come with each repeated SHUTDOWN.
            next = usize::MAX;
        }
        let index = self.first_awaited();
        let first = self.outstanding.chunk(index).map(|c| c.len());
        if !self.window.on_sack(a_rwnd, in_flight, next, first) {
            return;
        }
        // The peer dropped the probe when it had no room; now it has.
        if self.outstanding.mark(index, LossSignal::Timeout, cx.paths) {
            self.window.marked(first.unwrap_or(0));
            self.restart_timers(false, cx);
        }
        self.forced = self.outstanding.has_marked();
    }
}

pub(super) fn window_event(path: &crate::path::Path) -> TraceEvent {
    TraceEvent::Window {
        path: path.id,
        cwnd: path.congestion.cwnd(),
        ssthresh: path.congestion.ssthresh(),
        flight_size: path.flight_size,
    }
}
