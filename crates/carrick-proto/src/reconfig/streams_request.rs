//! Requests of ours: what they ask for, and the RE-CONFIG chunk that carries one or two of them
//! until they are answered (RFC 6525 sections 3.1, 4, 5.1).

use alloc::vec::Vec;
use core::time::Duration;

use carrick_wire::{
    AddStreams, ParameterWriter, ReconfigResponse, ReconfigResult, ReconfigSerial, Tsn, padded,
};

use super::StreamSet;
use crate::path::PathId;
use crate::time::Time;

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    ResetOutgoing(StreamSet),
    ResetIncoming(StreamSet),
    /// SSN/TSN Reset.
    ResetNumbers,
    AddOutgoing(u16),
    AddIncoming(u16),
}

impl Kind {
    /// The peer grants it by a request of its own.
    pub(crate) fn needs_request(&self) -> bool {
        matches!(self, Self::ResetIncoming(_) | Self::AddIncoming(_))
    }

    /// The streams that nothing new may be sent on before the answer (steps A1 and C2).
    pub(crate) fn held(&self) -> Option<StreamSet> {
        match self {
            Self::ResetOutgoing(streams) => Some(streams.clone()),
            Self::ResetNumbers => Some(StreamSet::All),
            _ => None,
        }
    }

    /// Bytes of its parameter, with padding.
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
pub(crate) struct Request {
    pub(crate) kind: Kind,
    /// Given when it leaves.
    pub(crate) number: ReconfigSerial,
    /// It has been answered for good.
    pub(crate) done: bool,
}

/// On its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) path: PathId,
    /// To be sent with the next packet.
    pub(crate) due: bool,
    pub(crate) timer: Option<Time>,
    /// What the Re-configuration Timer was set to.
    pub(crate) timeout: Duration,
    pub(crate) transmissions: u32,
    /// The peer answered "In progress" since it was last sent: the next timeout is no error.
    pub(crate) in_progress: bool,
    /// Fixed when it was first sent: a repetition says the same.
    pub(crate) last_tsn: Tsn,
    pub(crate) response: ReconfigSerial,
}

/// A RE-CONFIG chunk with requests.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) requests: Vec<Request>,
    /// The peer's request that it grants.
    pub(crate) grants: Option<ReconfigSerial>,
    /// The answer to another request of the peer's chunk, which goes along once.
    pub(crate) along: Option<ReconfigResponse>,
    /// Nothing for the held streams is queued any more; the last of them has an index below this.
    pub(crate) sent_below: Option<u64>,
    /// `None` while it waits.
    pub(crate) flight: Option<Flight>,
}

impl Operation {
    pub(crate) fn new(kinds: Vec<Kind>, grants: Option<ReconfigSerial>) -> Self {
        let request = |kind| Request {
            kind,
            number: ReconfigSerial::new(0),
            done: false,
        };
        Self {
            requests: kinds.into_iter().map(request).collect(),
            grants,
            along: None,
            sent_below: None,
            flight: None,
        }
    }

    pub(crate) fn held(&self) -> Option<StreamSet> {
        self.requests.iter().find_map(|r| r.kind.held())
    }

    pub(crate) fn is_done(&self) -> bool {
        self.requests.iter().all(|r| r.done)
    }

    pub(crate) fn resets_numbers(&self) -> bool {
        self.requests.iter().any(|r| r.kind == Kind::ResetNumbers)
    }

    /// Whether it waits for the peer to send a request.
    pub(crate) fn needs_request(&self) -> bool {
        self.requests
            .iter()
            .any(|r| !r.done && r.kind.needs_request())
    }

    /// Whether it resets these outgoing streams by itself.
    pub(crate) fn covers(&self, streams: &StreamSet) -> bool {
        self.requests.iter().any(|r| match &r.kind {
            Kind::ResetOutgoing(ours) => ours.covers(streams),
            _ => false,
        })
    }

    /// The request with this number, on its way and not answered.
    pub(crate) fn unanswered(&mut self, number: ReconfigSerial) -> Option<&mut Request> {
        self.flight?;
        let mut requests = self.requests.iter_mut();
        requests.find(|r| !r.done && r.number == number)
    }

    /// Bytes of the chunk.
    pub(crate) fn chunk_len(&self) -> usize {
        let parameters: usize = self.requests.iter().map(|r| r.kind.parameter_len()).sum();
        4 + parameters + if self.along.is_some() { 20 } else { 0 }
    }

    /// Writes the parameters.
    pub(crate) fn write(&self, flight: &Flight, parameters: &mut ParameterWriter<'_>) {
        if let Some(response) = self.along {
            parameters.reconfig_response(response);
        }
        for Request { kind, number, .. } in &self.requests {
            let request = *number;
            match kind {
                Kind::ResetOutgoing(streams) => parameters.outgoing_ssn_reset(
                    request,
                    flight.response,
                    flight.last_tsn,
                    streams.listed(),
                ),
                Kind::ResetIncoming(streams) => {
                    parameters.incoming_ssn_reset(request, streams.listed());
                }
                Kind::ResetNumbers => parameters.ssn_tsn_reset(request),
                &Kind::AddOutgoing(count) => {
                    parameters.add_outgoing_streams(AddStreams { request, count });
                }
                &Kind::AddIncoming(count) => {
                    parameters.add_incoming_streams(AddStreams { request, count });
                }
            }
        }
    }
}

/// An answer without TSNs.
pub(crate) fn response(number: ReconfigSerial, result: ReconfigResult) -> ReconfigResponse {
    ReconfigResponse {
        response: number,
        result,
        next_tsns: None,
    }
}
