//! Expiry times of the rules that share an element.

use std::collections::BTreeMap;

use crate::Time;

/// Expiry times of at least one rule, almost always exactly one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ExpiryTimes {
    One(Time),
    /// Number of rules by expiry time.
    Several(BTreeMap<Time, u32>),
}

impl ExpiryTimes {
    /// Starts with one rule.
    pub(super) fn new(until: Time) -> Self {
        Self::One(until)
    }

    /// Returns the latest expiry.
    pub(super) fn latest(&self) -> Time {
        match self {
            Self::One(until) => *until,
            Self::Several(ends) => ends
                .last_key_value()
                .map_or(Time::ZERO, |(until, _)| *until),
        }
    }

    /// Adds a rule.
    pub(super) fn add(&mut self, until: Time) {
        if let Self::One(first) = self {
            *self = Self::Several(BTreeMap::from([(*first, 1)]));
        }
        if let Self::Several(ends) = self {
            *ends.entry(until).or_default() += 1;
        }
    }

    /// Removes a rule with this expiry. Returns whether another one is left.
    pub(super) fn remove(&mut self, until: Time) -> bool {
        let Self::Several(ends) = self else {
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

    /// Changes the expiry of a rule.
    pub(super) fn replace(&mut self, before: Time, after: Time) {
        match self {
            Self::One(until) => *until = after,
            Self::Several(_) => {
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
    fn latest_remaining_expiry_is_returned() {
        let at = Time::from_millis;
        let mut times = ExpiryTimes::new(at(5));
        times.replace(at(5), at(3));
        assert_eq!(times.latest(), at(3));
        for until in [9, 3, 9] {
            times.add(at(until));
        }
        assert!(times.remove(at(9)));
        assert_eq!(times.latest(), at(9), "one of two");
        times.replace(at(9), at(4));
        assert_eq!(times.latest(), at(4));
        assert!(times.remove(at(3)) && times.remove(at(4)));
        assert_eq!(times, ExpiryTimes::One(at(3)));
        assert!(!times.remove(at(3)), "the last");
    }
}
