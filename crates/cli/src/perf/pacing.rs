//! Schedules of flows: with a rate, with intervals, and with phases in which a flow pauses.

use std::time::Duration;

use carrick_netsim::Random;

use super::distribution::Distribution;
use super::flow::{Flow, OnOff, Spacing};

/// Maximum time of the schedule that a sender catches up with after a stall.
pub(super) const CATCH_UP: Duration = Duration::from_millis(100);

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Maximum number of messages of a random schedule that are due at once.
const MAX_DUE: u64 = 64;

/// Schedule of messages of one size: slot n is due n * size * 8 / rate after the start, so that no error adds up.
/// Each message takes the next slot. Slots that are overdue by more than [`CATCH_UP`] are left out.
#[derive(Debug)]
pub(super) struct SendSchedule {
    /// Size of a message in bits, multiplied by 10^9.
    scaled_bits: u128,
    bits_per_second: u128,
    /// Number of slots that have passed, with or without a message.
    slots: u128,
}

/// Permission of the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendTurn {
    /// This number of messages is due.
    Now(u64),
    /// The next message is due at this time since the start.
    At(Duration),
}

impl SendSchedule {
    /// Returns the schedule; `None` if the rate is 0, which stands for unlimited.
    pub(super) fn new(bits_per_second: u64, size: u32) -> Option<Self> {
        (bits_per_second > 0).then(|| Self {
            scaled_bits: u128::from(size.max(1)) * 8 * NANOS_PER_SECOND,
            bits_per_second: bits_per_second.into(),
            slots: 0,
        })
    }

    /// Returns the schedule with a message each time this interval, of at least 1 ns, has passed.
    fn every(interval: Duration) -> Self {
        Self {
            scaled_bits: interval.as_nanos().max(1),
            bits_per_second: 1,
            slots: 0,
        }
    }

    /// Returns the time of a slot since the start, rounded up so that the slot is due then.
    fn time(&self, slot: u128) -> Duration {
        let nanos = slot.saturating_mul(self.scaled_bits);
        let nanos = nanos.div_ceil(self.bits_per_second);
        Duration::from_nanos(nanos.try_into().unwrap_or(u64::MAX))
    }

    /// Returns the number of slots within a time, without the first one at 0.
    fn slots_in(&self, time: Duration) -> u128 {
        time.as_nanos().saturating_mul(self.bits_per_second) / self.scaled_bits
    }

    /// Returns what may be sent at this time since the start.
    pub(super) fn turn(&mut self, elapsed: Duration) -> SendTurn {
        let due = self.slots_in(elapsed).saturating_add(1);
        let overdue = due.saturating_sub(self.slots);
        if overdue == 0 {
            return SendTurn::At(self.time(self.slots));
        }
        let limit = self.slots_in(CATCH_UP).saturating_add(1);
        self.slots += overdue.saturating_sub(limit);
        SendTurn::Now(overdue.min(limit).try_into().unwrap_or(u64::MAX))
    }

    /// Counts messages that were sent.
    pub(super) fn sent(&mut self, messages: u64) {
        self.slots = self.slots.saturating_add(messages.into());
    }
}

/// Schedule with random intervals.
#[derive(Debug)]
struct RandomSchedule {
    /// Seconds between two messages.
    interval: Distribution,
    random: Random,
    /// Time of the next message that is not due.
    next: Duration,
    /// Number of messages that are due.
    due: u64,
}

impl RandomSchedule {
    fn turn(&mut self, elapsed: Duration) -> SendTurn {
        self.next = self.next.max(elapsed.saturating_sub(CATCH_UP));
        while self.next <= elapsed && self.due < MAX_DUE {
            let interval = self.interval.draw(&mut self.random);
            let interval = Duration::try_from_secs_f64(interval).unwrap_or(Duration::MAX);
            self.next = self.next.saturating_add(interval);
            self.due += 1;
        }
        match self.due {
            0 => SendTurn::At(self.next),
            due => SendTurn::Now(due),
        }
    }
}

#[derive(Debug)]
enum ScheduleKind {
    Unlimited,
    Fixed(SendSchedule),
    Random(Box<RandomSchedule>),
}

/// Phases of a flow that pauses; it begins with a phase in which it sends.
#[derive(Clone, Copy, Debug)]
struct Phases {
    on: u128,
    off: u128,
}

impl Phases {
    fn new(phases: OnOff) -> Self {
        let nanos = |seconds: f64| (seconds * 1e9).max(1.0) as u128;
        Self {
            on: nanos(phases.on),
            off: nanos(phases.off),
        }
    }

    /// Returns the part of this time since the start in which the flow sends; the time of the next phase if it pauses.
    fn active(self, elapsed: Duration) -> Result<Duration, Duration> {
        let (cycles, rest) = (
            elapsed.as_nanos() / (self.on + self.off),
            elapsed.as_nanos() % (self.on + self.off),
        );
        if rest >= self.on {
            return Err(nanos((cycles + 1) * (self.on + self.off)));
        }
        Ok(nanos(cycles * self.on + rest))
    }

    /// Returns the time since the start at which the flow has been sending for this time.
    fn wall(self, active: Duration) -> Duration {
        let cycles = active.as_nanos() / self.on;
        nanos(active.as_nanos() + cycles * self.off)
    }
}

fn nanos(nanos: u128) -> Duration {
    Duration::from_nanos(nanos.try_into().unwrap_or(u64::MAX))
}

/// Schedule of a flow.
#[derive(Debug)]
pub(super) struct FlowSchedule {
    kind: ScheduleKind,
    phases: Option<Phases>,
}

impl FlowSchedule {
    pub(super) fn new(flow: &Flow, random: Random) -> Self {
        let unlimited = || ScheduleKind::Unlimited;
        let kind = match flow.spacing {
            Spacing::Unlimited | Spacing::Responses => unlimited(),
            Spacing::Rate(rate) => {
                let schedule = SendSchedule::new(rate, flow.max_size());
                schedule.map_or_else(unlimited, ScheduleKind::Fixed)
            }
            Spacing::Interval(Distribution::Constant(seconds)) => {
                let interval = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
                ScheduleKind::Fixed(SendSchedule::every(interval))
            }
            Spacing::Interval(interval) => ScheduleKind::Random(Box::new(RandomSchedule {
                interval,
                random,
                next: Duration::ZERO,
                due: 0,
            })),
        };
        let phases = flow.on_off.map(Phases::new);
        Self { kind, phases }
    }

    /// Returns what may be sent at this time since the start.
    pub(super) fn turn(&mut self, elapsed: Duration) -> SendTurn {
        let active = match self.phases.map(|own| own.active(elapsed)) {
            None => elapsed,
            Some(Ok(active)) => active,
            Some(Err(next)) => return SendTurn::At(next),
        };
        let turn = match &mut self.kind {
            ScheduleKind::Unlimited => return SendTurn::Now(u64::MAX),
            ScheduleKind::Fixed(own) => own.turn(active),
            ScheduleKind::Random(own) => own.turn(active),
        };
        match (turn, self.phases) {
            (SendTurn::At(time), Some(phases)) => SendTurn::At(phases.wall(time)),
            (turn, _) => turn,
        }
    }

    /// Counts messages that were sent.
    pub(super) fn sent(&mut self, messages: u64) {
        match &mut self.kind {
            ScheduleKind::Unlimited => {}
            ScheduleKind::Fixed(own) => own.sent(messages),
            ScheduleKind::Random(own) => own.due = own.due.saturating_sub(messages),
        }
    }

    /// Returns whether the flow sends as fast as it can, without a pause.
    pub(super) fn is_unlimited(&self) -> bool {
        matches!(self.kind, ScheduleKind::Unlimited) && self.phases.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    /// 1000 bytes at 8 kbit/s: a message per second.
    fn a_message_per_second() -> SendSchedule {
        SendSchedule::new(8000, 1000).unwrap()
    }

    #[test]
    fn messages_are_due_at_multiples_of_their_time() {
        let mut schedule = a_message_per_second();
        for second in 0..1000 {
            assert_eq!(schedule.turn(millis(1000 * second)), SendTurn::Now(1));
            schedule.sent(1);
            let next = SendTurn::At(millis(1000 * (second + 1)));
            assert_eq!(schedule.turn(millis(1000 * second)), next);
            assert_eq!(schedule.turn(millis(1000 * second + 999)), next);
        }
    }

    /// Times that are no whole number of nanoseconds, and senders that are always late.
    #[test]
    fn late_turns_do_not_add_up() {
        let (rate, size) = (3_000_001, 1499);
        let mut schedule = SendSchedule::new(rate, size).unwrap();
        let (mut now, mut sent) = (Duration::ZERO, 0);
        while now < Duration::from_secs(3600) {
            match schedule.turn(now) {
                SendTurn::Now(due) => {
                    schedule.sent(due);
                    sent += due;
                }
                SendTurn::At(time) => now = time + Duration::from_micros(700),
            }
        }
        let exact = 3600 * rate / (u64::from(size) * 8);
        assert!(sent.abs_diff(exact) <= 1, "{sent}, not {exact}");
    }

    #[test]
    fn a_time_from_the_schedule_is_due() {
        let mut schedule = SendSchedule::new(7_777_777, 1).unwrap();
        for _ in 0..10_000 {
            schedule.sent(1);
            let SendTurn::At(time) = schedule.turn(Duration::ZERO) else {
                panic!("a slot in the future is due");
            };
            assert_eq!(schedule.turn(time), SendTurn::Now(1));
        }
    }

    #[test]
    fn catching_up_after_a_stall_is_bounded() {
        // 1000 messages per second.
        let mut schedule = SendSchedule::new(8_000_000, 1000).unwrap();
        assert_eq!(schedule.turn(millis(0)), SendTurn::Now(1));
        schedule.sent(1);
        assert_eq!(schedule.turn(millis(50)), SendTurn::Now(50));
        schedule.sent(50);
        assert_eq!(schedule.turn(millis(60_000)), SendTurn::Now(101));
        // What was not sent at once is not left out a second time.
        schedule.sent(1);
        assert_eq!(schedule.turn(millis(60_000)), SendTurn::Now(100));
        schedule.sent(100);
        assert_eq!(
            schedule.turn(millis(60_000)),
            SendTurn::At(millis(60_001)),
            "the schedule has kept its phase"
        );
        let mut slow = a_message_per_second();
        slow.sent(1);
        assert_eq!(slow.turn(millis(90_000)), SendTurn::Now(1));
    }

    #[test]
    fn extreme_rates_have_a_schedule() {
        assert!(SendSchedule::new(0, 1000).is_none());
        let mut fast = SendSchedule::new(u64::MAX, 1).unwrap();
        assert!(matches!(fast.turn(Duration::MAX), SendTurn::Now(n) if n > 1));
        let mut slow = SendSchedule::new(1, 1 << 30).unwrap();
        assert_eq!(slow.turn(Duration::ZERO), SendTurn::Now(1));
        slow.sent(1);
        assert!(matches!(slow.turn(Duration::MAX), SendTurn::Now(_)));
    }

    /// Returns the times of the first messages of a flow, each of which is sent at once.
    fn times(spec: &str, messages: usize) -> Vec<Duration> {
        let mut schedule = FlowSchedule::new(&Flow::parse(spec).unwrap(), Random::new(3, 1));
        let (mut now, mut times) = (Duration::ZERO, Vec::new());
        while times.len() < messages {
            match schedule.turn(now) {
                SendTurn::Now(_) => {
                    schedule.sent(1);
                    times.push(now);
                }
                SendTurn::At(time) => {
                    assert!(time > now, "{time:?} is not after {now:?}");
                    now = time;
                }
            }
        }
        times
    }

    #[test]
    fn a_constant_interval_has_no_error() {
        let times = times("interval=20ms", 501);
        assert_eq!(times[..3], [millis(0), millis(20), millis(40)]);
        assert_eq!(times[500], millis(10_000));
    }

    /// The mean of n exponential intervals is within four standard errors, mean / √n.
    #[test]
    fn random_intervals_have_their_mean() {
        let (messages, mean) = (10_000, 0.02);
        let times = times("interval=exponential:20ms", messages + 1);
        let measured = times[messages].as_secs_f64() / messages as f64;
        let bound = 4.0 * mean / (messages as f64).sqrt();
        assert!((measured - mean).abs() < bound, "{measured} ± {bound}");
        let seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
        let gaps = seconds.windows(2).map(|pair| pair[1] - pair[0]);
        let long = gaps.filter(|gap| *gap > mean).count();
        let share = long as f64 / messages as f64;
        let expected = (-1.0_f64).exp();
        let bound = 4.0 * (expected * (1.0 - expected) / messages as f64).sqrt();
        assert!((share - expected).abs() < bound, "{share} ± {bound}");
    }

    /// 1 s on, 2 s off: 100 messages in each phase.
    #[test]
    fn flows_pause_between_their_phases() {
        let times = times("interval=10ms,on=1s,off=2s", 250);
        assert_eq!(times[99], millis(990));
        assert_eq!(times[100], millis(3000));
        assert_eq!(times[199], millis(3990));
        assert_eq!(times[249], millis(6490));
        for time in times {
            assert!(time.as_millis() % 3000 < 1000, "{time:?}");
        }
    }

    #[test]
    fn unlimited_flows_pause_too() {
        let flow = Flow::parse("on=1s,off=2s").unwrap();
        let mut schedule = FlowSchedule::new(&flow, Random::new(1, 1));
        let all = SendTurn::Now(u64::MAX);
        assert_eq!(schedule.turn(millis(999)), all);
        assert_eq!(schedule.turn(millis(1000)), SendTurn::At(millis(3000)));
        assert_eq!(schedule.turn(millis(2999)), SendTurn::At(millis(3000)));
        assert_eq!(schedule.turn(millis(3000)), all);
        assert!(!schedule.is_unlimited());
    }

    #[test]
    fn random_schedules_catch_up_within_their_bound() {
        let flow = Flow::parse("interval=uniform:1ms:1ms").unwrap();
        let mut schedule = FlowSchedule::new(&flow, Random::new(1, 1));
        let mut sent = 0;
        while let SendTurn::Now(due) = schedule.turn(millis(60_000)) {
            schedule.sent(due);
            sent += due;
        }
        assert_eq!(
            sent, 101,
            "100 ms of the schedule, and the message that is due now"
        );
    }
}
