//! Lines for whoever reads the output. Nobody waits for them: they may be slow, or gone.

use std::io::{Write, stderr, stdout};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Lines that wait to be taken.
const WAITING: usize = 1024;

/// The output, a line at a time.
pub(crate) struct Lines {
    to_write: SyncSender<String>,
    written: Receiver<()>,
    lost: u64,
}

impl Lines {
    pub(crate) fn new() -> Self {
        let (to_write, lines) = sync_channel(WAITING);
        let (done, written) = sync_channel(1);
        thread::spawn(move || {
            write(&lines);
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
            say(format_args!("{lost} lines or more were not read"));
        }
    }
}

fn write(lines: &Receiver<String>) {
    let mut out = stdout();
    for line in lines {
        if writeln!(out, "{line}").is_err() {
            say("nobody reads the output any more; the program goes on");
            return;
        }
    }
}

/// A line on stderr, if anybody reads that.
pub(crate) fn say(line: impl std::fmt::Display) {
    let _ = writeln!(stderr(), "carrick: {line}");
}
