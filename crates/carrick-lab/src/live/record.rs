//! Records of live runs.

use std::any::Any;
use std::collections::BTreeSet;

use carrick_proto::{PathId, Time, Tsn};

use super::log::{Log, Transmission};
use super::{Lateness, Program, Sink, Source};
use crate::tcp_host::Segment;

/// Record of a run. All times are of one clock, which began before the run.
pub struct RunRecord {
    /// Start of the first programs.
    pub begin: Time,
    /// Programs with their records: both of the first flow, then both of the next.
    pub programs: Vec<Box<dyn Program>>,
    /// Data sent and received by the hosts, in order.
    pub seen: Vec<ObservedData>,
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

    /// Returns the record of numbered messages from the first host to the second.
    pub(crate) fn flow(&self) -> Option<FlowRecord<'_>> {
        let source: &Source = self.program(0)?;
        let sink: &Sink = self.program(1)?;
        let mut flow = FlowRecord {
            sends: &source.sends,
            deliveries: &sink.deliveries,
            transmissions: Vec::new(),
            arrivals: Vec::new(),
            segments: Vec::new(),
        };
        let mut arrived = BTreeSet::new();
        let mut end = 0;
        for seen in &self.seen {
            match (seen.data, seen.host, seen.out) {
                (PacketData::Chunk { tsn, message }, 0, true) => {
                    flow.transmissions.push(Transmission {
                        message,
                        tsn,
                        time: seen.time,
                        path: PathId(seen.interface as u8),
                    })
                }
                (PacketData::Chunk { tsn, message }, 1, false) if arrived.insert(message) => {
                    flow.arrivals.push((tsn, seen.time));
                }
                (PacketData::Segment { offset, len }, 0, true) => {
                    flow.segments.push(Segment {
                        time: carrick_netsim::Time::from_nanos(seen.time.as_nanos()),
                        offset,
                        len,
                        again: offset < end,
                    });
                    end = end.max(offset + len as u64);
                }
                _ => {}
            }
        }
        Some(flow)
    }
}

/// Numbered messages, as recorded by programs and network.
pub(crate) struct FlowRecord<'a> {
    /// Time of the SEND of each message.
    pub(crate) sends: &'a [Time],
    /// Number and time of each delivery.
    pub(crate) deliveries: &'a [(u64, Time)],
    /// Transmissions of the sender; the path is the sender's interface.
    pub(crate) transmissions: Vec<Transmission>,
    /// First arrival of each chunk.
    pub(crate) arrivals: Vec<(Tsn, Time)>,
    /// Segments sent.
    pub(crate) segments: Vec<Segment>,
}

impl FlowRecord<'_> {
    /// Returns the records in the form of those of simulated hosts.
    pub(crate) fn log(&self) -> Log<'_> {
        Log {
            sends: self.sends,
            transmissions: &self.transmissions,
            arrivals: &self.arrivals,
            deliveries: self.deliveries,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Messages;
    use super::*;

    fn seen(ms: u64, host: usize, out: bool, data: PacketData) -> ObservedData {
        ObservedData {
            time: Time::from_millis(ms),
            host,
            interface: usize::from(ms > 20),
            out,
            data,
        }
    }

    fn record(seen: Vec<ObservedData>) -> RunRecord {
        let messages = Messages {
            count: 2,
            size: 10,
            interval: Duration::from_millis(1),
        };
        RunRecord {
            begin: Time::ZERO,
            programs: vec![
                Box::new(Source::new(messages)),
                Box::new(Sink::new(messages)),
            ],
            seen,
            timeouts: 0,
            lost: None,
            lateness: Lateness::default(),
            refused: 0,
        }
    }

    #[test]
    fn chunks_of_the_first_host_arrive_once() {
        let chunk = |message: u64| PacketData::Chunk {
            tsn: Tsn::new(7 + message as u32),
            message,
        };
        let record = record(vec![
            seen(1, 0, true, chunk(0)),
            seen(2, 1, true, chunk(9)),
            seen(11, 1, false, chunk(0)),
            seen(30, 0, true, chunk(0)),
            seen(41, 1, false, chunk(0)),
        ]);
        let flow = record.flow().unwrap();
        let sent: Vec<_> = flow.transmissions.iter().map(|t| t.path.0).collect();
        assert_eq!(sent, [0, 1]);
        assert_eq!(flow.arrivals, [(Tsn::new(7), Time::from_millis(11))]);
    }

    #[test]
    fn bytes_into_a_host_are_counted_in_a_period() {
        let packet = |len| PacketData::Packet { len };
        let record = record(vec![
            seen(1, 1, false, packet(10)),
            seen(2, 1, false, packet(20)),
            seen(3, 1, true, packet(40)),
            seen(4, 0, false, packet(80)),
            seen(5, 1, false, packet(160)),
        ]);
        let bytes = |host, from, until| {
            record.bytes_into(host, Time::from_millis(from), Time::from_millis(until))
        };
        assert_eq!(
            [bytes(1, 2, 5), bytes(1, 0, 9), bytes(0, 0, 9)],
            [20, 190, 80]
        );
    }

    #[test]
    fn segments_below_the_highest_are_retransmissions() {
        let segment = |offset, len| PacketData::Segment { offset, len };
        let record = record(vec![
            seen(1, 0, true, segment(0, 10)),
            seen(2, 0, true, segment(10, 10)),
            seen(3, 0, true, segment(0, 10)),
            seen(4, 0, true, segment(20, 10)),
        ]);
        let flow = record.flow().unwrap();
        let again: Vec<bool> = flow.segments.iter().map(|s| s.again).collect();
        assert_eq!(again, [false, false, true, false]);
    }
}
