//! Destination of a SACK (RFC 9260, section 6.4). `rx/sack/route.rs` applies the rules.

/// Rule that selects the path of a SACK. If the selected path is not confirmed, the SACK goes to the source
/// of the DATA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SackRoute {
    /// SACKs go to the source address of the last DATA (RFC 9260, section 6.4), or from an inactive path
    /// to an active one.
    ///
    /// A potentially failed path (RFC 7829) is used: DATA has just arrived from it.
    Source,
    /// SACKs that report gaps go to the usable path with the lowest round-trip time, so that the sender
    /// learns of a loss on a long path earlier; other SACKs go to the source of the DATA (paper
    /// `satellite`, section 4.4.2).
    LowestRttForGaps,
    /// After duplicates, SACKs go to the next other confirmed path, even an inactive one: the rule with
    /// which the association in paper `mobile-ip` failed. It takes duplicates as a sign that SACKs are
    /// lost on the path to the source.
    OtherOnDuplicates,
}

portable_enum! { SackRoute { 0: Source, 1: LowestRttForGaps, 2: OtherOnDuplicates } }

impl SackRoute {
    /// All rules.
    pub const ALL: [Self; 3] = [
        Self::Source,
        Self::LowestRttForGaps,
        Self::OtherOnDuplicates,
    ];

    /// Returns the name in reports and configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::LowestRttForGaps => "lowest-rtt-for-gaps",
            Self::OtherOnDuplicates => "other-on-duplicates",
        }
    }
}
