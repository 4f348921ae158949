//! Stream schedulers (RFC 8260, section 3).
//!
//! A [`Discipline`] ranks each stream with data from its [`ScheduleEntry`]; [`Schedule`] keeps the
//! streams in that order. A message is scheduled as a whole with DATA, a chunk with I-DATA. A change
//! of the order costs the logarithm of the number of waiting streams, and nothing while the same
//! stream stays at the head.

mod disciplines;

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use core::fmt;

use crate::config::StreamScheduler;
use crate::export::{ExportReader, ExportWriter, ImportError, Portable};

impl StreamScheduler {
    fn discipline(self) -> Box<dyn Discipline> {
        match self {
            Self::FirstCome => Box::new(disciplines::FirstCome),
            Self::RoundRobin => Box::new(disciplines::RoundRobin::default()),
            Self::RoundRobinPerPacket => Box::new(disciplines::RoundRobinPerPacket::default()),
            Self::Priority => Box::new(disciplines::Priority),
            Self::FairBandwidth => Box::new(disciplines::FairBandwidth::default()),
            Self::WeightedFair => Box::new(disciplines::WeightedFair::default()),
        }
    }
}

/// Rank of a stream among those with data; the lowest is served first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Rank(u128, u64);

portable_tuple! { Rank(first, second) }

/// Scheduling state of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ScheduleEntry {
    /// Number, in the order in which the user sent them, of the stream's first message.
    pub(super) arrival: u64,
    /// Priority or weight that the user set.
    pub(super) value: u16,
    /// State of the discipline.
    clock: u128,
    /// Rank while the stream has data.
    rank: Rank,
}

portable_struct! { ScheduleEntry { arrival, value, clock, rank } }

impl ScheduleEntry {
    pub(super) fn new(arrival: u64, value: u16) -> Self {
        Self {
            arrival,
            value,
            ..Self::default()
        }
    }
}

/// Order of streams.
trait Discipline: fmt::Debug + Send + Sync {
    /// Rank of a stream.
    fn rank(&self, entry: &ScheduleEntry) -> Rank;

    /// Handles a stream that has data again.
    fn enter(&mut self, _turn: &mut ScheduleEntry) {}

    /// Handles a message, or with interleaving a chunk, that the stream at the head sent.
    fn served(&mut self, _turn: &mut ScheduleEntry, _bytes: usize) {}

    /// Handles the end of a packet of the stream at the head.
    fn packet_over(&mut self, _turn: &mut ScheduleEntry) {}

    /// Returns the state beside that of the streams, 0 for none.
    fn state(&self) -> u128 {
        0
    }

    /// Continues with the [state](Self::state) of another discipline of this kind.
    fn restore(&mut self, _state: u128) {}
}

/// Streams with data, by their slots, in the order of a discipline.
#[derive(Debug)]
pub(super) struct Schedule {
    kind: StreamScheduler,
    discipline: Box<dyn Discipline>,
    /// Stream that is served next.
    head: Option<(Rank, u32)>,
    /// Further streams with data.
    waiting: BTreeSet<(Rank, u32)>,
    /// The stream at the head has begun a message, and stays there until its end.
    pinned: bool,
}

impl Portable for Schedule {
    fn write(&self, out: &mut ExportWriter) {
        let Self {
            kind,
            discipline,
            head,
            waiting,
            pinned,
        } = self;
        kind.write(out);
        discipline.state().write(out);
        head.write(out);
        waiting.write(out);
        pinned.write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let kind = StreamScheduler::read(input)?;
        let mut discipline = kind.discipline();
        discipline.restore(Portable::read(input)?);
        Ok(Self {
            kind,
            discipline,
            head: Portable::read(input)?,
            waiting: Portable::read(input)?,
            pinned: Portable::read(input)?,
        })
    }
}

impl Schedule {
    pub(super) fn new(kind: StreamScheduler) -> Self {
        Self {
            kind,
            discipline: kind.discipline(),
            head: None,
            waiting: BTreeSet::new(),
            pinned: false,
        }
    }

    /// Returns whether the streams of an import are all in this order: `used` is the number of streams with data, and
    /// `waiting` returns the entry of a stream with data.
    pub(super) fn is_consistent<'a>(
        &self,
        used: usize,
        waiting: impl Fn(u32) -> Option<&'a ScheduleEntry>,
    ) -> bool {
        let scheduled = self.head.iter().chain(&self.waiting);
        let known =
            scheduled.filter(|(rank, slot)| waiting(*slot).is_some_and(|e| e.rank == *rank));
        known.count() == used
            && self.waiting.len() + usize::from(self.head.is_some()) == used
            && self.head.is_none_or(|head| !self.waiting.contains(&head))
    }

    pub(super) fn kind(&self) -> StreamScheduler {
        self.kind
    }

    /// Slot of the stream that is served next.
    pub(super) fn head(&self) -> Option<u32> {
        self.head.map(|(_, slot)| slot)
    }

    /// Adds a stream that has data again.
    pub(super) fn enter(&mut self, slot: u32, entry: &mut ScheduleEntry) {
        self.discipline.enter(entry);
        entry.rank = self.discipline.rank(entry);
        let new = (entry.rank, slot);
        match self.head {
            None => self.head = Some(new),
            Some(head) if self.pinned || head < new => {
                self.waiting.insert(new);
            }
            Some(head) => {
                self.waiting.insert(head);
                self.head = Some(new);
            }
        }
    }

    /// Removes a stream without further data.
    pub(super) fn leave(&mut self, slot: u32, entry: &ScheduleEntry) {
        if self.head() == Some(slot) {
            self.pinned = false;
            self.head = self.waiting.pop_first();
        } else {
            self.waiting.remove(&(entry.rank, slot));
        }
    }

    /// Keeps the stream at the head until its message, which has begun, is complete.
    pub(super) fn pin_head(&mut self) {
        self.pinned = true;
    }

    /// Records a message or chunk of the stream at the head; with `last`, the stream has no further data.
    pub(super) fn served(
        &mut self,
        slot: u32,
        entry: &mut ScheduleEntry,
        bytes: usize,
        last: bool,
    ) {
        self.discipline.served(entry, bytes);
        if last {
            return self.leave(slot, entry);
        }
        self.pinned = false;
        self.rerank_head(entry);
    }

    /// Records the end of a packet with chunks of the stream at the head.
    pub(super) fn packet_over(&mut self, entry: &mut ScheduleEntry) {
        if !self.pinned {
            self.discipline.packet_over(entry);
            self.rerank_head(entry);
        }
    }

    /// Ranks a stream again whose first message or value changed.
    pub(super) fn changed(&mut self, slot: u32, entry: &mut ScheduleEntry) {
        if self.head() == Some(slot) {
            return self.rerank_head(entry);
        }
        self.waiting.remove(&(entry.rank, slot));
        entry.rank = self.discipline.rank(entry);
        self.waiting.insert((entry.rank, slot));
        self.update_head();
    }

    /// Ranks the stream at the head again.
    fn rerank_head(&mut self, entry: &mut ScheduleEntry) {
        entry.rank = self.discipline.rank(entry);
        if let Some(head) = &mut self.head {
            head.0 = entry.rank;
        }
        self.update_head();
    }

    /// Puts the stream of the lowest rank at the head.
    fn update_head(&mut self) {
        let Some(head) = self.head.filter(|_| !self.pinned) else {
            return;
        };
        if self.waiting.first().is_some_and(|first| *first < head) {
            self.head = self.waiting.pop_first();
            self.waiting.insert(head);
        }
    }
}
