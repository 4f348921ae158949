//! Associations.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::task::{Poll, ready};

use carrick::{
    AssociationControl, OperationError, PathId, RecvHalf, SendHalf, StreamDirection, StreamId,
};
use pyo3::prelude::*;
use serde::Serialize;

use crate::close::Reason;
use crate::event::{self, EventReader};
use crate::message::{self, Message};
use crate::runtime::{Owned, lock};
use crate::{error, event_loop};

/// Receiver of the messages of an association.
#[derive(Debug)]
struct Receiver {
    messages: RecvHalf,
    /// Message that a waiting task was woken for.
    first: Option<carrick::Message>,
}

/// Handles of an association.
#[derive(Debug)]
struct Handles {
    sender: SendHalf,
    receiver: Arc<Mutex<Receiver>>,
    events: Arc<Mutex<EventReader>>,
    /// Messages are fragmented, so that the protocol takes them all.
    fragments: bool,
}

/// An association. Messages and events are taken when a task is running, never when one is cancelled.
#[derive(Debug)]
#[pyclass(frozen, module = "carrick._core")]
pub(crate) struct Association {
    handles: Owned<Handles>,
    /// Futures of the tasks that wait for a message and for an event.
    waiting_for_message: Mutex<Option<Py<PyAny>>>,
    waiting_for_event: Mutex<Option<Py<PyAny>>>,
}

impl Association {
    pub(crate) fn new(association: carrick::Association, fragments: bool) -> Option<Self> {
        let (sender, mut messages) = association.split();
        let events = messages.take_events()?;
        let receiver = Receiver {
            messages,
            first: None,
        };
        Some(Self {
            handles: Owned::new(Handles {
                sender,
                receiver: Arc::new(Mutex::new(receiver)),
                events: Arc::new(Mutex::new(EventReader::new(events))),
                fragments,
            }),
            waiting_for_message: Mutex::default(),
            waiting_for_event: Mutex::default(),
        })
    }

    fn control(&self) -> PyResult<AssociationControl> {
        Ok(self.handles.get()?.sender.control().clone())
    }

    /// Starts an operation that changes the association.
    fn change<'py, F>(
        &self,
        py: Python<'py>,
        operation: impl FnOnce(AssociationControl) -> F,
    ) -> PyResult<Bound<'py, PyAny>>
    where
        F: Future<Output = Result<(), OperationError>> + Send + 'static,
    {
        let operation = operation(self.control()?);
        event_loop::awaitable(py, async move {
            let done = operation.await;
            done.map_err(|why| error::operation(&why))?;
            Ok(Python::attach(|py| py.None()))
        })
    }

    /// Starts an operation that reads the association, with its result in JSON.
    fn read<'py, F, T>(
        &self,
        py: Python<'py>,
        operation: impl FnOnce(AssociationControl) -> F,
    ) -> PyResult<Bound<'py, PyAny>>
    where
        F: Future<Output = Result<T, OperationError>> + Send + 'static,
        T: Serialize,
    {
        let operation = operation(self.control()?);
        event_loop::awaitable(py, async move {
            let value = operation.await;
            let value = value.map_err(|why| error::operation(&why))?;
            json(&value)
        })
    }
}

/// Returns a value as text in JSON.
pub(crate) fn json(value: &impl Serialize) -> PyResult<Py<PyAny>> {
    let text = serde_json::to_string(value).map_err(|why| error::config(&why.to_string()))?;
    Python::attach(|py| Ok(text.into_pyobject(py)?.into_any().unbind()))
}

/// Keeps the future of a task that waits; fails if another one does.
fn wait_alone<'py>(
    place: &Mutex<Option<Py<PyAny>>>,
    py: Python<'py>,
    (call, what): (&str, &str),
    start: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let waiting = lock(place).as_ref().map(|waiting| waiting.clone_ref(py));
    if let Some(waiting) = waiting {
        let waiting = waiting.bind(py);
        let event_loop = waiting.call_method0("get_loop")?;
        let has_ended = waiting.call_method0("done")?.is_truthy()?
            || event_loop.call_method0("is_closed")?.is_truthy()?;
        if !has_ended {
            return Err(error::waits_already(call, what));
        }
    }
    let future = start()?;
    let earlier = lock(place).replace(future.clone().unbind());
    drop(earlier);
    Ok(future)
}

#[pymethods]
impl Association {
    /// Queues a message; returns `None`, or a future if it has to wait for room in the send queue.
    fn send<'py>(
        &self,
        py: Python<'py>,
        payload: &Bound<'py, PyAny>,
        options: message::Options,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let handles = self.handles.get()?;
        let mut payload = message::payload(payload)?;
        let options = message::options(options)?;
        if options.path.is_none() && handles.fragments {
            match handles.sender.try_send(payload, options) {
                Ok(()) => return Ok(None),
                Err(refused) => payload = error::try_send(refused)?,
            }
        }
        let sender = handles.sender.clone();
        let sent = event_loop::start(py, async move {
            let sent = sender.send(payload, options).await;
            sent.map_err(|why| error::send(&why))?;
            Ok(Python::attach(|py| py.None()))
        });
        Ok(sent?.err())
    }

    /// Returns the next message if one is queued.
    fn try_recv(&self, py: Python<'_>) -> PyResult<Option<Message>> {
        let next = {
            let mut receiver = lock(&self.handles.get()?.receiver);
            match receiver.first.take() {
                Some(first) => Some(first),
                // An end is reported by the task that waits.
                None => receiver.messages.try_recv().ok(),
            }
        };
        next.map(|message| Message::new(py, &message)).transpose()
    }

    /// Waits until a message is queued; false at the end of the association.
    fn readable<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let receiver = Arc::clone(&self.handles.get()?.receiver);
        wait_alone(&self.waiting_for_message, py, ("recv", "messages"), || {
            event_loop::awaitable(py, async move {
                let is_queued = std::future::poll_fn(|context| {
                    let receiver = &mut *lock(&receiver);
                    if receiver.first.is_none() {
                        let next = std::pin::pin!(receiver.messages.recv());
                        receiver.first = ready!(next.poll(context))?;
                    }
                    Poll::Ready(Ok(receiver.first.is_some()))
                });
                let is_queued = is_queued.await.map_err(|why| error::receive(&why))?;
                Python::attach(|py| Ok(is_queued.into_pyobject(py)?.to_owned().into_any().unbind()))
            })
        })
    }

    /// Returns the event that a task was woken for: kind, text, values in JSON, unsent bytes and reason.
    fn try_event<'py>(&self, py: Python<'py>) -> PyResult<Option<event::Entry<'py>>> {
        let next = lock(&self.handles.get()?.events).take();
        Ok(next.map(|next| next.entry(py)))
    }

    /// Waits until there is an event; false after the last one.
    fn event_ready<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let events = Arc::clone(&self.handles.get()?.events);
        let control = self.control()?;
        wait_alone(&self.waiting_for_event, py, ("events", "events"), || {
            event_loop::awaitable(py, async move {
                let is_there = event::ready(events, control).await;
                Python::attach(|py| Ok(is_there.into_pyobject(py)?.to_owned().into_any().unbind()))
            })
        })
    }

    /// Waits until all messages that were sent before are acknowledged.
    fn flushed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let sender = self.handles.get()?.sender.clone();
        self.change(py, |_| async move { sender.flushed().await })
    }

    /// Shuts the association down.
    fn shutdown<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let sender = self.handles.get()?.sender.clone();
        self.change(py, |_| async move { sender.shutdown().await })
    }

    /// Aborts the association.
    fn abort(&self, reason: &[u8]) -> PyResult<()> {
        self.handles.get()?.sender.abort(reason);
        Ok(())
    }

    /// Waits for the end of the association; returns its reason.
    fn closed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let sender = self.handles.get()?.sender.clone();
        event_loop::awaitable(py, async move {
            let reason = Reason::from(&sender.closed().await);
            Python::attach(|py| Ok(Py::new(py, reason)?.into_any()))
        })
    }

    /// Reason of the end; `None` until then.
    #[getter]
    fn close_reason(&self) -> PyResult<Option<Reason>> {
        let reason = self.handles.get()?.sender.close_reason();
        Ok(reason.as_ref().map(Reason::from))
    }

    /// Number of messages that were accepted and not acknowledged.
    #[getter]
    fn undelivered(&self) -> PyResult<u64> {
        Ok(self.handles.get()?.sender.undelivered())
    }

    #[getter]
    fn peer_addresses(&self) -> PyResult<Vec<String>> {
        let control = self.control()?;
        Ok(control
            .peer_addresses()
            .iter()
            .map(ToString::to_string)
            .collect())
    }

    #[getter]
    fn peer_port(&self) -> PyResult<u16> {
        Ok(self.control()?.peer_port())
    }

    /// Fingerprint of the peer's certificate; `None` without DTLS.
    #[getter]
    fn peer_fingerprint(&self) -> PyResult<Option<String>> {
        let fingerprint = self.control()?.peer_fingerprint();
        Ok(fingerprint.as_ref().map(ToString::to_string))
    }

    #[getter]
    fn outbound_streams(&self) -> PyResult<u16> {
        Ok(self.control()?.outbound_streams())
    }

    #[getter]
    fn inbound_streams(&self) -> PyResult<u16> {
        Ok(self.control()?.inbound_streams())
    }

    /// State and counters.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.read(py, |control| async move { control.stats().await })
    }

    /// Paths with their state and counters.
    fn paths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.read(py, |control| async move { control.paths().await })
    }

    fn set_primary<'py>(&self, py: Python<'py>, path: u8) -> PyResult<Bound<'py, PyAny>> {
        self.change(py, |control| async move {
            control.set_primary(PathId(path)).await
        })
    }

    fn set_peer_primary<'py>(
        &self,
        py: Python<'py>,
        address: IpAddr,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.change(py, |control| async move {
            control.set_peer_primary(address).await
        })
    }

    fn request_heartbeat<'py>(&self, py: Python<'py>, path: u8) -> PyResult<Bound<'py, PyAny>> {
        self.change(py, |control| async move {
            control.request_heartbeat(PathId(path)).await
        })
    }

    fn reset_streams<'py>(
        &self,
        py: Python<'py>,
        streams: Vec<u16>,
        incoming: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let direction = if incoming {
            StreamDirection::Incoming
        } else {
            StreamDirection::Outgoing
        };
        let streams: Vec<StreamId> = streams.into_iter().map(StreamId).collect();
        self.change(py, |control| async move {
            control.reset_streams(direction, streams).await
        })
    }

    fn add_streams<'py>(
        &self,
        py: Python<'py>,
        outgoing: u16,
        incoming: u16,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.change(py, |control| async move {
            control.add_streams(outgoing, incoming).await
        })
    }
}
