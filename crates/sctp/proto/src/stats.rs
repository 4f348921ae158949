//! State and counters of endpoints, associations and streams. Those of paths and of authentication are in `path` and `auth`.

use crate::auth::AuthenticationCounters;
use crate::extensions::Extensions;
use crate::ids::StateName;
use crate::path::PathId;
use crate::protection::ProtectionStats;
use crate::reliability::Abandoned;

/// Counters of an endpoint since it was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EndpointStats {
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Packets sent, by associations and by the endpoint itself.
    pub packets_sent: u64,
    /// Datagrams that are no valid SCTP packet: too short, port 0, or an invalid length of the first chunk.
    pub malformed: u64,
    /// Packets with a wrong CRC32c.
    pub bad_checksum: u64,
    /// Malformed chunks in otherwise valid packets.
    pub malformed_chunks: u64,
    /// Out of the blue packets (RFC 9260, section 8.4).
    pub out_of_the_blue: u64,
    /// Packets with a wrong verification tag.
    pub wrong_tag: u64,
    /// Packets in the clear for associations that require protected chunks.
    pub unprotected: u64,
    /// Packets with a forged or replayed chunk protection.
    pub forged_protection: u64,
    /// INITs received.
    pub inits: u64,
    /// INITs refused with ABORT.
    pub inits_refused: u64,
    /// Cookies with an invalid MAC.
    pub forged_cookies: u64,
    /// COOKIE ECHO chunks without the required authentication.
    pub unauthenticated_cookies: u64,
    /// Cookies that had expired.
    pub stale_cookies: u64,
    /// Replies outside associations that were dropped because their queue was full.
    pub replies_dropped: u64,
    /// Current memory of the received data of all associations in bytes
    /// ([`EndpointConfig::receive_memory`](crate::EndpointConfig::receive_memory)).
    pub receive_memory: usize,
    /// Associations established, initiated by either side.
    pub established: u64,
    /// Associations established that the peer initiated.
    pub accepted: u64,
    /// Established associations that have ended.
    pub closed: u64,
    /// Established associations that ended with a shutdown.
    pub shut_down: u64,
    /// Associations that ended without a shutdown, established or not. Set-ups without an answer are not
    /// counted.
    pub aborted: u64,
    /// Messages sent in several DATA chunks, counted with the first one.
    pub messages_fragmented: u64,
    /// ICMP messages that were applied to an association.
    pub icmp_accepted: u64,
    /// ICMP messages that were ignored.
    pub icmp_ignored: u64,
    /// Counters of the associations that have been removed. [`Endpoint::association_counters`](crate::Endpoint::association_counters) has
    /// those of all.
    pub removed: AssociationCounters,
}

portable_struct! {
    EndpointStats {
        datagrams_received, packets_sent, malformed, bad_checksum, malformed_chunks,
        out_of_the_blue, wrong_tag, unprotected, forged_protection, inits, inits_refused,
        forged_cookies, unauthenticated_cookies, stale_cookies, replies_dropped, receive_memory,
        established, accepted, closed, shut_down, aborted, messages_fragmented, icmp_accepted, icmp_ignored, removed,
    }
}

impl core::ops::AddAssign for EndpointStats {
    fn add_assign(&mut self, other: Self) {
        let Self {
            datagrams_received,
            packets_sent,
            malformed,
            bad_checksum,
            malformed_chunks,
            out_of_the_blue,
            wrong_tag,
            unprotected,
            forged_protection,
            inits,
            inits_refused,
            forged_cookies,
            unauthenticated_cookies,
            stale_cookies,
            replies_dropped,
            receive_memory,
            established,
            accepted,
            closed,
            shut_down,
            aborted,
            messages_fragmented,
            icmp_accepted,
            icmp_ignored,
            removed,
        } = other;
        self.datagrams_received += datagrams_received;
        self.packets_sent += packets_sent;
        self.malformed += malformed;
        self.bad_checksum += bad_checksum;
        self.malformed_chunks += malformed_chunks;
        self.out_of_the_blue += out_of_the_blue;
        self.wrong_tag += wrong_tag;
        self.unprotected += unprotected;
        self.forged_protection += forged_protection;
        self.inits += inits;
        self.inits_refused += inits_refused;
        self.forged_cookies += forged_cookies;
        self.unauthenticated_cookies += unauthenticated_cookies;
        self.stale_cookies += stale_cookies;
        self.replies_dropped += replies_dropped;
        self.receive_memory += receive_memory;
        self.established += established;
        self.accepted += accepted;
        self.closed += closed;
        self.shut_down += shut_down;
        self.aborted += aborted;
        self.messages_fragmented += messages_fragmented;
        self.icmp_accepted += icmp_accepted;
        self.icmp_ignored += icmp_ignored;
        self.removed += removed;
    }
}

/// State and counters of an association (STATUS of RFC 9260, section 11.1.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct AssociationStats {
    /// Connection state.
    pub state: StateName,
    /// Number of outbound streams.
    pub outbound_streams: u16,
    /// Number of inbound streams.
    pub inbound_streams: u16,
    /// Receive window of the peer in bytes, outstanding data deducted.
    pub peer_rwnd: usize,
    /// Receive window in bytes that would be advertised now.
    pub a_rwnd: usize,
    /// Number of DATA chunks sent and not acknowledged.
    pub outstanding_chunks: usize,
    /// Bytes of user data sent and not acknowledged.
    pub outstanding_bytes: usize,
    /// Number of messages that are not completely sent.
    pub queued_messages: usize,
    /// Bytes of messages in the send buffer, outstanding ones included.
    pub send_buffer_bytes: usize,
    /// Bytes in the receive buffer, [`BufferConfig::message_overhead`](crate::BufferConfig::message_overhead) of each chunk included.
    pub receive_buffer_bytes: usize,
    /// Number of complete messages that the user has not read.
    pub receivable_messages: usize,
    /// Primary path, also while another one carries the data.
    pub primary: Option<PathId>,
    /// Path that carries new data: the primary one, or an alternate (RFC 9260, section 6.4.1).
    pub current: Option<PathId>,
    /// Error counter of the association (RFC 9260, section 8.1).
    pub error_count: u32,
    /// Extensions in force; none before the INIT or INIT ACK of the peer.
    pub extensions: Extensions,
    /// Adaptation Layer Indication of the peer (RFC 5061, section 4.2.6); `None` before its INIT or INIT ACK,
    /// or without that parameter.
    pub peer_adaptation_layer: Option<u32>,
    /// Abandoned messages of this side (RFC 7496, section 4.4).
    pub abandoned: Abandoned,
    /// Counters of packets, chunks and messages.
    pub counters: AssociationCounters,
    /// Counters of failed authentication; all zero without authentication.
    pub authentication: AuthenticationCounters,
    /// Chunk protection in force with its counters.
    pub protection: Option<ProtectionStats>,
}

/// Counters of packets, chunks and messages of an association.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct AssociationCounters {
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received with a valid verification tag.
    pub packets_received: u64,
    /// Changes of the peer's UDP port or encapsulation by received packets (RFC 6951, section 5.4).
    pub encapsulation_changes: u64,
    /// DATA chunks sent for the first time.
    pub data_chunks_sent: u64,
    /// Unordered ones of these.
    pub unordered_chunks_sent: u64,
    /// Bytes of user data sent for the first time.
    pub data_bytes_sent: u64,
    /// DATA chunks sent again: after a timeout, by fast retransmit, by RACK and as tail loss probes.
    pub retransmissions: u64,
    /// DATA chunks retransmitted after a timeout.
    pub timeout_retransmissions: u64,
    /// DATA chunks retransmitted after missing reports, or marked as lost by RACK.
    pub fast_retransmissions: u64,
    /// Expirations of T3-rtx.
    pub t3_expirations: u64,
    /// Tail loss probes sent.
    pub tail_loss_probes: u64,
    /// Reductions of a congestion window that were undone as spurious.
    pub undone_reductions: u64,
    /// DATA chunks received for the first time and accepted.
    pub data_chunks_received: u64,
    /// Unordered ones of these.
    pub unordered_chunks_received: u64,
    /// Accepted DATA chunks whose TSN was higher than the next expected one.
    pub out_of_sequence_chunks_received: u64,
    /// Bytes of user data in the accepted DATA chunks.
    pub data_bytes_received: u64,
    /// Duplicate DATA chunks received.
    pub duplicates_received: u64,
    /// DATA chunks dropped because the receive buffer was full.
    pub dropped_for_buffer: u64,
    /// SACKs sent, NR-SACKs included.
    pub sacks_sent: u64,
    /// SACKs received, NR-SACKs included.
    pub sacks_received: u64,
    /// NR-SACKs sent.
    pub nr_sacks_sent: u64,
    /// NR-SACKs received.
    pub nr_sacks_received: u64,
    /// Gap Ack Blocks in the received SACKs, those of non-renegable chunks in NR-SACKs included.
    pub gap_ack_blocks_received: u64,
    /// Chunks other than DATA and I-DATA sent, retransmissions included.
    pub control_chunks_sent: u64,
    /// Chunks other than DATA and I-DATA received.
    pub control_chunks_received: u64,
    /// Messages accepted from the user.
    pub messages_sent: u64,
    /// Messages delivered to the user; each part of a partial delivery counts.
    pub messages_delivered: u64,
    /// FORWARD-TSN or I-FORWARD-TSN chunks sent, retransmissions included (RFC 3758, RFC 8260).
    pub forward_tsns_sent: u64,
    /// FORWARD-TSN or I-FORWARD-TSN chunks received, retransmissions included.
    pub forward_tsns_received: u64,
    /// Zero-window probes sent.
    pub window_probes: u64,
    /// DATA chunks on which the peer reneged.
    pub reneged: u64,
    /// Packets with DATA received with the mark "congestion experienced".
    pub congestion_marks_received: u64,
    /// Reductions of a congestion window after an ECNE of the peer.
    pub congestion_mark_reductions: u64,
    /// ECNE chunks sent, retransmissions included.
    pub ecnes_sent: u64,
    /// ECNE chunks received, retransmissions included.
    pub ecnes_received: u64,
    /// CWR chunks sent.
    pub cwrs_sent: u64,
    /// CWR chunks received.
    pub cwrs_received: u64,
    /// Control chunks without a response because the queue of replies was full.
    pub replies_dropped: u64,
}

portable_struct! {
    AssociationCounters {
        packets_sent, packets_received, encapsulation_changes, data_chunks_sent,
        unordered_chunks_sent, data_bytes_sent, retransmissions, timeout_retransmissions,
        fast_retransmissions, t3_expirations, tail_loss_probes, undone_reductions,
        data_chunks_received, unordered_chunks_received, out_of_sequence_chunks_received,
        data_bytes_received, duplicates_received,
        dropped_for_buffer, sacks_sent, sacks_received, nr_sacks_sent, nr_sacks_received,
        gap_ack_blocks_received, control_chunks_sent, control_chunks_received, messages_sent, messages_delivered, forward_tsns_sent, forward_tsns_received, window_probes,
        reneged, congestion_marks_received, congestion_mark_reductions, ecnes_sent, ecnes_received,
        cwrs_sent, cwrs_received, replies_dropped,
    }
}

impl core::ops::AddAssign for AssociationCounters {
    fn add_assign(&mut self, other: Self) {
        let Self {
            packets_sent,
            packets_received,
            encapsulation_changes,
            data_chunks_sent,
            unordered_chunks_sent,
            data_bytes_sent,
            retransmissions,
            timeout_retransmissions,
            fast_retransmissions,
            t3_expirations,
            tail_loss_probes,
            undone_reductions,
            data_chunks_received,
            unordered_chunks_received,
            out_of_sequence_chunks_received,
            data_bytes_received,
            duplicates_received,
            dropped_for_buffer,
            sacks_sent,
            sacks_received,
            nr_sacks_sent,
            nr_sacks_received,
            gap_ack_blocks_received,
            control_chunks_sent,
            control_chunks_received,
            messages_sent,
            messages_delivered,
            forward_tsns_sent,
            forward_tsns_received,
            window_probes,
            reneged,
            congestion_marks_received,
            congestion_mark_reductions,
            ecnes_sent,
            ecnes_received,
            cwrs_sent,
            cwrs_received,
            replies_dropped,
        } = other;
        self.packets_sent += packets_sent;
        self.packets_received += packets_received;
        self.encapsulation_changes += encapsulation_changes;
        self.data_chunks_sent += data_chunks_sent;
        self.unordered_chunks_sent += unordered_chunks_sent;
        self.data_bytes_sent += data_bytes_sent;
        self.retransmissions += retransmissions;
        self.timeout_retransmissions += timeout_retransmissions;
        self.fast_retransmissions += fast_retransmissions;
        self.t3_expirations += t3_expirations;
        self.tail_loss_probes += tail_loss_probes;
        self.undone_reductions += undone_reductions;
        self.data_chunks_received += data_chunks_received;
        self.unordered_chunks_received += unordered_chunks_received;
        self.out_of_sequence_chunks_received += out_of_sequence_chunks_received;
        self.data_bytes_received += data_bytes_received;
        self.duplicates_received += duplicates_received;
        self.dropped_for_buffer += dropped_for_buffer;
        self.sacks_sent += sacks_sent;
        self.sacks_received += sacks_received;
        self.nr_sacks_sent += nr_sacks_sent;
        self.nr_sacks_received += nr_sacks_received;
        self.gap_ack_blocks_received += gap_ack_blocks_received;
        self.control_chunks_sent += control_chunks_sent;
        self.control_chunks_received += control_chunks_received;
        self.messages_sent += messages_sent;
        self.messages_delivered += messages_delivered;
        self.forward_tsns_sent += forward_tsns_sent;
        self.forward_tsns_received += forward_tsns_received;
        self.window_probes += window_probes;
        self.reneged += reneged;
        self.congestion_marks_received += congestion_marks_received;
        self.congestion_mark_reductions += congestion_mark_reductions;
        self.ecnes_sent += ecnes_sent;
        self.ecnes_received += ecnes_received;
        self.cwrs_sent += cwrs_sent;
        self.cwrs_received += cwrs_received;
        self.replies_dropped += replies_dropped;
    }
}

/// Bytes that the buffers of an association hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct BufferUse {
    /// Received data and the state of inbound streams, as they are counted for
    /// [`EndpointConfig::receive_memory`](crate::EndpointConfig::receive_memory).
    pub received: usize,
    /// Messages in the send buffer, outstanding ones included.
    pub queued: usize,
}

/// Counters of an outbound stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct StreamStats {
    /// Abandoned messages (RFC 7496, section 4.3).
    pub abandoned: Abandoned,
}
