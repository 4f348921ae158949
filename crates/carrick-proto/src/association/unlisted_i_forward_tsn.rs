//! I-FORWARD-TSN of a peer that did not list it (RFC 8260 section 2.3.1).

/// What an I-FORWARD-TSN does that comes where I-DATA was negotiated and this side has listed
/// I-FORWARD-TSN, but the peer has not. The section has both sides list it; what else is to become of the
/// chunk it leaves open. Linux sends it so, to whoever offers FORWARD-TSN and I-DATA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnlistedIForwardTsn {
    /// It ends the association: the peer keeps to another agreement than this side.
    Abort,
    /// It is taken like one that was negotiated, because the data behind it would never come otherwise.
    /// This side still gives nothing up.
    Take,
}
