//! Server of the metrics over HTTP: tasks beside that of the daemon, which they ask for its statistics.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use carrick_metrics::{AcceptFailures, encode_metrics, serve_metrics};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::registry;
use crate::error::DaemonError;
use crate::statistics::DaemonStatistics;

/// Request for statistics, from the server of the metrics to the task.
pub(crate) type Scrape = oneshot::Sender<DaemonStatistics>;

/// Capacity of the channel of requests: those that the server handles at a time.
const SCRAPES: usize = 16;

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
