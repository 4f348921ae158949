//! Callers that wait for the set-up of an association, each on another pair: a one-to-many descriptor stays writable.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use carrick_sockets::{AssocId, Errno, Sockets};
use rustix::net::send;

use crate::pair::AT_ONCE;
use crate::users::Users;

/// Users and pairs of callers blocked in connect, by association.
#[derive(Debug, Default)]
pub(crate) struct Setups(BTreeMap<AssocId, (u32, OwnedFd)>);

impl Setups {
    /// Adds a caller of a user.
    pub(crate) fn insert(&mut self, users: &mut Users, id: AssocId, (uid, ours): (u32, OwnedFd)) {
        self.0.insert(id, (uid, ours));
        users.add_setup();
    }

    /// Returns the associations and the daemon's ends of the pairs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (AssocId, &OwnedFd)> {
        self.0.iter().map(|(id, (_, ours))| (*id, ours))
    }

    /// Sends the results of set-ups to their callers.
    pub(crate) fn report(&mut self, sockets: &mut Sockets, users: &mut Users) {
        while let Some((association, result)) = sockets.poll_setup() {
            if let Some((uid, ours)) = self.0.remove(&association) {
                let number = result.map_or_else(Errno::number, |()| 0);
                // The caller may have ended.
                let _ = send(&ours, &number.to_ne_bytes(), AT_ONCE);
                users.remove_setup();
                users.close_pair(uid, ours);
            }
        }
    }
}
