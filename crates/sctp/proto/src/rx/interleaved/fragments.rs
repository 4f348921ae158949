//! Fragments of one message. Most messages have at most one at a time, which takes no heap memory.

use alloc::collections::BTreeMap;

use bytes::Bytes;

#[derive(Debug)]
pub(super) struct HeldFragment {
    pub(super) payload: Bytes,
    /// Index of its TSN.
    pub(super) index: u64,
}

portable_struct! { HeldFragment { payload, index } }

/// Fragments by number, which is the FSN without wrapping.
#[derive(Debug, Default)]
pub(super) enum FragmentMap {
    #[default]
    None,
    One(u64, HeldFragment),
    Several(BTreeMap<u64, HeldFragment>),
}

portable_enum! { FragmentMap { 0: None, 1: One(first, second), 2: Several(value) } }

impl FragmentMap {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(..) => 1,
            Self::Several(all) => all.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        match self {
            Self::None => false,
            Self::One(only, _) => *only == number,
            Self::Several(all) => all.contains_key(&number),
        }
    }

    /// Returns the highest number.
    pub(super) fn highest(&self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::One(only, _) => Some(*only),
            Self::Several(all) => all.last_key_value().map(|(number, _)| *number),
        }
    }

    /// Inserts a fragment whose number is not in the map.
    pub(super) fn insert(&mut self, number: u64, held: HeldFragment) {
        *self = match core::mem::take(self) {
            Self::None => Self::One(number, held),
            Self::One(other, first) => {
                Self::Several(BTreeMap::from([(other, first), (number, held)]))
            }
            Self::Several(mut all) => {
                all.insert(number, held);
                Self::Several(all)
            }
        };
    }

    /// Removes a fragment.
    pub(super) fn remove(&mut self, number: u64) -> Option<HeldFragment> {
        match core::mem::take(self) {
            Self::One(only, held) if only == number => Some(held),
            Self::Several(mut all) => {
                let held = all.remove(&number);
                if !all.is_empty() {
                    *self = Self::Several(all);
                }
                held
            }
            other => {
                *self = other;
                None
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &HeldFragment> {
        let (one, several) = match self {
            Self::None => (None, None),
            Self::One(_, held) => (Some(held), None),
            Self::Several(all) => (None, Some(all.values())),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agree_with_a_map(steps in proptest::collection::vec((0_u64..5, any::<bool>()), 0..60)) {
            let (mut fragments, mut model) = (FragmentMap::default(), BTreeMap::new());
            for (at, (number, adds)) in (1..).zip(steps) {
                prop_assert_eq!(fragments.contains(number), model.contains_key(&number));
                if adds && !fragments.contains(number) {
                    fragments.insert(number, HeldFragment { payload: Bytes::new(), index: at });
                    model.insert(number, at);
                } else if !adds {
                    let taken = fragments.remove(number).map(|held| held.index);
                    prop_assert_eq!(taken, model.remove(&number));
                }
                prop_assert_eq!(fragments.len(), model.len());
                prop_assert_eq!(fragments.is_empty(), model.is_empty());
                prop_assert_eq!(fragments.highest(), model.keys().last().copied());
                let indexes = fragments.iter().map(|held| held.index);
                prop_assert!(indexes.eq(model.values().copied()));
            }
        }
    }
}
