//! What is kept of an association for drawing it: the core's event log, and the states of its paths.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use carrick_proto::{AssociationId, Endpoint, PathId, Time, TraceRecord};

/// The state of a path, from the least to the most useful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathState {
    Unconfirmed,
    Inactive,
    PotentiallyFailed,
    Active,
    Primary,
}

/// A path that entered a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entered {
    pub(crate) time: Time,
    pub(crate) association: AssociationId,
    pub(crate) path: PathId,
    pub(crate) remote: IpAddr,
    pub(crate) state: PathState,
}

/// What a host writes its log to, and whoever asked for it reads.
pub(crate) type Tape = Rc<RefCell<EventLog>>;

/// All that the core of a host tells.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog {
    pub(crate) records: Vec<(AssociationId, TraceRecord)>,
    pub(crate) states: Vec<Entered>,
}

impl EventLog {
    /// Looks at the paths of an association after something happened to it.
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
