//! State of the streams in use, in pages of 64 streams.
//!
//! A peer chooses the numbers of the streams that it sends on. An array up to the highest of them
//! costs 128 KiB for one DATA chunk on stream 65,534; this table costs one page.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use carrick_wire::StreamId;

use crate::export::{ExportReader, ExportWriter, ImportError, Portable};

/// Streams of a page, one for each bit of [`Page::used`].
const PAGE: u16 = 64;

/// Heap that a page costs besides itself, in bytes: its place in the map, and what an allocator adds.
const PAGE_OVERHEAD: usize = 48;

#[derive(Debug)]
struct Page<T> {
    /// A bit for each stream that has an entry.
    used: u64,
    /// Entries of streams without their bit have no meaning.
    entries: [T; PAGE as usize],
}

/// An entry for each stream that has one, found by the number of the stream.
#[derive(Debug)]
pub(crate) struct StreamTable<T> {
    /// Streams 0 to 63, which most associations keep to.
    first: Option<Box<Page<T>>>,
    /// Pages of the streams above, by number; none is empty.
    further: BTreeMap<u16, Box<Page<T>>>,
}

impl<T> Default for StreamTable<T> {
    fn default() -> Self {
        Self {
            first: None,
            further: BTreeMap::new(),
        }
    }
}

fn split(stream: StreamId) -> (u16, usize) {
    (stream.0 / PAGE, usize::from(stream.0 % PAGE))
}

impl<T: Copy> StreamTable<T> {
    /// Returns the entry of a stream.
    pub(crate) fn get(&self, stream: StreamId) -> Option<T> {
        let (number, place) = split(stream);
        let page = match number {
            0 => self.first.as_ref(),
            _ => self.further.get(&number),
        }?;
        (page.used >> place & 1 == 1).then(|| page.entries[place])
    }

    /// Sets the entry of a stream.
    pub(crate) fn insert(&mut self, stream: StreamId, entry: T) {
        let (number, place) = split(stream);
        let new = || {
            Box::new(Page {
                used: 0,
                entries: [entry; PAGE as usize],
            })
        };
        let page = match number {
            0 => self.first.get_or_insert_with(new),
            _ => self.further.entry(number).or_insert_with(new),
        };
        page.used |= 1 << place;
        page.entries[place] = entry;
    }

    /// Removes and returns the entry of a stream; frees its page if that was the last one of it.
    pub(crate) fn remove(&mut self, stream: StreamId) -> Option<T> {
        let (number, place) = split(stream);
        let entry = self.get(stream)?;
        let page = match number {
            0 => self.first.as_mut(),
            _ => self.further.get_mut(&number),
        }?;
        page.used &= !(1 << place);
        if page.used == 0 {
            match number {
                0 => self.first = None,
                _ => drop(self.further.remove(&number)),
            }
        }
        Some(entry)
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Iterates over the entries, by ascending stream number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamId, T)> + '_ {
        let first = self.first.iter().map(|page| (0, page));
        let further = self.further.iter().map(|(number, page)| (*number, page));
        first.chain(further).flat_map(|(number, page)| {
            let used = (0..PAGE).filter(|place| page.used >> place & 1 == 1);
            used.map(move |place| {
                let entry = page.entries[usize::from(place)];
                (StreamId(number * PAGE + place), entry)
            })
        })
    }
}

/// Entries by ascending stream number.
impl<T: Portable + Copy> Portable for StreamTable<T> {
    fn write(&self, out: &mut ExportWriter) {
        let entries: Vec<(StreamId, T)> = self.iter().collect();
        entries.write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let mut table = Self::default();
        for (stream, entry) in BTreeMap::<StreamId, T>::read(input)? {
            table.insert(stream, entry);
        }
        Ok(table)
    }
}

impl<T> StreamTable<T> {
    /// Returns whether an entry of this stream takes no further heap.
    pub(crate) fn has_page(&self, stream: StreamId) -> bool {
        match split(stream).0 {
            0 => true,
            number => self.further.contains_key(&number),
        }
    }

    /// Returns the heap of the table in bytes, without the page of streams 0 to 63, which is part of the
    /// fixed cost of an association.
    pub(crate) fn memory(&self) -> usize {
        self.further.len() * (size_of::<Page<T>>() + PAGE_OVERHEAD)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stream_costs_a_page_whatever_its_number() {
        for (stream, pages) in [(0, 0), (63, 0), (64, 1), (65_535, 1)] {
            let mut table = StreamTable::<u16>::default();
            assert_eq!(table.memory(), 0);
            table.insert(StreamId(stream), 1);
            assert_eq!(table.memory(), pages * 184);
            table.remove(StreamId(stream));
            assert_eq!(table.memory(), 0, "stream {stream}");
        }
    }

    #[test]
    fn all_streams_cost_a_table() {
        let mut table = StreamTable::<u16>::default();
        for stream in 0..=u16::MAX {
            table.insert(StreamId(stream), stream);
        }
        assert_eq!(table.memory(), 1023 * 184);
        table.clear();
        assert_eq!(table.memory(), 0);
    }

    proptest! {
        #[test]
        fn the_stream_table_matches_a_map(
            steps in proptest::collection::vec((0_u16..200, 0_u8..8, any::<u16>()), 0..300)
        ) {
            let mut table = StreamTable::default();
            let mut model = BTreeMap::new();
            for (number, what, value) in steps {
                // Neighbours, page limits and the ends.
                let stream = StreamId(if number < 130 { number } else { u16::MAX - number });
                match what {
                    0 => {
                        table.clear();
                        model.clear();
                    }
                    1..4 => prop_assert_eq!(table.remove(stream), model.remove(&stream)),
                    _ => {
                        table.insert(stream, value);
                        model.insert(stream, value);
                    }
                }
                prop_assert_eq!(table.get(stream), model.get(&stream).copied());
                let all: Vec<_> = table.iter().collect();
                prop_assert!(all.into_iter().eq(model.iter().map(|(stream, value)| (*stream, *value))));
                let mut pages: Vec<u16> = model.keys().map(|stream| stream.0 / PAGE).collect();
                pages.dedup();
                prop_assert_eq!(table.first.is_some(), pages.first() == Some(&0));
                let further = pages.iter().filter(|page| **page > 0).count();
                prop_assert_eq!(table.memory(), further * 184);
            }
        }
    }
}
