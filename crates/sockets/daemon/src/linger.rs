//! Programs that wait for the end of a closed socket (`SO_LINGER`).

use std::os::fd::OwnedFd;
use std::time::Duration;

use carrick_ipc::Reply;
use carrick_proto::Time;
use carrick_sockets::SocketId;

use crate::descriptor::Descriptor;
use crate::driver::Driver;
use crate::pair::{is_hung_up, open_pair};

/// Closed socket with `SO_LINGER`, until its associations have ended. A handover ends the wait of the program, not the
/// associations.
#[derive(Debug)]
pub(crate) struct LingeringSocket {
    socket: SocketId,
    uid: u32,
    time: Duration,
    /// Closed when the associations have ended.
    waiter: Option<OwnedFd>,
}

impl LingeringSocket {
    pub(crate) fn new(descriptor: &Descriptor, time: Duration) -> Self {
        Self {
            socket: descriptor.socket(),
            uid: descriptor.uid(),
            time,
            waiter: None,
        }
    }
}

impl Driver {
    /// Returns the reply to [`carrick_ipc::Request::Linger`].
    ///
    /// 1. Without an event of it so far, look whether the descriptor was the last one of its pair, and close the
    ///    socket behind the messages on the pair.
    /// 2. If its associations have not ended, attach a descriptor for their end.
    pub(crate) fn linger(
        &mut self,
        now: Time,
        uid: u32,
        cookie: u64,
    ) -> (Vec<u8>, Option<OwnedFd>) {
        // 1
        if let Some(token) = self.by_cookie.get(&cookie).copied()
            && let Some(descriptor) = self.descriptors.get_mut(&token)
        {
            let Some(time) = self.sockets.linger_time(descriptor.socket()) else {
                return (Reply::default().encode(), None);
            };
            if !descriptor.ours().is_some_and(is_hung_up) || descriptor.is_ended() {
                return (Reply::default().encode(), None);
            }
            descriptor.mark_closed();
            let lingering = LingeringSocket::new(descriptor, time);
            self.lingering.insert(cookie, lingering);
            self.serve(now, token);
            self.end_lingering();
        }
        // 2
        let found = self.lingering.get_mut(&cookie);
        let Some(lingering) = found.filter(|lingering| lingering.uid == uid) else {
            return (Reply::default().encode(), None);
        };
        // Without a file descriptor the program does not wait.
        let Ok((ours, theirs)) = open_pair() else {
            return (Reply::default().encode(), None);
        };
        if let Some(before) = lingering.waiter.replace(ours) {
            self.users.close_pair(uid, before);
        }
        let reply = Reply {
            result: i32::try_from(lingering.time.as_secs()).unwrap_or(i32::MAX),
            ..Reply::default()
        };
        (reply.encode(), Some(theirs))
    }

    /// Wakes the programs whose sockets have no association any more.
    pub(crate) fn end_lingering(&mut self) {
        if self.lingering.is_empty() {
            return;
        }
        let closing = self.sockets.closing_sockets();
        let by_cookie = &self.by_cookie;
        let ended = self.lingering.extract_if(.., |cookie, lingering| {
            !by_cookie.contains_key(cookie) && !closing.contains(&lingering.socket)
        });
        for (_, lingering) in ended {
            if let Some(waiter) = lingering.waiter {
                self.users.close_pair(lingering.uid, waiter);
            }
        }
    }
}
