//! Runs beside the interpreter: progress, and an end by its signals.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use carrick_lab::{LabError, Progress};
use pyo3::prelude::*;

use crate::error::raised;

/// Interval at which signals are checked and progress is reported.
const INTERVAL: Duration = Duration::from_millis(50);

/// Progress of a run, which another thread reads.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    done: AtomicU64,
    total: AtomicU64,
    stop: AtomicBool,
    ended: AtomicBool,
}

impl Progress for Watch {
    fn begin(&self, _: &str, steps: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(steps, Ordering::Relaxed);
    }

    fn step(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn end(&self) {}

    fn stop(&self) -> Option<&AtomicBool> {
        Some(&self.stop)
    }
}

/// Wakes the caller when the run has ended, by a panic, too.
struct Wake<'a> {
    watch: &'a Watch,
    caller: Thread,
}

impl Drop for Wake<'_> {
    fn drop(&mut self) {
        self.watch.ended.store(true, Ordering::Release);
        self.caller.unpark();
    }
}

/// Runs `run` in a separate thread without the interpreter's lock. Meanwhile calls `progress` with the number of
/// completed steps and of all; an exception of it or of a signal's handler stops the run.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    run: impl FnOnce(&Watch) -> Result<T, LabError> + Send,
) -> PyResult<T> {
    let watch = Watch::default();
    let wake = Wake {
        watch: &watch,
        caller: thread::current(),
    };
    let mut shown = (0, 0);
    let mut report = || {
        py.check_signals()?;
        let now = (
            watch.done.load(Ordering::Relaxed),
            watch.total.load(Ordering::Relaxed),
        );
        if let Some(progress) = progress.filter(|_| now != shown) {
            progress.call1(now)?;
        }
        shown = now;
        Ok::<(), PyErr>(())
    };
    thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let result = run(wake.watch);
            drop(wake);
            result
        });
        let reported = loop {
            if py.detach(|| {
                thread::park_timeout(INTERVAL);
                watch.ended.load(Ordering::Acquire)
            }) {
                break report();
            }
            if let Err(exception) = report() {
                watch.stop.store(true, Ordering::Relaxed);
                break Err(exception);
            }
        };
        let result = py.detach(|| worker.join());
        let result = result.unwrap_or_else(|panic| resume_unwind(panic));
        reported.and(result.map_err(raised))
    })
}
