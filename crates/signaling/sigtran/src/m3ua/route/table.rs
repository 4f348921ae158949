//! Status of the destinations of one network.

use super::ranges::{RangeMap, push_joined, split, without_overlap};
use super::{Availability, DestinationEvent, DestinationStatus, RouteStateFull};
use crate::m3ua::{AffectedPointCode, AffectedPointCodes, CongestionLevel, PointCode};

/// Availability and congestion of the destinations of one network, as one node reports them (RFC 4666, sections 3.4 and
/// 4.5). The status of a destination is found in at most one step for each length of a mask.
#[derive(Debug)]
pub struct DestinationTable {
    availability: RangeMap<Availability>,
    congestion: RangeMap<Option<CongestionLevel>>,
    limit: usize,
}

impl DestinationTable {
    /// Table in which no destination is known, of at most `limit` destinations or ranges.
    pub const fn new(limit: usize) -> Self {
        Self {
            availability: RangeMap::new(None),
            congestion: RangeMap::new(Some(None)),
            limit,
        }
    }

    /// Sets the availability of destinations about which nothing is recorded, `None` if it is not known.
    pub const fn set_default(&mut self, availability: Option<Availability>) {
        self.availability.default = availability;
    }

    /// Forgets what was recorded.
    pub fn clear(&mut self) {
        self.availability.clear();
        self.congestion.clear();
    }

    /// Records a change of destinations. The congestion of unavailable destinations is not known. Congestion without a level is an
    /// event that is not kept, because its end is not reported; so is the unavailability of a user part.
    ///
    /// # Errors
    /// [`RouteStateFull`] if a destination or range has no room; the rest is recorded.
    pub fn record(&mut self, event: &DestinationEvent) -> Result<(), RouteStateFull> {
        let (availability, level) = match event {
            DestinationEvent::Unavailable(_) => (Some(Availability::Unavailable), Some(None)),
            DestinationEvent::Available(_) => (Some(Availability::Available), None),
            DestinationEvent::Restricted(_) => (Some(Availability::Restricted), None),
            DestinationEvent::Congested(_, level) => (None, level.map(Some)),
            DestinationEvent::UserPartUnavailable(..) => (None, None),
        };
        let mut complete = true;
        for range in event.affected() {
            let range = range.aligned();
            if let Some(availability) = availability {
                complete &= self.availability.set(range, availability, self.limit);
            }
            if let Some(level) = level {
                complete &= self.congestion.set(range, level, self.limit);
            }
        }
        if complete {
            Ok(())
        } else {
            Err(RouteStateFull(self.limit))
        }
    }

    /// Returns the status of a destination, `None` if it is not known.
    pub fn status(&self, destination: PointCode) -> Option<DestinationStatus> {
        self.status_of(AffectedPointCode::single(destination))
    }

    /// Returns the status of the smallest range that contains a range, `None` if it is not known.
    pub fn status_of(&self, range: AffectedPointCode) -> Option<DestinationStatus> {
        Some(DestinationStatus {
            availability: self.availability.get(range)?,
            congestion: self.congestion.get(range).unwrap_or_default(),
        })
    }

    pub(super) fn is_uniform(&self, range: AffectedPointCode) -> bool {
        self.availability.is_uniform(range) && self.congestion.is_uniform(range)
    }

    /// Returns the status of destinations and ranges as events in the order of section 4.5.3: congestion precedes the
    /// availability. Destinations that are not known are unavailable.
    pub(in crate::m3ua) fn audit(&self, ranges: &[AffectedPointCode]) -> Vec<DestinationEvent> {
        let mut parts = Vec::new();
        for range in without_overlap(ranges) {
            let uniform = |part| self.is_uniform(part);
            split(range, &uniform, &mut |part| {
                let status = self.status_of(part).unwrap_or_default();
                push_joined(&mut parts, part, status, |a, b| (a == b).then_some(a));
            });
        }
        events(&parts)
    }

    /// Returns the status of the known destinations for which `wanted` holds, as events.
    pub(in crate::m3ua) fn known(
        &self,
        wanted: impl Fn(DestinationStatus) -> bool,
    ) -> Vec<DestinationEvent> {
        let all = AffectedPointCode::ALL;
        let mut parts = Vec::new();
        let uniform = |part| self.is_uniform(part);
        split(all, &uniform, &mut |part| {
            if let Some(status) = self.status_of(part).filter(|status| wanted(*status)) {
                push_joined(&mut parts, part, status, |a, b| (a == b).then_some(a));
            }
        });
        events(&parts)
    }
}

/// Returns events that report the status of ranges.
fn events(parts: &[(AffectedPointCode, DestinationStatus)]) -> Vec<DestinationEvent> {
    let affected = |wanted: &dyn Fn(DestinationStatus) -> bool| {
        let parts = parts.iter().filter(|(_, status)| wanted(*status));
        AffectedPointCodes::new(parts.map(|(range, _)| *range))
    };
    let state = |availability| affected(&move |status| status.availability == availability);
    let congested = CongestionLevel::ALL.into_iter().filter_map(|level| {
        let reachable = |status: DestinationStatus| {
            status.availability != Availability::Unavailable && status.congestion == Some(level)
        };
        Some(DestinationEvent::Congested(
            affected(&reachable)?,
            Some(level),
        ))
    });
    state(Availability::Unavailable)
        .map(DestinationEvent::Unavailable)
        .into_iter()
        .chain(congested)
        .chain(state(Availability::Available).map(DestinationEvent::Available))
        .chain(state(Availability::Restricted).map(DestinationEvent::Restricted))
        .collect()
}
