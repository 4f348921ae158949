//! Log of an association for figures: the core's events, and the states of its paths.

use std::net::IpAddr;

use carrick_proto::{AssociationId, Endpoint, PathId, Time, TraceRecord};

/// State of a path, from the least to the most useful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathState {
    Unconfirmed,
    Inactive,
    PotentiallyFailed,
    Active,
    Primary,
}

/// A change of a path's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entered {
    pub(crate) time: Time,
    pub(crate) association: AssociationId,
    pub(crate) path: PathId,
    pub(crate) remote: IpAddr,
    pub(crate) state: PathState,
}

/// Event log of the core of a host.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog {
    pub(crate) records: Vec<(AssociationId, TraceRecord)>,
    pub(crate) states: Vec<Entered>,
}

impl EventLog {
    /// Records changes of the path states of an association.
    pub(super) fn look(&mut self, time: Time, endpoint: &Endpoint, association: AssociationId) {
        let primary = endpoint
            .association_stats(association)
            .and_then(|stats| stats.primary);
        for path in endpoint.paths(association) {
            let status = path.status;
            let state = match (status.confirmed, status.active) {
                (false, _) => PathState::Unconfirmed,
                (true, false) => PathState::Inactive,
                (true, true) if status.potentially_failed => PathState::PotentiallyFailed,
                (true, true) if primary == Some(path.id) => PathState::Primary,
                (true, true) => PathState::Active,
            };
            let own =
                |entered: &&Entered| entered.association == association && entered.path == path.id;
            if self
                .states
                .iter()
                .rev()
                .find(own)
                .is_none_or(|last| last.state != state)
            {
                self.states.push(Entered {
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
