//! Events of associations, as Python reads them: a line of text, and values in JSON.

use std::sync::{Arc, Mutex};
use std::task::{Poll, ready};

use carrick::{
    AddressEvent, AssociationControl, AssociationStats, AuthenticationEvent, Event, EventReport,
    Events, Notification, PathStats, ReconfigOutcome, ReportKind, SendFailure, StreamDirection,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Map, Value, json};

use crate::close::Reason;
use crate::runtime::lock;

/// Receiver of the events of an association.
#[derive(Debug)]
pub(crate) struct EventReader {
    events: Events,
    /// Event that was received and is not described yet.
    received: Option<Notification>,
    /// Event that a waiting task was woken for.
    first: Option<Description>,
    /// Paths and counters at the last event.
    paths: Vec<PathStats>,
    stats: Option<AssociationStats>,
}

/// Kind, text, values in JSON, unsent bytes and reason of an event.
pub(crate) type Entry<'py> = (
    &'static str,
    String,
    String,
    Option<Bound<'py, PyBytes>>,
    Option<Reason>,
);

impl EventReader {
    pub(crate) fn new(events: Events) -> Self {
        Self {
            events,
            received: None,
            first: None,
            paths: Vec::new(),
            stats: None,
        }
    }

    /// Takes the event that a task was woken for.
    pub(crate) fn take(&mut self) -> Option<Description> {
        self.first.take()
    }
}

/// Waits until there is an event to take; false after the last one. An event stays in the reader if this is dropped.
pub(crate) async fn ready(reader: Arc<Mutex<EventReader>>, control: AssociationControl) -> bool {
    let is_received = std::future::poll_fn(|context| {
        let reader = &mut *lock(&reader);
        if reader.first.is_none() && reader.received.is_none() {
            let next = std::pin::pin!(reader.events.next());
            reader.received = ready!(next.poll(context));
        }
        Poll::Ready(reader.first.is_some() || reader.received.is_some())
    });
    if !is_received.await {
        return false;
    }
    // The association may have ended; then the paths are those of the last event.
    let present = (control.paths().await, control.stats().await);
    let reader = &mut *lock(&reader);
    if let (Ok(paths), Ok(stats)) = present {
        reader.paths = paths;
        reader.stats = Some(stats);
    }
    if let Some(received) = reader.received.take() {
        reader.first = Some(describe(received, &reader.paths, reader.stats.as_ref()));
    }
    true
}

/// Event with its kind, a line of text, and its values.
#[derive(Debug)]
pub(crate) struct Description {
    kind: &'static str,
    text: String,
    values: Map<String, Value>,
    /// Bytes of a failed message that are not known to be delivered.
    unsent: Option<Vec<u8>>,
    reason: Option<Reason>,
}

impl Description {
    fn new(kind: &'static str, text: impl Into<String>, values: Value) -> Self {
        let text = text.into();
        let values = match values {
            Value::Object(values) => values,
            _ => Map::new(),
        };
        Self {
            kind,
            text,
            values,
            unsent: None,
            reason: None,
        }
    }

    /// Returns the event as Python reads it.
    pub(crate) fn entry(self, py: Python<'_>) -> Entry<'_> {
        let values = Value::Object(self.values).to_string();
        let unsent = self.unsent.map(|bytes| PyBytes::new(py, &bytes));
        (self.kind, self.text, values, unsent, self.reason)
    }
}

/// Describes a notification. Kinds and texts are those of the operator's logs where these report the event.
fn describe(
    notification: Notification,
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
    if let Some(report) = EventReport::new(&event, paths, stats) {
        let path = report
            .path
            .and_then(|of| paths.iter().find(|path| path.id == of.id));
        let values = path.map_or(Value::Null, |path| json!({ "path": path }));
        let reason = match &event {
            Event::Closed(reason) => Some(Reason::from(reason)),
            _ => None,
        };
        return Description {
            reason,
            ..Description::new(report.kind.name(), report.text, values)
        };
    }
    match event {
        Event::SendFailed(failure) => failed(&failure),
        Event::Address(event) => address(&event),
        Event::Authentication(event) => authentication(event),
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
                format!("reset of {which}, {direction}: {}", outcome_text(outcome)),
                json!({ "direction": direction, "streams": streams, "performed": outcome.is_success() }),
            )
        }
        Event::AssociationReset { outcome, .. } => Description::new(
            "association-reset",
            format!("reset of the association: {}", outcome_text(outcome)),
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
                outcome_text(outcome)
            ),
            json!({
                "outbound_streams": outbound_streams, "inbound_streams": inbound_streams,
                "performed": outcome.is_success(),
            }),
        ),
        // Only the path of an event may be missing.
        event => {
            let kind = ReportKind::of(&event).map_or("other", ReportKind::name);
            Description::new(kind, format!("{kind}: {event:?}"), Value::Null)
        }
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
    Description {
        unsent: Some(failure.unsent.0.concat()),
        ..Description::new("send-failed", text, values)
    }
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
