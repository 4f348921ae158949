//! Events for `tracing` subscribers (feature `tracing`): associations that are established and end, and
//! changes of paths. Target `carrick`; without the feature, nothing is compiled in.

use carrick_proto::{AssociationId, Event};

/// Reports an event of an association.
#[cfg(feature = "tracing")]
pub(crate) fn report(id: AssociationId, event: &Event) {
    match event {
        Event::Established { peer_addresses, .. } => {
            tracing::info!(target: "carrick", ?id, ?peer_addresses, "association established");
        }
        Event::Closed(reason) => {
            tracing::info!(target: "carrick", ?id, %reason, "association ended");
        }
        Event::PathPotentiallyFailed(path)
        | Event::UnexposedPathChange {
            path,
            potentially_failed: true,
        } => {
            tracing::warn!(target: "carrick", ?id, ?path, "path potentially failed");
        }
        Event::PathFailed(path) => {
            tracing::warn!(target: "carrick", ?id, ?path, "path failed");
        }
        Event::PathRecovered(path) | Event::UnexposedPathChange { path, .. } => {
            tracing::info!(target: "carrick", ?id, ?path, "path recovered");
        }
        Event::MessageReceived | Event::SendBufferFree | Event::AllAcknowledged => {}
        event => tracing::debug!(target: "carrick", ?id, ?event, "association event"),
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) fn report(_: AssociationId, _: &Event) {}
