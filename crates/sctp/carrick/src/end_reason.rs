//! Words for the end of an association, which the event log, `tracing` and the logs of daemons share.

use carrick_proto::{Event, EventReport, ObservedEvent};

/// Returns the reason of the end of an association in the words of the daemons' logs; `None` for another event.
pub(crate) fn end_reason(event: &ObservedEvent) -> Option<String> {
    let ObservedEvent::Notified(event @ Event::Closed(_)) = event else {
        return None;
    };
    let text = EventReport::new(event, &[], None)?.text;
    Some(text.strip_prefix("ended: ").unwrap_or(&text).to_owned())
}
