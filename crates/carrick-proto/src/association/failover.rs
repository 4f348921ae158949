//! Quick failover (RFC 7829): paths that are potentially failed, and the switchover of the primary.

use alloc::sync::Arc;

use super::{Association, Context};
use crate::error::OperationError;
use crate::event::Event;
use crate::path::{PathId, PathThresholds};

impl Association {
    /// A path has one more error: it becomes potentially failed or inactive by its thresholds
    /// (RFC 9260 section 8.2, RFC 7829 section 3.2 rules 2 and 8).
    pub(super) fn count_path_error(&mut self, id: PathId, cx: &mut Context<'_>) {
        let path = &mut self.paths[id];
        let thresholds = path.thresholds;
        if path.error_count < thresholds.most_errors() {
            path.error_count += 1;
        }
        if path.active && path.error_count > thresholds.path_max_retrans {
            path.active = false;
            if !path.confirmed {
                self.listing_changed = true;
                self.found_by_tag = true;
            }
            if core::mem::take(&mut path.potentially_failed) && path.heartbeat.enabled {
                let rto = path.rto.value();
                path.heartbeat
                    .schedule(cx.now, self.config.hb_interval, rto, cx.random);
            }
            self.events.push_back(Event::PathFailed(id));
            self.restart_mtu_discovery(id);
        }
        self.judge_path(id);
    }

    /// Sets whether a path is potentially failed by its errors. While it is, it gets a heartbeat
    /// per RTO, whatever HB.interval says (RFC 7829 section 3.2, rules 5 and 6).
    fn judge_path(&mut self, id: PathId) {
        let exposed = self.config.expose_potentially_failed;
        let path = &mut self.paths[id];
        // An address that is not verified gets a heartbeat per RTO anyway, and no data.
        let suspected = path.active
            && path.confirmed
            && path.thresholds.is_potentially_failed(path.error_count);
        if core::mem::replace(&mut path.potentially_failed, suspected) != suspected && exposed {
            self.events.push_back(match suspected {
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

    /// T3-rtx expired on a potentially failed path, which says the same as a heartbeat that is lost:
    /// one on its way does not count besides (RFC 7829 section 3.2, rule 6).
    pub(super) fn forget_awaited_heartbeat(&mut self, id: PathId) {
        let path = &mut self.paths[id];
        if let Some(pending) = &mut path.heartbeat.pending
            && path.potentially_failed
        {
            pending.expires = None;
        }
    }

    /// The path is not potentially failed any more: heartbeats have their interval again, and one on
    /// its way need not come back in time.
    pub(super) fn leave_potentially_failed(&mut self, id: PathId, cx: &mut Context<'_>) {
        let interval = self.config.hb_interval;
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
        if self.config.expose_potentially_failed {
            self.events.push_back(Event::PathRecovered(id));
        }
    }

    /// Primary Path Switchover: a primary with too many errors is replaced for good by the path that
    /// carries the data (RFC 7829 section 5).
    pub(super) fn switch_over_primary(&mut self) {
        let (primary, current) = (self.paths.primary(), self.paths.current());
        if primary == current || !self.paths.contains(primary) || !self.paths[current].usable() {
            return;
        }
        let path = &self.paths[primary];
        if path.thresholds.gives_up_primary(path.error_count) {
            self.paths.set_primary(current);
            self.events.push_back(Event::PrimarySwitchover(current));
        }
    }

    /// The thresholds of a path, or those that new paths get.
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
            config.path_max_retrans = thresholds.path_max_retrans;
            config.potentially_failed_max_retrans = thresholds.potentially_failed_max_retrans;
            config.primary_switchover_max_retrans = thresholds.primary_switchover_max_retrans;
        }
        for path in self.paths.ids().filter(|p| id.is_none_or(|id| id == *p)) {
            self.paths[path].thresholds = thresholds;
            self.judge_path(path);
        }
        self.choose_path();
        Ok(())
    }

    /// Whether the user hears and sees that paths are potentially failed (RFC 7829 section 7.3).
    pub(crate) fn expose_potentially_failed(&mut self, expose: bool) {
        Arc::make_mut(&mut self.config).expose_potentially_failed = expose;
    }
}
