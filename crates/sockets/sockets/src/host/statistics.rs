//! Statistics of the host: those of all ports, of associations that have ended, and of packets to ports
//! without a socket (RFC 3873).

use carrick_proto::{
    AssociationCounters, Endpoint, EndpointMetrics, EndpointStats, portable_struct,
};

use super::Sockets;
use super::reports::EventCounters;
use crate::errno::Errno;

/// Counters of endpoints and associations that have been removed, and of the host. None of them decreases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HostCounters {
    endpoints: EndpointStats,
    associations: AssociationCounters,
    /// See [`HostStatistics::refused_options`].
    pub(super) refused_options: u64,
    /// See [`HostStatistics::events`].
    pub(super) events: EventCounters,
}

portable_struct! { HostCounters { endpoints, associations, refused_options, events } }

impl HostCounters {
    /// Adds the counters of an endpoint that is removed.
    pub(crate) fn add(&mut self, core: &Endpoint) {
        self.endpoints += core.stats();
        self.associations += core.association_counters();
    }

    /// Counts an option that a result refuses.
    pub(super) fn count_refused<T>(&mut self, result: &Result<T, Errno>) {
        if matches!(result, Err(Errno::ENOPROTOOPT)) {
            self.refused_options += 1;
        }
    }
}

/// State and counters of the host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct HostStatistics {
    /// Counters since the start, and numbers of associations and paths by state, of all endpoints.
    pub metrics: EndpointMetrics,
    /// Calls of `getsockopt` and `setsockopt` that were refused with `ENOPROTOOPT`.
    pub refused_options: u64,
    /// Events of paths and ends of associations.
    pub events: EventCounters,
    /// Sockets, those in accept queues included.
    pub sockets: usize,
    /// Bytes of received data of all ports.
    pub receive_memory: usize,
    /// Limit of [`Self::receive_memory`] in bytes.
    pub receive_memory_limit: usize,
    /// Limit of associations.
    pub max_associations: usize,
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
        let removed = &self.removed;
        let mut metrics = self.stray.metrics();
        metrics.endpoint += removed.endpoints;
        metrics.associations += removed.associations;
        for (_, port) in self.ports.iter() {
            metrics += port.core().metrics();
        }
        HostStatistics {
            metrics,
            refused_options: removed.refused_options,
            events: removed.events,
            sockets: self.table.len(),
            receive_memory: self.ports.received(),
            receive_memory_limit: self.config.receive_memory,
            max_associations: self.config.max_associations,
        }
    }
}
