//! Computation of the advertised receive window (paper `overhead`, section 4).

/// Rule for the receive window that is advertised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowAnnouncement {
    /// The free memory: the payload and the overhead of each chunk in the buffer are subtracted. The
    /// overhead of chunks still to arrive is not, so a peer that fills the window may have to
    /// retransmit the last of them.
    True,
    /// The payload that fits into the memory that is left, if the chunks to come are as large as
    /// those before: of a peer that keeps to the window nothing is dropped, unless its chunks suddenly
    /// become smaller. The default.
    Fitting,
    /// Only the payload is subtracted, although each chunk costs more; the peer then sends what
    /// has to be dropped. The behaviour that the paper warns of.
    PayloadOnly,
}

portable_enum! { WindowAnnouncement { 0: True, 1: Fitting, 2: PayloadOnly } }
