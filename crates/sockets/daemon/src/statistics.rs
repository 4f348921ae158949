//! Statistics of the daemon, for the metrics and for requests on the control socket.

use carrick_sockets::{HostStatistics, OverviewRow, OverviewSubject, Sockets};
use serde_json::json;

use crate::parts::Parts;

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

/// Returns the statistics of a daemon. `suppressed_lines` is the number of those of the log of associations.
pub(crate) fn statistics(parts: &Parts, suppressed_lines: u64) -> DaemonStatistics {
    let (users_at_descriptors, users_at_clients) = parts.users.at_limits();
    let is_open = |row: &OverviewRow| {
        matches!(
            &row.subject,
            OverviewSubject::Association { stats: Some(_), .. }
        )
    };
    let listed = parts.config.metrics_associations;
    let rows = (listed > 0).then(|| parts.sockets.overview(None).filter(is_open));
    let associations: Vec<OverviewRow> = rows.into_iter().flatten().take(listed).collect();
    let open = parts.sockets.open_association_count();
    DaemonStatistics {
        host: parts.sockets.statistics(),
        descriptors: parts.descriptors.len(),
        clients: parts.clients.len(),
        users_at_descriptors,
        users_at_clients,
        descriptor_failures: parts.users.failures().total(),
        suppressed_lines: suppressed_lines + parts.users.suppressed(),
        unlisted_associations: open.saturating_sub(associations.len()),
        associations,
    }
}

/// Returns the counters of the sockets as JSON, for [`carrick_ipc::Request::Statistics`].
pub(crate) fn counters(sockets: &Sockets) -> String {
    let statistics = sockets.statistics();
    let value = json!({
        "established": statistics.metrics.established(),
        "endpoints": statistics.metrics.endpoint,
        "associations": statistics.metrics.associations,
    });
    value.to_string()
}
