//! Outstanding DATA chunk and its state.

use bytes::Bytes;
use carrick_wire::{DataFlags, Fsn, Mid, Ppid, Ssn, StreamId};

use crate::path::PathId;
use crate::time::Time;
use crate::tx::LossSignal;

/// State of an outstanding chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChunkState {
    /// Neither acknowledged nor known to be lost.
    InFlight,
    /// Acknowledged by a Gap Ack Block.
    Acked,
    /// Marked for retransmission.
    Marked(LossSignal),
    /// Abandoned with its message (RFC 3758, section 3.4): considered acknowledged.
    Abandoned {
        /// The chunk was in flight, and its loss may yet be detected.
        awaited: bool,
    },
}

portable_enum! { ChunkState { 0: InFlight, 1: Acked, 2: Marked(value), 3: Abandoned { awaited } } }

/// Outstanding DATA chunk.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// User data; empty once it is acknowledged as non-renegable.
    pub(crate) payload: Bytes,
    /// Length of the user data that was acknowledged as non-renegable.
    pub(super) released: u32,
    /// Number of the message if it may be abandoned, otherwise 0.
    pub(crate) message: u64,
    pub(crate) context: u64,
    pub(crate) ppid: Ppid,
    pub(crate) transmissions: u32,
    pub(crate) stream: StreamId,
    /// Number of the message; with DATA, its lower half is the SSN.
    pub(crate) mid: Mid,
    pub(crate) fsn: Fsn,
    pub(crate) flags: DataFlags,
    /// Path of the last transmission.
    pub(crate) path: PathId,
    /// The chunk was sent on several paths: its acknowledgement does not show which of them works.
    pub(crate) ambiguous: bool,
    pub(crate) state: ChunkState,
    /// Ineligible for another fast retransmission (RFC 9260, section 7.2.4, step 5).
    pub(crate) fast_retransmitted: bool,
    /// First chunk of its packet.
    pub(crate) first_in_packet: bool,
    /// Since the last transmission, the peer reneged on the chunk or had no room to report it; `sent` and
    /// `serial` are of that moment.
    pub(crate) delivery_uncertain: bool,
    /// The chunk is in flight again, as a retransmission.
    pub(super) in_flight_again: bool,
    /// Time of the last transmission, and its number in the association.
    pub(crate) sent: Time,
    pub(crate) serial: u64,
    /// Neighbours in the order of transmission, while in flight; see
    /// [`path::PathRecovery`](crate::path::PathRecovery).
    pub(super) older: u64,
    pub(super) newer: u64,
}

portable_struct! {
    Chunk {
        payload, released, message, context, ppid, transmissions, stream, mid, fsn, flags, path,
        ambiguous, state, fast_retransmitted, first_in_packet, delivery_uncertain, in_flight_again,
        sent, serial, older, newer,
    }
}

impl Chunk {
    /// Stream Sequence Number of DATA.
    pub(crate) fn ssn(&self) -> Ssn {
        Ssn::new(self.mid.value() as u16)
    }

    /// Bytes of user data.
    pub(crate) fn len(&self) -> usize {
        self.payload.len() + self.released as usize
    }

    /// Returns whether the chunk is acknowledged as non-renegable.
    pub(crate) fn is_non_renegable(&self) -> bool {
        self.released > 0
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(self.state, ChunkState::Abandoned { .. })
    }
}

/// Acknowledged chunk, with its last transmission.
#[derive(Clone, Copy, Debug)]
pub(in crate::tx) struct AckedChunk {
    pub(in crate::tx) path: PathId,
    /// Bytes that the chunk counts in the flight size.
    pub(in crate::tx) weight: usize,
    pub(in crate::tx) transmissions: u32,
    pub(in crate::tx) ambiguous: bool,
    pub(in crate::tx) delivery_uncertain: bool,
    pub(in crate::tx) first_in_packet: bool,
    pub(in crate::tx) serial: u64,
    pub(in crate::tx) sent: Time,
}
