//! Operations of the library on the event loops of asyncio.
//!
//! An operation is a Rust future that the thread of the event loop polls, with the interpreter's lock. When it can make
//! progress, a thread of the runtime puts its number into a list, and writes a byte to a socket that the loop watches as
//! any other: one byte for all operations of the list. So no thread of the runtime waits for the interpreter, and a loop
//! that has ended costs nothing.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::runtime::{self, lock};

/// Future of an operation, with its result for Python.
type Work = Pin<Box<dyn Future<Output = PyResult<Py<PyAny>>> + Send>>;

/// Numbers of the operations that can make progress.
#[derive(Debug)]
struct Wakeups {
    ready: Mutex<Vec<u64>>,
    signal: UnixStream,
}

/// Waker of an operation.
#[derive(Debug)]
struct OperationWaker {
    number: u64,
    is_queued: AtomicBool,
    wakeups: Arc<Wakeups>,
}

impl Wake for OperationWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut ready = lock(&self.wakeups.ready);
        ready.push(self.number);
        if ready.len() == 1 {
            // The loop empties the socket before the list; if it has ended, there is no one to wake.
            let _ = (&self.wakeups.signal).write(&[0]);
        }
    }
}

struct Operation {
    work: Work,
    waker: Arc<OperationWaker>,
    /// Future of asyncio that gets the result.
    awaited: Py<PyAny>,
}

/// Operations of one event loop.
#[pyclass(frozen, module = "carrick._core")]
pub(crate) struct EventLoop {
    wakeups: Arc<Wakeups>,
    socket: UnixStream,
    operations: Mutex<HashMap<u64, Operation>>,
    last: AtomicU64,
}

impl fmt::Debug for EventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoop").finish_non_exhaustive()
    }
}

#[pymethods]
impl EventLoop {
    /// Polls the operations that can make progress; the loop calls it when the socket is readable.
    fn poll_ready(&self, py: Python<'_>) {
        let mut buffer = [0; 64];
        while matches!((&self.socket).read(&mut buffer), Ok(64)) {}
        let ready = std::mem::take(&mut *lock(&self.wakeups.ready));
        for number in ready {
            // A cancelled operation has been removed.
            let Some(mut operation) = lock(&self.operations).remove(&number) else {
                continue;
            };
            if is_done(operation.awaited.bind(py)) {
                continue;
            }
            operation.waker.is_queued.store(false, Ordering::Release);
            match poll(&mut operation.work, &operation.waker) {
                Poll::Pending => {
                    lock(&self.operations).insert(number, operation);
                }
                Poll::Ready(result) => complete(operation.awaited.bind(py), result),
            }
        }
    }
}

/// Removes an operation when its future is done, in particular by a cancellation.
#[derive(Debug)]
#[pyclass(frozen, module = "carrick._core")]
struct Removal {
    event_loop: Py<EventLoop>,
    number: u64,
}

#[pymethods]
impl Removal {
    fn __call__(&self, _future: &Bound<'_, PyAny>) {
        let removed = lock(&self.event_loop.get().operations).remove(&self.number);
        drop(removed);
    }
}

impl EventLoop {
    /// Begins to watch for the operations of a loop.
    fn attach(running: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        let (socket, signal) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        signal.set_nonblocking(true)?;
        let descriptor = socket.as_raw_fd();
        let ready = Mutex::new(Vec::new());
        let event_loop = Self {
            wakeups: Arc::new(Wakeups { ready, signal }),
            socket,
            operations: Mutex::default(),
            last: AtomicU64::new(0),
        };
        let event_loop = Bound::new(running.py(), event_loop)?;
        let callback = event_loop.getattr("poll_ready")?;
        running.call_method1("add_reader", (descriptor, callback))?;
        Ok(event_loop.unbind())
    }

    /// Returns the running loop and its operations.
    fn running(py: Python<'_>) -> PyResult<(Bound<'_, PyAny>, Bound<'_, Self>)> {
        static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        static LOOPS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let running = RUNNING.import(py, "asyncio", "get_running_loop")?.call0()?;
        let loops = LOOPS.get_or_try_init(py, || {
            let made = py.import("weakref")?.call_method0("WeakKeyDictionary");
            made.map(Bound::unbind)
        })?;
        let loops = loops.bind(py);
        let known = loops.call_method1("get", (&running,))?;
        if let Ok(known) = known.cast_into::<Self>() {
            return Ok((running, known));
        }
        for old in loops
            .call_method0("keys")?
            .try_iter()?
            .collect::<PyResult<Vec<_>>>()?
        {
            if old.call_method0("is_closed")?.is_truthy()? {
                let ended = loops.get_item(&old)?.cast_into::<Self>()?;
                // Their futures refer to the loop.
                let operations = std::mem::take(&mut *lock(&ended.get().operations));
                drop(operations);
                loops.del_item(old)?;
            }
        }
        let attached = Self::attach(&running)?;
        loops.set_item(&running, &attached)?;
        Ok((running, attached.into_bound(py)))
    }
}

/// Polls a future once within the runtime.
fn poll(work: &mut Work, waker: &Arc<OperationWaker>) -> Poll<PyResult<Py<PyAny>>> {
    let runtime = match runtime::handle() {
        Ok(runtime) => runtime,
        Err(error) => return Poll::Ready(Err(error)),
    };
    let _entered = runtime.enter();
    let waker = Waker::from(Arc::clone(waker));
    work.as_mut().poll(&mut Context::from_waker(&waker))
}

fn is_done(future: &Bound<'_, PyAny>) -> bool {
    future
        .call_method0("done")
        .and_then(|done| done.is_truthy())
        .unwrap_or(true)
}

/// Gives a future of asyncio its result.
fn complete(future: &Bound<'_, PyAny>, result: PyResult<Py<PyAny>>) {
    let py = future.py();
    let set = match result {
        Ok(value) => future.call_method1("set_result", (value,)),
        Err(error) => future.call_method1("set_exception", (error.into_value(py),)),
    };
    if let Err(error) = set {
        error.write_unraisable(py, Some(future));
    }
}

/// Starts an operation on the running loop: returns its result if it is ready at once, otherwise an `asyncio.Future`
/// in the second place.
pub(crate) fn start(
    py: Python<'_>,
    work: impl Future<Output = PyResult<Py<PyAny>>> + Send + 'static,
) -> PyResult<Result<Py<PyAny>, Bound<'_, PyAny>>> {
    let (running, event_loop) = EventLoop::running(py)?;
    let own = event_loop.get();
    let number = own.last.fetch_add(1, Ordering::Relaxed);
    let waker = Arc::new(OperationWaker {
        number,
        is_queued: AtomicBool::new(false),
        wakeups: Arc::clone(&own.wakeups),
    });
    let mut work: Work = Box::pin(work);
    if let Poll::Ready(result) = poll(&mut work, &waker) {
        return result.map(Ok);
    }
    let awaited = running.call_method0("create_future")?;
    let removal = Removal {
        event_loop: event_loop.clone().unbind(),
        number,
    };
    awaited.call_method1("add_done_callback", (removal,))?;
    let operation = Operation {
        work,
        waker,
        awaited: awaited.clone().unbind(),
    };
    // The loop polls it after this call, also if it was woken meanwhile.
    lock(&own.operations).insert(number, operation);
    Ok(Err(awaited))
}

/// Starts an operation on the running loop; returns its `asyncio.Future`.
pub(crate) fn awaitable(
    py: Python<'_>,
    work: impl Future<Output = PyResult<Py<PyAny>>> + Send + 'static,
) -> PyResult<Bound<'_, PyAny>> {
    match start(py, work) {
        Ok(Err(awaited)) => Ok(awaited),
        Ok(Ok(value)) => {
            let (running, _) = EventLoop::running(py)?;
            let done = running.call_method0("create_future")?;
            complete(&done, Ok(value));
            Ok(done)
        }
        Err(error) => Err(error),
    }
}
