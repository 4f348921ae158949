//! Statistics of the daemon, for the metrics and for requests on the control socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use carrick_ipc::Reply;
use carrick_metrics::{AcceptFailures, encode_metrics, serve_metrics};
use carrick_sockets::{HostStatistics, OverviewRow, OverviewSubject};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::DaemonError;
use crate::driver::Driver;
use crate::metrics::registry;

/// Request for statistics, from the server of the metrics to the task.
pub(crate) type Scrape = oneshot::Sender<DaemonStatistics>;

/// Capacity of the channel of requests: those that the server handles at a time.
const SCRAPES: usize = 16;

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
        let limits = self.config.limits;
        let users = || self.users.values();
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
            users_at_descriptors: users()
                .filter(|user| user.descriptors >= limits.descriptors)
                .count(),
            users_at_clients: users()
                .filter(|user| user.clients >= limits.clients)
                .count(),
            descriptor_failures: self.failures.total(),
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

/// Server of the metrics.
#[derive(Debug)]
pub(crate) struct MetricsServer {
    listener: TcpListener,
    address: SocketAddr,
}

impl MetricsServer {
    /// Opens the server's socket.
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, DaemonError> {
        let open = || -> io::Result<Self> {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            let listener = TcpListener::from_std(listener)?;
            Ok(Self { listener, address })
        };
        open().map_err(|source| DaemonError::Metrics { address, source })
    }

    /// Continues the server's socket of a predecessor.
    pub(crate) fn adopt(listener: OwnedFd) -> io::Result<Self> {
        let listener = std::net::TcpListener::from(listener);
        let address = listener.local_addr()?;
        let listener = TcpListener::from_std(listener)?;
        Ok(Self { listener, address })
    }

    /// Returns another descriptor of the server's socket.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.listener.as_fd().try_clone_to_owned()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts the tasks of the server. Returns them, and the requests that the daemon's task has to answer.
    /// `failures` are those of the daemon.
    pub(crate) fn start(
        self,
        failures: AcceptFailures,
        log: fn(&str),
    ) -> (JoinSet<()>, mpsc::Receiver<Scrape>) {
        let (requests, scrapes) = mpsc::channel(SCRAPES);
        let mut reports = failures.reports();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve_metrics(self.listener, failures, move || {
            collect(requests.clone())
        }));
        tasks.spawn(async move {
            while let Ok(line) = reports.recv().await {
                log(&line);
            }
        });
        (tasks, scrapes)
    }
}

/// Returns the text of the metrics; `None` when the daemon's task has ended.
async fn collect(requests: mpsc::Sender<Scrape>) -> Option<String> {
    let (answer, answered) = oneshot::channel();
    requests.send(answer).await.ok()?;
    let statistics = answered.await.ok()?;
    Some(encode_metrics(&registry(&statistics)))
}
