//! Delayed acknowledgements for several paths (Iyengar et al. 2006, DAC), the receiver's side.
//!
//! A peer that uses several paths at once makes gaps all the time, and RFC 9260 section 6.7 has a
//! SACK sent for each packet then: twice as many as for one path. Iyengar's receiver delays all of
//! them, which also delays the news of real losses. This one tells the cases apart without any help of
//! the peer: packets of one path rarely overtake each other, so a TSN that is missing can still be
//! on its way only if some path has not brought a higher one yet.

/// When packets above a gap are acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapSacks {
    /// Each at once (RFC 9260 section 6.7).
    AtOnce,
    /// At once only when every path that brings data has brought TSNs above the first gap; otherwise
    /// every second packet or after SACK.Delay, as without gaps. The sender should count packets
    /// and not SACKs ([`super::ReportsPerSack::Packets`]), or it finds losses later.
    DelayedAcrossPaths,
}
