//! State and counters of a path, for the user.

use core::net::IpAddr;
use core::time::Duration;

use super::mtu_discovery::PathMtuState;
use super::{PathErrorCause, PathId, PathStatus};

/// State and counters of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PathStats {
    /// Identifier of the path.
    pub id: PathId,
    /// Address of the peer.
    pub remote: IpAddr,
    /// UDP port of the peer; `None` on plain IP.
    pub encapsulation: Option<u16>,
    /// Local address of the path: the source of its packets.
    pub local: Option<IpAddr>,
    /// Local address that the routes of the host select as source for `remote`; `None` before the first
    /// selection. `local` differs from it where the peer addressed another one, or after a failure.
    pub selected: Option<IpAddr>,
    /// Confirmed, active or failed.
    pub status: PathStatus,
    /// Congestion window in bytes.
    pub cwnd: usize,
    /// Slow-start threshold in bytes.
    pub ssthresh: usize,
    /// Bytes acknowledged towards the next increase in congestion avoidance.
    pub partial_bytes_acked: usize,
    /// Outstanding bytes as the congestion control counts them.
    pub flight_size: usize,
    /// Pacing rate in bytes of DATA chunks per second; `None` where packets are not paced.
    pub pacing_rate: Option<u64>,
    /// Smoothed round-trip time; `None` before the first measurement.
    pub srtt: Option<Duration>,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Path MTU in bytes, IP header included.
    pub mtu: usize,
    /// DSCP of the packets, 0 to 63.
    pub dscp: u8,
    /// State of path MTU discovery, if enabled.
    pub mtu_discovery: Option<PathMtuState>,
    /// Error counter of the path.
    pub error_count: u32,
    /// Reason of the last error of the path, also after the counter was cleared; `None` before the first one.
    pub last_error: Option<PathErrorCause>,
    /// DATA chunks sent, retransmissions included.
    pub data_chunks_sent: u64,
    /// DATA chunks lost, by timeout or loss detection.
    pub data_chunks_lost: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Bytes of SCTP packets sent.
    pub bytes_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Bytes of SCTP packets received.
    pub bytes_received: u64,
    /// Heartbeats sent.
    pub heartbeats_sent: u64,
    /// Heartbeats acknowledged.
    pub heartbeats_answered: u64,
    /// Probes of path MTU discovery sent, not counted as heartbeats.
    pub mtu_probes_sent: u64,
    /// Probes of path MTU discovery acknowledged, including the heartbeats sent for comparison.
    pub mtu_probes_answered: u64,
}
