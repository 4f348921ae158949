//! Descriptors whose association has ended, until the program closes them.
//!
//! After the end of an association the daemon's end of the pair is shut down in both directions, or
//! closed, so that the program's end reports the hang-up. An end that is shut down has an event when the program closes
//! the other one, but also others, and one that is closed has none. An epoll instance has the programs' ends, without
//! keeping them open: it reports the hang-up of those that are open, and has lost those that are closed. It is read
//! after events, from time to time, and before a program is refused a socket.

use std::collections::BTreeSet;
use std::time::Duration;

use carrick_proto::Time;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use crate::descriptor::Descriptor;
use crate::driver::Driver;
use crate::poller::{EVENTS, Token};

/// Limit of descriptors that are closed for one request.
const AT_ONCE: usize = 64;
/// Interval between checks.
const INTERVAL: Duration = Duration::from_secs(2);
/// Time after an event, since others follow where associations are short.
const SOON: Duration = Duration::from_millis(100);

impl Driver {
    /// Schedules the next check for closed descriptors, if any has ended.
    pub(crate) fn schedule_check(&mut self, now: Time) {
        if self.next_check.is_none() && !(self.ended.is_empty() && self.departed.is_empty()) {
            self.next_check = Some(now + INTERVAL);
        }
    }

    /// Schedules a check after an event of a descriptor that has ended.
    pub(crate) fn note_ended(&mut self, now: Time) {
        self.ended_changed = true;
        let soon = now + SOON;
        self.next_check = Some(self.next_check.map_or(soon, |at| at.min(soon)));
    }

    /// Closes the sockets of descriptors that the programs of a user have closed before this request, until the user may
    /// have another one.
    pub(crate) fn close_ended(&mut self, now: Time, uid: u32) {
        self.read_all_events(now);
        let closed = self.descriptors.iter();
        let closed = closed.filter(|(_, d)| d.is_closed() && !d.is_ended() && d.uid() == uid);
        let closed: Vec<Token> = closed.take(AT_ONCE).map(|(token, _)| *token).collect();
        for token in closed {
            self.serve(now, token);
        }
        if self.ended_changed {
            self.check_ended(now);
        }
    }

    /// Closes the sockets of this port whose descriptors programs have closed, before the turn that would.
    ///
    /// The system reports the end of a pair no later than a request that follows it, but not after the end
    /// of the association. Messages of a descriptor that is in use by the caller remain unread.
    pub(crate) fn close_closed(&mut self, now: Time, port: u16) {
        self.read_all_events(now);
        let has_port = |descriptor: &Descriptor| {
            let local = self.sockets.local_address(descriptor.socket());
            local.is_ok_and(|address| address.port() == port)
        };
        let closed = self.descriptors.iter();
        let closed = closed.filter(|(_, d)| d.is_closed() && !d.is_ended() && has_port(d));
        let closed: Vec<Token> = closed.map(|(token, _)| *token).collect();
        let ended = self.ended.iter();
        let has_ended = ended
            .filter_map(|token| self.descriptors.get(token))
            .any(has_port);
        for token in closed {
            self.serve(now, token);
        }
        if has_ended {
            self.check_ended(now);
        }
    }

    /// Reads the events that the system has.
    fn read_all_events(&mut self, now: Time) {
        let mut events = Vec::with_capacity(EVENTS);
        // Each file has one event at most, unless further ones come meanwhile.
        for _ in 0..=self.users.program_files() / EVENTS {
            if !self.poller.read(&mut events) {
                break;
            }
            self.handle_events(now, &mut events);
        }
    }

    /// Removes the descriptors that programs have closed after the end of their association.
    pub(crate) fn check_ended(&mut self, now: Time) {
        self.next_check = None;
        self.ended_changed = false;
        if let Some(open) = self.open_ends() {
            for token in self.ended.clone() {
                let is_open = |descriptor: &Descriptor| open.contains(&descriptor.cookie());
                if self.descriptors.get(&token).is_none_or(is_open) {
                    continue;
                }
                if let Some(descriptor) = self.descriptors.remove(&token) {
                    // A socket that the daemon has broken off is closed already.
                    let _ = self.sockets.close(now, descriptor.socket());
                    self.forget(now, token, descriptor);
                }
            }
            self.count_departed(&open);
        }
        self.schedule_check(now);
    }

    /// Returns the cookies of the programs' ends that are open and have hung up; `None` if the system does not report them.
    fn open_ends(&self) -> Option<BTreeSet<u64>> {
        let mut room = self.descriptors.len() + self.departed.len() + EVENTS;
        loop {
            let mut open: Vec<epoll::Event> = Vec::with_capacity(room);
            let at_once = Timespec::default();
            epoll::wait(&self.open_ends, spare_capacity(&mut open), Some(&at_once)).ok()?;
            if open.len() < room {
                return Some(open.iter().map(|event| event.data.u64()).collect());
            }
            room *= 2;
        }
    }

    /// Counts the ends among those that descriptors have left which programs keep open as descriptors of their users.
    fn count_departed(&mut self, open: &BTreeSet<u64>) {
        self.departed.retain(|cookie, _| open.contains(cookie));
        self.users.count_departed(self.departed.values().copied());
    }
}
