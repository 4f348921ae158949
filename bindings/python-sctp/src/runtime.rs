//! The tokio runtime of the process, which owns the tasks of all endpoints.
//!
//! Its threads never call Python and never take the interpreter's lock.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads: one waits for packets while the other one handles them.
const WORKERS: usize = 2;

/// Longest duration of the end of the runtime at the exit of the interpreter.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);

/// The process is a fork of one that had the runtime, whose threads it does not have.
static IS_FORKED: AtomicBool = AtomicBool::new(false);

/// Locks a mutex. No code panics while it has the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fails in a process that was forked after the first endpoint was bound.
pub(crate) fn check_process() -> PyResult<()> {
    if IS_FORKED.load(Ordering::Acquire) {
        return Err(PyRuntimeError::new_err(
            "this process was forked after its parent had bound an SCTP endpoint: start it with the method \"spawn\" or \
             \"forkserver\", or bind the first endpoint after the fork",
        ));
    }
    Ok(())
}

/// Returns the runtime, which begins with the first call.
pub(crate) fn handle() -> PyResult<Handle> {
    check_process()?;
    let mut runtime = lock(&RUNTIME);
    if let Some(runtime) = &*runtime {
        return Ok(runtime.handle().clone());
    }
    let built = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("carrick")
        .enable_all()
        .build()?;
    Ok(runtime.insert(built).handle().clone())
}

/// Ends the runtime at the exit of the interpreter: queued messages are sent once, and peers get an ABORT.
#[pyfunction]
pub(crate) fn at_exit(py: Python<'_>) {
    if check_process().is_ok()
        && let Some(runtime) = lock(&RUNTIME).take()
    {
        py.detach(|| runtime.shutdown_timeout(EXIT_TIMEOUT));
    }
}

/// Marks a forked process.
#[pyfunction]
pub(crate) fn after_fork() {
    // Another thread may have held the lock during the fork.
    let has_runtime = RUNTIME.try_lock().map_or(true, |runtime| runtime.is_some());
    if has_runtime {
        IS_FORKED.store(true, Ordering::Release);
    }
}

/// Handle of the library, which a forked process leaves alone: locks below it may be held by threads that the process
/// does not have.
#[derive(Debug)]
pub(crate) struct Owned<T>(Option<T>);

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }

    /// Returns the handle; fails in a forked process.
    pub(crate) fn get(&self) -> PyResult<&T> {
        check_process()?;
        Ok(self.0.as_ref().expect("taken by drop alone"))
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if check_process().is_err() {
            let _ = self.0.take().map(ManuallyDrop::new);
        }
    }
}
