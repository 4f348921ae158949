//! Messages that may be abandoned, by number, deadline and priority, so that no queue is searched.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::export::{ExportReader, ExportWriter, ImportError, Portable};
use crate::reliability::{AbandonmentPolicy, Reliability};
use crate::time::Time;
use crate::tx::message::SendOptions;
use crate::tx::outstanding::Chunk;

/// Message of limited reliability or lifetime.
#[derive(Debug)]
pub(super) struct LimitedMessage {
    reliability: Reliability,
    /// Deadline while it has not been begun.
    unsent_until: Option<Time>,
    /// Deadline once it has been begun.
    until: Option<Time>,
    /// A part of the message has a TSN.
    pub(super) begun: bool,
    /// All of the message has TSNs.
    pub(super) complete: bool,
    /// Bytes in the send buffer.
    held: usize,
    /// Inclusive ranges of indexes of the chunks: the last range, and those before it.
    last: Option<(u64, u64)>,
    before: Vec<(u64, u64)>,
}

portable_struct! {
    LimitedMessage {
        reliability, unsent_until, until, begun, complete, held, last, before,
    }
}

impl LimitedMessage {
    /// Ranges of indexes of the chunks, ascending.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.before.iter().copied().chain(self.last)
    }

    fn add(&mut self, index: u64) {
        match &mut self.last {
            Some(range) if range.1 + 1 == index => range.1 = index,
            last => self.before.extend(last.replace((index, index))),
        }
    }

    fn deadline(&self) -> Option<Time> {
        if self.begun {
            self.until
        } else {
            self.unsent_until
        }
    }

    /// Rank for abandonment by priority: the lowest priority first, then messages that have not been begun,
    /// then the oldest.
    fn rank(&self, number: u64) -> Option<Rank> {
        match self.reliability {
            Reliability::Priority(value) => Some((Reverse(value), self.begun, number)),
            _ => None,
        }
    }

    /// Policy by which the message has timed out, if it has.
    pub(super) fn timed_out(&self, now: Time) -> Option<AbandonmentPolicy> {
        let over = self.until.is_some_and(|at| at <= now);
        over.then_some(AbandonmentPolicy::Timed)
    }
}

type Rank = (Reverse<u32>, bool, u64);

/// Messages of one priority, and their bytes in the send buffer.
#[derive(Clone, Copy, Debug, Default)]
struct PriorityTotal {
    bytes: usize,
    messages: usize,
}

/// Messages that may be abandoned.
#[derive(Debug, Default)]
pub(super) struct Registry {
    messages: BTreeMap<u64, LimitedMessage>,
    deadlines: BTreeSet<(Time, u64)>,
    ranks: BTreeSet<Rank>,
    totals: BTreeMap<Reverse<u32>, PriorityTotal>,
}

/// Messages and the deadlines that have not passed; the index by priority is rebuilt.
impl Portable for Registry {
    fn write(&self, out: &mut ExportWriter) {
        let Self {
            messages,
            deadlines,
            ranks: _,
            totals: _,
        } = self;
        messages.write(out);
        deadlines.write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let messages = BTreeMap::<u64, LimitedMessage>::read(input)?;
        let mut read = Self::default();
        for (number, tracked) in &messages {
            read.enter(*number, tracked);
        }
        read.deadlines = Portable::read(input)?;
        read.messages = messages;
        Ok(read)
    }
}

impl Registry {
    /// Adds a message that is queued.
    pub(super) fn add(&mut self, number: u64, options: &SendOptions, bytes: usize, now: Time) {
        let until = match options.reliability {
            Reliability::Timed(after) => Some(now + after),
            _ => None,
        };
        let lifetime = options.lifetime.map(|after| now + after);
        let tracked = LimitedMessage {
            reliability: options.reliability,
            unsent_until: [until, lifetime].into_iter().flatten().min(),
            until,
            begun: false,
            complete: false,
            held: bytes,
            last: None,
            before: Vec::new(),
        };
        self.enter(number, &tracked);
        self.messages.insert(number, tracked);
    }

    fn enter(&mut self, number: u64, tracked: &LimitedMessage) {
        self.deadlines
            .extend(tracked.deadline().map(|at| (at, number)));
        if let Some(rank) = tracked.rank(number) {
            self.ranks.insert(rank);
            let total = self.totals.entry(rank.0).or_default();
            total.bytes += tracked.held;
            total.messages += 1;
        }
    }

    fn leave(&mut self, number: u64, tracked: &LimitedMessage) {
        if let Some(at) = tracked.deadline() {
            self.deadlines.remove(&(at, number));
        }
        let Some(rank) = tracked.rank(number) else {
            return;
        };
        self.ranks.remove(&rank);
        if let Some(total) = self.totals.get_mut(&rank.0) {
            total.bytes -= tracked.held;
            total.messages -= 1;
            if total.messages == 0 {
                self.totals.remove(&rank.0);
            }
        }
    }

    pub(super) fn get(&self, number: u64) -> Option<&LimitedMessage> {
        self.messages.get(&number)
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<LimitedMessage> {
        let tracked = self.messages.remove(&number)?;
        self.leave(number, &tracked);
        Some(tracked)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Records a chunk of a message. Without support of FORWARD-TSN, or with a lifetime only, a message that
    /// has been begun can no longer be abandoned.
    pub(super) fn on_sent(&mut self, number: u64, index: u64, ending: bool, may_abandon: bool) {
        if self.messages.get(&number).is_some_and(|t| !t.begun) {
            let Some(mut tracked) = self.remove(number) else {
                return;
            };
            if !may_abandon || tracked.reliability == Reliability::Full {
                return;
            }
            tracked.begun = true;
            self.enter(number, &tracked);
            self.messages.insert(number, tracked);
        }
        if let Some(tracked) = self.messages.get_mut(&number) {
            tracked.complete |= ending;
            tracked.add(index);
        }
    }

    /// Records a chunk that is acknowledged cumulatively.
    pub(super) fn on_cumulatively_acknowledged(&mut self, chunk: &Chunk) {
        let Some(tracked) = self.messages.get_mut(&chunk.message) else {
            return;
        };
        let bytes = chunk.payload.len();
        tracked.held = tracked.held.saturating_sub(bytes);
        if let Reliability::Priority(value) = tracked.reliability
            && let Some(total) = self.totals.get_mut(&Reverse(value))
        {
            total.bytes = total.bytes.saturating_sub(bytes);
        }
        if chunk.flags.ending {
            self.remove(chunk.message);
        }
    }

    /// Records bytes acknowledged as non-renegable; a message delivered completely is not abandoned.
    pub(super) fn on_non_renegable(&mut self, number: u64, bytes: usize) {
        let Some(tracked) = self.messages.get_mut(&number) else {
            return;
        };
        tracked.held = tracked.held.saturating_sub(bytes);
        let all = tracked.complete && tracked.held == 0;
        if let Reliability::Priority(value) = tracked.reliability
            && let Some(total) = self.totals.get_mut(&Reverse(value))
        {
            total.bytes = total.bytes.saturating_sub(bytes);
        }
        if all {
            self.remove(number);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|first| first.0)
    }

    /// Removes a deadline that has passed; returns its message.
    pub(super) fn pop_deadline(&mut self, now: Time) -> Option<u64> {
        self.deadlines.first().filter(|first| first.0 <= now)?;
        self.deadlines.pop_first().map(|first| first.1)
    }

    /// Policy by which a message is abandoned if a chunk of it is to be sent again after this number of
    /// transmissions (RFC 3758, section 4.1, TR4; RFC 7496, section 3.1).
    pub(super) fn abandonment_policy(
        &self,
        number: u64,
        transmissions: u32,
        now: Time,
    ) -> Option<AbandonmentPolicy> {
        let tracked = self.messages.get(&number)?;
        match tracked.reliability {
            // The first transmission is no retransmission.
            Reliability::Retransmissions(most) if transmissions > most => {
                Some(AbandonmentPolicy::Retransmissions)
            }
            _ => tracked.timed_out(now),
        }
    }

    /// Returns whether the messages of lower priorities hold this many bytes and messages.
    pub(super) fn can_free(&self, reliability: Reliability, bytes: usize, messages: usize) -> bool {
        let mut found = PriorityTotal::default();
        for (Reverse(value), total) in &self.totals {
            if !is_above(reliability, *value) {
                break;
            }
            found.bytes += total.bytes;
            found.messages += total.messages;
            if found.bytes >= bytes && found.messages >= messages {
                return true;
            }
        }
        false
    }

    /// Message that is abandoned first for one of this reliability.
    pub(super) fn lowest_below(&self, reliability: Reliability) -> Option<u64> {
        let (Reverse(value), _, number) = self.ranks.first()?;
        is_above(reliability, *value).then_some(*number)
    }
}

/// Returns whether a message of this reliability ranks above those of a priority.
fn is_above(reliability: Reliability, priority: u32) -> bool {
    match reliability {
        Reliability::Priority(own) => own < priority,
        _ => true,
    }
}
