//! Counters: what happened, so that somebody can say why it was slow or refused.

use core::time::Duration;

use crate::association::state::StateName;
use crate::extensions::Extensions;
use crate::path::PathId;
use crate::protection::ProtectionStats;
use crate::reliability::Abandoned;

/// Counters of an endpoint. All count since the endpoint was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EndpointStats {
    /// Datagrams given to the endpoint.
    pub datagrams_received: u64,
    /// Packets handed out for sending.
    pub packets_sent: u64,
    /// Datagrams that are no SCTP packet: too short, port 0, a first chunk that lies about its length.
    pub malformed: u64,
    /// Packets with a wrong CRC32c.
    pub bad_checksum: u64,
    /// Chunks inside an otherwise good packet that could not be parsed.
    pub malformed_chunks: u64,
    /// Out-of-the-blue packets (section 8.4).
    pub out_of_the_blue: u64,
    /// Packets of a known association with a wrong verification tag.
    pub wrong_tag: u64,
    /// Packets in the clear of associations whose chunks have to be protected.
    pub unprotected: u64,
    /// Packets whose protection is not the peer's, or that came before.
    pub forged_protection: u64,
    /// INITs received.
    pub inits: u64,
    /// INITs refused with ABORT.
    pub inits_refused: u64,
    /// Cookies whose MAC is not ours.
    pub forged_cookies: u64,
    /// COOKIE ECHOs that were not authenticated as they had to be.
    pub unauthenticated_cookies: u64,
    /// Cookies of ours that had expired.
    pub stale_cookies: u64,
    /// Answers to unknown senders that were dropped because too many waited already.
    pub replies_dropped: u64,
    /// Bytes that received data of all associations takes now
    /// ([`crate::EndpointConfig::receive_memory`]).
    pub receive_memory: usize,
    /// Associations that were set up, by either side.
    pub established: u64,
    /// Associations that ended after they had been established.
    pub closed: u64,
    /// ICMP messages that concerned an association.
    pub icmp_accepted: u64,
    /// ICMP messages that were ignored: of no interest, or not for an association of ours.
    pub icmp_ignored: u64,
}

/// The state of one association (STATUS, section 11.1.8) with its counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssociationStats {
    /// Connection state.
    pub state: StateName,
    /// Outbound streams.
    pub outbound_streams: u16,
    /// Inbound streams.
    pub inbound_streams: u16,
    /// The peer's receive window as seen by the sender, in bytes.
    pub peer_rwnd: usize,
    /// This side's receive window as it would be announced now, in bytes.
    pub a_rwnd: usize,
    /// DATA chunks sent and not acknowledged.
    pub outstanding_chunks: usize,
    /// Bytes of user data sent and not acknowledged.
    pub outstanding_bytes: usize,
    /// Messages that wait to be sent, wholly or in part.
    pub queued_messages: usize,
    /// Bytes of messages in the send buffer, outstanding ones included.
    pub send_buffer_bytes: usize,
    /// Bytes in the receive buffer, with the cost of each chunk.
    pub receive_buffer_bytes: usize,
    /// Complete messages that wait for the user.
    pub receivable_messages: usize,
    /// The path for new data.
    pub primary: Option<PathId>,
    /// The association's error counter (section 8.1).
    pub error_count: u32,
    /// The extensions that both sides have; none before the peer told its own.
    pub extensions: Extensions,
    /// What the peer told in INIT or INIT ACK of what is above SCTP (RFC 5061 section 4.2.6); `None`
    /// if it told nothing, or has not yet.
    pub peer_adaptation_layer: Option<u32>,
    /// Messages of this side that were given up (RFC 7496 section 4.4).
    pub abandoned: Abandoned,
    /// Counters of what was sent and received.
    pub counters: AssociationCounters,
    /// Counters of what was not believed; all zero without authentication.
    pub authentication: AuthenticationCounters,
    /// The protection of chunks that both sides agreed on, with its counters; `None` without one.
    pub protection: Option<ProtectionStats>,
}

/// What one association dropped because it was not the peer's for certain (RFC 4895).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AuthenticationCounters {
    /// Packets whose HMAC was wrong.
    pub forged_packets: u64,
    /// AUTH chunks with a key or an algorithm that this side does not have.
    pub unknown_keys: u64,
    /// Chunks dropped because they were not authenticated.
    pub unauthenticated_chunks: u64,
}

/// What one association has sent and received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AssociationCounters {
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received with the right tag.
    pub packets_received: u64,
    /// Times that such a packet showed another UDP port of the peer, or began or ended its
    /// encapsulation (RFC 6951 section 5.4).
    pub encapsulation_changes: u64,
    /// DATA chunks sent for the first time.
    pub data_chunks_sent: u64,
    /// Bytes of user data sent for the first time.
    pub data_bytes_sent: u64,
    /// DATA chunks sent again after a timeout.
    pub timeout_retransmissions: u64,
    /// DATA chunks sent again after missing reports, or found lost by RACK.
    pub fast_retransmissions: u64,
    /// Expirations of T3-rtx.
    pub t3_expirations: u64,
    /// Tail loss probes sent.
    pub tail_loss_probes: u64,
    /// Reductions of a congestion window that were undone, for nothing had been lost.
    pub undone_reductions: u64,
    /// DATA chunks received for the first time and kept.
    pub data_chunks_received: u64,
    /// Bytes of user data in them.
    pub data_bytes_received: u64,
    /// DATA chunks received again.
    pub duplicates_received: u64,
    /// DATA chunks dropped for want of receive buffer.
    pub dropped_for_buffer: u64,
    /// SACKs sent, NR-SACKs included.
    pub sacks_sent: u64,
    /// SACKs received, NR-SACKs included.
    pub sacks_received: u64,
    /// NR-SACKs sent.
    pub nr_sacks_sent: u64,
    /// NR-SACKs received.
    pub nr_sacks_received: u64,
    /// Messages given to the sender.
    pub messages_sent: u64,
    /// Messages delivered to the user, each part of a partial delivery counted.
    pub messages_delivered: u64,
    /// FORWARD-TSN or I-FORWARD-TSN chunks sent, repetitions included (RFC 3758, RFC 8260).
    pub forward_tsns_sent: u64,
    /// FORWARD-TSN or I-FORWARD-TSN chunks received, repetitions included.
    pub forward_tsns_received: u64,
    /// Zero-window probes sent.
    pub window_probes: u64,
    /// DATA chunks the peer took back after it had reported them in gap blocks.
    pub reneged: u64,
    /// Packets with DATA that came marked "congestion experienced".
    pub congestion_marks_received: u64,
    /// Reductions of a congestion window because the peer told of such marks.
    pub congestion_mark_reductions: u64,
    /// ECNE chunks sent, which tell the peer of such marks, repetitions included.
    pub ecnes_sent: u64,
    /// ECNE chunks received, repetitions included.
    pub ecnes_received: u64,
    /// CWR chunks sent, which tell the peer that its ECNE was heard.
    pub cwrs_sent: u64,
    /// CWR chunks received.
    pub cwrs_received: u64,
    /// Control chunks that could not be answered because too many answers waited.
    pub replies_dropped: u64,
}

/// The counters of one outbound stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamStats {
    /// Messages that were given up on it (RFC 7496 section 4.3).
    pub abandoned: Abandoned,
}

/// The state of one path with its counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathStats {
    /// Which path.
    pub id: PathId,
    /// The peer's address.
    pub remote: core::net::IpAddr,
    /// The peer's UDP port on an encapsulated path.
    pub encapsulation: Option<u16>,
    /// The local address used on it.
    pub local: Option<core::net::IpAddr>,
    /// Confirmed, active.
    pub status: crate::path::PathStatus,
    /// Congestion window in bytes.
    pub cwnd: usize,
    /// Slow-start threshold in bytes.
    pub ssthresh: usize,
    /// Bytes acknowledged towards the next increase in congestion avoidance.
    pub partial_bytes_acked: usize,
    /// Outstanding bytes as the congestion control counts them.
    pub flight_size: usize,
    /// Smoothed round-trip time, once measured.
    pub srtt: Option<Duration>,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Path MTU in bytes, IP header included.
    pub mtu: usize,
    /// Where path MTU discovery is, if the association does it.
    pub mtu_discovery: Option<crate::path::mtu_discovery::PathMtuState>,
    /// Consecutive errors.
    pub error_count: u32,
    /// DATA chunks sent on it, retransmissions included.
    pub data_chunks_sent: u64,
    /// DATA chunks that were found lost on it, by a timeout or before.
    pub data_chunks_lost: u64,
    /// Packets sent on it.
    pub packets_sent: u64,
    /// Bytes of SCTP packets sent on it.
    pub bytes_sent: u64,
    /// Packets received from it.
    pub packets_received: u64,
    /// Bytes of SCTP packets received from it.
    pub bytes_received: u64,
    /// Heartbeats sent.
    pub heartbeats_sent: u64,
    /// Heartbeats answered.
    pub heartbeats_answered: u64,
    /// Probes of path MTU discovery sent; they are not among the heartbeats.
    pub mtu_probes_sent: u64,
    /// Probes of path MTU discovery answered, and heartbeats that it sent to compare with.
    pub mtu_probes_answered: u64,
}
