//! Statistics of the host: those of all ports, of associations that have ended, and of packets to ports
//! without a socket (RFC 3873).

use std::collections::BTreeMap;

use carrick_proto::{
    AssociationCounters, Endpoint, EndpointStats, PathStatus, StateName, portable_struct,
};

use super::Sockets;
use super::reports::EventCounters;
use crate::errno::Errno;

/// Counters of the host. None of them decreases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct HostCounters {
    /// Counters of all endpoints, except [`EndpointStats::receive_memory`], which is the current memory.
    pub endpoints: EndpointStats,
    /// Counters of all associations, those included that have ended.
    pub associations: AssociationCounters,
    /// Calls of `getsockopt` and `setsockopt` that were refused with `ENOPROTOOPT`.
    pub refused_options: u64,
    /// Events of paths and ends of associations.
    pub events: EventCounters,
}

portable_struct! { HostCounters { endpoints, associations, refused_options, events } }

impl HostCounters {
    /// Returns the counters of an endpoint.
    pub(crate) fn of(core: &Endpoint) -> Self {
        Self {
            endpoints: core.stats(),
            associations: core.association_counters(),
            refused_options: 0,
            events: EventCounters::default(),
        }
    }

    /// Counts an option that a result refuses.
    pub(super) fn count_refused<T>(&mut self, result: &Result<T, Errno>) {
        if matches!(result, Err(Errno::ENOPROTOOPT)) {
            self.refused_options += 1;
        }
    }
}

impl std::ops::AddAssign for HostCounters {
    fn add_assign(&mut self, other: Self) {
        self.endpoints += other.endpoints;
        self.associations += other.associations;
        self.refused_options += other.refused_options;
        self.events += other.events;
    }
}

/// Numbers of paths by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PathCounts {
    /// Paths to addresses that are not confirmed (RFC 9260, section 5.4).
    pub unconfirmed: usize,
    /// Active paths, potentially failed ones not included.
    pub active: usize,
    /// Potentially failed paths (RFC 7829).
    pub potentially_failed: usize,
    /// Inactive paths (RFC 9260, section 8.2).
    pub inactive: usize,
}

impl PathCounts {
    fn count(&mut self, status: PathStatus) {
        let number = match (status.confirmed, status.active, status.potentially_failed) {
            (false, ..) => &mut self.unconfirmed,
            (true, false, _) => &mut self.inactive,
            (true, true, true) => &mut self.potentially_failed,
            (true, true, false) => &mut self.active,
        };
        *number += 1;
    }
}

/// State and counters of the host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct HostStatistics {
    /// Counters since the start.
    pub counters: HostCounters,
    /// Numbers of associations by state. Those that have ended and still have unread messages are not counted.
    pub associations: BTreeMap<StateName, usize>,
    /// Numbers of paths by state.
    pub paths: PathCounts,
    /// Sockets, those in accept queues included.
    pub sockets: usize,
    /// Bytes of received data of all ports.
    pub receive_memory: usize,
    /// Limit of [`Self::receive_memory`] in bytes.
    pub receive_memory_limit: usize,
    /// Limit of associations.
    pub max_associations: usize,
}

impl HostStatistics {
    /// Returns the number of associations in ESTABLISHED, SHUTDOWN-PENDING or SHUTDOWN-RECEIVED
    /// (`sctpCurrEstab` of RFC 3873).
    pub fn established(&self) -> usize {
        let states = [
            StateName::Established,
            StateName::ShutdownPending,
            StateName::ShutdownReceived,
        ];
        let counts = states
            .iter()
            .filter_map(|state| self.associations.get(state));
        counts.sum()
    }
}

/// Numbers of sockets, associations and ports, and their memory, at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Sockets, those in accept queues included.
    pub sockets: usize,
    /// Associations, those included that are shut down in the background.
    pub associations: usize,
    /// Endpoints, those included whose sockets were closed before the end of their associations.
    pub ports: usize,
    /// Bytes of received data of all ports, which [`Config::receive_memory`](crate::Config::receive_memory) limits.
    pub receive_memory: usize,
}

impl Sockets {
    /// Returns how much of the host's limits is in use.
    pub fn usage(&self) -> Usage {
        Usage {
            sockets: self.table.len(),
            associations: self.associations.len(),
            ports: self.ports.len(),
            receive_memory: self.ports.received(),
        }
    }

    /// Returns the state and counters of the host. Takes time in proportion to the number of associations.
    pub fn statistics(&self) -> HostStatistics {
        let mut statistics = HostStatistics {
            counters: self.removed,
            sockets: self.table.len(),
            receive_memory: self.ports.received(),
            receive_memory_limit: self.config.receive_memory,
            max_associations: self.config.max_associations,
            ..HostStatistics::default()
        };
        statistics.counters += HostCounters::of(&self.stray);
        for (_, port) in self.ports.iter() {
            let core = port.core();
            statistics.counters += HostCounters::of(core);
            for id in core.associations() {
                let Some(association) = core.association(id) else {
                    continue;
                };
                let state = association.stats().state;
                if state == StateName::Closed {
                    continue;
                }
                *statistics.associations.entry(state).or_default() += 1;
                for path in association.paths() {
                    statistics.paths.count(path.status);
                }
            }
        }
        statistics
    }
}
