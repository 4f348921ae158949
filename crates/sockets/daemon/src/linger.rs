//! Programs that wait for the end of a closed socket (`SO_LINGER`).

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use carrick_sockets::{SocketId, Sockets};

use crate::descriptor::Descriptor;
use crate::descriptors::Descriptors;
use crate::users::Users;

/// Closed socket with `SO_LINGER`, until its associations have ended. A handover ends the wait of the program, not the
/// associations.
#[derive(Debug)]
struct LingeringSocket {
    socket: SocketId,
    uid: u32,
    time: Duration,
    /// Closed when the associations have ended.
    waiter: Option<OwnedFd>,
}

/// Closed sockets with `SO_LINGER`, by the cookies of their descriptors.
#[derive(Debug, Default)]
pub(crate) struct Lingering(BTreeMap<u64, LingeringSocket>);

impl Lingering {
    /// Adds the socket of a descriptor that its program has closed.
    pub(crate) fn insert(&mut self, descriptor: &Descriptor, time: Duration) {
        let lingering = LingeringSocket {
            socket: descriptor.socket(),
            uid: descriptor.uid(),
            time,
            waiter: None,
        };
        self.0.insert(descriptor.cookie(), lingering);
    }

    /// Returns the linger time of a socket of a user, if it lingers.
    pub(crate) fn time_of(&self, cookie: u64, uid: u32) -> Option<Duration> {
        let found = self.0.get(&cookie);
        found
            .filter(|found| found.uid == uid)
            .map(|found| found.time)
    }

    /// Sets the end of the pair that is closed with the associations. Returns the one before.
    pub(crate) fn set_waiter(&mut self, cookie: u64, ours: OwnedFd) -> Option<OwnedFd> {
        self.0.get_mut(&cookie)?.waiter.replace(ours)
    }

    /// Wakes the programs whose sockets have no association any more.
    pub(crate) fn end(&mut self, sockets: &Sockets, descriptors: &Descriptors, users: &mut Users) {
        if self.0.is_empty() {
            return;
        }
        let closing = sockets.closing_sockets();
        let ended = self.0.extract_if(.., |cookie, lingering| {
            let is_closed = descriptors.with_cookie(*cookie).is_none();
            is_closed && !closing.contains(&lingering.socket)
        });
        for (_, lingering) in ended {
            if let Some(waiter) = lingering.waiter {
                users.close_pair(lingering.uid, waiter);
            }
        }
    }
}
