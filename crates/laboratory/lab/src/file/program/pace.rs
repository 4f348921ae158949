//! Sending times of the messages of a flow.

use std::time::Duration;

use carrick_netsim::Random;
use carrick_netsim::traffic::DurationDistribution;

use super::super::model::{Flow, Pattern};

/// Schedule of a flow's messages, in nanoseconds from the start of the run.
#[derive(Debug)]
pub(in crate::file) struct Pace {
    active: bool,
    pattern: Pattern,
    random: Random,
    next: Option<u64>,
    stop: u64,
    burst_end: u64,
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Pace {
    pub(super) fn new(flow: &Flow, random: Random) -> Self {
        Self {
            active: flow.active,
            pattern: flow.pattern,
            random,
            next: None,
            stop: flow.stop.map_or(u64::MAX, nanos),
            burst_end: 0,
        }
    }

    /// Starts the flow at `at`.
    pub(super) fn begin(&mut self, at: u64) {
        if !self.active {
            return;
        }
        self.next = Some(at);
        match self.pattern {
            Pattern::Poisson { interval } => {
                self.next = Some(at.saturating_add(nanos(self.random.exponential(interval))));
            }
            Pattern::OnOff { on, .. } => self.burst_end = at.saturating_add(self.draw(on)),
            Pattern::Bulk | Pattern::Constant { .. } => {}
            Pattern::Simco(_) => self.next = None,
        }
    }

    /// Stops a constant flow.
    pub(super) fn suspend(&mut self) {
        self.next = None;
    }

    /// Continues a constant flow: the next message is due an interval after `now`.
    pub(super) fn resume(&mut self, now: u64) {
        if let Pattern::Constant { interval, .. } = self.pattern {
            self.next = Some(now.saturating_add(nanos(interval)));
        }
    }

    /// Returns the time at which the next message is due.
    pub(super) fn due(&self) -> Option<u64> {
        self.next.filter(|next| *next < self.stop)
    }

    /// Returns the number of messages due now, and schedules the next ones.
    pub(super) fn take(&mut self, now: u64) -> u32 {
        if self.due().is_none_or(|due| due > now) {
            return 0;
        }
        match self.pattern {
            Pattern::Bulk => {
                self.next = None;
                u32::MAX
            }
            Pattern::Constant { interval, burst } => {
                self.next =
                    Some(now.saturating_add(nanos(interval).saturating_mul(u64::from(burst))));
                burst
            }
            Pattern::Poisson { interval } => {
                let interval = nanos(self.random.exponential(interval)).max(1);
                self.next = Some(now.saturating_add(interval));
                1
            }
            Pattern::Simco(_) => 0,
            Pattern::OnOff { interval, on, off } => {
                let mut next = now.saturating_add(nanos(interval));
                if next >= self.burst_end {
                    next = next.max(self.burst_end.saturating_add(self.draw(off)));
                    self.burst_end = next.saturating_add(self.draw(on));
                }
                self.next = Some(next);
                1
            }
        }
    }

    fn draw(&mut self, spread: DurationDistribution) -> u64 {
        nanos(match spread {
            DurationDistribution::Fixed(duration) => duration,
            DurationDistribution::Exponential(mean) => self.random.exponential(mean),
            DurationDistribution::Pareto { mean, shape } => self.random.pareto(mean, shape),
        })
    }
}
