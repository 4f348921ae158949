//! Path of new data: the primary path only (RFC 9260, section 6.4), or several paths at once.

/// Path selection for new data. It does not apply to a message for which the user chose a path, as long as
/// that path is usable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataRoute {
    /// One path at a time: the primary path, or an alternate path if the primary path is inactive (RFC 9260,
    /// section 6.4).
    PrimaryOnly,
    /// Concurrent transfer that prefers the primary path while it has room, then the path with the lowest
    /// round-trip time: alternate paths carry only data beyond its window. Intended for networks whose
    /// backup path is fast but of low capacity, so that its queue stays short for retransmissions. As long as
    /// the primary path can carry all data, the result is that of RFC 9260.
    PrimaryFirst,
    /// Concurrent transfer in rotation: each packet goes to the next usable path with room in its window, in
    /// the order of [`PathId`](crate::PathId). If the congestion windows are the limit, each path carries as much data as
    /// its window allows; if the user or the receive window is the limit, all paths carry the same amount.
    RoundRobin,
    /// Concurrent transfer that prefers fast paths: each packet goes to the path with the lowest round-trip
    /// time among the paths with room in their windows. If the windows are the limit, the throughput is that
    /// of [`Self::RoundRobin`]; with less data, or a smaller receive window, slow paths stay idle and no
    /// message waits for their data.
    FastestFirst,
}

portable_enum! { DataRoute { 0: PrimaryOnly, 1: PrimaryFirst, 2: RoundRobin, 3: FastestFirst } }

impl DataRoute {
    /// All rules.
    pub const ALL: [Self; 4] = [
        Self::PrimaryOnly,
        Self::PrimaryFirst,
        Self::RoundRobin,
        Self::FastestFirst,
    ];

    /// Returns the name in reports and configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::PrimaryOnly => "primary",
            Self::PrimaryFirst => "primary-first",
            Self::RoundRobin => "round-robin",
            Self::FastestFirst => "fastest-first",
        }
    }

    /// Returns whether several paths carry new data at the same time.
    pub fn concurrent(self) -> bool {
        self != Self::PrimaryOnly
    }
}
