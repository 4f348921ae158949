//! Notifications that wait for the user.

use alloc::collections::VecDeque;
use core::net::IpAddr;

use crate::capacity::ReserveDoubling;
use crate::event::{
    AddressEvent, AuthenticationEvent, Event, PeerError, ReconfigOutcome, StreamDirection,
};
use crate::path::{PathChange, PathId};
use crate::stream_set::StreamSet;
use crate::time::Time;

/// Waiting notifications that the peer can cause at will.
const MAX_PEER_EVENTS: usize = 64;

/// Notifications in their order, and which states the user has been notified of.
#[derive(Debug)]
pub(crate) struct EventQueue {
    queue: VecDeque<Event>,
    /// [`Event::PeerError`]s that the user has not polled.
    peer_errors: usize,
    /// The last notified state of all paths: dormant or not.
    dormant: bool,
    /// Begin of the stall that the user was notified of last.
    stall: Option<Time>,
}

portable_struct! { EventQueue { queue, peer_errors, dormant, stall } }

impl EventQueue {
    pub(super) fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            peer_errors: 0,
            dormant: false,
            stall: None,
        }
    }

    pub(super) fn push(&mut self, event: Event) {
        self.queue.reserve_doubling();
        self.queue.push_back(event);
    }

    pub(super) fn extend(&mut self, events: impl IntoIterator<Item = impl Into<Event>>) {
        self.queue.extend(events.into_iter().map(Into::into));
    }

    /// Queues an event that the peer can cause at will, unless too many events wait.
    pub(super) fn push_limited(&mut self, event: Event) {
        if self.queue.len() < MAX_PEER_EVENTS {
            self.queue.push_back(event);
        }
    }

    /// Queues an error that the peer reported, unless too many of them wait.
    pub(super) fn push_peer_error(&mut self, error: PeerError) {
        if self.peer_errors < MAX_PEER_EVENTS {
            self.peer_errors += 1;
            self.queue.push_back(Event::PeerError(error));
        }
    }

    /// Notifies the user of a changed state of a path.
    pub(super) fn notify_path_change(&mut self, id: PathId, change: Option<PathChange>) {
        self.extend(change.map(|change| match change {
            PathChange::Unconfirmed => Event::PathUnconfirmed(id),
            PathChange::Failed => Event::PathFailed(id),
            PathChange::PotentiallyFailed => Event::PathPotentiallyFailed(id),
            PathChange::Recovered => Event::PathRecovered(id),
            PathChange::Unexposed { potentially_failed } => Event::UnexposedPathChange {
                path: id,
                potentially_failed,
            },
        }));
    }

    /// Notifies the user of a key that the peer uses.
    pub(super) fn notify_key(&mut self, event: AuthenticationEvent) {
        self.push_limited(Event::Authentication(event));
    }

    /// Notifies the user that the peer can't be asked to prefer this address.
    pub(super) fn reject_set_primary(&mut self, address: IpAddr) {
        self.push_limited(Event::Address(AddressEvent::Refused { address, code: 0 }));
    }

    /// Notifies the user of a reset of streams (RFC 6525, section 6.1.1).
    pub(super) fn notify_reset(
        &mut self,
        direction: StreamDirection,
        streams: &StreamSet,
        outcome: ReconfigOutcome,
    ) {
        self.push_limited(Event::StreamsReset {
            direction,
            streams: streams.listed().to_vec(),
            outcome,
        });
    }

    /// Counts down when the user has polled an [`Event::PeerError`].
    pub(crate) fn on_peer_error_polled(&mut self) {
        self.peer_errors = self.peer_errors.saturating_sub(1);
    }

    /// Notifies the user when the association becomes dormant: no path is active.
    pub(super) fn set_dormant(&mut self, dormant: bool) {
        if dormant && !self.dormant {
            self.push(Event::Dormant);
        }
        self.dormant = dormant;
    }

    /// Notifies the user of a stall, once for each.
    pub(super) fn notify_stall(&mut self, since: Time) {
        if self.stall != Some(since) {
            self.stall = Some(since);
            self.push(Event::NoProgress);
        }
    }

    /// Ends the stall: data was acknowledged.
    pub(super) fn end_stall(&mut self) {
        self.stall = None;
    }

    /// Forgets the notified states: the peer restarted.
    pub(super) fn restart(&mut self) {
        self.dormant = false;
        self.stall = None;
    }

    /// Frees the memory for further events.
    pub(super) fn free_unused_memory(&mut self) {
        self.queue.shrink_to_fit();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Queues an event in front of those that wait.
    pub(crate) fn push_first(&mut self, event: Event) {
        self.queue.push_front(event);
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.queue.pop_front()
    }
}
