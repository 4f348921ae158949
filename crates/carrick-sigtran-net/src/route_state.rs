//! States of SS7 destinations as a gateway reports them with DUNA, DAVA and DRST (RFC 4666, section 4.5.2.1).

use std::collections::BTreeMap;

use carrick_sigtran::m3ua::{AffectedPointCode, DestinationState, PointCode};

/// Maximum number of reported destinations and ranges; further ones count as available.
const MAX_ENTRIES: usize = 16_384;

/// Number of masks: 0 to 24 wildcarded bits.
const MASKS: usize = 25;

/// State of a destination.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum DestinationStatus {
    Unavailable,
    Restricted,
    Available,
}

/// States of destinations at one gateway. The latest report of a destination or a range that contains it is its state.
#[derive(Debug, Default)]
pub(crate) struct RouteState {
    /// By mask and first point code. A report of a range removes the older ones of its parts, so that the entry with the
    /// smallest mask is the latest.
    entries: BTreeMap<(u8, u32), DestinationStatus>,
    /// Number of entries with each mask.
    counts: [usize; MASKS],
}

/// Returns the first point code of a range.
pub(crate) const fn base(mask: u8, code: PointCode) -> u32 {
    code.value() >> mask << mask
}

impl RouteState {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn pause(&mut self, state: &DestinationState) {
        self.set(state, DestinationStatus::Unavailable);
    }

    pub(crate) fn resume(&mut self, state: &DestinationState) {
        self.set(state, DestinationStatus::Available);
    }

    pub(crate) fn restrict(&mut self, state: &DestinationState) {
        self.set(state, DestinationStatus::Restricted);
    }

    fn set(&mut self, state: &DestinationState, status: DestinationStatus) {
        for affected in &state.affected.0 {
            let affected = AffectedPointCode {
                mask: affected.mask.min(24),
                ..*affected
            };
            let inside: Vec<_> = (0..=affected.mask)
                .filter(|mask| self.counts[usize::from(*mask)] > 0)
                .flat_map(|mask| {
                    let first = base(affected.mask, affected.point_code);
                    let last = first + ((1 << affected.mask) - 1);
                    self.entries.range((mask, first)..=(mask, last))
                })
                .map(|(key, _)| *key)
                .collect();
            for key in inside {
                self.entries.remove(&key);
                self.counts[usize::from(key.0)] -= 1;
            }
            let now = self.status(affected);
            if now != status && self.entries.len() < MAX_ENTRIES {
                let key = (affected.mask, base(affected.mask, affected.point_code));
                self.entries.insert(key, status);
                self.counts[usize::from(affected.mask)] += 1;
            }
        }
    }

    /// Returns the state of a destination, or that of a range as a whole.
    pub(crate) fn status(&self, destination: AffectedPointCode) -> DestinationStatus {
        if self.entries.is_empty() {
            return DestinationStatus::Available;
        }
        let masks = destination.mask..MASKS as u8;
        let mut present = masks.filter(|mask| self.counts[usize::from(*mask)] > 0);
        let found = present.find_map(|mask| {
            let key = (mask, base(mask, destination.point_code));
            self.entries.get(&key).copied()
        });
        found.unwrap_or(DestinationStatus::Available)
    }
}

#[cfg(test)]
mod tests {
    use carrick_sigtran::m3ua::AffectedPointCodes;

    use super::*;

    fn report(mask: u8, code: u32) -> DestinationState {
        DestinationState {
            network_appearance: None,
            routing_contexts: None,
            affected: AffectedPointCodes(vec![range(mask, code)]),
            info: None,
        }
    }

    fn range(mask: u8, code: u32) -> AffectedPointCode {
        AffectedPointCode {
            mask,
            point_code: PointCode::new(code).unwrap(),
        }
    }

    /// RFC 4666, section 4.5.2.1
    #[test]
    fn the_latest_report_determines_the_state() {
        let mut routes = RouteState::default();
        let status = |routes: &RouteState, code| routes.status(range(0, code));
        routes.pause(&report(3, 17));
        assert_eq!(status(&routes, 16), DestinationStatus::Unavailable);
        assert_eq!(status(&routes, 23), DestinationStatus::Unavailable);
        assert_eq!(status(&routes, 24), DestinationStatus::Available);
        routes.resume(&report(0, 18));
        assert_eq!(status(&routes, 18), DestinationStatus::Available);
        assert_eq!(status(&routes, 19), DestinationStatus::Unavailable);
        routes.restrict(&report(2, 16));
        assert_eq!(status(&routes, 18), DestinationStatus::Restricted);
        assert_eq!(routes.status(range(3, 16)), DestinationStatus::Unavailable);
        routes.resume(&report(24, 0));
        assert_eq!(status(&routes, 16), DestinationStatus::Available);
        assert!(routes.entries.is_empty());
        assert_eq!(routes.counts, [0; MASKS]);
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let mut routes = RouteState::default();
        for code in 0..=MAX_ENTRIES as u32 {
            routes.pause(&report(0, code));
        }
        assert_eq!(routes.entries.len(), MAX_ENTRIES);
        routes.resume(&report(14, 0));
        assert_eq!(routes.counts, [0; MASKS]);
    }
}
