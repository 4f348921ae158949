//! Closing of the files that programs pass to the daemon, outside the task.
//!
//! Closing the last reference to a file may take any time: a TCP socket with `SO_LINGER` waits for its peer, a file of
//! FUSE for its server, and a Unix socket for the files in its unread messages. The task itself therefore closes only
//! what it has opened. Everything else is closed by a thread for each user, whose requests wait while the thread has
//! too much to do. Messages on pairs cannot pass files (`SO_PASSRIGHTS`, Linux 6.16); on older systems those are
//! received with the message, and the pair is closed by the thread as well.

use std::collections::BTreeMap;
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::pair::{can_forbid_files, pass_files};

/// Pending connections of the control socket.
pub(crate) const BACKLOG: i32 = 128;

/// Files of a user that wait to be closed, or are being closed, from which on its requests wait.
const MAX_WAITING: usize = 64;
/// Limit of threads that close files.
const MAX_THREADS: usize = 128;
/// Time after which a thread without work ends.
const IDLE: Duration = Duration::from_secs(10);

/// File that counts until it is closed.
struct CountedFile {
    number: RawFd,
    user: u32,
    count: Arc<AtomicUsize>,
    relieved: mpsc::UnboundedSender<u32>,
}

impl Drop for CountedFile {
    fn drop(&mut self) {
        // The daemon owns it. An error of a file is that of its program.
        let _ = nix::unistd::close(self.number);
        if self.count.fetch_sub(1, Ordering::AcqRel) == MAX_WAITING {
            // The task has ended without its receiver.
            let _ = self.relieved.send(self.user);
        }
    }
}

/// Thread of a user.
#[derive(Debug)]
struct UserThread {
    files: Sender<CountedFile>,
    /// The queue, while no thread takes from it.
    unserved: Option<Receiver<CountedFile>>,
    count: Arc<AtomicUsize>,
}

/// Threads that close files, one for each user that has any.
#[derive(Debug)]
pub(crate) struct Closers {
    control: Arc<OwnedFd>,
    users: BTreeMap<u32, UserThread>,
    running: Arc<AtomicUsize>,
    /// Users whose requests are served again.
    relieved: (mpsc::UnboundedSender<u32>, mpsc::UnboundedReceiver<u32>),
    /// Messages on pairs may have files attached: the system cannot forbid it.
    pairs_pass_files: bool,
    /// While a user has too many files to close, programs cannot attach files before their connection is accepted:
    /// the number of connections that may have been opened before that.
    restricted: Option<usize>,
}

impl Closers {
    pub(crate) fn new(control: Arc<OwnedFd>) -> Self {
        Self {
            pairs_pass_files: !can_forbid_files(&control),
            control,
            users: BTreeMap::new(),
            running: Arc::default(),
            relieved: mpsc::unbounded_channel(),
            restricted: None,
        }
    }

    /// Returns whether messages on pairs may have files attached.
    pub(crate) fn pairs_pass_files(&self) -> bool {
        self.pairs_pass_files
    }

    /// Returns the number of files of a user that are not closed yet.
    pub(crate) fn count(&self, user: u32) -> usize {
        let found = self.users.get(&user);
        found.map_or(0, |user| user.count.load(Ordering::Acquire))
    }

    /// Returns whether the requests of a user have to wait.
    pub(crate) fn is_behind(&self, user: u32) -> bool {
        self.count(user) >= MAX_WAITING
    }

    /// Closes files of a user in its thread.
    pub(crate) fn close(&mut self, user: u32, files: impl IntoIterator<Item = impl IntoRawFd>) {
        if self.users.len() > MAX_THREADS {
            self.users
                .retain(|_, user| user.count.load(Ordering::Acquire) > 0);
        }
        let thread = self.users.entry(user).or_insert_with(|| {
            let (files, unserved) = channel();
            UserThread {
                files,
                unserved: Some(unserved),
                count: Arc::default(),
            }
        });
        for file in files {
            thread.count.fetch_add(1, Ordering::AcqRel);
            let mut file = CountedFile {
                number: file.into_raw_fd(),
                user,
                count: thread.count.clone(),
                relieved: self.relieved.0.clone(),
            };
            // The thread has ended for want of work.
            while let Err(unsent) = thread.files.send(file) {
                let (files, unserved) = channel();
                (thread.files, thread.unserved) = (files, Some(unserved));
                file = unsent.0;
            }
        }
        start(user, thread, &self.running, &self.relieved.0);
        self.restrict();
    }

    /// Closes the daemon's end of a pair of a user.
    pub(crate) fn close_pair(&mut self, user: u32, ours: OwnedFd) {
        if self.pairs_pass_files {
            self.close(user, [ours]);
        }
    }

    /// Returns the next user whose requests need not wait any more.
    pub(crate) fn poll_relieved(&mut self, cx: &mut Context<'_>) -> Poll<u32> {
        while let Poll::Ready(Some(relieved)) = self.relieved.1.poll_recv(cx) {
            // There may be room for the threads of other users, too.
            for (user, thread) in &mut self.users {
                start(*user, thread, &self.running, &self.relieved.0);
            }
            self.restrict();
            if !self.is_behind(relieved) {
                return Poll::Ready(relieved);
            }
        }
        Poll::Pending
    }

    /// Returns the number of files that are not closed yet.
    pub(crate) fn total(&self) -> usize {
        let users = self.users.values();
        users.map(|user| user.count.load(Ordering::Acquire)).sum()
    }

    /// Sets whether messages to connections that are not accepted yet may have files attached: while a user has too
    /// many files to close, each connection could add others.
    fn restrict(&mut self) {
        if self.pairs_pass_files {
            return;
        }
        let count = |user: &UserThread| user.count.load(Ordering::Acquire);
        let is_behind = self.users.values().any(|user| count(user) >= MAX_WAITING);
        if is_behind != self.restricted.is_some() {
            pass_files(&self.control, !is_behind);
            self.restricted = is_behind.then_some(BACKLOG as usize + 1);
        }
    }

    /// Allows files in the messages of a connection that was accepted.
    pub(crate) fn admit(&mut self, connection: &OwnedFd) {
        if let Some(older) = &mut self.restricted {
            *older = older.saturating_sub(1);
            pass_files(connection, true);
        }
    }

    /// Closes a connection that is refused.
    pub(crate) fn refuse(&mut self, user: u32, connection: OwnedFd) {
        match &mut self.restricted {
            Some(0) => drop(connection),
            older => {
                if let Some(older) = older {
                    *older -= 1;
                }
                self.close(user, [connection]);
            }
        }
    }
}

/// Starts the thread of a user, unless it runs or there is no room for it.
fn start(
    number: u32,
    user: &mut UserThread,
    running: &Arc<AtomicUsize>,
    ended: &mpsc::UnboundedSender<u32>,
) {
    let Some(files) = user.unserved.take() else {
        return;
    };
    let (give, take) = channel();
    let (count, ended) = (running.clone(), ended.clone());
    let run = move || {
        if let Ok(files) = take.recv() {
            close_all(&files);
        }
        count.fetch_sub(1, Ordering::AcqRel);
        // There is room for another thread, unless the task has ended.
        let _ = ended.send(number);
    };
    let builder = thread::Builder::new().name("close".into());
    let has_room = running.fetch_add(1, Ordering::AcqRel) < MAX_THREADS;
    if has_room && builder.stack_size(64 << 10).spawn(run).is_ok() {
        // The thread waits for it.
        let _ = give.send(files);
    } else {
        running.fetch_sub(1, Ordering::AcqRel);
        user.unserved = Some(files);
    }
}

/// Closes files until none has come for a while.
fn close_all(files: &Receiver<CountedFile>) {
    loop {
        match files.recv_timeout(IDLE) {
            Ok(file) => drop(file),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
    }
}
