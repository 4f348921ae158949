//! Outbound streams while no message waits: their message numbers, and the values that the user set for the
//! scheduler.

use alloc::boxed::Box;
use alloc::vec::Vec;

use carrick_wire::{Mid, StreamId};

use crate::stream_set::StreamSet;

/// Stream without messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamNumbers {
    pub(super) id: StreamId,
    /// Priority or weight.
    pub(super) value: u16,
    /// Numbers of the next ordered and the next unordered message.
    pub(super) next: [Mid; 2],
}

portable_struct! { StreamNumbers { id, value, next } }

impl StreamNumbers {
    /// Returns whether the message numbers are at 0.
    fn is_reset(&self) -> bool {
        self.next == [Mid::new(0); 2]
    }
}

/// Streams that differ from unused ones, by ascending number.
#[derive(Debug, Default)]
pub(super) struct IdleStreams {
    streams: Box<[StreamNumbers]>,
}

portable_struct! { IdleStreams { streams } check Self::is_consistent }

impl IdleStreams {
    /// Returns whether the streams of an import are in order.
    fn is_consistent(&self) -> bool {
        self.streams.windows(2).all(|pair| pair[0].id < pair[1].id)
    }

    pub(super) fn new(streams: impl Iterator<Item = StreamNumbers>) -> Self {
        let used = streams.filter(|stream| stream.value != 0 || !stream.is_reset());
        let mut used: Vec<StreamNumbers> = used.collect();
        used.sort_unstable_by_key(|stream| stream.id);
        Self {
            streams: used.into_boxed_slice(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &StreamNumbers> {
        self.streams.iter()
    }

    fn find(&self, id: StreamId) -> Option<&StreamNumbers> {
        let found = self.streams.binary_search_by_key(&id, |stream| stream.id);
        found.ok().map(|at| &self.streams[at])
    }

    /// Priority or weight that the user set for a stream.
    pub(super) fn value(&self, id: StreamId) -> u16 {
        self.find(id).map_or(0, |stream| stream.value)
    }

    /// Restarts the message numbers of these streams at 0.
    pub(super) fn reset(&mut self, streams: &StreamSet) {
        let used = self.streams.iter_mut();
        for stream in used.filter(|stream| streams.contains(stream.id)) {
            stream.next = [Mid::new(0); 2];
        }
    }

    /// Returns whether the message numbers of these streams are at 0.
    pub(super) fn are_reset(&self, streams: &StreamSet) -> bool {
        match streams {
            StreamSet::All => self.iter().all(StreamNumbers::is_reset),
            StreamSet::Listed(listed) => {
                let mut used = listed.iter().filter_map(|id| self.find(*id));
                used.all(StreamNumbers::is_reset)
            }
        }
    }
}
