//! Queue in blocks: it grows without a copy of its elements, and what was read is free at once.

use alloc::collections::VecDeque;

use crate::capacity::ReserveDoubling;

/// Maximum number of elements in a block.
const BLOCK: usize = 32;

/// Number of elements for which an empty queue keeps memory.
pub(super) const MIN_CAPACITY: usize = 16;

#[derive(Debug)]
pub(super) struct BlockQueue<T> {
    /// The first elements, at most as many as a block has.
    first: VecDeque<T>,
    /// Blocks behind them, of which all but the last are full.
    more: VecDeque<VecDeque<T>>,
}

impl<T> Default for BlockQueue<T> {
    fn default() -> Self {
        Self {
            first: VecDeque::new(),
            more: VecDeque::new(),
        }
    }
}

impl<T> BlockQueue<T> {
    pub(super) fn len(&self) -> usize {
        let last = self.more.back().map_or(0, VecDeque::len);
        self.first.len() + self.more.len().saturating_sub(1) * BLOCK + last
    }

    pub(super) fn push_back(&mut self, element: T) {
        match self.more.back_mut() {
            Some(last) if last.len() < BLOCK => last.push_back(element),
            None if self.first.len() < BLOCK => {
                self.first.reserve_doubling();
                self.first.push_back(element);
            }
            _ => {
                let mut block = VecDeque::with_capacity(BLOCK);
                block.push_back(element);
                self.more.push_back(block);
            }
        }
    }

    pub(super) fn pop_front(&mut self) -> Option<T> {
        let element = self.first.pop_front()?;
        if self.first.is_empty() {
            if let Some(next) = self.more.pop_front() {
                self.first = next;
            } else {
                // Otherwise a burst of small elements would keep memory for each of them.
                self.first.shrink_to(MIN_CAPACITY);
                self.more.shrink_to_fit();
            }
        }
        Some(element)
    }

    pub(super) fn back_mut(&mut self) -> Option<&mut T> {
        self.more.back_mut().unwrap_or(&mut self.first).back_mut()
    }

    pub(super) fn get(&self, at: usize) -> Option<&T> {
        match at.checked_sub(self.first.len()) {
            None => self.first.get(at),
            Some(behind) => self.more.get(behind / BLOCK)?.get(behind % BLOCK),
        }
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        match at.checked_sub(self.first.len()) {
            None => self.first.get_mut(at),
            Some(behind) => self.more.get_mut(behind / BLOCK)?.get_mut(behind % BLOCK),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.more.iter().flatten())
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = T> {
        self.first
            .into_iter()
            .chain(self.more.into_iter().flatten())
    }

    /// Frees the memory for further elements.
    pub(super) fn shrink_to_fit(&mut self) {
        self.first.shrink_to_fit();
        self.more.shrink_to_fit();
    }

    /// Returns the number of elements for which there is memory.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.first.capacity() + self.more.capacity() * BLOCK
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_deque(steps in proptest::collection::vec((0_usize..3, 0_usize..100), 0..60)) {
            let mut queue = BlockQueue::default();
            let mut model = VecDeque::new();
            for (what, count) in steps {
                for _ in 0..count {
                    if what == 0 {
                        prop_assert_eq!(queue.pop_front(), model.pop_front());
                    } else {
                        let next = model.back().map_or(0, |last| last + 1);
                        queue.push_back(next);
                        model.push_back(next);
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
                prop_assert_eq!(queue.get(count), model.get(count));
                prop_assert_eq!(queue.get_mut(count), model.get_mut(count));
                prop_assert_eq!(queue.back_mut(), model.back_mut());
                prop_assert!(queue.iter().eq(&model));
            }
            prop_assert!(queue.into_iter().eq(model));
        }
    }
}
