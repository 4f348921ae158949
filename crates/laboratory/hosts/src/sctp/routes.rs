//! Selection of source addresses by the routes of the simulated host.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use carrick_netsim::RouteTable;
use carrick_proto::{MatchingAddress, SourceSelection};

/// Selects the address from which the host's routes send, if the endpoint is bound to it, as crate
/// `carrick` does with the routes of the operating system. Clones share the routes, which
/// [`SctpHost::with_routes`](super::SctpHost::with_routes) keeps up to date.
#[derive(Clone, Debug, Default)]
pub struct HostRoutes {
    table: Arc<Mutex<RouteTable>>,
}

impl HostRoutes {
    /// Replaces the routes; returns whether they changed.
    pub(super) fn replace(&self, routes: RouteTable) -> bool {
        let mut table = self.table();
        let changed = *table != routes;
        *table = routes;
        changed
    }

    fn table(&self) -> MutexGuard<'_, RouteTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SourceSelection for HostRoutes {
    fn select(&self, local: &[IpAddr], remote: IpAddr) -> Option<IpAddr> {
        self.table()
            .source(remote)
            .filter(|address| local.contains(address))
            .or_else(|| MatchingAddress.select(local, remote))
    }
}
