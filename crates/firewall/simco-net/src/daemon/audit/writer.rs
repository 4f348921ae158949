//! Thread that writes the audit log, so that a blocked disk or pipe delays no agent and no heartbeat.
//!
//! Lines that can't be written are buffered, up to [`MAX_BUFFERED`] octets, and retried. Each file has
//! its own thread, so that a blocked one does not delay its replacement.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use crate::daemon::DaemonError;
use carrick_simco::private_files;

/// Maximum number of octets buffered or being written.
pub(super) const MAX_BUFFERED: usize = 1 << 20;

/// Number of octets written at once.
const WRITE_SIZE: usize = 1 << 16;

/// Pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// Pause after a full pipe, and number of such pauses before it counts as a failure.
const PIPE_FULL: (Duration, u32) = (Duration::from_millis(20), 50);

/// File opened for appending.
#[derive(Debug)]
pub(in crate::daemon) struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// Opens a file; `None` for no log.
    pub(in crate::daemon) fn open(path: Option<&Path>) -> Result<Option<Self>, DaemonError> {
        let Some(path) = path else {
            return Ok(None);
        };
        let mut options = private_files::options();
        options.create(true).append(true);
        // Opening and writing a pipe must not wait for its reader.
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
                let why = "it is a pipe without a reader";
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
struct LineQueue {
    /// Buffered lines.
    lines: Vec<u8>,
    /// Octets being written, and the thread that writes them.
    writing: usize,
    writing_thread: u64,
    /// Number of the current thread; 0 for none.
    thread: u64,
    /// True if the log is off.
    off: bool,
    /// True if the log is closed: the rest is written with one attempt.
    closed: bool,
    /// True if the thread has finished after that.
    ended: bool,
    failures: u64,
    /// Lines lost at the end.
    lost: u64,
}

#[derive(Debug, Default)]
struct SharedQueue {
    queue: Mutex<LineQueue>,
    changed: Condvar,
    ended: Notify,
}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, LineQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next octets for this thread; `None` when it has to end.
    fn next(&self, thread: u64) -> Option<Vec<u8>> {
        let idle = |queue: &mut LineQueue| {
            queue.thread == thread && queue.lines.is_empty() && !queue.closed
        };
        let mut queue = self
            .changed
            .wait_while(self.lock(), idle)
            .unwrap_or_else(PoisonError::into_inner);
        if queue.thread != thread {
            return None;
        }
        if queue.lines.is_empty() {
            self.end(queue);
            return None;
        }
        // Complete lines if possible.
        let most = &queue.lines[..queue.lines.len().min(WRITE_SIZE)];
        let line_end = most.iter().rposition(|octet| *octet == b'\n');
        let length = line_end.map_or(most.len(), |at| at + 1);
        let portion: Vec<u8> = queue.lines.drain(..length).collect();
        queue.writing = portion.len();
        queue.writing_thread = thread;
        Some(portion)
    }

    /// Waits for the previous thread to finish writing, at most for [`PAUSE`].
    fn wait_for_previous_thread(&self) {
        let writes = |queue: &mut LineQueue| queue.writing > 0;
        let waited = self.changed.wait_timeout_while(self.lock(), PAUSE, writes);
        waited.unwrap_or_else(PoisonError::into_inner).0.writing = 0;
    }

    /// Puts the unwritten rest of a portion back to the front.
    fn put_back(&self, thread: u64, rest: &[u8]) {
        let mut queue = self.lock();
        if queue.writing_thread == thread {
            queue.writing = 0;
        }
        if !queue.off {
            queue.lines.splice(..0, rest.iter().copied());
        }
        drop(queue);
        self.changed.notify_all();
    }

    /// Pauses until another thread takes over or, if `unless_closed`, the log is closed.
    fn pause(&self, thread: u64, time: Duration, unless_closed: bool) {
        let waits =
            |queue: &mut LineQueue| queue.thread == thread && !(unless_closed && queue.closed);
        // The caller checks the state again.
        let _ = self.changed.wait_timeout_while(self.lock(), time, waits);
    }

    /// Records a failed attempt. Returns whether to retry.
    fn failed(&self, thread: u64) -> bool {
        let mut queue = self.lock();
        queue.failures += 1;
        if queue.thread == thread && queue.closed {
            let lines = queue.lines.split_inclusive(|octet| *octet == b'\n').count();
            queue.lost += lines as u64;
            self.end(queue);
            return false;
        }
        true
    }

    fn end(&self, mut queue: MutexGuard<'_, LineQueue>) {
        queue.ended = true;
        drop(queue);
        self.ended.notify_waiters();
    }
}

/// Passes lines to the thread.
#[derive(Debug)]
pub(super) struct AuditWriter {
    shared: Arc<SharedQueue>,
    errors: mpsc::Sender<DaemonError>,
}

impl AuditWriter {
    /// Creates a writer without a file; errors go to `errors`.
    pub(super) fn new(errors: mpsc::Sender<DaemonError>) -> Self {
        Self {
            shared: Arc::default(),
            errors,
        }
    }

    /// Switches to another file or to none. Buffered lines go there.
    pub(super) fn replace(&self, with: Option<LogFile>) -> Result<(), DaemonError> {
        let mut queue = self.shared.lock();
        let thread = queue.thread + 1;
        let off = with.is_none();
        if let Some(LogFile { path, file }) = with {
            let shared = Arc::clone(&self.shared);
            let errors = self.errors.clone();
            let name = path.clone();
            std::thread::Builder::new()
                .name("audit log".into())
                .spawn(move || write_all(&shared, thread, &name, file, &errors))
                .map_err(|source| failure(&path, source))?;
        } else {
            queue.lines.clear();
        }
        queue.off = off;
        queue.thread = thread;
        drop(queue);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Queues complete lines. Returns the number of dropped lines.
    pub(super) fn queue(&self, lines: &[u8]) -> u64 {
        let mut queue = self.shared.lock();
        if queue.off {
            return 0;
        }
        let mut lost = 0;
        for line in lines.split_inclusive(|octet| *octet == b'\n') {
            if queue.lines.len() + queue.writing + line.len() > MAX_BUFFERED {
                lost += 1;
            } else {
                queue.lines.extend_from_slice(line);
            }
        }
        drop(queue);
        self.shared.changed.notify_all();
        lost
    }

    /// Returns whether all lines are written.
    pub(super) fn is_idle(&self) -> bool {
        let queue = self.shared.lock();
        queue.lines.is_empty() && queue.writing == 0
    }

    /// Returns the number of failed attempts and of lines lost at the end.
    pub(super) fn counts(&self) -> (u64, u64) {
        let queue = self.shared.lock();
        (queue.failures, queue.lost)
    }

    fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }

    /// Waits until all lines are written or were tried for the last time.
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

impl Drop for AuditWriter {
    /// The thread writes the rest and ends.
    fn drop(&mut self) {
        self.close();
    }
}

/// Writes queued lines until another thread takes over.
fn write_all(
    shared: &SharedQueue,
    thread: u64,
    path: &Path,
    mut file: File,
    errors: &mpsc::Sender<DaemonError>,
) {
    shared.wait_for_previous_thread();
    let (mut failing, mut full) = (false, 0);
    while let Some(portion) = shared.next(thread) {
        let (written, outcome) = write(&mut file, &portion);
        shared.put_back(thread, portion.get(written..).unwrap_or_default());
        if written > 0 {
            full = 0;
        }
        let Err(source) = outcome else {
            failing = false;
            continue;
        };
        if source.kind() == ErrorKind::WouldBlock && full < PIPE_FULL.1 {
            full += 1;
            shared.pause(thread, PIPE_FULL.0, false);
            continue;
        }
        if !failing {
            // There may be no receiver; one error per series is enough.
            let _ = errors.try_send(failure(path, source));
        }
        failing = true;
        if !shared.failed(thread) {
            return;
        }
        shared.pause(thread, PAUSE, true);
    }
}

/// Writes as much as possible and returns the number of written octets.
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
