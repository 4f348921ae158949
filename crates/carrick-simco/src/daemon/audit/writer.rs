//! The thread that writes the log: a disk that hangs, or a pipe that nobody reads, holds up no
//! agent and no heartbeat.
//!
//! What can't be written waits, up to [`MOST_WAITING`] octets, and is tried again. Each file has a
//! thread of its own, so that one that hangs doesn't hold up the file that takes its place.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use crate::daemon::DaemonError;
use crate::private;

/// Octets that wait to be written at most, or are being written.
pub(super) const MOST_WAITING: usize = 1 << 20;

/// Octets that are written at a time.
const PORTION: usize = 1 << 16;

/// How long after a failure the next attempt is.
const PAUSE: Duration = Duration::from_secs(1);

/// How long after it was full a pipe is tried again, and how often that is no failure.
const FULL: (Duration, u32) = (Duration::from_millis(20), 50);

/// A file that is open to be appended to.
#[derive(Debug)]
pub(in crate::daemon) struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// Opens it; `None` for none.
    pub(in crate::daemon) fn open(path: Option<&Path>) -> Result<Option<Self>, DaemonError> {
        let Some(path) = path else {
            return Ok(None);
        };
        let mut options = private::options();
        options.create(true).append(true);
        // Of a pipe neither opening nor writing may wait for whoever reads.
        #[cfg(target_os = "linux")]
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            &mut options,
            nix::fcntl::OFlag::O_NONBLOCK.bits(),
        );
        match options.open(path) {
            Ok(file) => Ok(Some(Self {
                path: path.to_owned(),
                file,
            })),
            #[cfg(target_os = "linux")]
            Err(error) if error.raw_os_error() == Some(nix::errno::Errno::ENXIO as i32) => {
                let why = "it is a pipe that nobody reads";
                Err(failure(path, io::Error::other(why)))
            }
            Err(source) => Err(failure(path, source)),
        }
    }
}

fn failure(path: &Path, source: io::Error) -> DaemonError {
    DaemonError::Audit {
        path: path.display().to_string(),
        source,
    }
}

#[derive(Debug, Default)]
struct Queue {
    /// What waits.
    lines: Vec<u8>,
    /// Octets that a thread has taken, and the turn of that.
    writing: usize,
    taken_by: u64,
    /// Which thread writes; 0 for none.
    turn: u64,
    /// No log is wanted.
    off: bool,
    /// No more comes: what is there is tried once.
    closed: bool,
    /// The thread has done that.
    ended: bool,
    failures: u64,
    /// Lines that could not be written at the end.
    lost: u64,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    ended: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the thread of this turn is to write next; `None` if that is over.
    fn next(&self, turn: u64) -> Option<Vec<u8>> {
        let idle =
            |queue: &mut Queue| queue.turn == turn && queue.lines.is_empty() && !queue.closed;
        let mut queue = self
            .changed
            .wait_while(self.lock(), idle)
            .unwrap_or_else(PoisonError::into_inner);
        if queue.turn != turn {
            return None;
        }
        if queue.lines.is_empty() {
            self.end(queue);
            return None;
        }
        // Whole lines, as far as there are any.
        let most = &queue.lines[..queue.lines.len().min(PORTION)];
        let line_end = most.iter().rposition(|octet| *octet == b'\n');
        let length = line_end.map_or(most.len(), |at| at + 1);
        let portion: Vec<u8> = queue.lines.drain(..length).collect();
        queue.writing = portion.len();
        queue.taken_by = turn;
        Some(portion)
    }

    /// What the thread before has taken is written first, unless that hangs.
    fn wait_for_the_last(&self) {
        let writes = |queue: &mut Queue| queue.writing > 0;
        let waited = self.changed.wait_timeout_while(self.lock(), PAUSE, writes);
        waited.unwrap_or_else(PoisonError::into_inner).0.writing = 0;
    }

    /// What is left of a portion goes to the front again.
    fn put_back(&self, turn: u64, rest: &[u8]) {
        let mut queue = self.lock();
        if queue.taken_by == turn {
            queue.writing = 0;
        }
        if !queue.off {
            queue.lines.splice(..0, rest.iter().copied());
        }
        drop(queue);
        self.changed.notify_all();
    }

    /// Waits, unless another thread has the turn or, if `unless_closed`, no more comes.
    fn pause(&self, turn: u64, time: Duration, unless_closed: bool) {
        let waits = |queue: &mut Queue| queue.turn == turn && !(unless_closed && queue.closed);
        // How it ended is seen in what is done next.
        let _ = self.changed.wait_timeout_while(self.lock(), time, waits);
    }

    /// An attempt failed. Returns whether there is another.
    fn failed(&self, turn: u64) -> bool {
        let mut queue = self.lock();
        queue.failures += 1;
        if queue.turn == turn && queue.closed {
            let lines = queue.lines.split_inclusive(|octet| *octet == b'\n').count();
            queue.lost += lines as u64;
            self.end(queue);
            return false;
        }
        true
    }

    fn end(&self, mut queue: MutexGuard<'_, Queue>) {
        queue.ended = true;
        drop(queue);
        self.ended.notify_waiters();
    }
}

/// Gives lines to the thread.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    troubles: mpsc::Sender<DaemonError>,
}

impl Writer {
    /// Writes nowhere yet; what goes wrong goes to `troubles`.
    pub(super) fn new(troubles: mpsc::Sender<DaemonError>) -> Self {
        Self {
            shared: Arc::default(),
            troubles,
        }
    }

    /// Writes to another file from now on, or to none. What waits goes there.
    pub(super) fn replace(&self, with: Option<LogFile>) -> Result<(), DaemonError> {
        let mut queue = self.shared.lock();
        let turn = queue.turn + 1;
        let off = with.is_none();
        if let Some(LogFile { path, file }) = with {
            let shared = Arc::clone(&self.shared);
            let troubles = self.troubles.clone();
            let place = path.clone();
            std::thread::Builder::new()
                .name("audit log".into())
                .spawn(move || write_all(&shared, turn, &place, file, &troubles))
                .map_err(|source| failure(&path, source))?;
        } else {
            queue.lines.clear();
        }
        queue.off = off;
        queue.turn = turn;
        drop(queue);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Takes whole lines. Returns how many found no room.
    pub(super) fn take(&self, lines: &[u8]) -> u64 {
        let mut queue = self.shared.lock();
        if queue.off {
            return 0;
        }
        let mut lost = 0;
        for line in lines.split_inclusive(|octet| *octet == b'\n') {
            if queue.lines.len() + queue.writing + line.len() > MOST_WAITING {
                lost += 1;
            } else {
                queue.lines.extend_from_slice(line);
            }
        }
        drop(queue);
        self.shared.changed.notify_all();
        lost
    }

    /// Whether all that it took is written.
    pub(super) fn is_idle(&self) -> bool {
        let queue = self.shared.lock();
        queue.lines.is_empty() && queue.writing == 0
    }

    /// Attempts that failed, and lines that were given up at the end.
    pub(super) fn counts(&self) -> (u64, u64) {
        let queue = self.shared.lock();
        (queue.failures, queue.lost)
    }

    fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }

    /// Waits until all is written, or was tried for the last time.
    pub(super) async fn finish(&self) {
        self.close();
        let mut ended = pin!(self.shared.ended.notified());
        ended.as_mut().enable();
        let over = {
            let queue = self.shared.lock();
            queue.ended || queue.off
        };
        if !over {
            ended.await;
        }
    }
}

impl Drop for Writer {
    /// The thread writes what is there, and ends.
    fn drop(&mut self) {
        self.close();
    }
}

/// Writes what comes, as long as it has the turn.
fn write_all(
    shared: &Shared,
    turn: u64,
    path: &Path,
    mut file: File,
    troubles: &mpsc::Sender<DaemonError>,
) {
    shared.wait_for_the_last();
    let (mut failing, mut full) = (false, 0);
    while let Some(portion) = shared.next(turn) {
        let (written, outcome) = write(&mut file, &portion);
        shared.put_back(turn, portion.get(written..).unwrap_or_default());
        if written > 0 {
            full = 0;
        }
        let Err(source) = outcome else {
            failing = false;
            continue;
        };
        if source.kind() == ErrorKind::WouldBlock && full < FULL.1 {
            full += 1;
            shared.pause(turn, FULL.0, false);
            continue;
        }
        if !failing {
            // Nobody needs to listen, and one is told of each kind.
            let _ = troubles.try_send(failure(path, source));
        }
        failing = true;
        if !shared.failed(turn) {
            return;
        }
        shared.pause(turn, PAUSE, true);
    }
}

/// Writes as much as it can; returns how much that was.
fn write(file: &mut File, octets: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    loop {
        let rest = octets.get(written..).unwrap_or_default();
        if rest.is_empty() {
            return (written, Ok(()));
        }
        match file.write(rest) {
            Ok(0) => return (written, Err(ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
}
