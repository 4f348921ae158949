//! What can go wrong, sorted by whose fault it is.

use carrick_lab::LabError;

/// Why scenarios did not run in real time.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller may not do this.
    #[error(
        "--live needs root, for network namespaces and raw sockets: run the same command with sudo, or leave --live out \
         to run in virtual time"
    )]
    NotRoot,
    /// The host has no network namespaces or no TUN devices, or a network could not be built.
    #[error(transparent)]
    Network(#[from] carrick_livenet::Error),
    /// What was measured makes no result.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The caller wanted it to end.
    #[error("stopped; the networks are removed and nothing is written")]
    Stopped,
}
