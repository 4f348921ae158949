//! Timers of a connection section (Q.714, annex C).

use carrick_proto::Time;

/// Timer of a connection section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timer {
    /// T(conn est).
    Establishment,
    /// T(ias).
    SendInactivity,
    /// T(iar).
    ReceiveInactivity,
    /// T(int). It precedes T(repeat rel), so that an expiry at the same time sends no further RELRE.
    Interval,
    /// T(rel).
    Release,
    /// T(repeat rel).
    RepeatRelease,
    /// T(reset).
    Reset,
}

const TIMERS: [Timer; 7] = [
    Timer::Establishment,
    Timer::SendInactivity,
    Timer::ReceiveInactivity,
    Timer::Interval,
    Timer::Release,
    Timer::RepeatRelease,
    Timer::Reset,
];

/// Deadlines of the running timers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timers([Option<Time>; TIMERS.len()]);

impl Timers {
    pub(super) const fn start(&mut self, timer: Timer, deadline: Time) {
        self.0[timer as usize] = Some(deadline);
    }

    pub(super) const fn stop_all(&mut self) {
        self.0 = [None; TIMERS.len()];
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.0.iter().flatten().min().copied()
    }

    /// Stops and returns the timer that expired first.
    pub(super) fn take_expired(&mut self, now: Time) -> Option<Timer> {
        let next = self.next().filter(|&deadline| deadline <= now)?;
        let timer = TIMERS
            .into_iter()
            .find(|&timer| self.0[timer as usize] == Some(next))?;
        self.0[timer as usize] = None;
        Some(timer)
    }
}
