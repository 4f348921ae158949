//! One DATA chunk that was sent, and where it stands.

use bytes::Bytes;
use carrick_wire::{DataFlags, Fsn, Mid, Ppid, Ssn, StreamId};

use crate::path::PathId;
use crate::policy::LossSignal;
use crate::time::Time;

/// Where a chunk stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChunkState {
    /// On its way, as far as is known.
    InFlight,
    /// Reported in a gap block.
    Acked,
    /// To be sent again.
    Marked(LossSignal),
    /// Given up with its message (RFC 3758 section 3.4): as good as acknowledged.
    Abandoned {
        /// It was in flight then, and may still turn out to be lost.
        awaited: bool,
    },
}

/// One DATA chunk.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Empty once the peer has it for good.
    pub(crate) payload: Bytes,
    /// The length that it had then.
    pub(super) released: u32,
    /// The number of its message if that may be given up, otherwise 0.
    pub(crate) message: u64,
    pub(crate) context: u64,
    pub(crate) ppid: Ppid,
    pub(crate) transmissions: u32,
    pub(crate) stream: StreamId,
    /// The number of the message; with DATA its lower half is the SSN.
    pub(crate) mid: Mid,
    pub(crate) fsn: Fsn,
    pub(crate) flags: DataFlags,
    /// The path it was last sent to.
    pub(crate) path: PathId,
    /// It was sent to other paths before: its acknowledgement does not tell which one works.
    pub(crate) ambiguous: bool,
    pub(crate) state: ChunkState,
    /// Not eligible for a second fast retransmission (section 7.2.4, step 5).
    pub(crate) fast_retransmitted: bool,
    /// The first chunk of its packet.
    pub(crate) leads: bool,
    /// Since it was last sent, the peer took back that it had arrived, or could not say whether it
    /// has: `sent` and `serial` are of that moment.
    pub(crate) taken_back: bool,
    /// It is in flight and has left flight before.
    pub(super) again: bool,
    /// When it was last sent, and the number of that transmission in the association.
    pub(crate) sent: Time,
    pub(crate) serial: u64,
    /// Its neighbours in the order of transmission, while in flight; see
    /// [`crate::send::recovery::SendOrder`].
    pub(super) older: u64,
    pub(super) newer: u64,
}

impl Chunk {
    /// The Stream Sequence Number of DATA.
    pub(crate) fn ssn(&self) -> Ssn {
        Ssn::new(self.mid.value() as u16)
    }

    /// Bytes of user data.
    pub(crate) fn len(&self) -> usize {
        self.payload.len() + self.released as usize
    }

    /// The peer has promised to keep it.
    pub(crate) fn is_settled(&self) -> bool {
        self.released > 0
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(self.state, ChunkState::Abandoned { .. })
    }
}

/// A chunk that was acknowledged, as it was sent last.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct Arrived {
    pub(in crate::send) path: PathId,
    /// The bytes that it counts for in the congestion window.
    pub(in crate::send) weight: usize,
    pub(in crate::send) transmissions: u32,
    pub(in crate::send) ambiguous: bool,
    pub(in crate::send) taken_back: bool,
    pub(in crate::send) leads: bool,
    pub(in crate::send) serial: u64,
    pub(in crate::send) sent: Time,
}
