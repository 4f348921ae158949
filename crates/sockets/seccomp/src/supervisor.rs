//! Supervisor of a program: threads that receive notifications, and the end of the program.

use std::ffi::c_int;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use carrick_client::proxy::{KnownSockets, use_daemon};
use nix::errno::Errno as WaitError;
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::calls::CallOutcome;
use crate::filter::filter;
use crate::kernel::{self, Listener, Notification, Unsupported};
use crate::memory::{Caller, can_duplicate, duplicate};
use crate::range::{self, NEEDED_LIMIT};
use crate::waiting::WaitingCalls;

/// Threads that receive notifications.
const RECEIVERS: usize = 2;

/// Supervisor of a program and its descendants. It lives as long as this process.
pub(crate) struct Supervisor {
    pub(crate) listener: Listener,
    pub(crate) known: KnownSockets,
    /// Last number of the second range that was used; held while a free number is searched and used.
    numbers: Mutex<u32>,
    waiting: WaitingCalls,
}

/// Program that was started under supervision.
#[derive(Debug)]
pub struct Supervised {
    program: Pid,
}

/// Starts a program under supervision. Its SCTP sockets are those of the daemon with this control socket. The program
/// is killed when this process ends, or the thread that called this function. Descendants of it become
/// children of this process when their parent ends.
///
/// # Errors
/// [`Unsupported`] as the source of an error of kind [`io::ErrorKind::Unsupported`]; others are those of
/// the start of a process. `EBUSY`: this process is supervised itself.
pub fn spawn(command: &mut Command, daemon: &Path) -> io::Result<Supervised> {
    let unsupported = |reason| io::Error::new(io::ErrorKind::Unsupported, reason);
    let filter = filter().ok_or_else(|| unsupported(Unsupported::Architecture))?;
    if !kernel::is_supported() {
        return Err(unsupported(Unsupported::Kernel));
    }
    if !can_duplicate() {
        return Err(unsupported(Unsupported::Descriptors));
    }
    allow_reserved_numbers().map_err(unsupported)?;
    use_daemon(daemon);
    nix::sys::prctl::set_child_subreaper(true)?;
    let waiting = WaitingCalls::new()?;
    let (child, listener) = kernel::spawn(command, filter)?;
    listener.prefer_wake_up();
    let supervisor: &'static Supervisor = Box::leak(Box::new(Supervisor {
        listener,
        known: KnownSockets::default(),
        numbers: Mutex::new(0),
        waiting,
    }));
    for _ in 0..RECEIVERS {
        thread::Builder::new()
            .name("supervisor".into())
            .spawn(move || supervisor.receive())?;
    }
    thread::Builder::new()
        .name("waiting calls".into())
        .spawn(move || supervisor.waiting.run(supervisor))?;
    Ok(Supervised {
        program: Pid::from_raw(child.id() as i32),
    })
}

/// Raises the limit of open files of this process, which the program inherits, to the reserved numbers.
fn allow_reserved_numbers() -> Result<(), Unsupported> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= NEEDED_LIMIT) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(NEEDED_LIMIT),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|_| Unsupported::OpenFiles)
}

impl Supervised {
    /// Returns the identifier of the program's process.
    pub fn id(&self) -> i32 {
        self.program.as_raw()
    }

    /// Waits until the program and all of its descendants have ended; `program_ended` gets the status of the program
    /// when it has. No other thread may wait for children of this process.
    ///
    /// # Errors
    /// That of `wait`.
    pub fn wait(self, mut program_ended: impl FnMut(ExitStatus)) -> io::Result<()> {
        loop {
            let status = match wait() {
                Ok(WaitStatus::Exited(process, code)) => Some((process, code << 8)),
                Ok(WaitStatus::Signaled(process, signal, _)) => Some((process, signal as i32)),
                Ok(_) | Err(WaitError::EINTR) => None,
                Err(WaitError::ECHILD) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            if let Some((process, status)) = status
                && process == self.program
            {
                program_ended(ExitStatus::from_raw(status));
            }
        }
    }
}

impl Supervisor {
    pub(crate) fn caller<'a>(&'a self, notification: &'a Notification) -> Caller<'a> {
        Caller {
            listener: &self.listener,
            notification,
        }
    }

    /// Receives notifications until the last supervised process has ended.
    fn receive(&'static self) {
        loop {
            match self.listener.receive() {
                Ok(notification) => {
                    let outcome = self.handle(&notification);
                    self.finish(notification, outcome);
                }
                Err(Errno::INTR) => {}
                Err(_) if self.has_ended() => return,
                Err(_) => {}
            }
        }
    }

    /// Replies to a notification, or parks its call.
    fn finish(&self, notification: Notification, outcome: CallOutcome) {
        match outcome {
            CallOutcome::Reply(reply) => self.listener.reply(&notification, reply),
            CallOutcome::Wait(call) => self.waiting.park(notification, call),
        }
    }

    fn has_ended(&self) -> bool {
        let mut listener = [PollFd::new(&self.listener, PollFlags::empty())];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let _ = poll(&mut listener, Some(&now));
        listener[0].revents().contains(PollFlags::HUP)
    }

    /// Adds a descriptor to the program at a free number of the reserved ones, not below `lowest`.
    ///
    /// # Errors
    /// As for [`Self::reserve`].
    pub(crate) fn add(
        &self,
        caller: &Caller<'_>,
        fd: impl AsFd,
        lowest: u32,
        close_on_exec: bool,
    ) -> Result<c_int, Errno> {
        self.reserve(caller, lowest)?.add(caller, fd, close_on_exec)
    }

    /// Finds a free number of the reserved ones, not below `lowest`, for a descriptor of the program. A call that takes
    /// something from a socket reserves the number first, so that nothing is lost without one.
    ///
    /// # Errors
    /// `EMFILE`: no number is free, or the program's limit is below it.
    pub(crate) fn reserve(
        &self,
        caller: &Caller<'_>,
        lowest: u32,
    ) -> Result<ReservedNumber<'_>, Errno> {
        let handle = caller.handle()?;
        // The kernel's own choice, the lowest free number, would be one that the filter does not know. So the number is
        // chosen here, and is free only as long as nothing else adds a descriptor at it.
        // No other call of the supervisor adds a descriptor at this number. The program itself only gets
        // a number of these where it has used all below.
        let mut held = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = |number: &u32| {
            *number >= lowest && matches!(duplicate(&handle, *number as i32), Err(Errno::BADF))
        };
        let free = range::behind(*held).find(is_free);
        let limit = caller.file_limit();
        let number = free.filter(|number| limit.is_none_or(|limit| u64::from(*number) < limit));
        let number = number.ok_or(Errno::MFILE)?;
        *held = number;
        Ok(ReservedNumber {
            listener: &self.listener,
            number,
            _held: held,
        })
    }
}

/// Number for a descriptor of the program. No other call gets one meanwhile.
pub(crate) struct ReservedNumber<'a> {
    listener: &'a Listener,
    number: u32,
    _held: MutexGuard<'a, u32>,
}

impl ReservedNumber<'_> {
    /// Adds a descriptor at the number.
    ///
    /// # Errors
    /// `EMFILE`: the program has lowered its limit meanwhile.
    pub(crate) fn add(
        self,
        caller: &Caller<'_>,
        fd: impl AsFd,
        close_on_exec: bool,
    ) -> Result<c_int, Errno> {
        let (notification, number) = (caller.notification, self.number);
        let added = self
            .listener
            .add(notification, fd.as_fd(), number, close_on_exec);
        match added {
            Err(Errno::BADF) => Err(Errno::MFILE),
            added => added,
        }
    }
}
