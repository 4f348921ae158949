//! Reports of the peer about this side's DATA: SACK and NR-SACK with their effect on error counters (RFC
//! 9260 sections 6.2.1, 8.1 and 8.2), and ECNE (RFC 4960 appendix A).

use carrick_wire::Ecne;

use super::{Association, Context, Reply};
use crate::route::Route;
use crate::tx::{Acked, SackContext, SackError, Sender};

impl Association {
    /// SACK or NR-SACK with a number of Gap Ack Blocks, which `process` passes to the sender.
    pub(super) fn on_sack(
        &mut self,
        route: &Route,
        gaps: usize,
        cx: &mut Context<'_>,
        process: impl FnOnce(&mut Sender, &mut SackContext<'_>) -> Result<Acked, SackError>,
    ) {
        if !self.state.receives_sacks() {
            return;
        }
        self.counters.sacks_received += 1;
        if gaps > 0 {
            self.counters.other().gap_ack_blocks_received += gaps as u64;
        }
        let arrived_on = self.paths.find(route);
        let mut sack_cx = SackContext {
            now: cx.now,
            arrived_on,
            paths: &mut self.paths,
            config: &self.config,
            observation: &self.observation,
        };
        let acked = match process(&mut self.sender, &mut sack_cx) {
            Ok(acked) => acked,
            Err(SackError::Stale) => Acked::default(),
            Err(SackError::UnsentTsn) => {
                return self.violation("SACK acknowledges a TSN that was not sent", cx);
            }
            Err(SackError::NonRenegableReneged) => {
                return self.violation("SACK reneges on data acknowledged as non-renegable", cx);
            }
        };
        self.report_abandoned();
        self.after_acknowledgement(&acked, cx);
        self.advance_shutdown(cx);
    }

    /// ECNE: the window of the path of a marked packet is reduced unless that was done after the packet was
    /// sent; a CWR is sent in any case.
    pub(super) fn on_ecne(&mut self, ecne: Ecne, route: &Route, cx: &mut Context<'_>) {
        self.counters.other().ecnes_received += 1;
        let lowest = ecne.lowest_tsn;
        let sent = self.sender.last_sent();
        let last_sent = sent.map(|last| (last, self.sender.last_index()));
        let Some(response) = self.ecn.on_ecne(lowest, last_sent) else {
            return;
        };
        if response.reduce {
            let arrived_on = self.paths.find(route).unwrap_or(self.paths.current());
            let (paths, observation) = (&mut self.paths, &self.observation);
            let reduced =
                self.sender
                    .reduce_for_mark(lowest, arrived_on, cx.now, paths, observation);
            if reduced {
                self.counters.other().congestion_mark_reductions += 1;
            }
        }
        if !self.replies.is_full() && !self.replies.has_cwr() {
            let route = self.answer_route(route);
            self.push_reply(route, Reply::Cwr(response.cwr));
        }
    }

    /// Clears error counters after an acknowledgement (sections 8.1 and 8.2), but not those of a path for a
    /// chunk that was sent on other paths, too. Otherwise, with an RTO below the peer's SACK delay, the data
    /// that a working path carried is credited to a failed one, which never becomes inactive.
    pub(crate) fn after_acknowledgement(&mut self, acked: &Acked, cx: &mut Context<'_>) {
        if acked.reneged > 0 {
            self.counters.other().reneged += acked.reneged;
        }
        if acked.undone > 0 {
            self.counters.other().undone_reductions += acked.undone;
        }
        if !acked.acknowledged {
            return;
        }
        self.liveness.clear_errors();
        self.events.end_stall();
        let mut changed = false;
        for id in self.paths.ids() {
            let path = &mut self.paths[id];
            path.inform_discovery_of_sack(cx.now);
            if path.newly_acked().proves_path && (path.error_count() > 0 || !path.is_active()) {
                self.on_path_alive(id, cx);
                changed = true;
            }
        }
        if changed {
            self.choose_path(cx.now);
        }
    }
}
