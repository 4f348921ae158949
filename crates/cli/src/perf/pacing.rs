//! Schedule of a sender with a rate.

use std::time::Duration;

/// Maximum time of the schedule that a sender catches up with after a stall.
pub(super) const CATCH_UP: Duration = Duration::from_millis(100);

const NANOS_PER_SECOND: u128 = 1_000_000_000;

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

/// Returns the time between two messages at a rate; zero without one.
pub(super) fn message_interval(bits_per_second: u64, size: u32) -> Duration {
    SendSchedule::new(bits_per_second, size).map_or(Duration::ZERO, |schedule| schedule.time(1))
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
        assert_eq!(message_interval(0, 1000), Duration::ZERO);
        assert_eq!(message_interval(8000, 1000), millis(1000));
    }
}
