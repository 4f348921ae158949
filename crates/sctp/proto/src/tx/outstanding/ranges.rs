//! Ranges of indexes, as SACKs report them, with their union and difference.

use alloc::collections::VecDeque;

use carrick_wire::GapAckBlock;

/// Inclusive ranges of indexes, ascending, with gaps between.
pub(in crate::tx) type Ranges = VecDeque<(u64, u64)>;

/// Gap Ack Blocks as ranges of indexes. Blocks that are out of order are ignored.
pub(in crate::tx) fn from_gap_ack_blocks(
    cumulative: u64,
    blocks: impl Iterator<Item = GapAckBlock>,
) -> Ranges {
    let mut ranges = Ranges::new();
    for GapAckBlock { start, end } in blocks {
        let (first, last) = (cumulative + u64::from(start), cumulative + u64::from(end));
        let above = ranges.back().map_or(cumulative, |r: &(u64, u64)| r.1);
        if start == 0 || last < first || first <= above {
            continue;
        }
        if first == above + 1 && !ranges.is_empty() {
            // Adjacent blocks are joined.
            if let Some(previous) = ranges.back_mut() {
                previous.1 = last;
            }
            continue;
        }
        ranges.push_back((first, last));
    }
    ranges
}

/// Union of two sets of ranges.
pub(in crate::tx) fn union(a: Ranges, b: &Ranges) -> Ranges {
    if b.is_empty() {
        return a;
    }
    let mut all = Ranges::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.into_iter().peekable(), b.iter().copied().peekable());
    loop {
        let from_a = match (a.peek(), b.peek()) {
            (Some(a), Some(b)) => a.0 <= b.0,
            (next, _) => next.is_some(),
        };
        let Some((first, last)) = (if from_a { a.next() } else { b.next() }) else {
            return all;
        };
        match all.back_mut() {
            Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
            _ => all.push_back((first, last)),
        }
    }
}

/// Calls `each` for every range, first and last index, that is in `a` and not in `b`.
pub(super) fn subtract(a: &Ranges, b: &Ranges, mut each: impl FnMut(u64, u64)) {
    let mut others = b.iter().peekable();
    for &(first, last) in a {
        let mut index = first;
        while index <= last {
            while others.next_if(|r| r.1 < index).is_some() {}
            match others.peek() {
                Some(&&(from, to)) if from <= index => index = to + 1,
                Some(&&(from, _)) => {
                    let end = last.min(from - 1);
                    each(index, end);
                    index = end + 1;
                }
                None => {
                    each(index, last);
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blocks_out_of_order_are_ignored() {
        let blocks = [(2, 3), (3, 5), (0, 9), (9, 8), (6, 6), (7, 7)];
        let blocks = blocks.map(|(start, end)| GapAckBlock { start, end });
        assert_eq!(
            from_gap_ack_blocks(100, blocks.into_iter()),
            [(102, 103), (106, 107)]
        );
    }

    fn as_ranges(set: &BTreeSet<u64>) -> Ranges {
        let mut ranges = Ranges::new();
        for &i in set {
            match ranges.back_mut() {
                Some(last) if last.1 + 1 == i => last.1 = i,
                _ => ranges.push_back((i, i)),
            }
        }
        ranges
    }

    proptest! {
        #[test]
        fn difference_and_union_agree_with_sets(a: BTreeSet<u8>, b: BTreeSet<u8>) {
            let wide = |s: BTreeSet<u8>| s.into_iter().map(u64::from).collect::<BTreeSet<u64>>();
            let (a, b) = (wide(a), wide(b));
            let mut found = Vec::new();
            subtract(&as_ranges(&a), &as_ranges(&b), |first, last| found.extend(first..=last));
            let expected: Vec<u64> = a.difference(&b).copied().collect();
            prop_assert_eq!(found, expected);
            let both: BTreeSet<u64> = a.union(&b).copied().collect();
            prop_assert_eq!(union(as_ranges(&a), &as_ranges(&b)), as_ranges(&both));
        }
    }
}
