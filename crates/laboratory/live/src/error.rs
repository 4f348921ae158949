//! Errors of live networks and of the experiments on them.

use std::io;

use carrick_lab::LabError;
use carrick_netsim::ConfigError;

/// Error of a live network or of an experiment on it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process is not root.
    #[error(
        "live networks need root, for network namespaces and raw sockets: run the same command with sudo"
    )]
    NotRoot,
    /// The configuration of the network is invalid.
    #[error("the network cannot be built: {0}")]
    Network(#[from] ConfigError),
    /// The network has no host of this name.
    #[error("the network has no host '{name}'; its hosts: {known}")]
    UnknownHost {
        /// Requested name.
        name: String,
        /// Names of the existing hosts.
        known: String,
    },
    /// A system call failed.
    #[error("{what}: {source}{}", advice(source))]
    System {
        /// Operation that failed.
        what: String,
        /// Error of the system.
        source: io::Error,
    },
    /// A program could not be started on a host.
    #[error("cannot run '{program}': {source}")]
    Program {
        /// Name of the program.
        program: String,
        /// Error of the system.
        source: io::Error,
    },
    /// A system command, such as `ip`, failed.
    #[error("{command}: {output}")]
    Command {
        /// Command line.
        command: String,
        /// Its error output.
        output: String,
    },
    /// No live network of this name is running.
    #[error("there is no live network '{name}'; {running}")]
    NotRunning {
        /// Requested name.
        name: String,
        /// Names of the running networks.
        running: String,
    },
    /// The results of the runs cannot be evaluated.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The caller stopped the measurement or the runs.
    #[error("stopped; all networks are removed")]
    Stopped,
    /// A thread of this crate panicked: a fault of this crate or of a program in the network.
    #[error("the {0} thread panicked (please report it)")]
    Panicked(&'static str),
}

impl Error {
    /// Returns a function that makes an error of the operation `what` from that of the system.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}

fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; live networks need root",
        io::ErrorKind::NotFound => "; is iproute2 installed, and does /dev/net/tun exist?",
        _ => "",
    }
}
