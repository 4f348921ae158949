//! Requests of this side to re-configure streams: from the user or the peer to the chunk, its
//! retransmission and the response (RFC 6525 sections 5.1.1 to 5.1.6 and 5.2.7).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use carrick_wire::{ReconfigResponse, ReconfigResult, ReconfigSerial, StreamId};

use super::Streams;
use super::operation::{InFlight, Operation, RequestKind};
use super::peer_requests::RequestConfirmed;
use crate::error::ReconfigError;
use crate::event::StreamDirection;
use crate::path::{PathId, Paths, alternate};
use crate::stream_set::StreamSet;
use crate::time::Time;
use crate::tx::Sender;

/// The maximum segment lifetime (RFC 6525, section 5.1.4).
const SEGMENT_LIFETIME: Duration = Duration::from_secs(30);

/// A response to a request of ours.
#[derive(Debug)]
pub(crate) struct RequestAnswered {
    pub(crate) kind: RequestKind,
    pub(crate) confirmed: RequestConfirmed,
    /// The result is "In progress": the final response is still to come.
    pub(crate) in_progress: bool,
}

/// Returns the requests that reset these streams; `room` is the size of the largest RE-CONFIG chunk.
pub(crate) fn reset_requests(
    direction: StreamDirection,
    streams: &[StreamId],
    outbound_streams: u16,
    inbound_streams: u16,
    room: usize,
) -> Result<Vec<RequestKind>, ReconfigError> {
    let set = StreamSet::new(streams.iter().copied());
    let mut kinds = Vec::with_capacity(2);
    if direction.is_outgoing() {
        let streams = outbound_streams;
        if !set.fits(streams) {
            return Err(ReconfigError::InvalidStream { streams });
        }
        kinds.push(RequestKind::ResetOutgoing(set.clone()));
    }
    if direction.is_incoming() {
        let streams = inbound_streams;
        if !set.fits(streams) {
            return Err(ReconfigError::InvalidStream { streams });
        }
        kinds.push(RequestKind::ResetIncoming(set));
    }
    let fixed = 4 + kinds.iter().map(|k| k.parameter_len()).sum::<usize>();
    let per_stream = 2 * kinds.len();
    if fixed > room {
        let empty = 4 + 16 + if kinds.len() > 1 { 8 } else { 0 };
        let limit = (room.saturating_sub(empty) / 4 * 4) / per_stream;
        return Err(ReconfigError::ListTooLong { limit });
    }
    Ok(kinds)
}

/// Returns the requests that add streams; `most_outgoing` and `most_incoming` can be added.
pub(crate) fn addition_requests(
    outgoing: u16,
    incoming: u16,
    most_outgoing: u16,
    most_incoming: u16,
) -> Result<Vec<RequestKind>, ReconfigError> {
    let mut kinds = Vec::with_capacity(2);
    if outgoing > 0 {
        let limit = most_outgoing;
        if outgoing > limit {
            return Err(ReconfigError::TooManyStreams { limit });
        }
        kinds.push(RequestKind::AddOutgoing(outgoing));
    }
    if incoming > 0 {
        let limit = most_incoming;
        if incoming > limit {
            return Err(ReconfigError::TooManyStreams { limit });
        }
        kinds.push(RequestKind::AddIncoming(incoming));
    }
    if kinds.is_empty() {
        return Err(ReconfigError::NothingToAdd);
    }
    Ok(kinds)
}

impl Streams {
    /// Returns the request to reset all numbers, at most one per segment lifetime (RFC 6525, section
    /// 5.1.4).
    pub(crate) fn renumbering_request(
        &mut self,
        now: Time,
    ) -> Result<Vec<RequestKind>, ReconfigError> {
        let last = self.last_renumbering;
        if last.is_some_and(|at| now < at + SEGMENT_LIFETIME) {
            return Err(ReconfigError::TooSoon);
        }
        self.last_renumbering = Some(now);
        Ok(Vec::from([RequestKind::ResetNumbers]))
    }

    /// Begins an operation; there must be none. It is sent as soon as it may. Returns the streams that
    /// are held until then.
    #[must_use]
    pub(crate) fn begin(
        &mut self,
        kinds: Vec<RequestKind>,
        grants: Option<ReconfigSerial>,
    ) -> Option<StreamSet> {
        let operation = Operation::new(kinds, grants);
        let held = operation.held();
        self.operation = Some(Box::new(operation));
        held
    }

    /// Takes the request that grants one of the peer and had to wait for our own operation.
    pub(crate) fn take_queued_grant(&mut self) -> Option<(ReconfigSerial, RequestKind)> {
        if self.operation.is_some() || self.queued_grant.is_none() {
            return None;
        }
        self.queued_grant.take().map(|grant| *grant)
    }

    pub(crate) fn has_operation(&self) -> bool {
        self.operation.is_some()
    }

    /// Returns whether a reset of all numbers has been requested: data of the peer can't be placed
    /// before the response.
    pub(crate) fn awaits_renumbering(&self) -> bool {
        let operation = self.operation.as_ref();
        operation.is_some_and(|o| o.flight.is_some() && o.resets_numbers())
    }

    /// Returns whether the operation may be sent: the data that was sent before on the streams is
    /// acknowledged (RFC 6525, sections 5.1.2, step A3, and 5.1.4, step C2), so that the peer resets
    /// them without delay.
    fn is_ready(&mut self, sender: &Sender) -> bool {
        let defers = self.deferred.is_some();
        let Some(operation) = &mut self.operation else {
            return false;
        };
        if operation.resets_numbers() {
            return sender.is_flushed() && !defers;
        }
        let Some(streams) = operation.held() else {
            return true;
        };
        if operation.sent_below.is_none() {
            operation.sent_below = sender.sent_below(&streams);
        }
        operation
            .sent_below
            .is_some_and(|index| sender.is_acknowledged_below(index))
    }

    /// Puts the operation in flight if it may be sent. Returns whether one is in flight.
    pub(crate) fn start_if_ready(&mut self, sender: &Sender, path: PathId) -> bool {
        match &self.operation {
            None => return false,
            Some(operation) if operation.flight.is_some() => return true,
            Some(_) => {}
        }
        if !self.is_ready(sender) {
            return false;
        }
        let Some(mut operation) = self.operation.take() else {
            return false;
        };
        for request in &mut operation.requests {
            request.number = self.next_number();
        }
        let last_of_peer = self.last_of_peer();
        operation.flight = Some(InFlight {
            path,
            due: true,
            timer: None,
            timeout: Duration::ZERO,
            transmissions: 0,
            in_progress: false,
            last_tsn: sender.last_tsn(),
            response: operation.grants.unwrap_or(last_of_peer),
        });
        self.operation = Some(operation);
        true
    }

    /// Takes the operation out for a transmission, if it is due, and starts the Re-configuration Timer.
    /// [`Self::sent`] puts it back.
    pub(crate) fn take_due(
        &mut self,
        paths: &Paths,
        now: Time,
    ) -> Option<(Box<Operation>, InFlight)> {
        let is_due = |o: &mut Box<Operation>| o.flight.is_some_and(|f| f.due);
        let mut operation = self.operation.take_if(is_due)?;
        let flight = operation.flight.as_mut()?;
        if !paths.contains(flight.path) {
            flight.path = paths.current();
        }
        let rto = paths[flight.path].rto();
        flight.timeout = flight.timeout.max(rto);
        // A peer that repeats the request that this one grants makes it leave again, and must not put
        // off the timeout that selects another path for it.
        flight.timer.get_or_insert(now + flight.timeout);
        flight.due = false;
        flight.transmissions += 1;
        let flight = *flight;
        Some((operation, flight))
    }

    /// Puts the operation back after its transmission.
    pub(crate) fn sent(&mut self, mut operation: Box<Operation>) {
        operation.piggybacked = None;
        self.operation = Some(operation);
    }

    /// Sends a response along with a reset of outgoing streams that is to be sent now. Returns whether
    /// there is one.
    pub(crate) fn piggyback(&mut self, response: ReconfigResponse) -> bool {
        if self.operation.is_none() {
            return false;
        }
        if let Some(operation) = &mut self.operation
            && let [request] = &operation.requests[..]
            && matches!(request.kind, RequestKind::ResetOutgoing(_))
            && operation.flight.is_some_and(|f| f.due)
        {
            operation.piggybacked = Some(response);
            return true;
        }
        false
    }

    /// Processes the Re-configuration Timer (RFC 6525, section 5.1.1). Returns the path that failed to
    /// carry the request.
    pub(crate) fn on_timeout(
        &mut self,
        now: Time,
        rto_max: Duration,
        paths: &Paths,
    ) -> Option<PathId> {
        self.operation.as_ref()?;
        let flight = self.operation.as_mut().and_then(|o| o.flight.as_mut())?;
        if flight.timer.is_none_or(|at| at > now) {
            return None;
        }
        let in_progress = core::mem::take(&mut flight.in_progress);
        let failed = flight.path;
        flight.timer = None;
        flight.due = true;
        flight.timeout = flight.timeout.saturating_mul(2).min(rto_max);
        if in_progress || !paths.contains(failed) {
            return None;
        }
        flight.path = alternate(failed, &mut paths.views());
        Some(failed)
    }

    /// Processes a response (RFC 6525, section 5.2.7, steps H1 and H2). A response that answers no
    /// outstanding request is ignored.
    pub(crate) fn on_response(
        &mut self,
        response: &ReconfigResponse,
        paths: &Paths,
        now: Time,
    ) -> Option<RequestAnswered> {
        self.operation.as_ref()?;
        let mut operation = self.operation.take()?;
        let Some(request) = operation.unanswered(response.response) else {
            self.operation = Some(operation);
            return None;
        };
        let kind = request.kind.clone();
        let in_progress = response.result == ReconfigResult::IN_PROGRESS;
        request.answered = !in_progress;
        let confirmed = RequestConfirmed {
            path: operation.confirmed_path(),
        };
        if in_progress {
            if let Some(flight) = &mut operation.flight {
                // Step H2: the timer is restarted, and its next expiration is no error.
                if paths.contains(flight.path) {
                    flight.timeout = flight.timeout.max(paths[flight.path].rto());
                }
                flight.timer = Some(now + flight.timeout);
                flight.in_progress = true;
            }
            self.operation = Some(operation);
        } else {
            self.put_back(operation, response.result);
        }
        Some(RequestAnswered {
            kind,
            confirmed,
            in_progress,
        })
    }

    /// Continues the operation, or ends it with this result.
    pub(super) fn put_back(&mut self, operation: Box<Operation>, result: ReconfigResult) {
        if !operation.is_answered() {
            self.operation = Some(operation);
        } else if let Some(number) = operation.grants {
            // The peer has answered the request that grants its own.
            self.record_answer(number, result, None);
        }
    }
}
