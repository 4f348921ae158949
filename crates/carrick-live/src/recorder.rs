//! Notes what passes between the hosts and the network.

use std::time::Duration;

use carrick_lab::live::{Lateness, ObservedData, PacketData, PacketRecording};
use carrick_livenet::{Tapped, Way};
use carrick_netsim::Protocol;
use carrick_proto::Time;
use carrick_wire::{Chunk, ChunkType, Packet};

/// The core's time at a moment of the network: both count nanoseconds from the same moment.
pub(crate) fn core_time(time: carrick_netsim::Time) -> Time {
    Time::from_nanos(time.as_nanos())
}

/// The notes of one network.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) seen: Vec<ObservedData>,
    pub(crate) lateness: Lateness,
    watch: PacketRecording,
    /// The sequence number of the first byte that each host sends by TCP.
    first: Vec<Option<u32>>,
}

impl Recorder {
    /// Of a run with so many flows.
    pub(crate) fn new(watch: PacketRecording, flows: usize) -> Self {
        Self {
            watch,
            first: vec![None; 2 * flows],
            ..Self::default()
        }
    }

    /// Notes a packet.
    pub(crate) fn note(&mut self, tapped: &Tapped<'_>) {
        if let Way::In { due } = tapped.way {
            let since_start = |time: carrick_netsim::Time| Duration::from_nanos(time.as_nanos());
            self.lateness
                .add(since_start(due), since_start(tapped.time));
            if self.watch == PacketRecording::Lengths {
                let len = tapped.packet.wire_len();
                self.add(tapped, PacketData::Packet { len });
            }
        }
        if self.watch == PacketRecording::Lengths {
            return;
        }
        match tapped.packet.protocol {
            Protocol::Sctp | Protocol::UdpEncapsulated { .. } => self.chunks(tapped),
            Protocol::Tcp => self.segment(tapped),
            _ => {}
        }
    }

    fn add(&mut self, tapped: &Tapped<'_>, data: PacketData) {
        self.seen.push(ObservedData {
            time: core_time(tapped.time),
            host: tapped.host,
            interface: tapped.interface,
            out: tapped.way == Way::Out,
            data,
        });
    }

    fn chunks(&mut self, tapped: &Tapped<'_>) {
        let Ok(packet) = Packet::parse(&tapped.packet.payload) else {
            return;
        };
        for raw in packet.chunks().map_while(Result::ok) {
            if raw.kind != ChunkType::DATA {
                continue;
            }
            if let Ok(Chunk::Data(data)) = Chunk::parse(raw) {
                let number = data.payload.first_chunk().copied().unwrap_or_default();
                let message = u64::from_be_bytes(number);
                let tsn = data.tsn;
                self.add(tapped, PacketData::Chunk { tsn, message });
            }
        }
    }

    /// Numbers are relative to the SYN of their sender (RFC 9293 section 3.4), which has one itself.
    fn segment(&mut self, tapped: &Tapped<'_>) {
        const SYN: u8 = 0x02;
        const SHORTEST: usize = 20;
        let bytes = &tapped.packet.payload[..];
        let [_, _, _, _, a, b, c, d, ..] = *bytes else {
            return;
        };
        let (Some(offset), Some(flags)) = (bytes.get(12), bytes.get(13)) else {
            return;
        };
        let header = usize::from(offset >> 4) * 4;
        let Some(len) = bytes.len().checked_sub(header.max(SHORTEST)) else {
            return;
        };
        let sequence = u32::from_be_bytes([a, b, c, d]);
        let sender = match tapped.way {
            Way::Out => tapped.host,
            // The other host of the flow.
            Way::In { .. } => tapped.host ^ 1,
        };
        let Some(first) = self.first.get_mut(sender) else {
            return;
        };
        if flags & SYN != 0 {
            *first = Some(sequence.wrapping_add(1));
        } else if let (Some(first), true) = (*first, len > 0) {
            let offset = u64::from(sequence.wrapping_sub(first));
            self.add(tapped, PacketData::Segment { offset, len });
        }
    }
}

#[cfg(test)]
mod tests {
    use carrick_netsim::{Packet as IpPacket, Time as NetTime};

    use super::*;

    fn packet(protocol: Protocol, payload: Vec<u8>) -> IpPacket {
        let addresses = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        IpPacket::new(addresses[0], addresses[1], protocol, payload)
    }

    fn out(recorder: &mut Recorder, packet: &IpPacket) {
        recorder.note(&Tapped {
            time: NetTime::from_millis(3),
            host: 0,
            interface: 1,
            way: Way::Out,
            packet,
        });
    }

    fn segment(sequence: u32, flags: u8, len: usize) -> IpPacket {
        let mut bytes = vec![0; 20 + len];
        bytes[4..8].copy_from_slice(&sequence.to_be_bytes());
        (bytes[12], bytes[13]) = (5 << 4, flags);
        packet(Protocol::Tcp, bytes)
    }

    #[test]
    fn each_data_chunk_of_a_packet_is_noted_with_its_number() {
        let mut bytes = vec![0, 1, 0, 2, 0, 0, 0, 9, 0, 0, 0, 0];
        for (tsn, number) in [(7_u32, 40_u64), (8, 41)] {
            bytes.extend([0, 3, 0, 24]);
            bytes.extend(tsn.to_be_bytes());
            bytes.extend([0; 8]);
            bytes.extend(number.to_be_bytes());
            // A chunk of another type between them.
            bytes.extend([11, 0, 0, 4]);
        }
        let mut recorder = Recorder::new(PacketRecording::Data, 1);
        out(&mut recorder, &packet(Protocol::Sctp, bytes));
        let noted: Vec<_> = recorder
            .seen
            .iter()
            .map(|seen| match seen.data {
                PacketData::Chunk { tsn, message } => {
                    (tsn.value(), message, seen.interface, seen.out)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(noted, [(7, 40, 1, true), (8, 41, 1, true)]);
        assert_eq!(recorder.seen[0].time, Time::from_millis(3));
    }

    #[test]
    fn bytes_of_a_stream_are_counted_from_the_syn_across_the_wrap() {
        const SYN: u8 = 2;
        let mut recorder = Recorder::new(PacketRecording::Data, 1);
        out(&mut recorder, &segment(5, 0, 100));
        assert!(recorder.seen.is_empty(), "nothing is known before the SYN");
        out(&mut recorder, &segment(u32::MAX - 50, SYN, 0));
        out(&mut recorder, &segment(u32::MAX - 49, 0, 100));
        out(&mut recorder, &segment(50, 0, 0));
        out(&mut recorder, &segment(50, 0, 10));
        let noted: Vec<_> = recorder.seen.iter().map(|seen| seen.data).collect();
        let expected = [(0, 100), (100, 10)];
        assert_eq!(
            noted,
            expected.map(|(offset, len)| PacketData::Segment { offset, len })
        );
    }

    #[test]
    fn where_lengths_are_noted_each_packet_is_that_enters_a_host() {
        let mut recorder = Recorder::new(PacketRecording::Lengths, 2);
        let packet = packet(Protocol::Sctp, vec![0; 100]);
        out(&mut recorder, &packet);
        recorder.note(&Tapped {
            time: NetTime::from_millis(5),
            host: 3,
            interface: 0,
            way: Way::In {
                due: NetTime::from_millis(5),
            },
            packet: &packet,
        });
        let noted: Vec<_> = recorder
            .seen
            .iter()
            .map(|s| (s.host, s.out, s.data))
            .collect();
        assert_eq!(noted, [(3, false, PacketData::Packet { len: 120 })]);
    }

    #[test]
    fn what_is_handed_over_late_counts_and_broken_packets_do_not_matter() {
        let mut recorder = Recorder::new(PacketRecording::Data, 1);
        let packet = packet(Protocol::Tcp, vec![0; 13]);
        recorder.note(&Tapped {
            time: NetTime::from_millis(5),
            host: 1,
            interface: 0,
            way: Way::In {
                due: NetTime::from_millis(4),
            },
            packet: &packet,
        });
        let mut expected = Lateness::default();
        expected.add(Duration::from_millis(4), Duration::from_millis(5));
        assert_eq!(recorder.lateness, expected);
        assert!(recorder.seen.is_empty());
    }
}
