//! When the rules that share an element end.

use std::collections::BTreeMap;

use crate::Time;

/// The ends of the lives of some rules, at least one: almost always just that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Lives {
    One(Time),
    /// How many end when.
    More(BTreeMap<Time, u32>),
}

impl Lives {
    /// Of one rule.
    pub(super) fn new(until: Time) -> Self {
        Self::One(until)
    }

    /// The end of the one that lives longest.
    pub(super) fn longest(&self) -> Time {
        match self {
            Self::One(until) => *until,
            Self::More(ends) => ends
                .last_key_value()
                .map_or(Time::ZERO, |(until, _)| *until),
        }
    }

    /// One rule more.
    pub(super) fn add(&mut self, until: Time) {
        if let Self::One(first) = self {
            *self = Self::More(BTreeMap::from([(*first, 1)]));
        }
        if let Self::More(ends) = self {
            *ends.entry(until).or_default() += 1;
        }
    }

    /// One rule less, which was to end then. Returns whether there is another.
    pub(super) fn remove(&mut self, until: Time) -> bool {
        let Self::More(ends) = self else {
            return false;
        };
        if let Some(count) = ends.get_mut(&until) {
            *count -= 1;
            if *count == 0 {
                ends.remove(&until);
            }
        }
        if let Some((last, 1)) = ends.first_key_value()
            && ends.len() == 1
        {
            *self = Self::One(*last);
        }
        true
    }

    /// A rule that was to end at `before` ends at `after`.
    pub(super) fn replace(&mut self, before: Time, after: Time) {
        match self {
            Self::One(until) => *until = after,
            Self::More(_) => {
                self.add(after);
                self.remove(before);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_the_lives_that_are_left_is_known() {
        let at = Time::from_millis;
        let mut lives = Lives::new(at(5));
        lives.replace(at(5), at(3));
        assert_eq!(lives.longest(), at(3));
        for until in [9, 3, 9] {
            lives.add(at(until));
        }
        assert!(lives.remove(at(9)));
        assert_eq!(lives.longest(), at(9), "one of two");
        lives.replace(at(9), at(4));
        assert_eq!(lives.longest(), at(4));
        assert!(lives.remove(at(3)) && lives.remove(at(4)));
        assert_eq!(lives, Lives::One(at(3)));
        assert!(!lives.remove(at(3)), "the last");
    }
}
