//! Observers of an endpoint: that of its user, the event log, and `tracing` (feature `tracing`): a span for each
//! association, with events of target `carrick`.

use std::sync::Arc;

use carrick_proto::{AssociationId, ObservedDetail, ObservedEvent, Observer, Time};

use crate::Config;

/// Returns the observer of an endpoint whose time begins; `None` if nothing observes it.
pub(crate) fn observer(config: &Config) -> Option<Arc<dyn Observer>> {
    let mut all: Vec<Arc<dyn Observer>> = Vec::new();
    all.extend(config.observer.clone());
    #[cfg(feature = "event-log")]
    all.extend(config.event_log.as_ref().map(crate::EventLog::observer));
    #[cfg(feature = "tracing")]
    all.push(Arc::new(spans::Spans::default()));
    if all.len() > 1 {
        return Some(Arc::new(Several(all)));
    }
    all.pop()
}

/// Several observers of one endpoint.
#[derive(Debug)]
struct Several(Vec<Arc<dyn Observer>>);

impl Observer for Several {
    fn observe(&self, association: AssociationId, time: Time, event: &ObservedEvent) {
        for observer in &self.0 {
            observer.observe(association, time, event);
        }
    }

    fn detail(&self) -> ObservedDetail {
        let all = self.0.iter().map(|observer| observer.detail());
        all.max().unwrap_or(ObservedDetail::Association)
    }

    fn trace(&self, association: AssociationId) -> Option<String> {
        self.0
            .iter()
            .find_map(|observer| observer.trace(association))
    }
}

#[cfg(feature = "tracing")]
mod spans {
    use std::collections::HashMap;
    use std::fmt;
    use std::sync::{Mutex, PoisonError};

    use carrick_proto::{AssociationId, Event, ObservedDetail, ObservedEvent, Observer, Time};
    use tracing::{Level, Span, enabled};

    use crate::end_reason::end_reason;

    /// Observer that passes events to the subscribers of `tracing`: the beginning, the end and the states of an
    /// association and of its paths at level info, failures of paths as warnings, what explains them at level
    /// debug, and single chunks at level trace.
    #[derive(Debug, Default)]
    pub(super) struct Spans(Mutex<HashMap<AssociationId, Span>>);

    /// Fields of an event, as `name=value`.
    struct Fields<'a>(&'a ObservedEvent);

    impl fmt::Display for Fields<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            if let Some(reason) = end_reason(self.0) {
                return write!(f, "reason={reason}");
            }
            let (mut result, mut separator) = (Ok(()), "");
            self.0.visit(&mut |name, value| {
                if result.is_ok() {
                    result = write!(f, "{separator}{name}={value}");
                    separator = " ";
                }
            });
            result
        }
    }

    impl Observer for Spans {
        fn detail(&self) -> ObservedDetail {
            if enabled!(target: "carrick", Level::TRACE) {
                ObservedDetail::Chunk
            } else if enabled!(target: "carrick", Level::DEBUG) {
                ObservedDetail::Decision
            } else {
                ObservedDetail::Association
            }
        }

        fn observe(&self, association: AssociationId, _: Time, event: &ObservedEvent) {
            let detail = event.detail();
            let is_enabled = match detail {
                ObservedDetail::Association => enabled!(target: "carrick", Level::INFO),
                ObservedDetail::Decision => enabled!(target: "carrick", Level::DEBUG),
                ObservedDetail::Chunk => enabled!(target: "carrick", Level::TRACE),
            };
            if !is_enabled {
                return;
            }
            let span = self.span(association, event);
            let _entered = span.enter();
            let (name, fields) = (event.name(), Fields(event));
            match (detail, event) {
                (
                    _,
                    ObservedEvent::Notified(
                        Event::PathUnconfirmed(_)
                        | Event::PathFailed(_)
                        | Event::PathPotentiallyFailed(_)
                        | Event::UnexposedPathChange {
                            potentially_failed: true,
                            ..
                        }
                        | Event::Dormant
                        | Event::NoProgress,
                    ),
                ) => tracing::warn!(target: "carrick", name, %fields),
                (ObservedDetail::Association, _) => {
                    tracing::info!(target: "carrick", name, %fields);
                }
                (ObservedDetail::Decision, _) => tracing::debug!(target: "carrick", name, %fields),
                (ObservedDetail::Chunk, _) => tracing::trace!(target: "carrick", name, %fields),
            }
        }
    }

    impl Spans {
        /// Returns the span of an association, which begins with its first event and is forgotten with its end.
        fn span(&self, association: AssociationId, event: &ObservedEvent) -> Span {
            let mut spans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let begun = || {
                let (local_port, peer_port) = match event {
                    ObservedEvent::Begun {
                        local_port,
                        peer_port,
                        ..
                    } => (Some(*local_port), Some(*peer_port)),
                    _ => (None, None),
                };
                tracing::info_span!(target: "carrick", "association", id = %association, local_port, peer_port)
            };
            if matches!(event, ObservedEvent::Notified(Event::Closed(_))) {
                return spans.remove(&association).unwrap_or_else(begun);
            }
            spans.entry(association).or_insert_with(begun).clone()
        }
    }
}
