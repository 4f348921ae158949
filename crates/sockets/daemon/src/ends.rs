//! Programs' ends of pairs, as far as the system shows whether they are open.
//!
//! After the end of an association the daemon's end of the pair is shut down in both directions, or
//! closed, so that the program's end reports the hang-up. An end that is shut down has an event when the program closes
//! the other one, but also others, and one that is closed has none. An epoll instance has the programs' ends, without
//! keeping them open: it reports the hang-up of those that are open, and has lost those that are closed. It is read
//! after events, from time to time, and before a program is refused a socket.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use carrick_proto::Time;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::net::sockopt;

use crate::poller::EVENTS;

/// Interval between checks.
const INTERVAL: Duration = Duration::from_secs(2);
/// Time after an event, since others follow where associations are short.
const SOON: Duration = Duration::from_millis(100);

/// Programs' ends of all pairs, by their cookies.
#[derive(Debug)]
pub(crate) struct ProgramEnds {
    /// An epoll instance with those that are open.
    open: OwnedFd,
    /// Users of ends without a descriptor, until the next check, or as long as they are open: the program has shut the
    /// pair down by itself, or the daemon has replaced it.
    departed: BTreeMap<u64, u32>,
    /// Programs may have closed some of them since they were checked.
    has_changed: bool,
    next_check: Option<Time>,
}

impl ProgramEnds {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        Ok(Self::adopt(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Continues the ends of a predecessor.
    pub(crate) fn adopt(open: OwnedFd) -> Self {
        Self {
            open,
            departed: BTreeMap::new(),
            has_changed: false,
            next_check: None,
        }
    }

    /// Returns the epoll instance, for a successor.
    pub(crate) fn instance(&self) -> &OwnedFd {
        &self.open
    }

    /// Adds an end, until it is closed.
    pub(crate) fn watch(&self, theirs: impl AsFd) -> rustix::io::Result<()> {
        // The end reports a hang-up without being asked for.
        let data = epoll::EventData::new_u64(sockopt::socket_cookie(&theirs)?);
        epoll::add(&self.open, theirs, data, epoll::EventFlags::empty())
    }

    /// Records that the descriptor of an end is gone.
    pub(crate) fn depart(&mut self, now: Time, cookie: u64, uid: u32) {
        self.departed.insert(cookie, uid);
        self.schedule(now);
    }

    /// Schedules the next check.
    pub(crate) fn schedule(&mut self, now: Time) {
        self.next_check.get_or_insert(now + INTERVAL);
    }

    /// Schedules a check after an event of a descriptor that has ended.
    pub(crate) fn note_event(&mut self, now: Time) {
        self.has_changed = true;
        let soon = now + SOON;
        self.next_check = Some(self.next_check.map_or(soon, |at| at.min(soon)));
    }

    /// Returns whether programs may have closed ends since the last check.
    pub(crate) fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Returns whether a check is due.
    pub(crate) fn is_check_due(&self, now: Time) -> bool {
        self.next_check.is_some_and(|at| at <= now)
    }

    pub(crate) fn next_check(&self) -> Option<Time> {
        self.next_check
    }

    /// Starts a check. Returns the cookies of the ends that are open and have hung up, of which some number is
    /// `expected`; `None` if the system does not report them.
    pub(crate) fn check(&mut self, expected: usize) -> Option<BTreeSet<u64>> {
        self.next_check = None;
        self.has_changed = false;
        let mut room = expected + self.departed.len() + EVENTS;
        loop {
            let mut open: Vec<epoll::Event> = Vec::with_capacity(room);
            let space = spare_capacity(&mut open);
            epoll::wait(&self.open, space, Some(&Timespec::default())).ok()?;
            if open.len() < room {
                return Some(open.iter().map(|event| event.data.u64()).collect());
            }
            room *= 2;
        }
    }

    /// Removes the ends without a descriptor that are not open any more. Returns the users of the remaining ones.
    pub(crate) fn retain_departed(&mut self, open: &BTreeSet<u64>) -> impl Iterator<Item = u32> {
        self.departed.retain(|cookie, _| open.contains(cookie));
        self.departed.values().copied()
    }

    /// Returns whether a program may have an end open without a descriptor.
    pub(crate) fn has_departed(&self) -> bool {
        !self.departed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{Shutdown, shutdown};

    use super::*;
    use crate::pair::open_pair;

    #[test]
    fn ends_that_programs_closed_are_not_open() {
        let mut ends = ProgramEnds::new().unwrap();
        let pairs = [open_pair().unwrap(), open_pair().unwrap()];
        let cookies = [&pairs[0], &pairs[1]].map(|(ours, theirs)| {
            ends.watch(theirs).unwrap();
            shutdown(ours, Shutdown::Both).unwrap();
            sockopt::socket_cookie(theirs).unwrap()
        });
        assert_eq!(ends.check(0), Some(cookies.into()));
        let [kept, (_, closed)] = pairs;
        drop(closed);
        ends.depart(Time::ZERO, cookies[0], 7);
        ends.depart(Time::ZERO, cookies[1], 8);
        let open = ends.check(0).unwrap();
        assert_eq!(open, [cookies[0]].into());
        assert_eq!(ends.retain_departed(&open).collect::<Vec<_>>(), [7]);
        drop(kept);
        assert_eq!(ends.check(0), Some(BTreeSet::new()));
    }
}
