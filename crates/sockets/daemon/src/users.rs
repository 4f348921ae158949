//! Users of the daemon: their clients and descriptors with the limits of these, the files that are closed for them, and
//! the lines of the log that their programs cause.

use std::collections::BTreeMap;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::time::Duration;

use carrick_ipc::MAX_ATTACHED;
use carrick_metrics::{AcceptFailures, LineRate, LogLimits};
use carrick_proto::{Time, portable_struct};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::closing::Closers;
use crate::config::Limits;

/// File descriptors that are left to captures, requests and the network, besides those of a message with as many as
/// possible attached, or a 32nd of the limit.
const RESERVE: usize = 6;
/// Limit of the lines that programs of one user cause.
const PER_USER: LineRate = LineRate {
    burst: 20,
    interval: Duration::from_secs(10),
};
/// Limit of the lines that programs cause.
const PROGRAMS: LineRate = LineRate {
    burst: 200,
    interval: Duration::from_secs(1),
};

/// Owner of a client, descriptor or lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    /// User whose limits apply.
    pub(crate) uid: u32,
    /// Process id of the process that opened it.
    pub(crate) process: i32,
}

portable_struct! { Owner { uid, process } }

/// Resources of a user.
#[derive(Clone, Copy, Default, Debug)]
struct UserResources {
    clients: usize,
    /// Descriptors and leases.
    descriptors: usize,
    /// Programs' ends that are open without a descriptor.
    departed: usize,
}

/// All users.
#[derive(Debug)]
pub(crate) struct Users {
    limits: Limits,
    by_user: BTreeMap<u32, UserResources>,
    /// Callers that wait for a set-up, whose pairs take file descriptors.
    setups: usize,
    /// Number of open files besides those of programs.
    own_files: usize,
    closers: Closers,
    /// Lack of file descriptors.
    failures: AcceptFailures,
    log: fn(&str),
    lines: LogLimits<u32>,
}

/// Returns the number of open files of this process.
fn open_files() -> usize {
    // Where /proc is not mounted, those of a daemon with a few addresses.
    std::fs::read_dir("/proc/self/fd").map_or(32, Iterator::count)
}

fn within(is_within: bool) -> rustix::io::Result<()> {
    is_within.then_some(()).ok_or(Errno::MFILE)
}

impl Users {
    pub(crate) fn new(limits: Limits, log: fn(&str), closers: Closers) -> Self {
        Self {
            limits,
            by_user: BTreeMap::new(),
            setups: 0,
            own_files: open_files(),
            closers,
            failures: AcceptFailures::default(),
            log,
            lines: LogLimits::new(PER_USER).with_total(PROGRAMS),
        }
    }

    fn resources(&self, uid: u32) -> UserResources {
        self.by_user.get(&uid).copied().unwrap_or_default()
    }

    /// Checks that a user may have another connection.
    pub(crate) fn check_clients(&self, uid: u32) -> rustix::io::Result<()> {
        within(self.resources(uid).clients < self.limits.clients)?;
        self.check_share(uid)
    }

    /// Checks that a user may have another descriptor.
    pub(crate) fn check_descriptors(&self, uid: u32) -> rustix::io::Result<()> {
        let usage = self.resources(uid);
        within(usage.descriptors + usage.departed < self.limits.descriptors)?;
        self.check_share(uid)
    }

    /// Checks that a user may replace the pair of a descriptor: programs may keep the old one open.
    pub(crate) fn check_departed(&self, uid: u32) -> rustix::io::Result<()> {
        within(self.resources(uid).departed < self.limits.descriptors)
    }

    /// Checks that a user may wait for another set-up. All waiting callers share as one user.
    pub(crate) fn check_setups(&self, uid: u32) -> rustix::io::Result<()> {
        self.check_share(uid)?;
        within(self.setups < self.free_files())
    }

    /// Checks that a user may have another descriptor or connection: as many as the process has left for all
    /// users, so that a single user takes half of them and n users 1/(n+1) each, as with received data.
    fn check_share(&self, uid: u32) -> rustix::io::Result<()> {
        let usage = self.resources(uid);
        let files = usage.clients + usage.descriptors + self.closers.count(uid);
        within(files < self.free_files())
    }

    /// Returns the number of file descriptors that are left for all users.
    pub(crate) fn free_files(&self) -> usize {
        let limit = getrlimit(Resource::Nofile).current;
        let limit = limit.map_or(usize::MAX, |limit| limit as usize);
        let reserve = RESERVE + MAX_ATTACHED.min(limit / 32);
        let files = self.own_files + self.program_files() + self.closers.total();
        limit.saturating_sub(reserve + files)
    }

    /// Returns the number of file descriptors that programs take.
    pub(crate) fn program_files(&self) -> usize {
        let users = self.by_user.values();
        let files: usize = users.map(|user| user.clients + user.descriptors).sum();
        files + self.setups
    }

    /// Counts the open files again, after those of a predecessor's programs have become this daemon's, or sockets of
    /// the network were closed.
    pub(crate) fn count_files(&mut self) {
        self.own_files = open_files().saturating_sub(self.program_files());
    }

    /// Counts a connection.
    pub(crate) fn add_client(&mut self, uid: u32) {
        self.by_user.entry(uid).or_default().clients += 1;
    }

    /// Counts the end of a connection.
    pub(crate) fn remove_client(&mut self, uid: u32) {
        if let Some(usage) = self.by_user.get_mut(&uid) {
            usage.clients -= 1;
        }
    }

    /// Counts a descriptor or lease.
    pub(crate) fn add_descriptor(&mut self, uid: u32) {
        self.by_user.entry(uid).or_default().descriptors += 1;
    }

    /// Counts the end of a descriptor or lease.
    pub(crate) fn remove_descriptor(&mut self, uid: u32) {
        if let Some(usage) = self.by_user.get_mut(&uid) {
            usage.descriptors -= 1;
        }
    }

    /// Counts a caller that waits for a set-up.
    pub(crate) fn add_setup(&mut self) {
        self.setups += 1;
    }

    /// Counts the end of the wait of a caller.
    pub(crate) fn remove_setup(&mut self) {
        self.setups -= 1;
    }

    /// Counts the ends that programs keep open without a descriptor, one for each element with its user.
    pub(crate) fn count_departed(&mut self, departed: impl Iterator<Item = u32>) {
        for usage in self.by_user.values_mut() {
            usage.departed = 0;
        }
        for uid in departed {
            if let Some(usage) = self.by_user.get_mut(&uid) {
                usage.departed += 1;
            }
        }
    }

    /// Returns the numbers of users at their limit of descriptors, and at that of connections.
    pub(crate) fn at_limits(&self) -> (usize, usize) {
        let limits = self.limits;
        let count = |is_at: fn(&UserResources, &Limits) -> bool| {
            let users = self.by_user.values();
            users.filter(|user| is_at(user, &limits)).count()
        };
        (
            count(|user, limits| user.descriptors >= limits.descriptors),
            count(|user, limits| user.clients >= limits.clients),
        )
    }

    /// Returns what closes the files of users.
    pub(crate) fn closers(&mut self) -> &mut Closers {
        &mut self.closers
    }

    /// Closes files of a user outside the task.
    pub(crate) fn close_files(
        &mut self,
        uid: u32,
        files: impl IntoIterator<Item = impl IntoRawFd>,
    ) {
        self.closers.close(uid, files);
    }

    /// Closes the daemon's end of a pair of a user.
    pub(crate) fn close_pair(&mut self, uid: u32, ours: OwnedFd) {
        self.closers.close_pair(uid, ours);
    }

    /// Returns whether the requests of a user have to wait until its files are closed.
    pub(crate) fn is_behind(&self, uid: u32) -> bool {
        self.closers.is_behind(uid)
    }

    /// Returns the failures for lack of file descriptors.
    pub(crate) fn failures(&self) -> &AcceptFailures {
        &self.failures
    }

    /// Counts a lack of file descriptors, and logs it at most once in 60 s.
    pub(crate) fn record_failure(&self, failed: &str, error: Errno) {
        let now = tokio::time::Instant::now();
        if let Some(report) = self.failures.record(now, failed, &error.into()) {
            (self.log)(&report);
        }
    }

    /// Logs a line that a program of a user has caused, or counts it.
    pub(crate) fn log_line(&mut self, now: Time, uid: u32, line: impl FnOnce() -> String) {
        if self.lines.admit(now.since(Time::ZERO), &uid) {
            (self.log)(&line());
        }
    }

    /// Logs how many lines were suppressed, if it is due.
    pub(crate) fn report_suppressed(&mut self, now: Time) {
        for suppressed in self.lines.take_due(now.since(Time::ZERO)) {
            let user = suppressed.source.map(|uid| format!("user {uid}"));
            (self.log)(&format!(
                "{} lines about programs of {} suppressed",
                suppressed.lines,
                user.as_deref().unwrap_or("further users")
            ));
        }
    }

    /// Returns the time at which suppressed lines are reported.
    pub(crate) fn next_report(&self) -> Option<Time> {
        self.lines.next_report().map(|at| Time::ZERO + at)
    }

    /// Returns the number of lines that were suppressed since the start.
    pub(crate) fn suppressed(&self) -> u64 {
        self.lines.suppressed()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::pair::open_pair;

    pub(crate) fn users() -> Users {
        let limits = Limits {
            clients: 1,
            descriptors: 2,
        };
        let (control, _) = open_pair().unwrap();
        Users::new(limits, |_| (), Closers::new(Arc::new(control)))
    }

    #[test]
    fn ends_without_a_descriptor_count() {
        let mut users = users();
        users.add_descriptor(7);
        assert_eq!(users.check_descriptors(7), Ok(()));
        users.count_departed([7, 8].into_iter());
        assert_eq!(users.check_descriptors(7), Err(Errno::MFILE));
        users.count_departed([7, 7].into_iter());
        assert_eq!(users.check_departed(7), Err(Errno::MFILE));
        users.count_departed([].into_iter());
        assert_eq!(users.check_descriptors(7), Ok(()));
    }

    #[test]
    fn files_of_programs_are_counted_by_kind() {
        let mut users = users();
        users.add_client(7);
        users.add_descriptor(7);
        users.add_descriptor(8);
        users.add_setup();
        assert_eq!((users.program_files(), users.at_limits()), (4, (0, 1)));
        assert_eq!(users.check_clients(7), Err(Errno::MFILE));
        users.remove_client(7);
        users.remove_setup();
        assert_eq!((users.program_files(), users.at_limits()), (2, (0, 0)));
    }
}
