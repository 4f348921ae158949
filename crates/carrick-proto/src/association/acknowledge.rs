//! Acknowledgements of the peer: SACK and NR-SACK, and their effect on error counters (RFC 9260 sections
//! 6.2.1, 8.1 and 8.2).

use super::{Association, Context};
use crate::route::Route;
use crate::tx::{Acked, SackContext, SackError, Sender};

impl Association {
    /// SACK or NR-SACK, which `process` passes to the sender.
    pub(super) fn on_sack(
        &mut self,
        route: &Route,
        cx: &mut Context<'_>,
        process: impl FnOnce(&mut Sender, &mut SackContext<'_>) -> Result<Acked, SackError>,
    ) {
        if !self.state.receives_sacks() {
            return;
        }
        self.counters.sacks_received += 1;
        let arrived_on = self.path_of(route);
        let mut sack_cx = SackContext {
            now: cx.now,
            arrived_on,
            paths: &mut self.paths,
            config: &self.config,
            trace: &mut self.trace,
        };
        let acked = match process(&mut self.sender, &mut sack_cx) {
            Ok(acked) => acked,
            Err(SackError::Stale) => Acked::default(),
            Err(SackError::UnsentTsn) => {
                return self.violation("SACK acknowledges a TSN that was not sent", cx);
            }
            Err(SackError::NonRenegableReneged) => {
                return self.violation("data acknowledged as non-renegable was taken back", cx);
            }
        };
        self.report_abandoned();
        self.after_acknowledgement(&acked, cx);
        self.advance_shutdown(cx);
    }

    /// Clears error counters after an acknowledgement (sections 8.1 and 8.2), but not those of a path for a
    /// chunk that was sent on other paths, too. Otherwise, with an RTO below the peer's SACK delay, the data
    /// that a working path carried is credited to a failed one, which never becomes inactive.
    pub(crate) fn after_acknowledgement(&mut self, acked: &Acked, cx: &mut Context<'_>) {
        self.counters.reneged += acked.reneged;
        self.counters.undone_reductions += acked.undone;
        if !acked.acknowledged {
            return;
        }
        self.liveness.clear_errors();
        self.events.end_stall();
        let mut changed = false;
        for id in self.paths.ids() {
            let path = &mut self.paths[id];
            path.inform_discovery_of_sack(cx.now);
            if path.news.alive && (path.error_count() > 0 || !path.active) {
                self.on_path_alive(id, cx);
                changed = true;
            }
        }
        if changed {
            self.choose_path();
        }
    }
}
