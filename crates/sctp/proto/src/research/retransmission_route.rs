//! Path of a retransmission: the rules of RFC 9260 (section 6.4), of other implementations and of papers.
//! `tx/retransmission_route.rs` applies them.

/// Rule that selects the path of a retransmission. A selected path that is not confirmed is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetransmissionRoute {
    /// After T3-rtx expired, an alternate path; for fast retransmissions, the path of the original (RFC
    /// 9260, section 6.4).
    TimeoutsOnAlternate,
    /// An alternate path for all retransmissions, since the path of the original may have failed (RFC 2960,
    /// used by papers `satellite` and `mobile-ip`).
    AllOnAlternate,
    /// The path of the original while it is active.
    SamePath,
    /// At once on any path with room in its window (RTX-ASAP of Iyengar et al., 2006). If several paths have
    /// room, the path of the original is preferred, then the fastest path (in the paper, a random one).
    Asap,
    /// The path with the largest cwnd; among equals, the path of the original (RTX-CWND of Iyengar et al.,
    /// 2006).
    LargestCwnd,
    /// The path with the largest ssthresh, which reflects the losses of a longer period than cwnd does;
    /// among equals, the one with the largest cwnd (RTX-SSTHRESH of Iyengar et al., 2006).
    LargestSsthresh,
    /// The path with the lowest loss rate among the data recently sent on it (RTX-LOSSRATE of Iyengar et
    /// al., 2006).
    LowestLoss,
    /// One path for all retransmissions, as in Linux 2.6, the implementation of paper `failover`: initially
    /// the path after the primary path, then the next active path each time T3-rtx expires on the current
    /// one.
    InTurn,
}

portable_enum! {
    RetransmissionRoute {
        0: TimeoutsOnAlternate,
        1: AllOnAlternate,
        2: SamePath,
        3: Asap,
        4: LargestCwnd,
        5: LargestSsthresh,
        6: LowestLoss,
        7: InTurn,
    }
}

impl RetransmissionRoute {
    /// All rules.
    pub const ALL: [Self; 8] = [
        Self::TimeoutsOnAlternate,
        Self::AllOnAlternate,
        Self::SamePath,
        Self::Asap,
        Self::LargestCwnd,
        Self::LargestSsthresh,
        Self::LowestLoss,
        Self::InTurn,
    ];

    /// Returns the name in reports and configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::TimeoutsOnAlternate => "timeouts-on-alternate",
            Self::AllOnAlternate => "all-on-alternate",
            Self::SamePath => "same-path",
            Self::Asap => "rtx-asap",
            Self::LargestCwnd => "rtx-cwnd",
            Self::LargestSsthresh => "rtx-ssthresh",
            Self::LowestLoss => "rtx-lossrate",
            Self::InTurn => "in-turn",
        }
    }
}
