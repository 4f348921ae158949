//! Start of a capture.

use carrick_sockets::Errno;

use super::reply::ReplyContent;
use crate::capture::{CaptureFilter, Captures};
use crate::connection::may_share;

/// Starts a capture for a client of the daemon's user or of the superuser: packets contain messages of all programs.
pub(super) fn start_capture(
    captures: &mut Captures,
    uid: u32,
    filter: CaptureFilter,
) -> Result<ReplyContent, Errno> {
    if !may_share(uid) {
        return Err(Errno::EPERM);
    }
    captures.start(filter).map(ReplyContent::attached)
}
