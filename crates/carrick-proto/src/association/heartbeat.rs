//! Reachability of the paths: heartbeats, verification, error counters (RFC 9260 sections 5.4, 8).

use super::state::State;
use super::{Association, Context};
use crate::error::OperationError;
use crate::event::{CloseReason, Event};
use crate::path::{PathId, heartbeat};
use crate::trace::TraceEvent;

impl Association {
    /// Starts verification and monitoring when the association is established.
    pub(crate) fn start_heartbeats(&mut self, cx: &mut Context<'_>) {
        let mut unconfirmed = 0;
        for id in self.paths.ids() {
            self.restart_mtu_discovery(id);
        }
        for path in self.paths.iter_mut() {
            let rto = path.rto.value();
            path.heartbeat.requested |= path.way_untried;
            if path.confirmed {
                if path.heartbeat.enabled {
                    path.heartbeat
                        .schedule(cx.now, self.config.paths.hb_interval, rto, cx.random);
                }
            } else {
                // HB.Max.Burst of them per RTO.
                path.heartbeat.due =
                    Some(cx.now + rto * (unconfirmed / self.config.paths.hb_max_burst));
                unconfirmed += 1;
            }
        }
        self.choose_path();
    }

    /// The heartbeat timer of a path expired: one is sent if the path is idle.
    pub(crate) fn on_heartbeat_timer(&mut self, id: PathId, cx: &mut Context<'_>) {
        let unconfirmed = self.paths.iter().filter(|p| !p.confirmed).count() as u32;
        let path = &mut self.paths[id];
        let rto = path.rto.value();
        if path
            .heartbeat
            .pending
            .and_then(|p| p.expires)
            .is_some_and(|at| at <= cx.now)
        {
            if let Some(pending) = &mut path.heartbeat.pending {
                pending.expires = None;
            }
            // With data outstanding, T3-rtx decides (RFC 7829 section 3.2, rule 6).
            if path.potentially_failed && path.flight_size > 0 {
                path.heartbeat.requested |= path.heartbeat.enabled;
                return;
            }
            path.rto.back_off(&self.config);
            if !path.confirmed && path.active {
                path.heartbeat.due = Some(
                    cx.now + rto * (unconfirmed / self.config.paths.hb_max_burst).saturating_sub(1),
                );
            }
            // Heartbeats that come once per RTO must not end the association before the data does
            // (RFC 7829 section 4). A new path may be the only one, where the addresses before it
            // were deleted.
            let hurried = path.potentially_failed && self.sender.outstanding_chunks() > 0;
            let counts = id == self.paths.current() && !hurried;
            self.on_path_error(id, counts, cx);
            if self.state.is_closed() {
                return;
            }
        }
        let path = &mut self.paths[id];
        if path.heartbeat.due.is_some_and(|at| at <= cx.now) {
            if !path.confirmed || path.potentially_failed || path.heartbeat.is_idle() {
                path.heartbeat.requested = true;
                path.heartbeat.due = None;
            } else {
                path.heartbeat
                    .schedule(cx.now, self.config.paths.hb_interval, rto, cx.random);
            }
        }
    }

    /// Records a heartbeat that is sent on a path and returns its Heartbeat Info.
    pub(crate) fn heartbeat_sent(
        &mut self,
        id: PathId,
        cx: &mut Context<'_>,
    ) -> [u8; heartbeat::INFO_LEN] {
        let interval = self.config.paths.hb_interval;
        let path = &mut self.paths[id];
        path.counters.heartbeats_sent += 1;
        let rto = path.rto.value();
        if path.potentially_failed {
            // Once per RTO, which is when this one expires.
            path.heartbeat.due = None;
        } else if path.heartbeat.enabled || !path.confirmed {
            path.heartbeat.schedule(cx.now, interval, rto, cx.random);
        }
        path.heartbeat.sent(cx.now, rto, id.0, cx.random)
    }

    /// HEARTBEAT ACK, accepted only with the nonce of a heartbeat.
    pub(crate) fn on_heartbeat_ack(&mut self, info: &[u8], cx: &mut Context<'_>) {
        let Some((nonce, number)) = heartbeat::parse_info(info) else {
            return;
        };
        let id = PathId(number);
        if !self.paths.contains(id) {
            return;
        }
        let path = &mut self.paths[id];
        if let Some(sent) = path.heartbeat.answered(nonce) {
            path.counters.heartbeats_answered += 1;
            path.rto.measured(cx.now.since(sent), &self.config);
            self.trace.record(cx.now, TraceEvent::rto_of(path));
        } else if !self.on_probe_ack(id, nonce, cx) {
            return;
        }
        self.after_heartbeat_ack(id, cx.now);
        let path = &mut self.paths[id];
        let verified = !path.confirmed;
        if verified {
            path.confirmed = true;
            self.listing_changed = true;
            self.events.push(Event::PathConfirmed(id));
            self.restart_mtu_discovery(id);
            let rto = self.paths[id].rto.value();
            if self.config.paths.heartbeat {
                self.paths[id].heartbeat.schedule(
                    cx.now,
                    self.config.paths.hb_interval,
                    rto,
                    cx.random,
                );
            } else {
                self.paths[id].heartbeat.due = None;
            }
        }
        let path = &mut self.paths[id];
        if path.potentially_failed && path.flight_size > 0 {
            // Heartbeats may be delivered where data is not: the data decides (RFC 7829 section 3.2,
            // rule 7).
            path.heartbeat.due = path.heartbeat.enabled.then(|| cx.now + path.rto.value());
        } else {
            self.on_path_alive(id, cx);
        }
        // Section 8.1 allows this: while data is outstanding, only its acknowledgement shows that
        // the association works.
        if self.sender.outstanding_chunks() == 0 {
            self.liveness.clear_errors();
        }
        self.liveness.on_heartbeat_ack(cx.now);
        self.report_stall(cx);
        self.choose_path();
        if verified {
            self.complete_handover(id, cx);
        }
    }

    /// Clears the error counter of a path: a packet sent to it was acknowledged.
    pub(crate) fn on_path_alive(&mut self, id: PathId, cx: &mut Context<'_>) {
        let path = &mut self.paths[id];
        path.error_count = 0;
        if path.potentially_failed {
            self.leave_potentially_failed(id, cx);
        } else if !path.active {
            path.active = true;
            self.events.push(Event::PathRecovered(id));
            self.restart_mtu_discovery(id);
        }
    }

    /// Counts an error of a path: a packet sent to it was not acknowledged in time (sections 8.1 and
    /// 8.2).
    pub(crate) fn on_path_error(
        &mut self,
        id: PathId,
        counts_for_association: bool,
        cx: &mut Context<'_>,
    ) {
        self.count_path_error(id, cx);
        self.paths[id].way_untried = false;
        if !self.paths[id].active {
            self.try_other_local_address(id, cx);
        }
        self.choose_path();
        self.paths.turn(id);
        if counts_for_association {
            let max_retrans = self.config.paths.association_max_retrans;
            if self.liveness.count_error(max_retrans) {
                let reason = CloseReason::PeerUnreachable;
                self.abort(
                    reason,
                    &crate::error::AbortCause::new(13, b"Association.Max.Retrans exceeded"),
                    cx,
                );
            }
        }
    }

    /// A path that failed may work from another local address.
    fn try_other_local_address(&mut self, id: PathId, cx: &mut Context<'_>) {
        if self.config.paths.monitor_pairs {
            return;
        }
        let locals = self.locals(cx);
        let path = &self.paths[id];
        let other = cx.selection.select(&locals, path.remote, path.local);
        if other.is_some() && other != path.local {
            let initial = self.config.timers.rto_initial;
            self.paths[id].change_local(other, initial);
            self.restart_mtu_discovery(id);
            self.events.push(Event::PathLocalAddressChanged(id));
        }
    }

    /// Moves the paths from a removed local address to another one.
    pub(crate) fn on_local_address_removed(
        &mut self,
        address: core::net::IpAddr,
        cx: &mut Context<'_>,
    ) {
        // Queued replies from it are dropped; a SACK takes the route of data.
        self.data_route = self.data_route.filter(|r| r.local != Some(address));
        self.replies.forget_local(address);
        if let State::ShutdownSent(ending) | State::ShutdownAckSent(ending) = &mut self.state {
            ending.answer = ending.answer.filter(|r| r.local != Some(address));
        }
        if self.state.is_closed() {
            return;
        }
        self.forget_local_address(address);
        self.select_sources(Some(address), cx);
    }

    /// Notifies the user, once for each stall, that heartbeats are acknowledged and data is not.
    fn report_stall(&mut self, cx: &Context<'_>) {
        let (Some(since), Some(rtos)) = (
            self.sender.stalled_since(),
            self.config.timers.no_progress_after,
        ) else {
            return;
        };
        let answered = self.liveness.acknowledged_heartbeat_since(since);
        let limit = since + self.config.timers.rto_initial.saturating_mul(rtos);
        if answered && limit <= cx.now {
            self.events.notify_stall(since);
        }
    }

    /// CHANGE HEARTBEAT (section 11.1.9).
    pub(crate) fn set_heartbeat(
        &mut self,
        id: PathId,
        enabled: bool,
        cx: &mut Context<'_>,
    ) -> Result<(), OperationError> {
        if !self.paths.contains(id) {
            return Err(OperationError::UnknownPath);
        }
        let interval = self.config.paths.hb_interval;
        let path = &mut self.paths[id];
        path.heartbeat.enabled = enabled;
        if !enabled && path.confirmed {
            path.heartbeat.due = None;
        } else if enabled && path.heartbeat.due.is_none() {
            let rto = path.rto.value();
            path.heartbeat.schedule(cx.now, interval, rto, cx.random);
        }
        Ok(())
    }

    /// REQUEST HEARTBEAT (section 11.1.10).
    pub(crate) fn request_heartbeat(&mut self, id: PathId) -> Result<(), OperationError> {
        if !self.paths.contains(id) {
            return Err(OperationError::UnknownPath);
        }
        if !self.state.sends_heartbeats() {
            return Err(OperationError::WrongState);
        }
        self.paths[id].heartbeat.requested = true;
        Ok(())
    }
}
