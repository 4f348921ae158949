//! Statistics of the daemon, for the metrics and for requests on the control socket.

use carrick_ipc::Reply;
use carrick_sockets::{HostStatistics, OverviewRow, OverviewSubject};
use serde_json::json;

use crate::driver::Driver;

/// State and counters of a daemon.
#[derive(Debug, Default)]
pub(crate) struct DaemonStatistics {
    pub(crate) host: HostStatistics,
    /// Descriptors of programs.
    pub(crate) descriptors: usize,
    /// Connections of the control socket.
    pub(crate) clients: usize,
    /// Users at their limit of descriptors.
    pub(crate) users_at_descriptors: usize,
    /// Users at their limit of connections.
    pub(crate) users_at_clients: usize,
    /// Attempts to open a descriptor or to accept a connection that failed.
    pub(crate) descriptor_failures: u64,
    /// Lines that the log of associations has suppressed.
    pub(crate) suppressed_lines: u64,
    /// Associations with metrics of their own.
    pub(crate) associations: Vec<OverviewRow>,
    /// Number of associations without.
    pub(crate) unlisted_associations: usize,
}

impl Driver {
    pub(crate) fn statistics(&self) -> DaemonStatistics {
        let (users_at_descriptors, users_at_clients) = self.users.at_limits();
        let is_open = |row: &OverviewRow| {
            matches!(
                &row.subject,
                OverviewSubject::Association { stats: Some(_), .. }
            )
        };
        let listed = self.config.metrics_associations;
        let rows = (listed > 0).then(|| self.sockets.overview(None).filter(is_open));
        let associations: Vec<OverviewRow> = rows.into_iter().flatten().take(listed).collect();
        let open = self.sockets.open_association_count();
        DaemonStatistics {
            host: self.sockets.statistics(),
            descriptors: self.descriptors.len(),
            clients: self.clients.len(),
            users_at_descriptors,
            users_at_clients,
            descriptor_failures: self.users.failures().total(),
            suppressed_lines: self.suppressed_lines(),
            unlisted_associations: open.saturating_sub(associations.len()),
            associations,
        }
    }

    /// Returns the reply to [`carrick_ipc::Request::Statistics`].
    pub(crate) fn counters_reply(&self) -> Vec<u8> {
        let statistics = self.sockets.statistics();
        let value = json!({
            "established": statistics.established(),
            "endpoints": statistics.counters.endpoints,
            "associations": statistics.counters.associations,
        });
        let value = value.to_string();
        let reply = Reply {
            value: value.as_bytes(),
            ..Reply::default()
        };
        reply.encode()
    }
}
