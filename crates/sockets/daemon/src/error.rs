//! Errors of the start of a daemon.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Error of [`Daemon::bind`](crate::Daemon::bind).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// A socket of the network could not be opened.
    #[error("{0}")]
    Network(#[from] carrick::BindError),
    /// A parameter of associations is out of its range.
    #[error("association parameters: {0}")]
    Association(#[source] carrick_proto::ConfigError),
    /// Another daemon has the control socket.
    #[error("a daemon answers on {0}: use it, or choose another path with --socket")]
    Running(PathBuf),
    /// The path of the control socket has a file that is no socket.
    #[error("{0} exists and is no socket: remove it, or choose another path with --socket")]
    NotASocket(PathBuf),
    /// The control socket could not be opened.
    #[error("cannot open the control socket {path}: {source}")]
    Control {
        /// Its path.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The address of the metrics cannot be bound.
    #[error("cannot serve metrics on {address}: {source}")]
    Metrics {
        /// Its address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The daemon on the control socket has not handed over.
    #[error("cannot take over from the daemon on {path}: {reason}")]
    NotTakenOver {
        /// Path of the control socket.
        path: PathBuf,
        /// Reason of the predecessor or of this process.
        reason: String,
    },
    /// The system has no random numbers, or no epoll instance.
    #[error("cannot start: {0}")]
    System(io::Error),
}
