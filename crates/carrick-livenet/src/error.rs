//! What can go wrong, sorted by whose fault it is.

use std::io;

use carrick_netsim::ConfigError;

/// Why a live network does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller's network makes no sense.
    #[error("the network cannot be built: {0}")]
    Network(#[from] ConfigError),
    /// The caller asked for a host that is none of the network's.
    #[error("there is no host '{name}' here; there are: {known}")]
    UnknownHost {
        /// What was asked for.
        name: String,
        /// The hosts there are.
        known: String,
    },
    /// The system refused.
    #[error("{what}: {source}{}", advice(source))]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The program that the caller wants on a host does not start.
    #[error("cannot run '{program}': {source}")]
    Program {
        /// Its name.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// A command of the system failed.
    #[error("{command}: {output}")]
    Command {
        /// The command line.
        command: String,
        /// What it printed.
        output: String,
    },
    /// No live network of this name runs.
    #[error("no live network '{name}' runs; {running}")]
    NotRunning {
        /// What was asked for.
        name: String,
        /// Those that run.
        running: String,
    },
    /// The caller wanted it to end.
    #[error("stopped; the network is removed")]
    Stopped,
    /// A thread of this crate ended by a panic: a fault of this crate or of a program in the network.
    #[error("the {0} thread panicked (please report it)")]
    Panicked(&'static str),
}

impl Error {
    /// What the system said to `what`.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}

fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; live networks need root",
        io::ErrorKind::NotFound => "; is iproute2 installed, and /dev/net/tun there?",
        _ => "",
    }
}
