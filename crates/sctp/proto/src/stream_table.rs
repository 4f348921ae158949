//! State of the streams in use, in pages of 64 streams; that of streams 0 to 3 needs no page.
//!
//! A peer chooses the numbers of the streams that it sends on. An array up to the highest of them
//! costs 128 KiB for one DATA chunk on stream 65,534; this table costs one page.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use carrick_wire::StreamId;

use crate::export::{ExportReader, ExportWriter, ImportError, Portable};

/// Streams of a page, one for each bit of [`Page::used`].
const PAGE: usize = 64;

/// Streams whose state is part of the table.
const FEW: usize = 4;

/// Heap that a page costs besides itself, in bytes: its place in the map, and what an allocator adds.
const PAGE_OVERHEAD: usize = 48;

/// State of successive streams.
#[derive(Debug)]
struct Page<T, const STREAMS: usize = PAGE> {
    /// A bit for each stream that has an entry.
    used: u64,
    /// Entries of streams without their bit have no meaning.
    entries: [T; STREAMS],
}

impl<T: Copy + Default, const STREAMS: usize> Default for Page<T, STREAMS> {
    fn default() -> Self {
        Self {
            used: 0,
            entries: [T::default(); STREAMS],
        }
    }
}

impl<T: Copy, const STREAMS: usize> Page<T, STREAMS> {
    fn get(&self, place: usize) -> Option<T> {
        (self.used >> place & 1 == 1).then(|| self.entries[place])
    }

    fn insert(&mut self, place: usize, entry: T) {
        self.used |= 1 << place;
        self.entries[place] = entry;
    }

    fn remove(&mut self, place: usize) -> Option<T> {
        let entry = self.get(place);
        self.used &= !(1 << place);
        entry
    }

    fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Iterates over the entries and their places, in order.
    fn iter(&self) -> impl Iterator<Item = (usize, T)> + '_ {
        (0..STREAMS).filter_map(|place| self.get(place).map(|entry| (place, entry)))
    }
}

/// Pages of the streams that are not part of the table.
#[derive(Debug)]
struct Pages<T> {
    /// Streams up to 63, which most associations keep to.
    first: Page<T>,
    /// Pages of the streams above, by number; none is empty.
    further: BTreeMap<u16, Box<Page<T>>>,
}

impl<T: Copy + Default> Default for Pages<T> {
    fn default() -> Self {
        Self {
            first: Page::default(),
            further: BTreeMap::new(),
        }
    }
}

/// An entry for each stream that has one, found by the number of the stream.
#[derive(Debug)]
pub(crate) struct StreamTable<T> {
    /// Streams 0 to 3.
    few: Page<T, FEW>,
    /// Further streams, if any has an entry.
    pages: Option<Box<Pages<T>>>,
}

impl<T: Copy + Default> Default for StreamTable<T> {
    fn default() -> Self {
        Self {
            few: Page::default(),
            pages: None,
        }
    }
}

/// Returns the number of the page of a stream, and its place there.
fn split(stream: StreamId) -> (u16, usize) {
    let place = usize::from(stream.0) % PAGE;
    (stream.0 / PAGE as u16, place)
}

impl<T: Copy + Default> StreamTable<T> {
    /// Returns the entry of a stream.
    pub(crate) fn get(&self, stream: StreamId) -> Option<T> {
        if usize::from(stream.0) < FEW {
            return self.few.get(stream.0.into());
        }
        let pages = self.pages.as_ref()?;
        match split(stream) {
            (0, place) => pages.first.get(place),
            (number, place) => pages.further.get(&number)?.get(place),
        }
    }

    /// Sets the entry of a stream.
    pub(crate) fn insert(&mut self, stream: StreamId, entry: T) {
        if usize::from(stream.0) < FEW {
            return self.few.insert(stream.0.into(), entry);
        }
        let pages = self.pages.get_or_insert_default();
        match split(stream) {
            (0, place) => pages.first.insert(place, entry),
            (number, place) => {
                let page = pages.further.entry(number).or_default();
                page.insert(place, entry);
            }
        }
    }

    /// Removes and returns the entry of a stream; frees its page if that was the last one of it.
    pub(crate) fn remove(&mut self, stream: StreamId) -> Option<T> {
        if usize::from(stream.0) < FEW {
            return self.few.remove(stream.0.into());
        }
        let pages = self.pages.as_mut()?;
        let entry = match split(stream) {
            (0, place) => pages.first.remove(place),
            (number, place) => {
                let page = pages.further.get_mut(&number)?;
                let entry = page.remove(place);
                if page.is_empty() {
                    pages.further.remove(&number);
                }
                entry
            }
        };
        let is_empty =
            |pages: &mut Box<Pages<T>>| pages.first.is_empty() && pages.further.is_empty();
        self.pages.take_if(is_empty);
        entry
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Iterates over the entries, by ascending stream number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamId, T)> + '_ {
        let few = self.few.iter().map(|(place, entry)| (0, place, entry));
        let paged = self.pages.iter().flat_map(|pages| {
            let first = core::iter::once((0, &pages.first));
            let further = pages
                .further
                .iter()
                .map(|(number, page)| (*number, &**page));
            let pages = first.chain(further);
            pages.flat_map(|(number, page)| {
                page.iter()
                    .map(move |(place, entry)| (number, place, entry))
            })
        });
        few.chain(paged)
            .map(|(number, place, entry)| (StreamId(number * PAGE as u16 + place as u16), entry))
    }
}

/// Entries by ascending stream number.
impl<T: Portable + Copy + Default> Portable for StreamTable<T> {
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
        let pages = self.pages.as_ref();
        match split(stream).0 {
            0 => true,
            number => pages.is_some_and(|pages| pages.further.contains_key(&number)),
        }
    }

    /// Returns the heap of the table in bytes, without the page of streams up to 63, which is part of the
    /// fixed cost of an association.
    pub(crate) fn memory(&self) -> usize {
        let further = self.pages.as_ref().map_or(0, |pages| pages.further.len());
        further * (size_of::<Page<T>>() + PAGE_OVERHEAD)
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
    fn streams_0_to_3_need_no_heap() {
        let mut table = StreamTable::default();
        for stream in [3, 0] {
            table.insert(StreamId(stream), stream);
        }
        assert!(table.pages.is_none());
        table.insert(StreamId(4), 4);
        let entries: Vec<_> = table
            .iter()
            .map(|(stream, entry)| (stream.0, entry))
            .collect();
        assert_eq!(entries, [(0, 0), (3, 3), (4, 4)]);
        assert_eq!(table.remove(StreamId(4)), Some(4));
        assert!(table.pages.is_none());
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
                let number = if number % 2 == 0 { number % 5 } else { number };
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
                let mut pages: Vec<u16> = model.keys().map(|stream| stream.0 / PAGE as u16).collect();
                pages.dedup();
                prop_assert_eq!(table.pages.is_some(), model.keys().any(|stream| stream.0 >= 4));
                let further = pages.iter().filter(|page| **page > 0).count();
                prop_assert_eq!(table.memory(), further * 184);
            }
        }
    }
}
