//! Records of live runs.

use std::any::Any;
use std::time::Duration;

use carrick_proto::{Time, Tsn};

use super::{Lateness, Program};

/// Record of a run. All times are of one clock, which began before the run.
pub struct RunRecord {
    /// Start of the first programs.
    pub begin: Time,
    /// Programs with their records: both of the first flow, then both of the next.
    pub programs: Vec<Box<dyn Program>>,
    /// Data sent and received by the hosts, in order.
    pub seen: Vec<ObservedData>,
    /// Numbers of the messages that an external program received, with the times since its first one.
    pub external: Vec<(u64, Duration)>,
    /// Expirations of T3-rtx at the first host of the first flow, for SCTP; 0 if the association
    /// was lost.
    pub timeouts: u64,
    /// Time at which a connection was lost, if this was permitted.
    pub lost: Option<Time>,
    /// Lateness of the network.
    pub lateness: Lateness,
    /// Packets that the network did not accept or could not deliver.
    pub refused: u64,
}

/// Data that a host sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedData {
    /// Time at the boundary between the host's kernel and the network.
    pub time: Time,
    /// Index of the host: 0 and 1 are those of the first flow.
    pub host: usize,
    /// Index of the host's interface.
    pub interface: usize,
    /// Direction: sent by the host (true) or received.
    pub out: bool,
    /// Observed data.
    pub data: PacketData,
}

/// A unit of observed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketData {
    /// A DATA chunk.
    Chunk {
        /// TSN of the chunk.
        tsn: Tsn,
        /// Number in the first 8 bytes of the user data; 0 if it is shorter.
        message: u64,
    },
    /// Data of a TCP segment.
    Segment {
        /// Offset of the first byte in the stream, from 0.
        offset: u64,
        /// Length in bytes.
        len: usize,
    },
    /// A packet, if only lengths are recorded.
    Packet {
        /// Length in bytes, with the IP header.
        len: usize,
    },
}

impl RunRecord {
    /// Returns the program of a host, if it is of this type.
    pub fn program<P: Program>(&self, host: usize) -> Option<&P> {
        let program: &dyn Any = self.programs.get(host)?.as_ref();
        program.downcast_ref()
    }

    /// Returns the number of bytes in packets that entered a host in a period.
    pub(crate) fn bytes_into(&self, host: usize, from: Time, until: Time) -> u64 {
        let here = |seen: &&ObservedData| seen.host == host && !seen.out;
        let then = |seen: &&ObservedData| seen.time >= from && seen.time < until;
        let seen = self.seen.iter().filter(here).filter(then);
        seen.map(|seen| match seen.data {
            PacketData::Packet { len } => len as u64,
            PacketData::Chunk { .. } | PacketData::Segment { .. } => 0,
        })
        .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ms: u64, host: usize, out: bool, data: PacketData) -> ObservedData {
        ObservedData {
            time: Time::from_millis(ms),
            host,
            interface: 0,
            out,
            data,
        }
    }

    #[test]
    fn bytes_into_a_host_are_counted_in_a_period() {
        let packet = |len| PacketData::Packet { len };
        let record = RunRecord {
            begin: Time::ZERO,
            programs: Vec::new(),
            seen: vec![
                seen(1, 1, false, packet(10)),
                seen(2, 1, false, packet(20)),
                seen(3, 1, true, packet(40)),
                seen(4, 0, false, packet(80)),
                seen(5, 1, false, packet(160)),
            ],
            external: Vec::new(),
            timeouts: 0,
            lost: None,
            lateness: Lateness::default(),
            refused: 0,
        };
        let bytes = |host, from, until| {
            record.bytes_into(host, Time::from_millis(from), Time::from_millis(until))
        };
        assert_eq!(
            [bytes(1, 2, 5), bytes(1, 0, 9), bytes(0, 0, 9)],
            [20, 190, 80]
        );
    }
}
