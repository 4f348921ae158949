//! Waiting for the end of a closed socket (`SO_LINGER`).

use carrick_proto::Time;

use super::reply::ReplyContent;
use crate::pair::{is_hung_up, open_pair};
use crate::parts::Parts;
use crate::serve::serve;

/// Performs [`carrick_ipc::Request::Linger`].
///
/// 1. Without an event of it so far, look whether the descriptor was the last one of its pair, and close the
///    socket behind the messages on the pair.
/// 2. If its associations have not ended, attach a descriptor for their end.
pub(super) fn linger(parts: &mut Parts, now: Time, uid: u32, cookie: u64) -> ReplyContent {
    // 1
    if let Some(token) = parts.descriptors.with_cookie(cookie)
        && let Some(descriptor) = parts.descriptors.get_mut(token)
    {
        let Some(time) = parts.sockets.linger_time(descriptor.socket()) else {
            return ReplyContent::default();
        };
        if !descriptor.ours().is_some_and(is_hung_up) || descriptor.is_ended() {
            return ReplyContent::default();
        }
        descriptor.mark_closed();
        descriptor.incoming.set_readable(true);
        parts.lingering.insert(descriptor, time);
        serve(parts, now, token);
        parts.end_lingering();
    }
    // 2
    let Some(time) = parts.lingering.time_of(cookie, uid) else {
        return ReplyContent::default();
    };
    // Without a file descriptor the program does not wait.
    let Ok((ours, theirs)) = open_pair() else {
        return ReplyContent::default();
    };
    if let Some(before) = parts.lingering.set_waiter(cookie, ours) {
        parts.users.close_pair(uid, before);
    }
    ReplyContent {
        result: i32::try_from(time.as_secs()).unwrap_or(i32::MAX),
        ..ReplyContent::attached(theirs)
    }
}
