//! Quick failover (RFC 7829): paths that are potentially failed, and the switchover of the primary.

use alloc::sync::Arc;

use super::{Association, Context};
use crate::error::OperationError;
use crate::event::Event;
use crate::path::{PathId, PathThresholds};

impl Association {
    /// Counts an error of a path, which becomes potentially failed or inactive by its thresholds (RFC
    /// 9260 section 8.2, RFC 7829 section 3.2 rules 2 and 8).
    pub(super) fn count_path_error(&mut self, id: PathId, cx: &mut Context<'_>) {
        let path = &mut self.paths[id];
        let thresholds = path.thresholds;
        if path.error_count < thresholds.most_errors() {
            path.error_count += 1;
        }
        if path.active && path.error_count > thresholds.path_max_retrans {
            path.active = false;
            if core::mem::take(&mut path.potentially_failed) && path.heartbeat.enabled {
                let rto = path.rto.value();
                path.heartbeat
                    .schedule(cx.now, self.config.paths.hb_interval, rto, cx.random);
            }
            self.events.push(Event::PathFailed(id));
            self.restart_mtu_discovery(id);
        }
        self.judge_path(id);
    }

    /// Updates the potentially failed state of a path. While it is set, a heartbeat is sent per RTO,
    /// whatever HB.interval is (RFC 7829 section 3.2, rules 5 and 6).
    fn judge_path(&mut self, id: PathId) {
        let exposed = self.config.paths.expose_potentially_failed;
        let path = &mut self.paths[id];
        // An address that is not verified gets a heartbeat per RTO anyway, and no data.
        let suspected = path.active
            && path.confirmed
            && path.thresholds.is_potentially_failed(path.error_count);
        if core::mem::replace(&mut path.potentially_failed, suspected) != suspected && exposed {
            self.events.push(match suspected {
                true => Event::PathPotentiallyFailed(id),
                false if path.active => Event::PathRecovered(id),
                false => return,
            });
        }
        if suspected {
            let awaited = path.heartbeat.pending.is_some_and(|p| p.expires.is_some());
            path.heartbeat.requested |= path.heartbeat.enabled && !awaited;
        }
    }

    /// T3-rtx expired on a potentially failed path: an outstanding heartbeat does not count as another
    /// error (RFC 7829 section 3.2, rule 6).
    pub(super) fn forget_awaited_heartbeat(&mut self, id: PathId) {
        let path = &mut self.paths[id];
        if let Some(pending) = &mut path.heartbeat.pending
            && path.potentially_failed
        {
            pending.expires = None;
        }
    }

    /// Ends the potentially failed state: heartbeats have their interval again, and an outstanding one
    /// need not be acknowledged in time.
    pub(super) fn leave_potentially_failed(&mut self, id: PathId, cx: &mut Context<'_>) {
        let interval = self.config.paths.hb_interval;
        let path = &mut self.paths[id];
        path.potentially_failed = false;
        if let Some(pending) = &mut path.heartbeat.pending {
            pending.expires = None;
        }
        path.heartbeat.requested = false;
        if path.heartbeat.enabled {
            let rto = path.rto.value();
            path.heartbeat.schedule(cx.now, interval, rto, cx.random);
        }
        if self.config.paths.expose_potentially_failed {
            self.events.push(Event::PathRecovered(id));
        }
    }

    /// Primary Path Switchover: replaces a primary path with too many errors by the path that carries
    /// the data (RFC 7829 section 5).
    pub(super) fn switch_over_primary(&mut self) {
        let (primary, current) = (self.paths.primary(), self.paths.current());
        if primary == current || !self.paths.contains(primary) || !self.paths[current].usable() {
            return;
        }
        let path = &self.paths[primary];
        if path.thresholds.gives_up_primary(path.error_count) {
            self.paths.set_primary(current);
            self.events.push(Event::PrimarySwitchover(current));
        }
    }

    /// Returns the thresholds of a path, or those of new paths.
    pub(crate) fn thresholds(&self, id: Option<PathId>) -> Option<PathThresholds> {
        match id {
            None => Some(PathThresholds::of(&self.config)),
            Some(id) => self.paths.contains(id).then(|| self.paths[id].thresholds),
        }
    }

    /// Sets the thresholds of a path, or of all present and future ones (RFC 7829 section 7.2).
    pub(crate) fn set_thresholds(
        &mut self,
        id: Option<PathId>,
        thresholds: PathThresholds,
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
            self.paths[path].thresholds = thresholds;
            self.judge_path(path);
        }
        self.choose_path();
        Ok(())
    }

    /// Sets whether the potentially failed state is reported to the user (RFC 7829 section 7.3).
    pub(crate) fn expose_potentially_failed(&mut self, expose: bool) {
        Arc::make_mut(&mut self.config)
            .paths
            .expose_potentially_failed = expose;
    }
}
