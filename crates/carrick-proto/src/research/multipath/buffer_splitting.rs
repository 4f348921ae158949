//! Buffer splitting (draft-tuexen-tsvwg-sctp-multipath, "Buffer Blocking"; Adhari, Dreibholz, Becke,
//! Rathgeb, Tüxen: "Evaluation of Concurrent Multipath Transfer over Dissimilar Paths", 2011): paths
//! that share the send buffer and the peer's window take them from each other, and a slow path,
//! whose data stays there longer, ends up with nearly all. So each of n paths gets a part of 1/n.

/// Which buffers are split among the paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferSplitting {
    /// None.
    None,
    /// The send buffer.
    Sender,
    /// The peer's receive window: what it has announced last, and what is in flight.
    Receiver,
    /// Both.
    Both,
}

/// Which bytes of a path are held against its part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SplitBasis {
    /// Those in flight: neither acknowledged nor known to be lost.
    Outstanding,
    /// Those in the send buffer that were sent there last: also what gap blocks acknowledge, which
    /// the peer may still take back.
    Buffered,
}

/// What there is to be shared, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shares {
    /// The send buffer.
    pub(crate) send_buffer: usize,
    /// The peer's window: what may still be sent, and what is in flight.
    pub(crate) peer_window: usize,
    /// Paths that carry data.
    pub(crate) paths: usize,
}

/// What one path has taken of it, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Usage {
    pub(crate) outstanding: usize,
    pub(crate) buffered: usize,
}

impl BufferSplitting {
    /// Whether a path may take more. One that has taken nothing always may.
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
    fn a_path_that_has_nothing_is_never_blocked() {
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
