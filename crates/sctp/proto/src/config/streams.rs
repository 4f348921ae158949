//! Streams, their schedulers (RFC 8260, section 3), and the reconfiguration that is granted to the peer (RFC 6525).

/// Streams, their scheduler, and reconfiguration by the peer.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields, rename_all = "kebab-case")
)]
pub struct StreamConfig {
    /// Outbound streams requested in the set-up, 1 to 65535. Default: 10.
    pub outbound_streams: u16,
    /// Limit of inbound streams, 1 to 65535. Default: 65535.
    ///
    /// Streams take memory when they are used: 184 bytes for 64 streams with DATA, 312 with I-DATA and
    /// twice that if the peer abandons unordered messages on them. Beyond the first 64 streams this
    /// reduces the advertised window, by half of the receive buffer at most. All 65,535 streams take
    /// 188 KB, 319 KB or 638 KB, besides [`BufferConfig::receive_buffer`](crate::BufferConfig::receive_buffer).
    pub max_inbound_streams: u16,
    /// Limit of outbound streams if the peer requests more of them (RFC 6525, section 5.2.6), 1 to 65535.
    /// Default: 65535.
    pub max_outbound_streams: u16,
    /// Stream scheduler (RFC 8260, section 3). Default: [`StreamScheduler::FirstCome`].
    pub scheduler: StreamScheduler,
    /// Reconfigurations that are granted to the peer if that extension is in force (RFC 6525).
    pub grants: Grants,
}

portable_struct! {
    StreamConfig {
        outbound_streams, max_inbound_streams, max_outbound_streams, scheduler, grants,
    }
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            outbound_streams: 10,
            max_inbound_streams: u16::MAX,
            max_outbound_streams: u16::MAX,
            scheduler: StreamScheduler::FirstCome,
            grants: Grants::default(),
        }
    }
}

/// Requests of the peer that are granted where the extension is negotiated (RFC 6525 section 6.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields, rename_all = "kebab-case")
)]
pub struct Grants {
    /// Outgoing and Incoming SSN Reset Requests.
    pub reset_streams: bool,
    /// SSN/TSN Reset Requests.
    pub reset_association: bool,
    /// Add Outgoing and Add Incoming Streams Requests.
    pub change_streams: bool,
}

portable_struct! { Grants { reset_streams, reset_association, change_streams } }

impl Default for Grants {
    fn default() -> Self {
        Self {
            reset_streams: true,
            reset_association: true,
            change_streams: true,
        }
    }
}

/// Scheduling of the messages of several streams (RFC 8260, section 3).
///
/// Without interleaving (I-DATA), a message that has begun is finished before another one begins,
/// whatever the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum StreamScheduler {
    /// In the order in which the user sent them (section 3.1, `SCTP_SS_FCFS`).
    #[default]
    FirstCome,
    /// Streams in turn, a message each, or a chunk each with interleaving (section 3.2,
    /// `SCTP_SS_RR`).
    RoundRobin,
    /// Streams in turn, a packet each: a packet has chunks of one stream only (section 3.3,
    /// `SCTP_SS_RR_PKT`).
    RoundRobinPerPacket,
    /// Streams with a lower [value](crate::AssociationMut::set_stream_value) strictly before those with a
    /// higher one; first come, first served among equals (section 3.4, `SCTP_SS_PRIO`).
    Priority,
    /// Streams get the same number of bytes (section 3.5, `SCTP_SS_FB`).
    FairBandwidth,
    /// Streams get bytes in proportion to their [value](crate::AssociationMut::set_stream_value), where 0
    /// counts as 1 (section 3.6, `SCTP_SS_WFQ`).
    WeightedFair,
}

portable_enum! {
    StreamScheduler {
        0: FirstCome,
        1: RoundRobin,
        2: RoundRobinPerPacket,
        3: Priority,
        4: FairBandwidth,
        5: WeightedFair,
    }
}

impl StreamScheduler {
    /// All schedulers, in the order of the RFC.
    pub const ALL: [Self; 6] = [
        Self::FirstCome,
        Self::RoundRobin,
        Self::RoundRobinPerPacket,
        Self::Priority,
        Self::FairBandwidth,
        Self::WeightedFair,
    ];
}
