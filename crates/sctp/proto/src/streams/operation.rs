//! A RE-CONFIG chunk with one or two requests of this side, until they are answered (RFC 6525 sections
//! 3.1, 4, 5.1).

use alloc::vec::Vec;
use core::time::Duration;

use carrick_wire::{
    AddStreams, ParameterWriter, ReconfigResponse, ReconfigResult, ReconfigSerial, Tsn, padded,
};

use crate::path::PathId;
use crate::stream_set::StreamSet;
use crate::time::Time;

/// Kind of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RequestKind {
    ResetOutgoing(StreamSet),
    ResetIncoming(StreamSet),
    /// SSN/TSN Reset.
    ResetNumbers,
    AddOutgoing(u16),
    AddIncoming(u16),
}

portable_enum! {
    RequestKind {
        0: ResetOutgoing(value),
        1: ResetIncoming(value),
        2: ResetNumbers,
        3: AddOutgoing(value),
        4: AddIncoming(value),
    }
}

impl RequestKind {
    /// Returns whether the peer grants it by a request in turn.
    pub(crate) fn needs_request(&self) -> bool {
        matches!(self, Self::ResetIncoming(_) | Self::AddIncoming(_))
    }

    /// Returns the streams on which nothing new is sent before the answer (RFC 6525, sections 5.1.2, step
    /// A1, and 5.1.4, step C2).
    pub(crate) fn held(&self) -> Option<StreamSet> {
        match self {
            Self::ResetOutgoing(streams) => Some(streams.clone()),
            Self::ResetNumbers => Some(StreamSet::All),
            _ => None,
        }
    }

    /// Returns the bytes of its parameter, with padding.
    pub(crate) fn parameter_len(&self) -> usize {
        match self {
            Self::ResetOutgoing(streams) => padded(16 + 2 * streams.listed().len()),
            Self::ResetIncoming(streams) => padded(8 + 2 * streams.listed().len()),
            Self::ResetNumbers => 8,
            Self::AddOutgoing(_) | Self::AddIncoming(_) => 12,
        }
    }
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct StreamsRequest {
    pub(crate) kind: RequestKind,
    /// Assigned at the first transmission.
    pub(crate) number: ReconfigSerial,
    /// A final answer has arrived.
    pub(crate) answered: bool,
}

portable_struct! { StreamsRequest { kind, number, answered } }

/// Transmission state of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub(crate) path: PathId,
    /// To be sent with the next packet.
    pub(crate) due: bool,
    pub(crate) timer: Option<Time>,
    /// Duration of the Re-configuration Timer.
    pub(crate) timeout: Duration,
    pub(crate) transmissions: u32,
    /// The peer answered "In progress" since the last transmission: the next timeout does not count as an
    /// error.
    pub(crate) in_progress: bool,
    /// Fixed at the first transmission: a retransmission has the same content.
    pub(crate) last_tsn: Tsn,
    pub(crate) response: ReconfigSerial,
}

portable_struct! {
    InFlight {
        path, due, timer, timeout, transmissions, in_progress, last_tsn, response,
    }
}

/// A RE-CONFIG chunk with requests of this side.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) requests: Vec<StreamsRequest>,
    /// The peer's request that it grants.
    pub(crate) grants: Option<ReconfigSerial>,
    /// Response to another request in the peer's chunk, sent along once.
    pub(crate) piggybacked: Option<ReconfigResponse>,
    /// Set when no message for the held streams is queued: their TSNs have indices below this.
    pub(crate) sent_below: Option<u64>,
    /// `None` before the first transmission.
    pub(crate) flight: Option<InFlight>,
}

portable_struct! { Operation { requests, grants, piggybacked, sent_below, flight } }

impl Operation {
    pub(crate) fn new(kinds: Vec<RequestKind>, grants: Option<ReconfigSerial>) -> Self {
        let request = |kind| StreamsRequest {
            kind,
            number: ReconfigSerial::new(0),
            answered: false,
        };
        Self {
            requests: kinds.into_iter().map(request).collect(),
            grants,
            piggybacked: None,
            sent_below: None,
            flight: None,
        }
    }

    pub(crate) fn held(&self) -> Option<StreamSet> {
        self.requests.iter().find_map(|r| r.kind.held())
    }

    /// Returns whether all requests have a final answer.
    pub(crate) fn is_answered(&self) -> bool {
        self.requests.iter().all(|r| r.answered)
    }

    /// Returns the path of the operation if it was transmitted only once: an answer shows that the path
    /// works.
    pub(crate) fn confirmed_path(&self) -> Option<PathId> {
        let once = self.flight.filter(|f| f.transmissions == 1);
        once.map(|f| f.path)
    }

    pub(crate) fn resets_numbers(&self) -> bool {
        self.requests
            .iter()
            .any(|r| r.kind == RequestKind::ResetNumbers)
    }

    /// Returns whether it waits for the peer to send a request.
    pub(crate) fn needs_request(&self) -> bool {
        self.requests
            .iter()
            .any(|r| !r.answered && r.kind.needs_request())
    }

    /// Returns whether it resets these outgoing streams.
    pub(crate) fn covers(&self, streams: &StreamSet) -> bool {
        self.requests.iter().any(|r| match &r.kind {
            RequestKind::ResetOutgoing(ours) => ours.covers(streams),
            _ => false,
        })
    }

    /// Returns the unanswered request with this number, if it has been sent.
    pub(crate) fn unanswered(&mut self, number: ReconfigSerial) -> Option<&mut StreamsRequest> {
        self.flight?;
        let mut requests = self.requests.iter_mut();
        requests.find(|r| !r.answered && r.number == number)
    }

    /// Returns the bytes of the chunk.
    pub(crate) fn chunk_len(&self) -> usize {
        let parameters: usize = self.requests.iter().map(|r| r.kind.parameter_len()).sum();
        4 + parameters + if self.piggybacked.is_some() { 20 } else { 0 }
    }

    /// Writes the parameters.
    pub(crate) fn write(&self, flight: &InFlight, parameters: &mut ParameterWriter<'_>) {
        if let Some(response) = self.piggybacked {
            parameters.reconfig_response(response);
        }
        for StreamsRequest { kind, number, .. } in &self.requests {
            let request = *number;
            match kind {
                RequestKind::ResetOutgoing(streams) => parameters.outgoing_ssn_reset(
                    request,
                    flight.response,
                    flight.last_tsn,
                    streams.listed(),
                ),
                RequestKind::ResetIncoming(streams) => {
                    parameters.incoming_ssn_reset(request, streams.listed());
                }
                RequestKind::ResetNumbers => parameters.ssn_tsn_reset(request),
                &RequestKind::AddOutgoing(count) => {
                    parameters.add_outgoing_streams(AddStreams { request, count });
                }
                &RequestKind::AddIncoming(count) => {
                    parameters.add_incoming_streams(AddStreams { request, count });
                }
            }
        }
    }
}

/// Returns a response without TSNs.
pub(crate) fn response(number: ReconfigSerial, result: ReconfigResult) -> ReconfigResponse {
    ReconfigResponse {
        response: number,
        result,
        next_tsns: None,
    }
}
