//! Messages that wait, each in the line of its stream. All lines share one slab, so that a stream
//! without messages needs no memory for its line, and a message leaves from anywhere in it at once.

use alloc::vec::Vec;

use super::message::Pending;

/// The messages of one stream, first to last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    ends: Option<(u32, u32)>,
}

impl Line {
    pub(super) fn first(self) -> Option<u32> {
        self.ends.map(|e| e.0)
    }

    pub(super) fn is_empty(self) -> bool {
        self.ends.is_none()
    }
}

/// A message in its line.
#[derive(Debug)]
struct Place {
    pending: Pending,
    before: Option<u32>,
    behind: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Backlog {
    places: Vec<Option<Place>>,
    free: Vec<u32>,
}

impl Backlog {
    pub(super) fn get(&self, at: u32) -> Option<&Pending> {
        self.place(at).map(|p| &p.pending)
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Pending> {
        self.place_mut(at).map(|p| &mut p.pending)
    }

    /// Puts a message at the end of a line; returns where it is until it is removed.
    pub(super) fn push(&mut self, line: &mut Line, pending: Pending) -> u32 {
        let before = line.ends.map(|e| e.1);
        let place = Some(Place {
            pending,
            before,
            behind: None,
        });
        let at = if let Some(at) = self.free.pop() {
            self.places[at as usize] = place;
            at
        } else {
            self.places.push(place);
            (self.places.len() - 1) as u32
        };
        if let Some(last) = before.and_then(|b| self.place_mut(b)) {
            last.behind = Some(at);
        }
        line.ends = Some((line.ends.map_or(at, |e| e.0), at));
        at
    }

    /// Takes a message out of its line.
    pub(super) fn remove(&mut self, line: &mut Line, at: u32) -> Option<Pending> {
        let place = self.places.get_mut(at as usize)?.take()?;
        self.unlink(line, at, (place.before, place.behind));
        Some(place.pending)
    }

    /// The same, without looking at the message any more.
    pub(super) fn discard(&mut self, line: &mut Line, at: u32) {
        let Some(entry) = self.places.get_mut(at as usize) else {
            return;
        };
        let Some(place) = entry else {
            return;
        };
        let neighbours = (place.before, place.behind);
        *entry = None;
        self.unlink(line, at, neighbours);
    }

    fn unlink(&mut self, line: &mut Line, at: u32, (before, behind): (Option<u32>, Option<u32>)) {
        self.free.push(at);
        if let Some(place) = before.and_then(|b| self.place_mut(b)) {
            place.behind = behind;
        }
        if let Some(place) = behind.and_then(|b| self.place_mut(b)) {
            place.before = before;
        }
        let Some((first, last)) = line.ends else {
            return;
        };
        let first = if first == at { behind } else { Some(first) };
        let last = if last == at { before } else { Some(last) };
        line.ends = first.zip(last);
    }

    /// All messages, in no order.
    pub(super) fn into_all(self) -> Vec<Pending> {
        let places = self.places.into_iter().flatten();
        places.map(|p| p.pending).collect()
    }

    fn place(&self, at: u32) -> Option<&Place> {
        self.places.get(at as usize)?.as_ref()
    }

    fn place_mut(&mut self, at: u32) -> Option<&mut Place> {
        self.places.get_mut(at as usize)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::super::message::SendOptions;
    use super::*;

    fn order(backlog: &Backlog, line: Line) -> Vec<u64> {
        let mut at = line.first();
        let mut all = Vec::new();
        while let Some(place) = at.and_then(|a| backlog.place(a)) {
            all.push(place.pending.arrival);
            at = place.behind;
        }
        all
    }

    proptest! {
        #[test]
        fn lines_agree_with_queues(steps in proptest::collection::vec((0_usize..3, any::<bool>(), any::<prop::sample::Index>()), 0..200)) {
            let mut backlog = Backlog::default();
            let mut lines = [Line::default(); 3];
            let mut queues: [VecDeque<(u64, u32)>; 3] = Default::default();
            for (number, (which, add, pick)) in steps.into_iter().enumerate() {
                let (line, queue) = (&mut lines[which], &mut queues[which]);
                if add || queue.is_empty() {
                    let mut pending = Pending::new(0, SendOptions::default(), Bytes::from_static(b"m"));
                    pending.arrival = number as u64;
                    queue.push_back((number as u64, backlog.push(line, pending)));
                } else {
                    let (arrival, at) = queue.remove(pick.index(queue.len())).unwrap();
                    prop_assert_eq!(backlog.remove(line, at).map(|p| p.arrival), Some(arrival));
                    prop_assert!(backlog.get(at).is_none());
                }
                for (line, queue) in lines.iter().zip(&queues) {
                    let expected: Vec<u64> = queue.iter().map(|q| q.0).collect();
                    prop_assert_eq!(order(&backlog, *line), expected);
                    prop_assert_eq!(line.is_empty(), queue.is_empty());
                }
            }
            let waiting: usize = queues.iter().map(VecDeque::len).sum();
            prop_assert!(backlog.places.len() - backlog.free.len() == waiting);
        }
    }
}
