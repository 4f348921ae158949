//! All timers of an association in one table: when each expires, and what its expiry does.

use carrick_wire::CauseCode;

use super::state::{AssociationState, StateExpiry};
use super::{Association, Context};
use crate::event::{AbortCause, CloseReason};
use crate::path::{Path, PathErrorCause, PathId};
use crate::time::{Time, earliest};
use crate::tx::{SackContext, Sender};

/// A timer of an association, or of one of its paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timer {
    /// T1-init, T1-cookie, T2-shutdown, T5-shutdown-guard (RFC 9260 sections 5.1 and 9.2).
    State,
    /// SACK.Delay (RFC 9260 section 6.2).
    SackDelay,
    /// T4-rto (RFC 5061 section 5.1).
    Asconf,
    /// The next window probe (RFC 9260 section 6.1, A), the end of a message's lifetime (RFC 3758
    /// section 3.5), or the departure of data that waits for pacing.
    Sender,
    /// The Re-configuration Timer (RFC 6525 section 5.1.1).
    Reconfig,
    /// Of the key management of the chunk protection.
    Keys,
    /// Of a path: RACK's reordering timer and the tail loss probe (RFC 8985), and the check of a path on which
    /// nothing is acknowledged. Before T3-rtx, which a probe defers.
    LossDetection,
    /// Of a path: T3-rtx (RFC 9260 section 6.3.3).
    T3Rtx,
    /// Of a path: the next heartbeat, or the end of waiting for its answer (RFC 9260 section 8.3). In a
    /// shutdown, of an unconfirmed path without which it can't be completed (section 5.4).
    Heartbeat,
    /// Of a path: MTU discovery (RFC 8899 section 5.1.1).
    MtuDiscovery,
}

/// Phase of an association, by which timers run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    SetupOrClosed,
    Transfer,
    Shutdown,
}

impl Phase {
    fn of(state: &AssociationState) -> Self {
        if state.is_setup() || state.is_closed() {
            Self::SetupOrClosed
        } else if state.sends_data() {
            Self::Transfer
        } else {
            Self::Shutdown
        }
    }
}

impl Association {
    /// Returns the timers of the association and when they expire, in the order in which expired ones
    /// are handled.
    #[expect(
        clippy::inline_always,
        reason = "each packet reads it; a call would build the array"
    )]
    #[inline(always)]
    fn association_timers(&self, phase: Phase) -> [(Timer, Option<Time>); 6] {
        let setup = phase == Phase::SetupOrClosed;
        let transfer = phase == Phase::Transfer;
        let asconf = self.dynamic.as_ref().filter(|_| !setup);
        [
            (Timer::State, self.state.next_timeout()),
            (
                Timer::SackDelay,
                if setup {
                    None
                } else {
                    self.receiver.next_timeout()
                },
            ),
            (
                Timer::Asconf,
                asconf.and_then(|dynamic| dynamic.next_timeout()),
            ),
            (
                Timer::Sender,
                if transfer {
                    self.sender.next_timeout()
                } else {
                    None
                },
            ),
            (
                Timer::Reconfig,
                if transfer {
                    self.streams.next_timeout()
                } else {
                    None
                },
            ),
            (
                Timer::Keys,
                if transfer {
                    self.protection.as_ref().and_then(|p| p.next_timeout())
                } else {
                    None
                },
            ),
        ]
    }

    /// Returns the timers of a path and when they expire, in the order in which expired ones are handled.
    #[expect(
        clippy::inline_always,
        reason = "each packet reads it; a call would build the array"
    )]
    #[inline(always)]
    fn path_timers(&self, phase: Phase, path: &Path) -> [(Timer, Option<Time>); 4] {
        let heartbeat = path.next_heartbeat_timeout();
        if phase == Phase::Transfer {
            return [
                (Timer::LossDetection, Sender::next_path_timeout(path)),
                (Timer::T3Rtx, path.t3()),
                (Timer::Heartbeat, heartbeat),
                (Timer::MtuDiscovery, path.next_mtu_timeout()),
            ];
        }
        let verified = phase == Phase::Shutdown && !path.is_confirmed() && self.verifies_to_end();
        [
            (Timer::LossDetection, None),
            (Timer::T3Rtx, None),
            (Timer::Heartbeat, heartbeat.filter(|_| verified)),
            (Timer::MtuDiscovery, None),
        ]
    }

    /// Returns when [`Self::handle_timeout`] is to be called next.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let phase = Phase::of(&self.state);
        if phase == Phase::SetupOrClosed {
            // No other timer runs then.
            return self.state.next_timeout();
        }
        let first = |next, (_, expiry): (Timer, Option<Time>)| earliest(next, expiry);
        let next = self.association_timers(phase).into_iter().fold(None, first);
        self.paths.iter().fold(next, |next, path| {
            self.path_timers(phase, path).into_iter().fold(next, first)
        })
    }

    /// Handles the timers that have expired.
    pub(crate) fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        let phase = Phase::of(&self.state);
        let now = cx.now;
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        // Read again after each that has expired, whose handling may start or stop another.
        let mut timers = self.association_timers(phase);
        for n in 0..timers.len() {
            let (timer, expiry) = timers[n];
            if is_due(expiry) {
                self.on_expiry(timer, cx);
                if self.state.is_closed() {
                    return;
                }
                timers = self.association_timers(phase);
            }
        }
        if phase == Phase::Transfer {
            self.expire_messages(cx);
        }
        for id in self.paths.ids() {
            let mut timers = self.path_timers(phase, &self.paths[id]);
            for n in 0..timers.len() {
                let (timer, expiry) = timers[n];
                if is_due(expiry) {
                    self.on_path_expiry(timer, id, cx);
                    if self.state.is_closed() {
                        return;
                    }
                    timers = self.path_timers(phase, &self.paths[id]);
                }
            }
        }
    }

    fn on_expiry(&mut self, timer: Timer, cx: &mut Context<'_>) {
        match timer {
            Timer::State => self.handle_state_timers(cx),
            Timer::SackDelay => self.receiver.handle_timeout(cx.now),
            Timer::Asconf => self.handle_asconf_timer(cx),
            Timer::Sender => self.sender.handle_timeout(cx.now),
            Timer::Reconfig => self.on_reconfig_timers(cx),
            Timer::Keys => {
                if let Some(protected) = self.protection_mut() {
                    protected.handle_timeout(cx.now);
                }
            }
            Timer::LossDetection | Timer::T3Rtx | Timer::Heartbeat | Timer::MtuDiscovery => {}
        }
    }

    fn on_path_expiry(&mut self, timer: Timer, id: PathId, cx: &mut Context<'_>) {
        match timer {
            Timer::LossDetection => self.on_loss_detection_timers(id, cx),
            Timer::T3Rtx => self.on_t3(id, cx),
            Timer::Heartbeat => self.on_heartbeat_timer(id, cx),
            Timer::MtuDiscovery => self.on_mtu_timer(id, cx.now),
            Timer::State
            | Timer::SackDelay
            | Timer::Asconf
            | Timer::Sender
            | Timer::Reconfig
            | Timer::Keys => {}
        }
    }

    fn on_loss_detection_timers(&mut self, id: PathId, cx: &mut Context<'_>) {
        let mut sack_cx = SackContext {
            now: cx.now,
            arrived_on: None,
            paths: &mut self.paths,
            config: &self.config,
            observation: &self.observation,
        };
        self.sender.on_path_timers(id, &mut sack_cx);
        self.report_abandoned();
        self.on_silence_timer(id, cx);
    }

    /// Expiry of T3-rtx (RFC 9260 section 6.3.3):
    ///
    /// 1. Count it and inform MTU discovery, which may have found a black hole (RFC 8899 section 4.3).
    /// 2. Let the sender reduce its window, back off the RTO and mark the data in flight (rules E1 to E3).
    /// 3. Unless a closed window is probed, count an error of path and association (sections 8.1, 8.2), or end the
    ///    association if the peer was reported as unreachable an RTO ago (section 10, ICMP8). Notify the user if
    ///    heartbeats are acknowledged meanwhile.
    fn on_t3(&mut self, id: PathId, cx: &mut Context<'_>) {
        if self.paths[id].flight().size() == 0 && !self.sender.awaits_forward_on(id) {
            // All data that was in flight here has been marked for retransmission elsewhere.
            self.paths[id].stop_t3();
            return;
        }
        self.counters.other().t3_expirations += 1;
        let waited = self.paths[id].rto();
        self.paths[id].inform_discovery_of_t3(&self.config.mtu);
        let is_error =
            self.sender
                .on_t3(id, cx.now, &mut self.paths, &self.config, &self.observation);
        self.report_abandoned();
        if is_error && self.liveness.is_unreachable(cx.now) {
            return self.close(CloseReason::ProtocolUnreachable, cx);
        }
        if is_error {
            self.paths[id].leave_errors_to_t3();
            self.report_stall(waited, cx.now);
            self.on_path_error(id, PathErrorCause::T3Expired, Some(waited), cx);
        }
    }

    /// Timer of the state (sections 5.1 and 9.2).
    fn handle_state_timers(&mut self, cx: &mut Context<'_>) {
        match self.state.expire_timer(cx.now) {
            None => {}
            Some(StateExpiry::T1Init(retransmissions)) => {
                self.on_setup_timeout(retransmissions, cx);
            }
            Some(StateExpiry::T1Cookie(retransmissions)) => {
                self.resend_all();
                self.on_setup_timeout(retransmissions, cx);
            }
            Some(StateExpiry::T2Shutdown) => self.on_t2(cx),
            Some(StateExpiry::T5ShutdownGuard) => {
                let cause = AbortCause::new(
                    CauseCode::PROTOCOL_VIOLATION.0,
                    b"shutdown took longer than T5-shutdown-guard",
                );
                self.abort(CloseReason::ShutdownTimedOut, &cause, cx);
            }
        }
    }

    /// T1-init or T1-cookie expired: the next address is tried (section 5.1).
    fn on_setup_timeout(&mut self, retransmissions: u32, cx: &mut Context<'_>) {
        if retransmissions > self.config.timers.max_init_retransmits {
            return self.close(CloseReason::SetupTimedOut, cx);
        }
        let current = self.paths.current();
        let path = &mut self.paths[current];
        path.back_off_rto(&self.config);
        if let Some(limit) = self.config.timers.max_init_timeout {
            path.limit_rto(limit);
        }
        self.paths.rotate();
    }

    /// T2-shutdown expired: the chunk goes to another path.
    fn on_t2(&mut self, cx: &mut Context<'_>) {
        let sent_to = self.state.ending().and_then(|ending| ending.sent_to);
        let path = sent_to.and_then(|route| self.paths.find(&route));
        let path = path.unwrap_or(self.paths.current());
        let waited = self.paths[path].back_off_rto(&self.config);
        // A SACK bundled with the SHUTDOWN also reports reneged data and the window.
        if matches!(self.state, AssociationState::ShutdownSent(_)) && self.receiver.has_received() {
            self.receiver.acknowledge_now();
        }
        self.on_path_error(path, PathErrorCause::ControlUnanswered, Some(waited), cx);
        // If the path failed by this, another one has been chosen.
        if !self.state.is_closed() && self.paths.current() == path {
            self.paths.rotate();
        }
    }
}
