//! Output that never blocks the program: a slow reader loses lines, a reader that has ended stops the
//! output.

use std::io::{Write, stderr, stdout};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::log::warn;

/// Maximum number of queued lines.
const MAX_QUEUED: usize = 1024;

/// Queue of output lines, written by a separate thread.
pub(crate) struct OutputQueue {
    to_write: SyncSender<String>,
    written: Receiver<()>,
    lost: u64,
}

impl OutputQueue {
    /// Writes to stdout.
    pub(crate) fn new() -> Self {
        Self::to(stdout())
    }

    /// Writes log lines that peers can cause to stderr, where a blocked reader holds up nothing else.
    pub(crate) fn log() -> Self {
        Self::to(stderr())
    }

    fn to(out: impl Write + Send + 'static) -> Self {
        let (to_write, lines) = sync_channel(MAX_QUEUED);
        let (done, written) = sync_channel(1);
        thread::spawn(move || {
            write(&lines, out);
            // The receiver may have been dropped.
            let _ = done.send(());
        });
        Self {
            to_write,
            written,
            lost: 0,
        }
    }

    /// Queues a line, or drops it if too many are queued.
    pub(crate) fn print(&mut self, line: String) {
        if self.to_write.try_send(line).is_err() {
            self.lost += 1;
        }
    }

    /// Waits until all lines are written, at most this long. Logs lost lines on stderr.
    pub(crate) fn end(self, timeout: Duration) {
        let Self {
            to_write,
            written,
            lost,
        } = self;
        drop(to_write);
        let left = written.recv_timeout(timeout).is_err();
        if lost > 0 || left {
            warn(format_args!(
                "output not read in time: at least {lost} lines lost"
            ));
        }
    }
}

fn write(lines: &Receiver<String>, mut out: impl Write) {
    for line in lines {
        if writeln!(out, "{line}").is_err() {
            warn("output closed by its reader; continuing without output");
            return;
        }
    }
}

/// Maximum number of log lines per second that peers can cause.
const LINES_PER_SECOND: u32 = 10;

/// Limits log lines that peers can cause. A later line reports the number of suppressed lines.
#[derive(Default)]
pub(crate) struct LogLimit {
    second: Option<Instant>,
    logged: u32,
    suppressed: u64,
}

impl LogLimit {
    /// Returns the number of lines suppressed before this one, or `None` if it must not be logged.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<u64> {
        let begun = self.second.get_or_insert(now);
        if now.saturating_duration_since(*begun) >= Duration::from_secs(1) {
            (*begun, self.logged) = (now, 0);
        }
        if self.logged == LINES_PER_SECOND {
            self.suppressed += 1;
            return None;
        }
        self.logged += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_beyond_the_limit_are_counted() {
        let mut limit = LogLimit::default();
        let begun = Instant::now();
        let admitted = (0..100).filter_map(|_| limit.admit(begun)).count();
        assert_eq!(admitted, 10);
        assert_eq!(limit.admit(begun + Duration::from_secs(1)), Some(90));
        assert_eq!(limit.admit(begun + Duration::from_secs(1)), Some(0));
    }
}
