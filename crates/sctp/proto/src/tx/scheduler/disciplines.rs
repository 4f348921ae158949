//! Disciplines of RFC 8260, section 3: what ranks the streams of each scheduler.

use super::{Discipline, Rank, ScheduleEntry};

/// First come, first served (section 3.1): messages leave in the order in which the user sent them.
#[derive(Debug)]
pub(super) struct FirstCome;

impl Discipline for FirstCome {
    fn rank(&self, entry: &ScheduleEntry) -> Rank {
        Rank(0, entry.arrival)
    }
}

/// Round robin (section 3.2): a message of each stream, or with interleaving a chunk of each.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    rounds: LastServed,
}

impl Discipline for RoundRobin {
    fn rank(&self, entry: &ScheduleEntry) -> Rank {
        Rank(entry.clock, 0)
    }

    fn enter(&mut self, entry: &mut ScheduleEntry) {
        self.rounds.move_to_end(entry);
    }

    fn served(&mut self, entry: &mut ScheduleEntry, _bytes: usize) {
        self.rounds.move_to_end(entry);
    }

    fn state(&self) -> u128 {
        self.rounds.0
    }

    fn restore(&mut self, state: u128) {
        self.rounds.0 = state;
    }
}

/// Round robin per packet (section 3.3): a packet of each stream. A lost packet delays one stream
/// only.
#[derive(Debug, Default)]
pub(super) struct RoundRobinPerPacket {
    rounds: LastServed,
}

impl Discipline for RoundRobinPerPacket {
    fn rank(&self, entry: &ScheduleEntry) -> Rank {
        Rank(entry.clock, 0)
    }

    fn enter(&mut self, entry: &mut ScheduleEntry) {
        self.rounds.move_to_end(entry);
    }

    fn packet_over(&mut self, entry: &mut ScheduleEntry) {
        self.rounds.move_to_end(entry);
    }

    fn state(&self) -> u128 {
        self.rounds.0
    }

    fn restore(&mut self, state: u128) {
        self.rounds.0 = state;
    }
}

/// Number of services so far, which orders streams by the last time that each was served.
#[derive(Debug, Default)]
struct LastServed(u128);

impl LastServed {
    fn move_to_end(&mut self, entry: &mut ScheduleEntry) {
        self.0 += 1;
        entry.clock = self.0;
    }
}

/// Strict priorities (section 3.4): the stream with the lowest value first; first come, first served
/// among streams of equal value.
#[derive(Debug)]
pub(super) struct Priority;

impl Discipline for Priority {
    fn rank(&self, entry: &ScheduleEntry) -> Rank {
        Rank(u128::from(entry.value), entry.arrival)
    }
}

/// Fair bandwidth (section 3.5): the same number of bytes for each stream that has data.
#[derive(Debug, Default)]
pub(super) struct FairBandwidth {
    clock: VirtualClock,
}

impl Discipline for FairBandwidth {
    fn rank(&self, entry: &ScheduleEntry) -> Rank {
        VirtualClock::rank(entry)
    }

    fn enter(&mut self, entry: &mut ScheduleEntry) {
        self.clock.enter(entry);
    }

    fn served(&mut self, entry: &mut ScheduleEntry, bytes: usize) {
        self.clock.served(entry, bytes, 1);
    }

    fn state(&self) -> u128 {
        self.clock.now
    }

    fn restore(&mut self, state: u128) {
        self.clock.now = state;
    }
}

/// Weighted fair queueing (section 3.6): bytes in proportion to the stream's value, its weight.
#[derive(Debug, Default)]
pub(super) struct WeightedFair {
    clock: VirtualClock,
}

impl Discipline for WeightedFair {
    fn rank(&self, entry: &ScheduleEntry) -> Rank {
        VirtualClock::rank(entry)
    }

    fn enter(&mut self, entry: &mut ScheduleEntry) {
        self.clock.enter(entry);
    }

    fn served(&mut self, entry: &mut ScheduleEntry, bytes: usize) {
        self.clock.served(entry, bytes, entry.value);
    }

    fn state(&self) -> u128 {
        self.clock.now
    }

    fn restore(&mut self, state: u128) {
        self.clock.now = state;
    }
}

/// Virtual time per byte of a stream with weight 1, so that the largest weight still counts every byte.
const TICKS: u128 = 1 << 16;

/// Virtual clock of start-time fair queueing: the stream with the earliest start time is served, and
/// its start time then advances by the bytes sent divided by its weight. A stream that was idle
/// resumes at the present virtual time, so that it cannot save up service.
#[derive(Debug, Default)]
struct VirtualClock {
    /// Start time of the last service.
    now: u128,
}

impl VirtualClock {
    fn rank(entry: &ScheduleEntry) -> Rank {
        Rank(entry.clock, entry.arrival)
    }

    fn enter(&self, entry: &mut ScheduleEntry) {
        entry.clock = entry.clock.max(self.now);
    }

    fn served(&mut self, entry: &mut ScheduleEntry, bytes: usize, weight: u16) {
        self.now = self.now.max(entry.clock);
        entry.clock += bytes as u128 * TICKS / u128::from(weight.max(1));
    }
}
