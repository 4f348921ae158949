//! Buffer splitting (draft-tuexen-tsvwg-sctp-multipath, "Buffer Blocking"; Adhari, Dreibholz, Becke,
//! Rathgeb, Tüxen: "Evaluation of Concurrent Multipath Transfer over Dissimilar Paths", 2011). If paths
//! share the send buffer and the peer's receive window, a slow path, whose data occupies them longer,
//! finally holds nearly all of them. Therefore each of n paths gets a part of 1/n.

/// Buffers that are split among the paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferSplitting {
    /// No buffer is split.
    None,
    /// The send buffer.
    Sender,
    /// The peer's receive window: the last `a_rwnd` plus the data in flight.
    Receiver,
    /// The send buffer and the receive window.
    Both,
}

portable_enum! { BufferSplitting { 0: None, 1: Sender, 2: Receiver, 3: Both } }

/// Bytes of a path that count towards its part of a split buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SplitBasis {
    /// Bytes in flight: neither acknowledged nor known to be lost.
    Outstanding,
    /// Bytes in the send buffer that were last sent on the path, including bytes acknowledged by Gap Ack
    /// Blocks, which the peer may still renege on.
    Buffered,
}

portable_enum! { SplitBasis { 0: Outstanding, 1: Buffered } }

/// Sizes in bytes of the buffers to be split, and the number of paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shares {
    /// Size of the send buffer.
    pub(crate) send_buffer: usize,
    /// Peer's receive window: bytes that may still be sent, plus bytes in flight.
    pub(crate) peer_window: usize,
    /// Number of paths that carry data.
    pub(crate) paths: usize,
}

/// Buffer usage of one path, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Usage {
    pub(crate) outstanding: usize,
    pub(crate) buffered: usize,
}

impl BufferSplitting {
    /// Returns whether a path may send more data. A path without data in the buffer always may.
    pub(crate) fn permits(self, basis: SplitBasis, shares: &Shares, usage: Usage) -> bool {
        let taken = match basis {
            SplitBasis::Outstanding => usage.outstanding,
            SplitBasis::Buffered => usage.buffered,
        };
        let paths = shares.paths.max(1);
        let (sender, receiver) = match self {
            Self::None => return true,
            Self::Sender => (true, false),
            Self::Receiver => (false, true),
            Self::Both => (true, true),
        };
        taken == 0
            || (!sender || taken < shares.send_buffer / paths)
                && (!receiver || taken < shares.peer_window / paths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: Shares = Shares {
        send_buffer: 1000,
        peer_window: 400,
        paths: 2,
    };

    fn permits(splitting: BufferSplitting, basis: SplitBasis, taken: (usize, usize)) -> bool {
        let usage = Usage {
            outstanding: taken.0,
            buffered: taken.1,
        };
        splitting.permits(basis, &SHARES, usage)
    }

    #[test]
    fn a_path_takes_no_more_than_its_part() {
        use BufferSplitting as S;
        let flight = SplitBasis::Outstanding;
        assert!(permits(S::None, flight, (5000, 5000)));
        assert!(permits(S::Sender, flight, (499, 900)));
        assert!(!permits(S::Sender, flight, (500, 900)));
        assert!(permits(S::Receiver, flight, (199, 900)));
        assert!(!permits(S::Receiver, flight, (200, 900)));
        assert!(!permits(S::Both, flight, (200, 900)));
        let buffered = SplitBasis::Buffered;
        assert!(!permits(S::Sender, buffered, (10, 500)));
        assert!(permits(S::Sender, buffered, (10, 499)));
    }

    #[test]
    fn a_path_without_data_is_never_blocked() {
        let none = Shares {
            send_buffer: 0,
            peer_window: 0,
            paths: 0,
        };
        let usage = Usage {
            outstanding: 0,
            buffered: 0,
        };
        assert!(BufferSplitting::Both.permits(SplitBasis::Buffered, &none, usage));
    }
}
