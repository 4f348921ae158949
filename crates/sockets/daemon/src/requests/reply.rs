//! Replies to requests.

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};

use carrick_ipc::{Description, MAX_REPLY, Reply};
use carrick_sockets::{AssocId, Errno};
use rustix::io::Errno as SystemErrno;

use crate::pair::{AT_ONCE, send_with_files};

/// Content of the reply to a request.
#[derive(Default)]
pub(super) struct ReplyContent {
    pub(super) error: i32,
    pub(super) result: i32,
    pub(super) description: Description,
    pub(super) value: Vec<u8>,
    pub(super) attached: Option<OwnedFd>,
}

impl ReplyContent {
    pub(super) fn value(value: Vec<u8>) -> Self {
        Self {
            value,
            ..Self::default()
        }
    }

    pub(super) fn result(result: i32) -> Self {
        Self {
            result,
            ..Self::default()
        }
    }

    pub(super) fn attached(attached: OwnedFd) -> Self {
        Self {
            attached: Some(attached),
            ..Self::default()
        }
    }

    pub(super) fn in_progress(association: AssocId, attached: Option<OwnedFd>) -> Self {
        Self {
            error: Errno::EINPROGRESS.number(),
            result: association.number(),
            attached,
            ..Self::default()
        }
    }

    /// Returns the reply to a request that is refused with an error of the system.
    pub(super) fn refusal(error: i32) -> Self {
        Self {
            error,
            ..Self::default()
        }
    }

    /// Sends the reply.
    ///
    /// # Errors
    /// The client has ended, or does not read its replies.
    pub(super) fn send(&self, connection: &OwnedFd) -> rustix::io::Result<()> {
        let reply = Reply {
            error: self.error,
            result: self.result,
            description: self.description,
            value: &self.value[..self.value.len().min(MAX_REPLY - 64)],
        };
        let reply = reply.encode();
        let attached: Vec<_> = self.attached.iter().map(|fd| fd.as_fd()).collect();
        match send_with_files(connection, &[IoSlice::new(&reply)], &attached, AT_ONCE) {
            Err(SystemErrno::AGAIN) => Err(SystemErrno::PIPE),
            sent => sent,
        }
    }
}

impl From<Result<Self, Errno>> for ReplyContent {
    fn from(result: Result<Self, Errno>) -> Self {
        result.unwrap_or_else(|error| Self::refusal(error.number()))
    }
}
