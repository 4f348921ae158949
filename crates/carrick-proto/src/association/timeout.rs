//! All timers of an association: T1, T2, T3, T5, heartbeats, SACK.Delay, window probes.

use alloc::sync::Arc;

use super::state::State;
use super::{Association, Context};
use crate::error::AbortCause;
use crate::event::CloseReason;
use crate::path::PathId;
use crate::send::SackContext;
use crate::time::{Time, earliest};

impl Association {
    /// When [`Self::handle_timeout`] is to be called next.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let mut next = self.state.next_timeout();
        if self.state.is_setup() || self.state.is_closed() {
            return next;
        }
        next = earliest(next, self.receiver.next_timeout());
        next = earliest(next, self.next_asconf_timeout());
        if self.state.sends_data() {
            next = earliest(next, self.sender.next_timeout());
            next = earliest(next, self.streams.next_timeout());
            for path in self.paths.iter() {
                next = earliest(next, path.t3);
                next = earliest(next, crate::send::Sender::next_path_timeout(path));
                next = earliest(next, path.heartbeat.next_timeout());
                let discovery = path.discovery.as_ref();
                next = earliest(next, discovery.and_then(|d| d.next_timeout()));
            }
        } else if self.verifies_to_end() {
            for path in self.paths.iter().filter(|p| !p.confirmed) {
                next = earliest(next, path.heartbeat.next_timeout());
            }
        }
        next
    }

    pub(crate) fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        self.handle_state_timers(cx);
        if self.state.is_closed() || self.state.is_setup() {
            return;
        }
        self.receiver.handle_timeout(cx.now);
        self.handle_asconf_timer(cx);
        if self.state.is_closed() {
            return;
        }
        if !self.state.sends_data() {
            return self.handle_verification(cx);
        }
        self.sender.handle_timeout(cx.now);
        self.on_reconfig_timers(cx);
        if self.state.is_closed() {
            return;
        }
        self.expire_messages(cx);
        for id in self.paths.ids() {
            self.on_path_timers(id, cx);
            if self.paths[id].t3.is_some_and(|at| at <= cx.now) {
                self.on_t3(id, cx);
            }
            if self.state.is_closed() {
                return;
            }
            if self.heartbeat_is_due(id, cx.now) {
                self.on_heartbeat_timer(id, cx);
            }
            if self.state.is_closed() {
                return;
            }
            let discovery = self.paths[id].discovery.as_ref();
            if discovery
                .and_then(|d| d.next_timeout())
                .is_some_and(|at| at <= cx.now)
            {
                self.on_mtu_timer(id, cx.now);
            }
        }
    }

    fn heartbeat_is_due(&self, id: PathId, now: Time) -> bool {
        let next = self.paths[id].heartbeat.next_timeout();
        next.is_some_and(|at| at <= now)
    }

    /// The heartbeats without which a shutdown has nowhere to go.
    fn handle_verification(&mut self, cx: &mut Context<'_>) {
        for id in self.paths.ids() {
            if !self.verifies_to_end() {
                return;
            }
            if !self.paths[id].confirmed && self.heartbeat_is_due(id, cx.now) {
                self.on_heartbeat_timer(id, cx);
            }
        }
    }

    /// RACK's reordering timer and the probe timer, before T3-rtx, which a probe puts off.
    fn on_path_timers(&mut self, id: PathId, cx: &mut Context<'_>) {
        let due = crate::send::Sender::next_path_timeout(&self.paths[id]);
        if due.is_none_or(|at| at > cx.now) {
            return;
        }
        let config = Arc::clone(&self.config);
        let mut sack_cx = SackContext {
            now: cx.now,
            arrived_on: None,
            paths: &mut self.paths,
            config: &config,
            trace: &mut self.trace,
        };
        self.sender.on_path_timers(id, &mut sack_cx);
        self.report_abandoned();
    }

    fn on_t3(&mut self, id: PathId, cx: &mut Context<'_>) {
        if self.paths[id].flight_size == 0 && !self.sender.awaits_forward_on(id) {
            // What was in flight here has been marked, and left or will leave on another path.
            self.paths[id].t3 = None;
            return;
        }
        self.counters.t3_expirations += 1;
        let config = Arc::clone(&self.config);
        let path = &mut self.paths[id];
        if let Some(discovery) = &mut path.discovery {
            discovery.on_t3(path.rto.value());
        }
        let is_error = self
            .sender
            .on_t3(id, cx.now, &mut self.paths, &config, &mut self.trace);
        self.report_abandoned();
        if is_error {
            self.forget_awaited_heartbeat(id);
            self.on_path_error(id, true, cx);
        }
    }

    fn handle_state_timers(&mut self, cx: &mut Context<'_>) {
        let due = |timer: Option<Time>| timer.is_some_and(|at| at <= cx.now);
        match &mut self.state {
            State::CookieWait(wait) if due(wait.init.timer) => {
                wait.init.timer = None;
                wait.init.due = true;
                wait.init.retransmissions += 1;
                wait.sent = None;
                let retransmissions = wait.init.retransmissions;
                self.on_setup_timeout(retransmissions, cx);
            }
            State::CookieEchoed(echoed) if due(echoed.echo.timer) => {
                echoed.echo.timer = None;
                echoed.echo.due = true;
                echoed.echo.retransmissions += 1;
                echoed.sent = None;
                let retransmissions = echoed.echo.retransmissions;
                self.resend_all();
                self.on_setup_timeout(retransmissions, cx);
            }
            State::ShutdownSent(ending) | State::ShutdownAckSent(ending) => {
                if due(ending.guard) {
                    let cause = AbortCause::new(13, b"shutdown took longer than T5-shutdown-guard");
                    return self.abort(CloseReason::ShutdownTimedOut, &cause, cx);
                }
                if due(ending.chunk.timer) {
                    ending.chunk.timer = None;
                    ending.chunk.due = true;
                    ending.chunk.retransmissions += 1;
                    self.on_t2(cx);
                }
            }
            _ => {}
        }
    }

    /// T1-init or T1-cookie expired: the next address is tried (section 5.1).
    fn on_setup_timeout(&mut self, retransmissions: u32, cx: &mut Context<'_>) {
        if retransmissions > self.config.max_init_retransmits {
            return self.close(CloseReason::SetupTimedOut, cx);
        }
        let config = Arc::clone(&self.config);
        let current = self.paths.current();
        self.paths[current].rto.back_off(&config);
        self.paths.rotate();
    }

    /// T2-shutdown expired: the chunk goes to another path.
    fn on_t2(&mut self, cx: &mut Context<'_>) {
        let config = Arc::clone(&self.config);
        let sent_to = match &self.state {
            State::ShutdownSent(ending) | State::ShutdownAckSent(ending) => ending.sent_to,
            _ => None,
        };
        let path = sent_to.and_then(|route| self.path_of(&route));
        let path = path.unwrap_or(self.paths.current());
        self.paths[path].rto.back_off(&config);
        // With a SACK the SHUTDOWN also says what was taken back, and the window.
        if matches!(self.state, State::ShutdownSent(_)) && self.receiver.has_received() {
            self.receiver.acknowledge_now();
        }
        self.on_path_error(path, true, cx);
        // If the path failed by this, another one has been chosen.
        if !self.state.is_closed() && self.paths.current() == path {
            self.paths.rotate();
        }
    }
}
