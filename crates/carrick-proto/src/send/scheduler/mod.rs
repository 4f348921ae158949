//! Which stream sends next (RFC 8260 section 3).
//!
//! A [`Discipline`] ranks the streams that have something to send, one by one, from the little that
//! it keeps of each; [`Schedule`] keeps them in that order. What is scheduled at once is a message
//! with DATA and a chunk with I-DATA, so a change of the order costs the logarithm of the number of
//! streams that wait, and nothing while the same stream goes on.

mod fair_bandwidth;
mod first_come;
mod priority;
mod round_robin;
mod round_robin_per_packet;
mod virtual_clock;
mod weighted_fair;

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use core::fmt;

/// How the messages of several streams share an association (RFC 8260 section 3).
///
/// Without interleaving (I-DATA), a message that has begun is finished before another one begins,
/// whatever the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum StreamScheduler {
    /// In the order in which the user sent them (section 3.1, `SCTP_SS_FCFS`).
    #[default]
    FirstCome,
    /// Streams in turn, a message each, or a chunk each with interleaving (section 3.2,
    /// `SCTP_SS_RR`).
    RoundRobin,
    /// Streams in turn, a packet each: a packet has chunks of one stream only (section 3.3,
    /// `SCTP_SS_RR_PKT`).
    RoundRobinPerPacket,
    /// Streams with a lower [value](crate::Endpoint::set_stream_value) strictly before those with a
    /// higher one; first come, first served among equals (section 3.4, `SCTP_SS_PRIO`).
    Priority,
    /// Streams get the same number of bytes (section 3.5, `SCTP_SS_FB`).
    FairBandwidth,
    /// Streams get bytes in proportion to their [value](crate::Endpoint::set_stream_value), where 0
    /// counts as 1 (section 3.6, `SCTP_SS_WFQ`).
    WeightedFair,
}

impl StreamScheduler {
    /// All of them, in the order of the RFC.
    pub const ALL: [Self; 6] = [
        Self::FirstCome,
        Self::RoundRobin,
        Self::RoundRobinPerPacket,
        Self::Priority,
        Self::FairBandwidth,
        Self::WeightedFair,
    ];

    fn discipline(self) -> Box<dyn Discipline> {
        match self {
            Self::FirstCome => Box::new(first_come::FirstCome),
            Self::RoundRobin => Box::new(round_robin::RoundRobin::default()),
            Self::RoundRobinPerPacket => {
                Box::new(round_robin_per_packet::RoundRobinPerPacket::default())
            }
            Self::Priority => Box::new(priority::Priority),
            Self::FairBandwidth => Box::new(fair_bandwidth::FairBandwidth::default()),
            Self::WeightedFair => Box::new(weighted_fair::WeightedFair::default()),
        }
    }
}

/// A stream's place among those that have something to send; the lowest goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Rank(u128, u64);

/// What is known of a stream to rank it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// Counts messages in the order in which the user sent them: that of the stream's first.
    pub(super) arrival: u64,
    /// What the user set: a priority or a weight.
    pub(super) value: u16,
    /// What the discipline keeps for the stream.
    clock: u128,
    /// Its place as long as it has something to send.
    rank: Rank,
}

impl Turn {
    pub(super) fn new(arrival: u64, value: u16) -> Self {
        Self {
            arrival,
            value,
            ..Self::default()
        }
    }
}

/// An order of streams.
trait Discipline: fmt::Debug + Send + Sync {
    /// The place of a stream.
    fn rank(&self, turn: &Turn) -> Rank;

    /// A stream has something to send again.
    fn enter(&mut self, _turn: &mut Turn) {}

    /// The stream at the head sent a message or, with interleaving, a chunk.
    fn served(&mut self, _turn: &mut Turn, _bytes: usize) {}

    /// A packet of the stream at the head is complete.
    fn packet_over(&mut self, _turn: &mut Turn) {}
}

/// The streams that have something to send, by their slots, in the order of a discipline.
#[derive(Debug)]
pub(super) struct Schedule {
    kind: StreamScheduler,
    discipline: Box<dyn Discipline>,
    /// The stream that sends next.
    head: Option<(Rank, u32)>,
    /// The others.
    waiting: BTreeSet<(Rank, u32)>,
    /// The stream at the head stays there until it has finished a message.
    held: bool,
}

impl Schedule {
    pub(super) fn new(kind: StreamScheduler) -> Self {
        Self {
            kind,
            discipline: kind.discipline(),
            head: None,
            waiting: BTreeSet::new(),
            held: false,
        }
    }

    pub(super) fn kind(&self) -> StreamScheduler {
        self.kind
    }

    /// The stream that sends next.
    pub(super) fn head(&self) -> Option<u32> {
        self.head.map(|(_, slot)| slot)
    }

    /// A stream that had nothing to send has got something.
    pub(super) fn enter(&mut self, slot: u32, turn: &mut Turn) {
        self.discipline.enter(turn);
        turn.rank = self.discipline.rank(turn);
        let new = (turn.rank, slot);
        match self.head {
            None => self.head = Some(new),
            Some(head) if self.held || head < new => {
                self.waiting.insert(new);
            }
            Some(head) => {
                self.waiting.insert(head);
                self.head = Some(new);
            }
        }
    }

    /// A stream has nothing to send any more.
    pub(super) fn leave(&mut self, slot: u32, turn: &Turn) {
        if self.head() == Some(slot) {
            self.held = false;
            self.head = self.waiting.pop_first();
        } else {
            self.waiting.remove(&(turn.rank, slot));
        }
    }

    /// The stream at the head has begun a message that it has to finish first.
    pub(super) fn hold(&mut self) {
        self.held = true;
    }

    /// The stream at the head sent a message or a chunk and has more.
    pub(super) fn served(&mut self, turn: &mut Turn, bytes: usize) {
        self.held = false;
        self.discipline.served(turn, bytes);
        self.settle(turn);
    }

    /// The stream at the head sent a message or a chunk, its last one; it has not left yet.
    pub(super) fn served_last(&mut self, turn: &mut Turn, bytes: usize) {
        self.discipline.served(turn, bytes);
    }

    /// A packet is complete whose chunks the stream at the head sent.
    pub(super) fn packet_over(&mut self, turn: &mut Turn) {
        if !self.held {
            self.discipline.packet_over(turn);
            self.settle(turn);
        }
    }

    /// What ranks a stream changed: its first message or its value.
    pub(super) fn changed(&mut self, slot: u32, turn: &mut Turn) {
        if self.head() == Some(slot) {
            return self.settle(turn);
        }
        self.waiting.remove(&(turn.rank, slot));
        turn.rank = self.discipline.rank(turn);
        self.waiting.insert((turn.rank, slot));
        self.elect();
    }

    /// Ranks the stream at the head anew.
    fn settle(&mut self, turn: &mut Turn) {
        turn.rank = self.discipline.rank(turn);
        if let Some(head) = &mut self.head {
            head.0 = turn.rank;
        }
        self.elect();
    }

    fn elect(&mut self) {
        let Some(head) = self.head.filter(|_| !self.held) else {
            return;
        };
        if self.waiting.first().is_some_and(|first| *first < head) {
            self.head = self.waiting.pop_first();
            self.waiting.insert(head);
        }
    }
}
