//! Errors of a handover.

use std::io;

use carrick_proto::{ExportError, ImportError};
use thiserror::Error;

use crate::error::{BindError, ConfigError};

/// Errors of [`Endpoint::hand_over`](crate::Endpoint::hand_over). The endpoint continues, unless it was closed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HandOverError {
    /// The endpoint has several shards.
    #[error(
        "an endpoint with several shards is not handed over, because its associations are divided among them: bind it with \
         Config::shards 1"
    )]
    Shards,
    /// The endpoint uses DTLS.
    #[error(
        "an endpoint with DTLS is not handed over, because the state of its sessions is internal to the DTLS library: \
         close it, and connect in its successor"
    )]
    Dtls,
    /// The endpoint shares the UDP port of a daemon.
    #[error(
        "an endpoint at a daemon is not handed over, because the daemon ends its lease of the port with the process: \
         close it, or bind it without Config::daemon"
    )]
    Daemon,
    /// A congestion controller or chunk protection of the program can't be exported.
    #[error("the state cannot be exported: {0}")]
    Export(ExportError),
    /// No further descriptors of the sockets.
    #[error(
        "no descriptors for the successor: {0}; raise the limit of file descriptors (ulimit -n)"
    )]
    Descriptors(io::Error),
    /// The endpoint is closed, is being closed, or was handed over.
    #[error("the endpoint is closed, or was handed over already")]
    EndpointClosed,
}

/// Errors of [`Endpoint::resume`](crate::Endpoint::resume).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// A parameter is out of its range, or differs from the endpoint that was handed over.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The state is incomplete, damaged, or of another version.
    #[error("state of the handover: {0}")]
    State(ImportError),
    /// The number of descriptors is not that of the state.
    #[error(
        "the state of the handover has {expected} descriptors, and {found} were passed: pass all, in the order of \
         Handover::descriptors"
    )]
    Descriptors {
        /// Number of descriptors in the state.
        expected: usize,
        /// Number of descriptors that were passed.
        found: usize,
    },
    /// No duplicates of the descriptors.
    #[error(
        "no duplicates of the descriptors: {0}; raise the limit of file descriptors (ulimit -n)"
    )]
    Duplicates(io::Error),
    /// The monotonic clock of this host is not that of the state.
    #[error(
        "the clock of this host is not that of the endpoint that was handed over: resume it on the same host, before a reboot"
    )]
    Clock,
    /// A socket can't be continued, or there is no tokio runtime.
    #[error(transparent)]
    Bind(#[from] BindError),
}

impl From<ImportError> for ResumeError {
    fn from(error: ImportError) -> Self {
        Self::State(error)
    }
}
