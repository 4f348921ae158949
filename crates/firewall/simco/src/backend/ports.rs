//! Free ports of one protocol, indexed by the length of their runs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use crate::message::Parity;

/// Runs of free ports, freed ports that are not reused yet, and allocated ports.
#[derive(Clone, Debug)]
pub(super) struct Ports {
    /// Runs of free ports: first and last port.
    runs: BTreeMap<u16, u16>,
    /// The same runs by length less one, parity of the first port, and first port.
    lengths: BTreeSet<(u16, u16, u16)>,
    /// Freed ports not in `runs` yet, earliest first: first port and number.
    freed: VecDeque<(u16, u16)>,
    /// Allocated ports: first port and number.
    allocated: BTreeMap<u16, u16>,
    used: usize,
}

impl Ports {
    pub(super) fn new(ports: &RangeInclusive<u16>) -> Self {
        let mut all = Self {
            runs: BTreeMap::new(),
            lengths: BTreeSet::new(),
            freed: VecDeque::new(),
            allocated: BTreeMap::new(),
            used: 0,
        };
        if !ports.is_empty() {
            all.insert_run(*ports.start(), *ports.end());
        }
        all
    }

    /// Returns the number of allocated ports.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Allocates consecutive ports from the shortest run that has them.
    pub(super) fn allocate(&mut self, count: u16, parity: Parity) -> Option<u16> {
        let more = count.checked_sub(1)?;
        if self.find(more, parity).is_none() {
            self.reclaim();
        }
        let base = self.find(more, parity)?;
        self.cut(base, base + more);
        Some(base)
    }

    /// Allocates these ports. Returns whether all of them were free.
    pub(super) fn allocate_at(&mut self, base: u16, count: u16) -> bool {
        let Some(last) = count.checked_sub(1).and_then(|more| base.checked_add(more)) else {
            return false;
        };
        // Rare, so `freed` need not be searched.
        self.reclaim();
        self.cut(base, last)
    }

    /// Frees ports allocated with this first port and number.
    pub(super) fn free(&mut self, base: u16, count: u16) {
        if self.allocated.get(&base) == Some(&count) {
            self.allocated.remove(&base);
            self.used -= usize::from(count);
            self.freed.push_back((base, count));
        }
    }

    /// Moves freed ports to the free runs. Each port is moved once per allocation.
    fn reclaim(&mut self) {
        while let Some((base, count)) = self.freed.pop_front() {
            let (mut first, mut last) = (base, base + (count - 1));
            if let Some((before, end)) = self.runs.range(..first).next_back()
                && end.checked_add(1) == Some(first)
            {
                let (before, end) = (*before, *end);
                self.remove_run(before, end);
                first = before;
            }
            if let Some(next) = last.checked_add(1)
                && let Some(end) = self.runs.get(&next).copied()
            {
                self.remove_run(next, end);
                last = end;
            }
            self.insert_run(first, last);
        }
    }

    /// Returns the start of `more` further ports after one of this parity.
    fn find(&self, more: u16, parity: Parity) -> Option<u16> {
        let wanted = match parity {
            Parity::Any => None,
            Parity::Odd => Some(1),
            Parity::Even => Some(0),
        };
        let Some(wanted) = wanted else {
            return Some(self.lengths.range((more, 0, 0)..).next()?.2);
        };
        let exact = (more, wanted, 0)..=(more, wanted, u16::MAX);
        if let Some((.., first)) = self.lengths.range(exact).next() {
            return Some(*first);
        }
        // A longer run has both parities.
        let longer = more.checked_add(1)?;
        let (_, odd, first) = *self.lengths.range((longer, 0, 0)..).next()?;
        Some(if odd == wanted { first } else { first + 1 })
    }

    /// Removes ports from one free run; nothing if they are not all in it.
    fn cut(&mut self, base: u16, last: u16) -> bool {
        let run = self.runs.range(..=base).next_back();
        let Some((first, end)) = run.map(|(first, end)| (*first, *end)) else {
            return false;
        };
        if end < last {
            return false;
        }
        self.remove_run(first, end);
        if first < base {
            self.insert_run(first, base - 1);
        }
        if last < end {
            self.insert_run(last + 1, end);
        }
        let count = last - base + 1;
        self.allocated.insert(base, count);
        self.used += usize::from(count);
        true
    }

    fn insert_run(&mut self, first: u16, last: u16) {
        self.runs.insert(first, last);
        self.lengths.insert((last - first, first % 2, first));
    }

    fn remove_run(&mut self, first: u16, last: u16) {
        self.runs.remove(&first);
        self.lengths.remove(&(last - first, first % 2, first));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn free_ports_are_found(
            steps in prop::collection::vec((0_u8..4, 1_u16..6, 0_u8..3, any::<prop::sample::Index>()), 1..200),
        ) {
            const ALL: RangeInclusive<u16> = 1001..=1040;
            let mut ports = Ports::new(&ALL);
            let mut allocated: Vec<(u16, u16)> = Vec::new();
            for (step, count, parity, which) in steps {
                let used: BTreeSet<u16> = allocated.iter().flat_map(|(base, n)| *base..base + n).collect();
                prop_assert_eq!(ports.used(), used.len());
                if step == 0 && !allocated.is_empty() {
                    let (base, count) = allocated.swap_remove(which.index(allocated.len()));
                    ports.free(base, count + 1);
                    ports.free(base, count);
                    ports.free(base, count);
                    continue;
                }
                let free = |base: u16| (base..base + count).all(|p| ALL.contains(&p) && !used.contains(&p));
                if step == 1 {
                    let base = 995 + which.index(50) as u16;
                    let took = ports.allocate_at(base, count);
                    prop_assert_eq!(took, free(base));
                    allocated.extend(took.then_some((base, count)));
                    continue;
                }
                let (parity, fits): (_, fn(u16) -> bool) = match parity {
                    0 => (Parity::Any, |_| true),
                    1 => (Parity::Odd, |port| port % 2 == 1),
                    _ => (Parity::Even, |port| port % 2 == 0),
                };
                let there = ALL.clone().any(|base| fits(base) && free(base));
                let base = ports.allocate(count, parity);
                prop_assert_eq!(base.is_some(), there);
                if let Some(base) = base {
                    prop_assert!(free(base) && fits(base), "{}", base);
                    allocated.push((base, count));
                }
            }
        }
    }

    #[test]
    fn freed_port_is_reused_last() {
        let mut ports = Ports::new(&(10..=13));
        let first = ports.allocate(1, Parity::Any).unwrap();
        ports.free(first, 1);
        let others: BTreeSet<u16> = (0..3)
            .filter_map(|_| ports.allocate(1, Parity::Any))
            .collect();
        assert!(!others.contains(&first), "{others:?}");
        assert_eq!(ports.allocate(1, Parity::Any), Some(first));
        assert_eq!(ports.allocate(1, Parity::Any), None);
    }

    #[test]
    fn port_search_is_bounded_when_nearly_full() {
        let mut ports = Ports::new(&(1..=u16::MAX));
        for _ in 1..=u16::MAX {
            ports.allocate(1, Parity::Any);
        }
        // Every other port is free, and no two are adjacent.
        for port in (1..=u16::MAX).step_by(2) {
            ports.free(port, 1);
        }
        assert_eq!(ports.allocate(2, Parity::Any), None);
        // All runs have one length: two lookups, and no freed ports.
        assert_eq!((ports.lengths.len(), ports.freed.len()), (32_768, 0));
        for _ in 0..100_000 {
            assert_eq!(ports.allocate(2, Parity::Even), None);
        }
        assert_eq!(ports.allocate(1, Parity::Even), None);
        assert_eq!(ports.allocate(1, Parity::Odd), Some(1));
    }

    #[test]
    fn port_65535_is_allocated_and_freed() {
        let mut ports = Ports::new(&(u16::MAX - 1..=u16::MAX));
        assert_eq!(ports.allocate(2, Parity::Even), Some(u16::MAX - 1));
        ports.free(u16::MAX - 1, 2);
        assert_eq!(ports.allocate(1, Parity::Odd), Some(u16::MAX));
        assert!(!ports.allocate_at(u16::MAX, 2));
        assert_eq!(ports.allocate(u16::MAX, Parity::Any), None);
    }
}
