//! What a run in real time showed.

use std::any::Any;
use std::collections::BTreeSet;

use carrick_proto::{PathId, Time, Tsn};

use super::log::{Log, Transmission};
use super::{Lateness, Program, Sink, Source};
use crate::tcp_host::Segment;

/// What a run showed. All times are of one clock, which began before the run.
pub struct Record {
    /// When the first programs began.
    pub begin: Time,
    /// The programs with what they noted: both of the first flow, both of the next.
    pub programs: Vec<Box<dyn Program>>,
    /// Data on its way out of and into the hosts, in order.
    pub seen: Vec<Seen>,
    /// Expirations of T3-rtx at the first host of the first flow, for SCTP; 0 where it was lost.
    pub timeouts: u64,
    /// When a connection was lost that might be.
    pub lost: Option<Time>,
    /// How late the network was with what it carried.
    pub lateness: Lateness,
    /// Packets that the network did not take or could not hand over.
    pub refused: u64,
}

/// Data that leaves or enters a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When, at the border between the host's kernel and the network.
    pub time: Time,
    /// The host by its place: 0 and 1 are those of the first flow.
    pub host: usize,
    /// The host's interface by its place.
    pub interface: usize,
    /// From the host into the network, or the other way.
    pub out: bool,
    /// What.
    pub data: Data,
}

/// A piece of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// A DATA chunk.
    Chunk {
        /// Its TSN.
        tsn: Tsn,
        /// The number in its first 8 bytes; 0 if it is shorter.
        message: u64,
    },
    /// Data of a TCP segment.
    Segment {
        /// The place of its first byte in the stream, from 0.
        offset: u64,
        /// Its bytes.
        len: usize,
    },
    /// A packet, where only lengths are noted.
    Packet {
        /// Its bytes, with the IP header.
        len: usize,
    },
}

impl Record {
    /// A host's program, if it is of this type.
    pub fn program<P: Program>(&self, host: usize) -> Option<&P> {
        let program: &dyn Any = self.programs.get(host)?.as_ref();
        program.downcast_ref()
    }

    /// Bytes of the packets that entered a host in a span of time.
    pub(crate) fn bytes_into(&self, host: usize, from: Time, until: Time) -> u64 {
        let here = |seen: &&Seen| seen.host == host && !seen.out;
        let then = |seen: &&Seen| seen.time >= from && seen.time < until;
        let seen = self.seen.iter().filter(here).filter(then);
        seen.map(|seen| match seen.data {
            Data::Packet { len } => len as u64,
            Data::Chunk { .. } | Data::Segment { .. } => 0,
        })
        .sum()
    }

    /// The notes of numbered messages from the first host to the second.
    pub(crate) fn flow(&self) -> Option<Flow<'_>> {
        let source: &Source = self.program(0)?;
        let sink: &Sink = self.program(1)?;
        let mut flow = Flow {
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
                (Data::Chunk { tsn, message }, 0, true) => flow.transmissions.push(Transmission {
                    message,
                    tsn,
                    time: seen.time,
                    path: PathId(seen.interface as u8),
                }),
                (Data::Chunk { tsn, message }, 1, false) if arrived.insert(message) => {
                    flow.arrivals.push((tsn, seen.time));
                }
                (Data::Segment { offset, len }, 0, true) => {
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

/// The life of numbered messages, as programs and network saw it.
pub(crate) struct Flow<'a> {
    /// SEND of each message.
    pub(crate) sends: &'a [Time],
    /// Delivery of each message, by number.
    pub(crate) deliveries: &'a [(u64, Time)],
    /// Chunks that left the sender; the path is the sender's interface.
    pub(crate) transmissions: Vec<Transmission>,
    /// First arrival of each chunk.
    pub(crate) arrivals: Vec<(Tsn, Time)>,
    /// Segments that left the sender.
    pub(crate) segments: Vec<Segment>,
}

impl Flow<'_> {
    /// As the simulated hosts' notes.
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

    fn seen(ms: u64, host: usize, out: bool, data: Data) -> Seen {
        Seen {
            time: Time::from_millis(ms),
            host,
            interface: usize::from(ms > 20),
            out,
            data,
        }
    }

    fn record(seen: Vec<Seen>) -> Record {
        let messages = Messages {
            count: 2,
            size: 10,
            interval: Duration::from_millis(1),
        };
        Record {
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
    fn chunks_are_sent_from_the_first_host_and_arrive_once_at_the_second() {
        let chunk = |message: u64| Data::Chunk {
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
    fn bytes_into_a_host_are_those_of_a_span_of_time() {
        let packet = |len| Data::Packet { len };
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
    fn a_segment_that_begins_below_the_highest_byte_is_sent_again() {
        let segment = |offset, len| Data::Segment { offset, len };
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
