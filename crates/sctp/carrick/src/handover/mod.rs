//! Handover of an endpoint to its successor: another process, or the same program after `exec`, continues its
//! associations.
//!
//! - `state`: format of the state, and what is in it besides the protocol's
//! - `error`: errors
//! - `passing`: state and sockets over a Unix socket
//! - `resume`: the endpoint in the successor
//!
//! The task that hands over is in `driver/handover.rs`.

mod error;
mod passing;
mod resume;
mod state;

use std::fmt;
use std::os::fd::OwnedFd;

pub use error::{HandOverError, ResumeError};
pub(crate) use state::{AssociationState, EndpointState, SocketEntry, WaitingMessage, clock};

/// State and sockets of an endpoint that [`Endpoint::hand_over`](crate::Endpoint::hand_over) has stopped, for
/// [`Endpoint::resume`](crate::Endpoint::resume).
///
/// [`Self::send`] and [`Self::receive`] pass it to another process. A program that passes it by its own means stores
/// [`Self::state`] and keeps the descriptors in their order, such as across `exec` without `FD_CLOEXEC`.
///
/// Packets that arrive meanwhile wait in the receive buffers of the sockets. Dropped, without a successor, the associations
/// end without an ABORT: their peers detect it by retransmissions.
///
/// The state contains secrets: the key of State Cookies, shared keys, and messages. Keep it where only the successor can
/// read it. `Debug` shows its length only.
#[must_use = "without a successor the associations end, and their peers get no ABORT"]
pub struct Handover {
    state: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Handover {
    /// Returns a handover of its parts, which [`Endpoint::resume`](crate::Endpoint::resume) checks.
    pub fn from_parts(state: Vec<u8>, descriptors: Vec<OwnedFd>) -> Self {
        Self { state, descriptors }
    }

    /// Returns the state and the descriptors, for [`Self::from_parts`].
    pub fn into_parts(self) -> (Vec<u8>, Vec<OwnedFd>) {
        (self.state, self.descriptors)
    }

    /// Returns the state.
    pub fn state(&self) -> &[u8] {
        &self.state
    }

    /// Returns the descriptors of the sockets. Their order is part of the state.
    pub fn descriptors(&self) -> &[OwnedFd] {
        &self.descriptors
    }
}

impl fmt::Debug for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handover")
            .field("state", &format_args!("{} bytes", self.state.len()))
            .field("descriptors", &self.descriptors.len())
            .finish()
    }
}
