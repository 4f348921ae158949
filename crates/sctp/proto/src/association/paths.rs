//! Applies changes of the paths to the association: results of heartbeats and errors (RFC 9260 sections
//! 5.4 and 8), thresholds (RFC 7829) and MTU discovery (RFC 8899). Their procedures are in
//! [`path`](crate::path).

use alloc::sync::Arc;
use core::net::IpAddr;
use core::time::Duration;

use super::{Association, Context};
use crate::config::{MAX_DSCP, PathThresholds};
use crate::error::{ConfigError, OperationError};
use crate::event::{AbortCause, CloseReason, Event};
use crate::observer::ObservedEvent;
use crate::path::{
    HeartbeatAnswer, HeartbeatExpiry, PathChange, PathErrorCause, PathId, SilenceExpiry,
};
use crate::time::Time;

impl Association {
    pub(crate) fn set_primary(&mut self, path: PathId, now: Time) -> Result<(), OperationError> {
        if !self.paths.contains(path) {
            return Err(OperationError::UnknownPath);
        }
        self.paths.set_primary(path);
        self.choose_path(now);
        Ok(())
    }

    /// Selects the path for new data again and notifies the user if it changed. Data that is outstanding on
    /// paths that are not usable leaves them as soon as another path is.
    pub(super) fn choose_path(&mut self, now: Time) {
        if let Some(path) = self.paths.choose() {
            self.events.push(Event::PrimaryChanged(path));
        }
        if let Some(path) = self.paths.switch_over_primary() {
            self.events.push(Event::PrimarySwitchover(path));
        }
        self.events.set_dormant(self.paths.are_dormant());
        // Usually there is none, and a list of their numbers is not needed.
        if self.paths.iter().any(|path| self.paths.is_to_be_left(path)) {
            for id in self.paths.ids() {
                if self.paths.is_to_be_left(&self.paths[id]) {
                    self.resend_path(id, now);
                }
            }
        }
    }

    /// Starts verification and monitoring when the association is established.
    pub(super) fn start_heartbeats(&mut self, cx: &mut Context<'_>) {
        self.paths.start_heartbeats(cx.now, &self.config, cx.random);
        self.choose_path(cx.now);
    }

    /// Expiry of a path's heartbeat timer (section 8.3).
    pub(super) fn on_heartbeat_timer(&mut self, id: PathId, cx: &mut Context<'_>) {
        let rto = self.paths[id].rto();
        let data_waits = self.data_waits_for_a_path();
        match self
            .paths
            .expire_heartbeat(id, cx.now, data_waits, &self.config)
        {
            HeartbeatExpiry::NoLoss => {}
            HeartbeatExpiry::LeftToT3 => return,
            HeartbeatExpiry::Error => {
                // Heartbeats that are sent once per RTO must not end the association before the data
                // does (RFC 7829 section 4). A new path may be the only one, if the addresses before it
                // were deleted.
                let frequent =
                    self.paths.fails_over_quickly() && self.sender.has_outstanding_data();
                let counts = id == self.paths.current() && !frequent;
                let waited = counts.then_some(rto);
                self.on_path_error(id, PathErrorCause::HeartbeatUnanswered, waited, cx);
                if self.state.is_closed() {
                    return;
                }
            }
        }
        self.paths[id].request_due_heartbeat(cx.now, rto, &self.config, cx.random);
        if id == self.paths.current() {
            self.free_unused_memory(cx.now);
        }
    }

    /// Frees what the queues of an idle association keep for the next data, which may be as much as the data
    /// before took.
    fn free_unused_memory(&mut self, now: Time) {
        self.sender.free_unused_memory(now, &mut self.paths);
        self.receiver.free_unused_memory();
        self.replies.free_unused_memory();
        self.events.free_unused_memory();
    }

    /// HEARTBEAT ACK, accepted only with the nonce of a heartbeat:
    ///
    /// 1. Take the RTT sample, move to the source that was tried, or inform MTU discovery, whose probe was
    ///    acknowledged (section 6.3.1, section 6.4, RFC 8899 section 6.2.1.2).
    /// 2. Confirm the path (section 5.4).
    /// 3. Clear the error counters of path and association (sections 8.1 and 8.3).
    /// 4. Record the answer in the checks of paths on which nothing is acknowledged; probe what may have been lost
    ///    on this one.
    /// 5. Select the path for data again (section 8.2). The RTT sample ends the back-off of the RTO (section
    ///    6.3.1, C3); data that waits for a T3-rtx of before, or that was sent from another source, is retransmitted now.
    pub(super) fn on_heartbeat_ack(&mut self, info: &[u8], cx: &mut Context<'_>) {
        let Some((id, nonce)) = self.paths.parse_heartbeat_info(info) else {
            return;
        };
        // Step 1.
        let path = &mut self.paths[id];
        let mut moved = false;
        let sent = match path.on_heartbeat_ack(nonce, cx.now, &self.config) {
            HeartbeatAnswer::Unknown => return,
            HeartbeatAnswer::Measured(sent) => {
                self.observation
                    .record_chunk(cx.now, || ObservedEvent::rto_of(path));
                Some(sent)
            }
            HeartbeatAnswer::Trial { source, sent } => {
                if !self.on_trial_acknowledged(id, (source, sent), cx) {
                    return;
                }
                moved = true;
                Some(sent)
            }
            HeartbeatAnswer::Probe => None,
        };
        let path = &mut self.paths[id];
        if path.update_mtu_after_heartbeat_ack(cx.now, nonce) {
            self.resend_path(id, cx.now);
        }
        // Step 2.
        let path = &mut self.paths[id];
        let confirmed = path.confirm(cx.now, &self.config, cx.random);
        if confirmed {
            self.peer_entries_changed = true;
            self.events.push(Event::PathConfirmed(id));
        }
        // Step 3.
        let path = &mut self.paths[id];
        let change = path.clear_errors_by_heartbeat(cx.now, &self.config, cx.random);
        self.events.notify_path_change(id, change);
        // Section 8.1 allows this: while data is outstanding, only its acknowledgement shows that
        // the association works.
        if !self.sender.has_outstanding_data() {
            self.liveness.clear_errors();
        }
        self.liveness.on_heartbeat_ack(cx.now);
        // Step 4.
        if sent.is_some_and(|sent| self.paths.answer_silence_checks(id, sent, cx.now)) {
            self.sender.probe_after_silence(&mut self.paths[id]);
        }
        // Step 5.
        self.choose_path(cx.now);
        let path = &self.paths[id];
        if moved && path.flight().size() > 0 || path.awaits_backed_off_t3(cx.now) {
            self.resend_path(id, cx.now);
        }
        if confirmed {
            self.complete_handover(id, cx);
        }
    }

    /// Expiry of the timer of a path on which nothing is acknowledged. If only other paths acknowledge
    /// heartbeats, that is an error of the path, but not of the association.
    pub(super) fn on_silence_timer(&mut self, id: PathId, cx: &mut Context<'_>) {
        match self.paths.expire_silence_check(id, cx.now) {
            None => {}
            Some(SilenceExpiry::Begun) => {
                let event = ObservedEvent::SilenceCheckBegun { path: id };
                self.observation.record(cx.now, || event);
            }
            Some(SilenceExpiry::Failed) => {
                self.on_path_error(id, PathErrorCause::OthersAnswer, None, cx);
            }
        }
    }

    /// Clears the error counter of a path: a packet sent to it was acknowledged.
    pub(super) fn on_path_alive(&mut self, id: PathId, cx: &mut Context<'_>) {
        let change = self.paths[id].clear_errors(cx.now, &self.config, cx.random);
        self.events.notify_path_change(id, change);
    }

    /// Counts an error of a path: a packet sent to it was not acknowledged in time (sections 8.1 and
    /// 8.2):
    ///
    /// 1. Update the state of the path (section 8.2, RFC 7829 section 3.2).
    /// 2. Select the path for data again (section 6.4.1). If none is usable, send heartbeats on all. Data on a path that
    ///    has become inactive does not wait for its T3-rtx, which marks the data itself, where checks of silence count
    ///    errors before it.
    /// 3. Count the error for the association, which ends at Association.Max.Retrans (section 8.1), if its timer
    ///    `waited` for a packet that counts. With quick failover, data moves between paths, and the timers of
    ///    several expire side by side; the errors of one RTO count once.
    pub(super) fn on_path_error(
        &mut self,
        id: PathId,
        cause: PathErrorCause,
        waited: Option<Duration>,
        cx: &mut Context<'_>,
    ) {
        // Step 1.
        let change = self.paths[id].count_error(cause, cx.now, &self.config, cx.random);
        let event = ObservedEvent::PathError {
            path: id,
            cause,
            error_count: self.paths[id].error_count(),
        };
        self.observation.record(cx.now, || event);
        self.events.notify_path_change(id, change);
        // Step 2.
        self.choose_path(cx.now);
        let left = change == Some(PathChange::Failed) && self.paths.any_usable();
        let waits = self.paths[id].flight().size() > 0 && cause != PathErrorCause::T3Expired;
        if left && waits && self.sender.watches_silence(&self.paths) {
            self.resend_path(id, cx.now);
        }
        self.paths.leave_failed(id);
        if self.data_waits_for_a_path() {
            for path in self.paths.ids() {
                self.paths[path].request_heartbeat_on_return(cx.now, &self.config);
            }
        }
        // Step 3.
        let max_retrans = self.config.paths.association_max_retrans;
        let quick = self.paths.fails_over_quickly();
        let waited = waited.map(|time| if quick { time } else { Duration::ZERO });
        if waited.is_some_and(|time| self.liveness.count_loss(time, cx.now, max_retrans)) {
            let cause = AbortCause::new(13, b"Association.Max.Retrans exceeded");
            self.abort(CloseReason::PeerUnreachable, &cause, cx);
        }
    }

    /// Returns whether data is outstanding and no path is usable, with quick failover.
    pub(super) fn data_waits_for_a_path(&self) -> bool {
        self.sender.has_outstanding_data()
            && !self.paths.any_usable()
            && self.paths.fails_over_quickly()
    }

    /// Notifies the user, once for each stall, that heartbeats are acknowledged and data is not: T3-rtx expired, and
    /// since the last error a heartbeat was acknowledged, early enough for a SACK as well. At the end of an outage
    /// heartbeats are acknowledged first, and the data soon after them.
    pub(super) fn report_stall(&mut self, rto: Duration, now: Time) {
        let timers = &self.config.timers;
        let (Some(since), Some(rtos)) = (self.sender.stalled_since(), timers.no_progress_after)
        else {
            return;
        };
        let answered = self.liveness.heartbeat_ack_after_loss();
        let answered =
            answered.is_some_and(|at| at > since && at + rto.min(timers.rto_initial) <= now);
        if answered && since + timers.rto_initial.saturating_mul(rtos) <= now {
            self.events.notify_stall(since);
        }
    }

    /// Marks the data in flight on a path for retransmission: its packets are too large for the path, or
    /// another path is usable and this one is not.
    pub(super) fn resend_path(&mut self, id: PathId, now: Time) {
        self.sender.resend_path(id, now, &mut self.paths);
        self.report_abandoned();
    }

    /// Expiry of a path's timer of MTU discovery (RFC 8899 section 5.1.1).
    pub(super) fn on_mtu_timer(&mut self, id: PathId, now: Time) {
        if self.paths[id].on_mtu_timer(now) {
            self.resend_path(id, now);
        }
    }

    /// Limits the path MTU of a path.
    pub(crate) fn set_path_mtu(
        &mut self,
        id: PathId,
        mtu: usize,
        now: Time,
    ) -> Result<(), OperationError> {
        if !self.paths.contains(id) {
            return Err(OperationError::UnknownPath);
        }
        self.limit_mtu(id, mtu, now);
        Ok(())
    }

    /// Limits the path MTU to one that this host knows. If that lowers it, data in flight is sent again: its packets were
    /// refused, and only T3-rtx would find that.
    pub(super) fn limit_mtu(&mut self, id: PathId, mtu: usize, now: Time) {
        if self.paths[id].limit_mtu(mtu, now) {
            self.resend_path(id, now);
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
        self.paths[id].enable_heartbeats(enabled, cx.now, &self.config, cx.random);
        Ok(())
    }

    /// Returns HB.interval of a path; `None` if the path does not exist.
    pub fn heartbeat_interval(&self, id: PathId) -> Option<Duration> {
        let path = self.paths.contains(id).then(|| &self.paths[id])?;
        Some(path.heartbeat_interval(&self.config))
    }

    /// Sets HB.interval of a path.
    pub(crate) fn set_heartbeat_interval(
        &mut self,
        id: PathId,
        interval: Duration,
        cx: &mut Context<'_>,
    ) -> Result<(), OperationError> {
        if !self.paths.contains(id) {
            return Err(OperationError::UnknownPath);
        }
        self.paths[id].set_heartbeat_interval(interval, cx.now, &self.config, cx.random);
        Ok(())
    }

    /// Gives all paths HB.interval of the association.
    pub(crate) fn unset_heartbeat_intervals(&mut self) {
        self.paths.unset_heartbeat_intervals();
    }

    /// Sets the DSCP of a path.
    pub(crate) fn set_dscp(&mut self, id: PathId, dscp: u8) -> Result<(), OperationError> {
        if dscp > MAX_DSCP {
            let fault = ConfigError("dscp: must be 0 to 63");
            return Err(OperationError::InvalidConfig(fault));
        }
        if !self.paths.contains(id) {
            return Err(OperationError::UnknownPath);
        }
        self.paths[id].set_dscp(dscp);
        Ok(())
    }

    /// Gives all paths the DSCP of the association.
    pub(crate) fn unset_dscps(&mut self) {
        for id in self.paths.ids() {
            let path = &mut self.paths[id];
            path.set_dscp(self.config.paths.dscp(path.remote()));
        }
    }

    /// Returns the highest RTO that was set since the last call, and the address of its path; `None` if none
    /// was set.
    pub(crate) fn take_highest_rto(&mut self) -> Option<(IpAddr, Duration)> {
        let mut highest = None;
        for id in self.paths.ids() {
            let path = &mut self.paths[id];
            if let Some(rto) = path.take_highest_rto()
                && highest.is_none_or(|(_, known)| rto > known)
            {
                highest = Some((path.remote(), rto));
            }
        }
        highest
    }

    /// REQUEST HEARTBEAT (section 11.1.10).
    pub(crate) fn request_heartbeat(&mut self, id: PathId) -> Result<(), OperationError> {
        if !self.paths.contains(id) {
            return Err(OperationError::UnknownPath);
        }
        if !self.state.sends_heartbeats() {
            return Err(OperationError::WrongState);
        }
        self.paths[id].request_heartbeat();
        Ok(())
    }

    /// Returns the error thresholds of a path, or with `None` those of new paths; `None` if the path does not
    /// exist.
    pub fn path_thresholds(&self, id: Option<PathId>) -> Option<PathThresholds> {
        match id {
            None => Some(PathThresholds::of(&self.config.paths)),
            Some(id) => self.paths.contains(id).then(|| self.paths[id].thresholds()),
        }
    }

    /// Sets the thresholds of a path, or of all present and future ones (RFC 7829 section 7.2).
    pub(crate) fn set_thresholds(
        &mut self,
        id: Option<PathId>,
        thresholds: PathThresholds,
        now: Time,
    ) -> Result<(), OperationError> {
        if id.is_some_and(|id| !self.paths.contains(id)) {
            return Err(OperationError::UnknownPath);
        }
        if thresholds.validate().is_err() {
            return Err(OperationError::InvalidThresholds);
        }
        if id.is_none() {
            let config = Arc::make_mut(&mut self.config);
            config.paths.path_max_retrans = thresholds.path_max_retrans;
            config.paths.potentially_failed_max_retrans = thresholds.potentially_failed_max_retrans;
            config.paths.primary_switchover_max_retrans = thresholds.primary_switchover_max_retrans;
        }
        for path in self.paths.ids().filter(|p| id.is_none_or(|id| id == *p)) {
            let change = self.paths[path].set_thresholds(thresholds, &self.config);
            self.events.notify_path_change(path, change);
        }
        self.choose_path(now);
        Ok(())
    }

    /// Sets whether the potentially failed state is reported to the user (RFC 7829 section 7.3).
    pub(crate) fn expose_potentially_failed(&mut self, expose: bool) {
        Arc::make_mut(&mut self.config)
            .paths
            .expose_potentially_failed = expose;
    }
}
