//! Helpers shared by the modules.

use carrick_proto::{CloseReason, Event};

use crate::common::*;

pub(crate) fn closed(events: &[Event]) -> Vec<&CloseReason> {
    events
        .iter()
        .filter_map(|e| match e {
            Event::Closed(reason) => Some(reason),
            _ => None,
        })
        .collect()
}

pub(crate) fn gone(w: &World) -> bool {
    w.ends.iter().all(|e| e.associations().count() == 0)
}
