//! Metrics of endpoints for monitoring systems: counters with the names of the MIB (RFC 3873, section 3), and
//! numbers of associations and paths by state.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use crate::endpoint::Endpoint;
use crate::ids::StateName;
use crate::path::PathStatus;
use crate::stats::{AssociationCounters, EndpointStats};

/// Numbers of paths by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PathCounts {
    /// Paths to addresses that are not confirmed (RFC 9260, section 5.4).
    pub unconfirmed: usize,
    /// Active paths, potentially failed ones not included.
    pub active: usize,
    /// Potentially failed paths (RFC 7829).
    pub potentially_failed: usize,
    /// Inactive paths (RFC 9260, section 8.2).
    pub inactive: usize,
}

impl PathCounts {
    /// Returns the numbers with the names of their states, as labels of metrics have them.
    pub fn by_name(&self) -> Vec<(&'static str, usize)> {
        vec![
            ("unconfirmed", self.unconfirmed),
            ("active", self.active),
            ("potentially-failed", self.potentially_failed),
            ("inactive", self.inactive),
        ]
    }

    fn count(&mut self, status: PathStatus) {
        let number = match (status.confirmed, status.active, status.potentially_failed) {
            (false, ..) => &mut self.unconfirmed,
            (true, false, _) => &mut self.inactive,
            (true, true, true) => &mut self.potentially_failed,
            (true, true, false) => &mut self.active,
        };
        *number += 1;
    }
}

/// Counter with its name and explanation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NamedCounter {
    /// Name in lower case, of the MIB without `sctp` if it has one: `active_estabs`.
    pub name: &'static str,
    /// Explanation in one line, with the object of the MIB.
    pub help: &'static str,
    /// Value since the endpoint was created.
    pub value: u64,
}

/// Counters of endpoints, and what they have at the moment. Those of several endpoints can be added.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EndpointMetrics {
    /// Counters of endpoints, except [`EndpointStats::receive_memory`], which is the current memory.
    pub endpoint: EndpointStats,
    /// Counters of all associations, those included that have ended.
    pub associations: AssociationCounters,
    /// Numbers of associations by state. Those that have ended and still have unread messages are not counted.
    pub states: BTreeMap<StateName, usize>,
    /// Numbers of paths by state.
    pub paths: PathCounts,
}

impl core::ops::AddAssign for EndpointMetrics {
    fn add_assign(&mut self, other: Self) {
        self.endpoint += other.endpoint;
        self.associations += other.associations;
        for (state, count) in other.states {
            *self.states.entry(state).or_default() += count;
        }
        self.paths.unconfirmed += other.paths.unconfirmed;
        self.paths.active += other.paths.active;
        self.paths.potentially_failed += other.paths.potentially_failed;
        self.paths.inactive += other.paths.inactive;
    }
}

impl Endpoint {
    /// Returns the counters, and the numbers of associations and paths by state. Takes time in proportion to the
    /// number of associations.
    pub fn metrics(&self) -> EndpointMetrics {
        let mut metrics = EndpointMetrics {
            endpoint: self.stats(),
            associations: self.association_counters(),
            ..EndpointMetrics::default()
        };
        for association in self.associations().filter_map(|id| self.association(id)) {
            let state = association.stats().state;
            if state == StateName::Closed {
                continue;
            }
            *metrics.states.entry(state).or_default() += 1;
            for path in association.paths() {
                metrics.paths.count(path.status);
            }
        }
        metrics
    }
}

impl EndpointMetrics {
    /// Returns the number of associations in ESTABLISHED, SHUTDOWN-PENDING or SHUTDOWN-RECEIVED
    /// (`sctpCurrEstab` of RFC 3873).
    pub fn established(&self) -> usize {
        let states = [
            StateName::Established,
            StateName::ShutdownPending,
            StateName::ShutdownReceived,
        ];
        let counts = states.iter().filter_map(|state| self.states.get(state));
        counts.sum()
    }

    /// Returns the counters with their names.
    pub fn counters(&self) -> Vec<NamedCounter> {
        let (endpoint, associations) = (&self.endpoint, &self.associations);
        let ordered = |all: u64, unordered: u64| all.saturating_sub(unordered);
        macro_rules! table {
            ($($name:literal, $help:literal, $value:expr;)*) => {
                vec![$(NamedCounter { name: $name, help: $help, value: $value }),*]
            };
        }
        table! {
            "active_estabs", "Associations established by this host (sctpActiveEstabs)",
                endpoint.established.saturating_sub(endpoint.accepted);
            "passive_estabs", "Associations established by peers (sctpPassiveEstabs)", endpoint.accepted;
            "aborteds", "Associations that ended without a shutdown (sctpAborteds)", endpoint.aborted;
            "shutdowns", "Associations that ended with a shutdown (sctpShutdowns)", endpoint.shut_down;
            "out_of_blues", "Out of the blue packets received (sctpOutOfBlues)", endpoint.out_of_the_blue;
            "checksum_errors", "Packets received with an invalid checksum (sctpChecksumErrors)",
                endpoint.bad_checksum;
            "out_sctp_packs", "Packets sent (sctpOutSCTPPacks)", endpoint.packets_sent;
            "in_sctp_packs", "Packets received (sctpInSCTPPacks)", endpoint.datagrams_received;
            "malformed_packets", "Packets received that are not valid SCTP packets", endpoint.malformed;
            "wrong_tag_packets", "Packets received with a wrong verification tag", endpoint.wrong_tag;
            "out_order_chunks", "Ordered DATA chunks sent, without retransmissions (sctpOutOrderChunks)",
                ordered(associations.data_chunks_sent, associations.unordered_chunks_sent);
            "out_unorder_chunks", "Unordered DATA chunks sent, without retransmissions (sctpOutUnorderChunks)",
                associations.unordered_chunks_sent;
            "in_order_chunks", "Ordered DATA chunks received, without duplicates (sctpInOrderChunks)",
                ordered(associations.data_chunks_received, associations.unordered_chunks_received);
            "in_unorder_chunks", "Unordered DATA chunks received, without duplicates (sctpInUnorderChunks)",
                associations.unordered_chunks_received;
            "user_data_sent_bytes", "User data sent in DATA chunks, without retransmissions",
                associations.data_bytes_sent;
            "user_data_received_bytes", "User data received in DATA chunks, without duplicates",
                associations.data_bytes_received;
            "out_ctrl_chunks", "Control chunks sent (sctpOutCtrlChunks)", associations.control_chunks_sent;
            "in_ctrl_chunks", "Control chunks received (sctpInCtrlChunks)", associations.control_chunks_received;
            "frag_usr_msgs", "Messages sent in several DATA chunks (sctpFragUsrMsgs)",
                endpoint.messages_fragmented;
            "retransmissions", "DATA chunks sent again, tail loss probes included", associations.retransmissions;
            "timeout_retransmissions", "DATA chunks retransmitted after a timeout (sum of sctpAssocRtxChunks)",
                associations.timeout_retransmissions;
            "fast_retransmissions", "DATA chunks retransmitted after missing reports",
                associations.fast_retransmissions;
            "t3_expirations", "Expirations of T3-rtx", associations.t3_expirations;
            "duplicates_received", "Duplicate DATA chunks received", associations.duplicates_received;
            "dropped_for_buffer", "DATA chunks dropped because the receive buffer was full",
                associations.dropped_for_buffer;
        }
    }
}
