//! Expiry of T3-rtx (RFC 9260, sections 6.3.3 and 7.2.3).

use super::Sender;
use super::sack_processing::window_event;
use crate::config::AssociationConfig;
use crate::observer::{Observation, ObservedEvent};
use crate::path::{PathId, Paths};
use crate::research::MarkedData;
use crate::time::Time;

impl Sender {
    /// Handles the expiry of T3-rtx on a path. Returns whether that counts as an error: not while a
    /// closed window is probed and the peer responds (RFC 9260, section 6.1, A).
    ///
    /// 1. Mark all chunks in flight on the path for retransmission, and count their bytes as room in the
    ///    peer's window (section 6.3.3, E3, and section 6.2.1, C); make a FORWARD-TSN that is
    ///    not acknowledged due (RFC 3758, section 3.5, A5).
    /// 2. Abandon the messages that may not be sent again (RFC 3758, section 3.5, A2 and C2).
    /// 3. Let one packet of them leave whatever cwnd is (section 6.3.3, E3). T3-rtx starts with it
    ///    (E4 and section 6.3.2, R1).
    /// 4. Stop the timers of the path, and double its RTO (section 6.3.3, E2).
    /// 5. While a closed window is probed: let the window decay as on an idle path, and stop here.
    /// 6. Leave Fast Recovery; set ssthresh = max(cwnd / 2, 4 * PMDCS) and cwnd = PMDCS (section 6.3.3,
    ///    E1, and section 7.2.3).
    pub(crate) fn on_t3(
        &mut self,
        id: PathId,
        now: Time,
        paths: &mut Paths,
        config: &AssociationConfig,
        observation: &Observation,
    ) -> bool {
        // 1.
        let probing = self.window.is_refusing();
        if !probing {
            paths[id].on_flight_timed_out();
        }
        self.mark_in_flight(id, paths);
        if let Some(forward) = self.abandonment.forward_mut() {
            forward.on_t3(id);
        }
        // 2.
        self.process_abandonment(now, paths);
        // 3.
        paths.pass_retransmission_turn(id);
        if config.research.policies.marked_data == MarkedData::HoldsPath {
            self.force_after_timeout(id, paths);
        }
        if !probing {
            self.update_coupled_windows(id, paths);
        }
        // 4.
        let path = &mut paths[id];
        path.on_t3_expired(config);
        observation.record(now, || ObservedEvent::Timeout { path: id });
        observation.record_chunk(now, || ObservedEvent::rto_of(path));
        // 5.
        if probing {
            path.decay_window();
            return false;
        }
        // 6.
        self.detector.leave_fast_recovery();
        self.begin_timeout_recovery(path, config);
        path.reduce_after_t3(config);
        observation.record_chunk(now, || window_event(path));
        true
    }

    /// Marks all chunks in flight on a path, and counts their bytes as room in the peer's window.
    pub(super) fn mark_in_flight(&mut self, id: PathId, paths: &mut Paths) {
        let before = self.outstanding.in_flight();
        self.outstanding.mark_path(id, paths);
        self.window.marked(before - self.outstanding.in_flight());
    }
}
