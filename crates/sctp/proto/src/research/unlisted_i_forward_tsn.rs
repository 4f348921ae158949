//! I-FORWARD-TSN of a peer that did not list it (RFC 8260 section 2.3.1).

/// Effect of an I-FORWARD-TSN if I-DATA was negotiated and this side has listed I-FORWARD-TSN, but the
/// peer has not. The section requires both sides to list it and does not define how to handle the chunk
/// otherwise. Linux sends it unlisted to each peer that offers FORWARD-TSN and I-DATA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnlistedIForwardTsn {
    /// Ends the association: the peer uses what was not negotiated.
    Abort,
    /// Processes the chunk as if it was negotiated, because the data behind it would never be delivered
    /// otherwise. This side still abandons no message.
    Take,
}

portable_enum! { UnlistedIForwardTsn { 0: Abort, 1: Take } }
