//! Events of associations, as Python reads them: a line of text, and values in JSON.

use std::sync::{Arc, Mutex};
use std::task::{Poll, ready};

use carrick::{
    AddressEvent, AssociationControl, AssociationStats, AuthenticationEvent, CloseReason, Event,
    EventReport, Events, Notification, PathId, PathReport, PathStats, ReconfigOutcome, SendFailure,
    StreamDirection,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Map, Value, json};

use crate::close::Reason;
use crate::runtime::lock;

/// Receiver of the events of an association.
#[derive(Debug)]
pub(crate) struct EventReader {
    pub(crate) events: Events,
    /// Event that was received and not returned.
    next: Option<Notification>,
    /// Paths and counters at the last event.
    paths: Vec<PathStats>,
    stats: Option<AssociationStats>,
}

impl EventReader {
    pub(crate) fn new(events: Events) -> Self {
        Self {
            events,
            next: None,
            paths: Vec::new(),
            stats: None,
        }
    }
}

/// Waits for the next event; `None` after the last one. Cancel-safe: an event leaves the reader when this is ready.
pub(crate) async fn next(
    reader: Arc<Mutex<EventReader>>,
    control: AssociationControl,
) -> PyResult<Py<PyAny>> {
    let is_queued = std::future::poll_fn(|context| {
        let reader = &mut *lock(&reader);
        if reader.next.is_none() {
            let next = std::pin::pin!(reader.events.next());
            reader.next = ready!(next.poll(context));
        }
        Poll::Ready(reader.next.is_some())
    });
    if !is_queued.await {
        return Ok(Python::attach(|py| py.None()));
    }
    // The association may have ended; then the paths are those of the last event.
    let present = (control.paths().await, control.stats().await);
    let mut reader = lock(&reader);
    if let (Ok(paths), Ok(stats)) = present {
        reader.paths = paths;
        reader.stats = Some(stats);
    }
    let next = reader.next.take();
    let described = next
        .as_ref()
        .map(|next| describe(next, &reader.paths, reader.stats.as_ref()));
    drop(reader);
    Python::attach(|py| {
        let Some(described) = described else {
            return Ok(py.None());
        };
        let values = Value::Object(described.values).to_string();
        let payload = match &next {
            Some(Notification::Event(Event::SendFailed(failure))) => Some(unsent(py, failure)),
            _ => None,
        };
        let reason = match &next {
            Some(Notification::Event(Event::Closed(reason))) => Some(Reason::from(reason)),
            _ => None,
        };
        let entry = (described.kind, described.text, values, payload, reason);
        Ok(entry.into_pyobject(py)?.into_any().unbind())
    })
}

/// Returns the bytes that a failed message returns.
fn unsent<'py>(py: Python<'py>, failure: &SendFailure) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &failure.unsent.0.concat())
}

/// Event with its kind, a line of text, and its values.
struct Description {
    kind: &'static str,
    text: String,
    values: Map<String, Value>,
}

impl Description {
    fn new(kind: &'static str, text: impl Into<String>, values: Value) -> Self {
        let text = text.into();
        let values = match values {
            Value::Object(values) => values,
            _ => Map::new(),
        };
        Self { kind, text, values }
    }
}

/// Describes a notification. Kinds and texts are those of the operator's logs where these report the event.
fn describe(
    notification: &Notification,
    paths: &[PathStats],
    stats: Option<&AssociationStats>,
) -> Description {
    let event = match notification {
        Notification::Event(event) => event,
        Notification::Lagged(count) => {
            let text =
                format!("{count} events were discarded: the program did not read them in time");
            return Description::new("lagged", text, json!({ "discarded": count }));
        }
    };
    if let Some(report) = EventReport::new(event, paths, stats) {
        let path = report
            .path
            .and_then(|of| paths.iter().find(|path| path.id == of.id));
        let values = path.map_or(Value::Null, |path| json!({ "path": path }));
        return Description::new(report.kind.name(), report.text, values);
    }
    match event {
        Event::PathConfirmed(id) => of_path(*id, paths),
        Event::SendFailed(failure) => failed(failure),
        Event::Address(event) => address(event),
        Event::Authentication(event) => authentication(*event),
        Event::PeerShutdown => Description::new(
            "peer-shutdown",
            "the peer has started the shutdown",
            Value::Null,
        ),
        Event::MessageAborted { stream, .. } => Description::new(
            "message-aborted",
            format!("a message on stream {} will not be completed", stream.0),
            json!({ "stream": stream.0 }),
        ),
        Event::StreamsReset {
            direction,
            streams,
            outcome,
        } => {
            let streams: Vec<u16> = streams.iter().map(|stream| stream.0).collect();
            let direction = match direction {
                StreamDirection::Incoming => "incoming",
                _ => "outgoing",
            };
            let which = match streams[..] {
                [] => "all streams".to_owned(),
                _ => format!("streams {streams:?}"),
            };
            Description::new(
                "streams-reset",
                format!("reset of {which}, {direction}: {}", outcome_text(*outcome)),
                json!({ "direction": direction, "streams": streams, "performed": outcome.is_success() }),
            )
        }
        Event::AssociationReset { outcome, .. } => Description::new(
            "association-reset",
            format!("reset of the association: {}", outcome_text(*outcome)),
            json!({ "performed": outcome.is_success() }),
        ),
        Event::StreamsChanged {
            outbound_streams,
            inbound_streams,
            outcome,
        } => Description::new(
            "streams-changed",
            format!(
                "{outbound_streams} outbound and {inbound_streams} inbound streams: {}",
                outcome_text(*outcome)
            ),
            json!({
                "outbound_streams": outbound_streams, "inbound_streams": inbound_streams,
                "performed": outcome.is_success(),
            }),
        ),
        Event::Closed(reason) => ended(reason),
        _ => Description::new("other", format!("{event:?}"), Value::Null),
    }
}

fn ended(reason: &CloseReason) -> Description {
    Description::new("ended", format!("ended: {reason}"), Value::Null)
}

fn of_path(id: PathId, paths: &[PathStats]) -> Description {
    match paths.iter().find(|path| path.id == id) {
        Some(path) => {
            let text = format!("path {} is confirmed", PathReport::from(path));
            Description::new("confirmed", text, json!({ "path": path }))
        }
        None => Description::new(
            "confirmed",
            format!("path {} was confirmed", id.0),
            Value::Null,
        ),
    }
}

fn failed(failure: &SendFailure) -> Description {
    let why = match (failure.expired, failure.abandoned) {
        (true, _) => "its lifetime expired",
        (false, Some(_)) => "it was abandoned",
        (false, None) => "the association ended",
    };
    let sent = if failure.sent {
        "may have been received"
    } else {
        "was not sent"
    };
    let text = format!("a message on stream {} {sent}: {why}", failure.stream.0);
    let values = json!({
        "context": failure.context, "stream": failure.stream.0, "ppid": failure.ppid.0, "sent": failure.sent,
        "expired": failure.expired, "abandoned": failure.abandoned.is_some(),
    });
    Description::new("send-failed", text, values)
}

fn address(event: &AddressEvent) -> Description {
    let (text, address) = match event {
        AddressEvent::PeerAdded { address, .. } => {
            (format!("the peer added {address}"), Some(address))
        }
        AddressEvent::PeerRemoved { address, .. } => {
            (format!("the peer deleted {address}"), Some(address))
        }
        AddressEvent::PeerPrefers(path) => (
            format!("the peer requests path {} as the primary path", path.0),
            None,
        ),
        AddressEvent::LocalAdded(address) => (
            format!("the peer accepted the new address {address}"),
            Some(address),
        ),
        AddressEvent::LocalRemoved(address) => (
            format!("the peer deleted the local address {address}"),
            Some(address),
        ),
        AddressEvent::PreferenceAccepted(address) => (
            format!("the peer accepted {address} as its primary destination"),
            Some(address),
        ),
        AddressEvent::Refused { address, code } => (
            format!("the peer refused a request for {address}: error cause {code}"),
            Some(address),
        ),
        AddressEvent::NotSupported => ("the peer does not support dynamic addresses".into(), None),
        _ => (format!("{event:?}"), None),
    };
    let values = address.map_or(Value::Null, |address| json!({ "address": address }));
    Description::new("address", text, values)
}

fn authentication(event: AuthenticationEvent) -> Description {
    let (text, key) = match event {
        AuthenticationEvent::NotSupported => {
            ("the peer does not support authentication".into(), None)
        }
        AuthenticationEvent::PeerKeyChanged(key) => (
            format!("the peer authenticates with key {}", key.0),
            Some(key.0),
        ),
        AuthenticationEvent::UnknownKey(key) => (
            format!("the peer authenticates with the unknown key {}", key.0),
            Some(key.0),
        ),
        AuthenticationEvent::KeyFree(key) => (
            format!("the last packet with key {} has been sent", key.0),
            Some(key.0),
        ),
        _ => (format!("{event:?}"), None),
    };
    let values = key.map_or(Value::Null, |key| json!({ "key": key }));
    Description::new("authentication", text, values)
}

fn outcome_text(outcome: ReconfigOutcome) -> &'static str {
    match outcome {
        ReconfigOutcome::Performed => "performed",
        ReconfigOutcome::NothingToDo => "nothing to do",
        ReconfigOutcome::Denied => "denied",
        ReconfigOutcome::WrongStream => "wrong stream",
        ReconfigOutcome::RequestInProgress => "another request is in progress",
        ReconfigOutcome::BadSequenceNumber => "bad sequence number",
        _ => "unknown result",
    }
}
