//! Lines for whoever reads the output. Nobody waits for them: they may be slow, or gone.

use std::fmt::Display;
use std::io::{Write, stderr, stdout};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Lines that wait to be taken.
const WAITING: usize = 1024;

/// The output, a line at a time.
pub(crate) struct Lines {
    to_write: SyncSender<String>,
    written: Receiver<()>,
    lost: u64,
}

impl Lines {
    /// Lines on stdout.
    pub(crate) fn new() -> Self {
        Self::to(stdout())
    }

    /// Lines of a log on stderr that peers cause: a reader that hangs stops nothing else.
    pub(crate) fn log() -> Self {
        Self::to(stderr())
    }

    fn to(out: impl Write + Send + 'static) -> Self {
        let (to_write, lines) = sync_channel(WAITING);
        let (done, written) = sync_channel(1);
        thread::spawn(move || {
            write(&lines, out);
            // Who has gone meanwhile need not know.
            let _ = done.send(());
        });
        Self {
            to_write,
            written,
            lost: 0,
        }
    }

    /// Prints a line, unless too many wait already.
    pub(crate) fn print(&mut self, line: String) {
        if self.to_write.try_send(line).is_err() {
            self.lost += 1;
        }
    }

    /// What waits has so long to be taken. What nobody took is told on stderr.
    pub(crate) fn end(self, patience: Duration) {
        let Self {
            to_write,
            written,
            lost,
        } = self;
        drop(to_write);
        let left = written.recv_timeout(patience).is_err();
        if lost > 0 || left {
            warn(format_args!("{lost} lines or more were not read"));
        }
    }
}

fn write(lines: &Receiver<String>, mut out: impl Write) {
    for line in lines {
        if writeln!(out, "{line}").is_err() {
            warn("nobody reads the output any more; the program goes on");
            return;
        }
    }
}

/// Logs an event on stderr, with time (UTC) and level: this is for programs that run for long.
pub(crate) fn info(line: impl Display) {
    log("info", line);
}

/// Logs on stderr what an operator should look at.
pub(crate) fn warn(line: impl Display) {
    log("warn", line);
}

/// Logs on stderr why a program that runs for long ends.
pub(crate) fn error(line: impl Display) {
    log("error", line);
}

fn log(level: &str, line: impl Display) {
    // The reader may have gone.
    let _ = writeln!(stderr(), "{}", stamped(level, line));
}

/// Returns a line of the log.
pub(crate) fn stamped(level: &str, line: impl Display) -> String {
    let now = humantime::format_rfc3339_millis(SystemTime::now());
    format!("{now} {level} carrick: {line}")
}

/// Lines of a log that peers can cause: at most this many a second.
const LINES: u32 = 10;

/// Limits log lines that peers can cause; the number of those left out is part of a later line.
#[derive(Default)]
pub(crate) struct LogLimit {
    second: Option<Instant>,
    logged: u32,
    left_out: u64,
}

impl LogLimit {
    /// Returns whether a line may be logged now, and how many were left out before it.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<u64> {
        let begun = self.second.get_or_insert(now);
        if now.saturating_duration_since(*begun) >= Duration::from_secs(1) {
            (*begun, self.logged) = (now, 0);
        }
        if self.logged == LINES {
            self.left_out += 1;
            return None;
        }
        self.logged += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_cut_and_counted() {
        let mut limit = LogLimit::default();
        let begun = Instant::now();
        let admitted = (0..100).filter_map(|_| limit.admit(begun)).count();
        assert_eq!(admitted, 10);
        assert_eq!(limit.admit(begun + Duration::from_secs(1)), Some(90));
        assert_eq!(limit.admit(begun + Duration::from_secs(1)), Some(0));
    }
}
