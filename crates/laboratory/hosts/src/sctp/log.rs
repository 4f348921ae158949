//! Log of an association for figures: the core's events, and the states of its paths.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use carrick_proto::{AssociationId, Endpoint, ObservedEvent, Observer, PathId, Time};

/// State of a path, from the least to the most useful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathState {
    /// Its address is not confirmed (RFC 9260, section 5.4).
    Unconfirmed,
    /// Inactive (RFC 9260, section 8.2).
    Inactive,
    /// Potentially failed (RFC 7829, section 3).
    PotentiallyFailed,
    /// Active, but not the primary path.
    Active,
    /// Active, and the primary path.
    Primary,
}

/// A change of a path's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStateChange {
    /// Time of the change.
    pub time: Time,
    /// Association of the path.
    pub association: AssociationId,
    /// Path.
    pub path: PathId,
    /// Remote address of the path.
    pub remote: IpAddr,
    /// New state.
    pub state: PathState,
}

/// Event of an association, as an observer of the core is passed it.
#[derive(Clone, Debug)]
pub struct ObservedRecord {
    /// Time of the event.
    pub time: Time,
    /// Association of the event.
    pub association: AssociationId,
    /// The event.
    pub event: ObservedEvent,
}

/// Observer that keeps the events of an endpoint until the host takes them.
#[derive(Debug, Default)]
pub(super) struct Recorder(Mutex<Vec<ObservedRecord>>);

impl Recorder {
    /// Takes the events since the last call, in their order.
    pub(super) fn take(&self) -> Vec<ObservedRecord> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Recorder {
    fn observe(&self, association: AssociationId, time: Time, event: &ObservedEvent) {
        let event = event.clone();
        let record = ObservedRecord {
            time,
            association,
            event,
        };
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        records.push(record);
    }
}

/// Event log of the core of a host.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    /// Events of the associations, in order of time.
    pub records: Vec<ObservedRecord>,
    /// Changes of path states, in order of time.
    pub states: Vec<PathStateChange>,
}

impl EventLog {
    /// Records changes of the path states of an association.
    pub(super) fn look(&mut self, time: Time, endpoint: &Endpoint, association: AssociationId) {
        let Some(state) = endpoint.association(association) else {
            return;
        };
        let primary = state.stats().current;
        for path in state.paths() {
            let status = path.status;
            let state = match (status.confirmed, status.active) {
                (false, _) => PathState::Unconfirmed,
                (true, false) => PathState::Inactive,
                (true, true) if status.potentially_failed => PathState::PotentiallyFailed,
                (true, true) if primary == Some(path.id) => PathState::Primary,
                (true, true) => PathState::Active,
            };
            let own = |change: &&PathStateChange| {
                change.association == association && change.path == path.id
            };
            if self
                .states
                .iter()
                .rev()
                .find(own)
                .is_none_or(|last| last.state != state)
            {
                self.states.push(PathStateChange {
                    time,
                    association,
                    path: path.id,
                    remote: path.remote,
                    state,
                });
            }
        }
    }
}
