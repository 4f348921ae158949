//! SACKs for packets above a gap, when the peer sends on several paths (RFC 9260, section 6.7).

/// Acknowledgement of packets that leave a gap.
///
/// A peer that sends on several paths at once causes gaps all the time, and each packet above a gap
/// is acknowledged at once (RFC 9260, section 6.7): twice as many SACKs as on one path. The receiver of
/// Iyengar et al. (2006, DAC) delays all of them, and with them the reports of real losses. The rule
/// here needs no help of the peer: packets of one path rarely overtake each other, so a missing TSN
/// can still be in flight only if some path has not delivered a higher one yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapSacks {
    /// Each at once (RFC 9260, section 6.7).
    AtOnce,
    /// At once only if every path that delivers data has delivered TSNs above the first gap; otherwise
    /// every second packet or after SACK.Delay, as without gaps. The sender should count packets
    /// and not SACKs ([`ReportsPerSack::Packets`](super::ReportsPerSack::Packets)), or it detects losses later.
    DelayedAcrossPaths,
}

portable_enum! { GapSacks { 0: AtOnce, 1: DelayedAcrossPaths } }
