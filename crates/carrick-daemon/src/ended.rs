//! Descriptors whose association has ended, until the program closes them.
//!
//! After the end of an association the daemon's end of the pair is shut down in both directions, or
//! closed, so that the program's end reports the hang-up. An end that is shut down has an event when the program closes
//! the other one, but also others, and one that is closed has none. The list of sockets in `/proc/net/unix` has the
//! inodes of those that are open. It is read after events, from time to time, and before a program is refused a
//! socket.

use std::collections::BTreeSet;
use std::time::Duration;

use carrick_proto::Time;

use crate::driver::{Driver, EVENTS};

/// Interval between scans of the list.
const INTERVAL: Duration = Duration::from_secs(2);
/// Time after an event, since others follow where associations are short.
const SOON: Duration = Duration::from_millis(100);

impl Driver {
    /// Schedules the next check for closed descriptors, if any has ended.
    pub(crate) fn schedule_check(&mut self, now: Time) {
        if self.next_check.is_none() && !self.ended.is_empty() {
            self.next_check = Some(now + INTERVAL);
        }
    }

    /// Schedules a check after an event of a descriptor that has ended.
    pub(crate) fn note_ended(&mut self, now: Time) {
        self.ended_changed = true;
        let soon = now + SOON;
        self.next_check = Some(self.next_check.map_or(soon, |at| at.min(soon)));
    }

    /// Closes the sockets of descriptors that programs have closed before this request.
    pub(crate) fn close_ended(&mut self, now: Time) {
        let mut events = Vec::with_capacity(EVENTS);
        while self.read_events(&mut events) {
            self.handle_events(now, &mut events);
        }
        self.serve_descriptors(now);
        if self.ended_changed {
            self.check_ended(now);
        }
    }

    /// Closes the sockets of this port whose descriptors programs have closed, before the turn that would.
    ///
    /// The system reports the end of a pair no later than a request that follows it, but not after the end
    /// of the association. Messages of a descriptor that is in use by the caller remain unread.
    pub(crate) fn close_closed(&mut self, now: Time, port: u16) {
        let mut events = Vec::with_capacity(EVENTS);
        while self.read_events(&mut events) {
            self.handle_events(now, &mut events);
        }
        self.serve_descriptors(now);
        let has_port = |token| {
            let descriptor = self.descriptors.get(token);
            let local = descriptor.map(|found| self.sockets.local_address(found.socket));
            matches!(local, Some(Ok(address)) if address.port() == port)
        };
        if self.ended.iter().any(has_port) {
            self.check_ended(now);
        }
    }

    /// Removes the descriptors that programs have closed after the end of their association.
    pub(crate) fn check_ended(&mut self, now: Time) {
        self.next_check = None;
        self.ended_changed = false;
        if let Ok(list) = std::fs::read_to_string("/proc/net/unix") {
            let open = inodes(&list);
            for token in self.ended.clone() {
                let is_open = |inode| open.contains(&inode);
                let descriptor = self.descriptors.get(&token);
                if descriptor.is_none_or(|descriptor| is_open(descriptor.inode)) {
                    continue;
                }
                if let Some(descriptor) = self.descriptors.remove(&token) {
                    // A socket that the daemon has broken off is closed already.
                    let _ = self.sockets.close(now, descriptor.socket);
                    self.forget(token, &descriptor);
                }
            }
        }
        self.schedule_check(now);
    }
}

/// Returns the inodes in `/proc/net/unix`: the seventh field of each line but the first.
fn inodes(list: &str) -> BTreeSet<u64> {
    let lines = list.lines().skip(1);
    lines
        .filter_map(|line| line.split_whitespace().nth(6)?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inodes_are_those_of_the_list() {
        let list = "Num RefCount Protocol Flags Type St Inode Path\n\
            ffff0001: 00000002 00000000 00010000 0005 01 20531 /run/carrick/socket\n\
            ffff0002: 00000003 00000000 00000000 0005 03 20532\n";
        assert_eq!(inodes(list), BTreeSet::from([20_531, 20_532]));
    }
}
