//! Processing of a received SACK, of an NR-SACK (draft-natarajan-tsvwg-sctp-nrsack), and of the
//! Cumulative TSN Ack of a SHUTDOWN. [`Sender::process_acknowledgement`] lists the steps.

use carrick_wire::{GapAckBlock, NrSack, Sack, Tsn};

use super::Sender;
use super::loss::SackReport;
use super::outstanding::{Ranges, from_gap_ack_blocks, union};
use crate::cc::Acknowledged;
use crate::config::AssociationConfig;
use crate::observer::{Observation, ObservedEvent};
use crate::path::{Path, PathId, Paths};
use crate::research::GapAckCount;
use crate::time::Time;
use crate::tx::LossSignal;

/// Number of Gap Ack Blocks from which on a SACK may have had no room for more, and does not report what
/// is above them; some peers never send more.
const MAX_COMPLETE_BLOCKS: usize = 16;

/// No Gap Ack Blocks, as in SHUTDOWN.
const NO_BLOCKS: Option<(
    core::iter::Empty<GapAckBlock>,
    core::iter::Empty<GapAckBlock>,
)> = None;

/// Effect of a SACK on the association.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Acked {
    /// The SACK acknowledged data for the first time.
    pub(crate) acknowledged: bool,
    /// Number of chunks the peer reneged on.
    pub(crate) reneged: u64,
    /// Number of reductions of a window that were undone as needless.
    pub(crate) undone: u64,
}

/// Reason for which a SACK was discarded, or ends the association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SackError {
    /// Older than the last one (RFC 9260, section 6.2.1, D i): discarded.
    Stale,
    /// It acknowledges a TSN that was not sent: the association is aborted.
    UnsentTsn,
    /// The Cumulative TSN Ack stops right below a chunk that the peer acknowledged as non-renegable, and
    /// the SACK does not list the chunk: the peer has lost it, its bytes are freed, and the association
    /// is aborted.
    NonRenegableReneged,
}

/// Result of the steps that a SACK and a SHUTDOWN share.
struct Acknowledgement {
    acked: Acked,
    reneged_non_renegable: bool,
}

impl Acknowledgement {
    fn result(self) -> Result<Acked, SackError> {
        if self.reneged_non_renegable {
            return Err(SackError::NonRenegableReneged);
        }
        Ok(self.acked)
    }
}

/// State outside the sender that a SACK changes.
pub(crate) struct SackContext<'a> {
    pub(crate) now: Time,
    /// Path on which the SACK arrived.
    pub(crate) arrived_on: Option<PathId>,
    pub(crate) paths: &'a mut Paths,
    pub(crate) config: &'a AssociationConfig,
    pub(crate) observation: &'a Observation,
}

impl Sender {
    /// Processes a SACK.
    pub(crate) fn on_sack(
        &mut self,
        sack: &Sack<'_>,
        cx: &mut SackContext<'_>,
    ) -> Result<Acked, SackError> {
        let blocks = (sack.gap_ack_blocks(), core::iter::empty());
        let fields = (sack.cumulative_tsn_ack, sack.a_rwnd);
        self.process_sack(fields, blocks, sack.duplicate_tsns(), cx)
    }

    /// Processes an NR-SACK. Its A bit is ignored: the chunks that it stands for are listed as well, and
    /// earlier drafts gave the bit another meaning.
    pub(crate) fn on_nr_sack(
        &mut self,
        sack: &NrSack<'_>,
        cx: &mut SackContext<'_>,
    ) -> Result<Acked, SackError> {
        let blocks = (sack.gap_ack_blocks(), sack.non_renegable_blocks());
        let fields = (sack.cumulative_tsn_ack, sack.a_rwnd);
        self.process_sack(fields, blocks, sack.duplicate_tsns(), cx)
    }

    /// Processes the Cumulative TSN Ack of a SHUTDOWN, which has no Gap Ack Blocks (RFC 9260, section
    /// 3.3.8).
    pub(crate) fn on_cumulative_tsn(
        &mut self,
        tsn: Tsn,
        cx: &mut SackContext<'_>,
    ) -> Result<Acked, SackError> {
        let before = self.outstanding.in_flight();
        let acknowledgement = self.process_acknowledgement(tsn, NO_BLOCKS, cx)?;
        // SHUTDOWN has no a_rwnd: acknowledged bytes count as room again, or a peer that sends no
        // further SACK would never get the rest.
        if acknowledgement.acked.acknowledged {
            let after = self.outstanding.in_flight();
            self.window.marked(before.saturating_sub(after));
        }
        self.abandon_after_sack(cx);
        acknowledgement.result()
    }

    /// Processes the Cumulative TSN Ack and `a_rwnd`, the renegable and non-renegable Gap Ack Blocks, and
    /// the Duplicate TSNs of a SACK.
    fn process_sack(
        &mut self,
        (cumulative, a_rwnd): (Tsn, u32),
        blocks: (
            impl Iterator<Item = GapAckBlock>,
            impl Iterator<Item = GapAckBlock>,
        ),
        duplicates: impl Iterator<Item = Tsn> + Clone,
        cx: &mut SackContext<'_>,
    ) -> Result<Acked, SackError> {
        let mut acknowledgement = self.process_acknowledgement(cumulative, Some(blocks), cx)?;
        acknowledgement.acked.undone = self.on_duplicates(duplicates, cx);
        self.update_peer_window(a_rwnd, cx);
        self.abandon_after_sack(cx);
        acknowledgement.result()
    }

    /// Takes the steps that a SACK and a SHUTDOWN share:
    ///
    /// 1. Discard a stale report (RFC 9260, section 6.2.1, D i).
    /// 2. Refuse a TSN that was not sent.
    /// 3. Discard a report that another one, on another path, has overtaken.
    /// 4. Acknowledge up to the Cumulative TSN Ack (section 6.2.1, D ii), and take RTT samples (section
    ///    6.3.1, C4 and C5).
    /// 5. Acknowledge what the Gap Ack Blocks report for the first time; return to flight what the peer
    ///    reneged on (section 6.2.1, D iii); free what is non-renegable.
    /// 6. Move the Advanced.Peer.Ack.Point (RFC 3758, section 3.5, C1).
    /// 7. Leave Fast Recovery at its exit point (RFC 9260, section 6.2.1, D iv).
    /// 8. Grow the congestion windows (sections 7.2.1 and 7.2.2), and limit the next burst (section 6.1, D).
    /// 9. Detect losses and respond to them (section 7.2.4, or RFC 8985, section 6.2).
    /// 10. Restart or stop T3-rtx (RFC 9260, section 6.3.2, R2 and R3).
    /// 11. Limit reneging (section 6.2.1).
    ///
    /// For a SACK, duplicates, the peer's window (section 6.2.1, D ii) and abandonment (RFC 3758, section
    /// 3.5, C2 and C3) follow.
    fn process_acknowledgement(
        &mut self,
        cumulative: Tsn,
        blocks: Option<(
            impl Iterator<Item = GapAckBlock>,
            impl Iterator<Item = GapAckBlock>,
        )>,
        cx: &mut SackContext<'_>,
    ) -> Result<Acknowledgement, SackError> {
        // 1.
        let tsn = cumulative;
        let cumulative = self.outstanding.index_of(tsn).ok_or(SackError::Stale)?;
        let next = self.outstanding.next_index();
        let ignored = self.ignores_gaps(cumulative);
        let reported = blocks.map(|(renegable, non_renegable)| {
            let non_renegable = from_gap_ack_blocks(cumulative, non_renegable);
            let renegable = renegable.filter(|_| !ignored);
            let all = union(from_gap_ack_blocks(cumulative, renegable), &non_renegable);
            (all, non_renegable)
        });
        let highest_reported = reported
            .as_ref()
            .and_then(|r| r.0.back())
            .map_or(cumulative, |r| r.1);
        // 2.
        if highest_reported >= next {
            let renumbered = self.queue.may_be_renumbered(tsn);
            return Err(if renumbered {
                SackError::Stale
            } else {
                SackError::UnsentTsn
            });
        }
        // 3.
        if let Some((reported, _)) = &reported
            && self.is_overtaken(cumulative, reported, cx.arrived_on)
        {
            return Err(SackError::Stale);
        }
        let truncated = reported
            .as_ref()
            .is_some_and(|r| r.0.len() >= MAX_COMPLETE_BLOCKS);
        self.complete_up_to = if truncated {
            highest_reported
        } else {
            u64::MAX
        };
        let advanced = cumulative >= self.outstanding.first_index();
        let adjacent = |r: &Ranges| r.front().is_some_and(|first| first.0 == cumulative + 1);
        let lists_next = reported.as_ref().is_some_and(|(all, _)| adjacent(all));
        cx.paths.iter_mut().for_each(Path::begin_sack);
        // 4.
        let mut htna = None;
        let recovering = self.detector.is_in_fast_recovery();
        self.acknowledge_up_to(cumulative, &mut htna, cx);
        // 5.
        let reneged = match reported {
            Some((reported, non_renegable)) => {
                let reneged = self.acknowledge_ranges(reported, &mut htna, cx);
                let abandonment = &mut self.abandonment;
                self.outstanding.record_non_renegable(
                    &non_renegable,
                    cx.paths,
                    |message, bytes| {
                        abandonment.on_non_renegable(message, bytes);
                    },
                );
                // Chunks return to flight, but the peer did not renege, if its blocks are ignored.
                if ignored { 0 } else { reneged }
            }
            None => self.renege_adjacent(cumulative, cx),
        };
        // 6.
        self.acknowledge_forward(cumulative, cx);
        // The Cumulative TSN Ack also advances over abandoned chunks.
        let acknowledged = htna.is_some() || advanced;
        if acknowledged {
            self.progress = cx.now;
        }
        // 7.
        self.detector.on_cumulative(cumulative);
        for path in cx.paths.iter_mut() {
            if let Some(recovery) = path.used_recovery() {
                recovery.rack_mut().on_sack_end(cx.now);
            }
        }
        self.leave_recoveries(cumulative, cx);
        // 8.
        self.grow_windows(advanced, cx);
        if cx.config.research.policies.gap_ack_count == GapAckCount::EverySack {
            cx.paths.iter_mut().for_each(Path::discount_gap_acks);
        }
        // 9.
        let report = SackReport {
            now: cx.now,
            htna,
            highest: highest_reported,
            complete_up_to: self.complete_up_to,
            recovery_progress: recovering && advanced,
        };
        self.detect_losses(&report, cx);
        cx.paths.iter_mut().for_each(Path::update_reduction);
        // 10.
        self.restart_timers(advanced, cx);
        // 11.
        self.record_reneging(reneged, next);
        // A peer that lists the next chunk, or repeats its Cumulative TSN Ack, reneges on nothing.
        let next_is_non_renegable = self.outstanding.is_non_renegable_above(cumulative);
        Ok(Acknowledgement {
            acked: Acked {
                acknowledged,
                reneged,
                undone: 0,
            },
            reneged_non_renegable: advanced && !lists_next && next_is_non_renegable,
        })
    }

    /// Acknowledges a FORWARD-TSN (RFC 3758, section 3.5, C1), which shows that its path works.
    fn acknowledge_forward(&mut self, cumulative: u64, cx: &mut SackContext<'_>) {
        let forward = self.abandonment.forward_mut();
        if let Some(Some(path)) = forward.and_then(|f| f.on_cumulative(cumulative)) {
            cx.paths[path].on_forward_acknowledged();
        }
    }

    fn grow_windows(&mut self, advanced: bool, cx: &mut SackContext<'_>) {
        let all_acknowledged = self.outstanding.is_empty();
        let next = self.outstanding.next_index();
        let cumulative = self.outstanding.first_index() - 1;
        let growth = cx.config.research.policies.multipath.window_growth;
        for at in 0..cx.paths.len() {
            let Some(id) = cx.paths.nth(at) else { break };
            let bytes = cx.paths[id].newly_acked().bytes;
            if bytes > 0 {
                self.update_coupled_windows(id, cx.paths);
            }
            let path = &mut cx.paths[id];
            let mut delivery = None;
            if bytes > 0 {
                path.on_data_acknowledged(cx.now);
                if self.rate_based {
                    delivery = path.take_delivery(bytes, cumulative);
                }
            }
            let newly = path.newly_acked();
            let oldest = newly.oldest != path.recovery().oldest();
            let fast_recovery = self.detector.holds_window(path.recovery());
            if bytes > 0 && growth.permits(oldest || all_acknowledged) {
                path.grow_window(&Acknowledged {
                    bytes,
                    flight_before: newly.flight_before,
                    flight: path.flight().size(),
                    fast_recovery,
                    repairing: fast_recovery || !path.recovery().is_open(),
                    all_acknowledged,
                    advanced,
                    now: cx.now,
                    rtt: newly.rtt,
                    window_limited: path.is_window_limited(),
                    highest: newly.highest,
                    next,
                    delivery,
                });
            }
            // A SACK for n packets stands for the n/2 SACKs that RFC 9260, section 6.2, has for them.
            let sacks = (bytes / (2 * path.pmdcs())).max(1);
            path.limit_burst(cx.config.transmission.max_burst, sacks);
            if bytes > 0 {
                cx.observation.record_chunk(cx.now, || window_event(path));
            }
        }
    }

    /// Restarts or stops T3-rtx and the probe timer of each path (RFC 9260, section 6.3.2, R2 and R3).
    fn restart_timers(&mut self, advanced: bool, cx: &mut SackContext<'_>) {
        let watches = self.watches_silence(cx.paths);
        for path in cx.paths.iter_mut() {
            self.outstanding.update_earliest(path);
            if watches && path.newly_acked().bytes > 0 {
                path.end_silence(cx.now, cx.config);
            }
            if path.flight().size() == 0 {
                if let Some(recovery) = path.used_recovery() {
                    recovery.probe_mut().stop_timer();
                }
                if !self.abandonment.awaits_forward_on(path.id()) {
                    path.stop_t3();
                } else if advanced {
                    path.restart_t3(cx.now);
                }
                continue;
            }
            if path.newly_acked().earliest {
                path.restart_t3(cx.now);
            }
            if path.newly_acked().bytes > 0 {
                self.detector.arm_probe(path, cx.now, cx.config);
            }
        }
    }

    /// Returns whether paths are checked on which nothing is acknowledged: there are several, and probes may
    /// leave before T3-rtx expires.
    pub(crate) fn watches_silence(&self, paths: &Paths) -> bool {
        paths.len() > 1 && self.detector.sends_probes()
    }

    /// Updates the peer's window (RFC 9260, section 6.2.1, D ii). If a probed window has opened, the
    /// chunk that the peer dropped for want of room is marked for retransmission.
    fn update_peer_window(&mut self, a_rwnd: u32, cx: &mut SackContext<'_>) {
        let mut next = self.next_payload(cx.paths, cx.config);
        let overhead = cx.config.research.peer_chunk_overhead;
        let in_flight =
            self.outstanding.in_flight() + overhead * self.outstanding.chunks_in_flight();
        let rwnd = (a_rwnd as usize).saturating_sub(in_flight);
        let full = cx.paths[cx.paths.current()].pmdcs() - self.outstanding.header_len();
        if self.is_silly(rwnd, full, cx.config) {
            // Counts as closed: otherwise each SACK, and one comes with each repeated SHUTDOWN, would
            // postpone the window probe.
            next = usize::MAX;
        }
        let index = self.first_awaited();
        let first = self.outstanding.chunk(index).map(|c| c.len());
        if !self.window.on_sack(a_rwnd, in_flight, next, first) {
            return;
        }
        if self.outstanding.mark(index, LossSignal::Timeout, cx.paths) {
            self.window.marked(first.unwrap_or(0));
            self.restart_timers(false, cx);
        }
        self.forced = self.outstanding.has_marked();
    }
}

pub(super) fn window_event(path: &Path) -> ObservedEvent {
    ObservedEvent::Window {
        path: path.id(),
        cwnd: path.congestion().window(),
        ssthresh: path.congestion().ssthresh(),
        flight_size: path.flight().size(),
    }
}
