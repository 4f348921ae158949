//! Records the packets that pass between the hosts and the network.

use std::time::Duration;

use carrick_lab::live::{Lateness, ObservedData, PacketData, PacketRecording};
use carrick_netsim::Protocol;
use carrick_proto::Time;
use carrick_wire::{Chunk, ChunkType, Packet};

use crate::network::{CapturedPacket, Direction};

/// Converts a time of the network to a time of the core; both count nanoseconds from the same epoch.
pub(crate) fn core_time(time: carrick_netsim::Time) -> Time {
    Time::from_nanos(time.as_nanos())
}

/// Records of one network.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) seen: Vec<ObservedData>,
    pub(crate) lateness: Lateness,
    watch: PacketRecording,
    /// TCP sequence number of the first byte that each host sends; `None` before its SYN.
    first: Vec<Option<u32>>,
    /// Data sequence number of the first byte that each host sends over Multipath TCP, its lower half.
    first_mapped: Vec<Option<u32>>,
}

impl Recorder {
    /// Creates the recorder of a run with this number of flows.
    pub(crate) fn new(watch: PacketRecording, flows: usize) -> Self {
        Self {
            watch,
            first: vec![None; 2 * flows],
            first_mapped: vec![None; 2 * flows],
            ..Self::default()
        }
    }

    /// Records a packet and, if it enters a host, how late it is.
    pub(crate) fn record(&mut self, captured: &CapturedPacket<'_>) {
        if let Direction::Inbound { due } = captured.direction {
            let since_start = |time: carrick_netsim::Time| Duration::from_nanos(time.as_nanos());
            self.lateness
                .add(since_start(due), since_start(captured.time));
            if self.watch == PacketRecording::Lengths {
                let len = captured.packet.wire_len();
                self.add(captured, PacketData::Packet { len });
            }
        }
        if self.watch == PacketRecording::Lengths {
            return;
        }
        match captured.packet.protocol {
            Protocol::Sctp | Protocol::UdpEncapsulated { .. } => self.chunks(captured),
            Protocol::Tcp => self.segment(captured),
            _ => {}
        }
    }

    fn add(&mut self, captured: &CapturedPacket<'_>, data: PacketData) {
        self.seen.push(ObservedData {
            time: core_time(captured.time),
            host: captured.host,
            interface: captured.interface,
            out: captured.direction == Direction::Outbound,
            data,
        });
    }

    fn chunks(&mut self, captured: &CapturedPacket<'_>) {
        let Ok(packet) = Packet::parse(&captured.packet.payload) else {
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
                self.add(captured, PacketData::Chunk { tsn, message });
            }
        }
    }

    /// Records a TCP segment. Offsets are relative to the first byte after the SYN, which occupies one
    /// sequence number (RFC 9293, section 3.4).
    fn segment(&mut self, captured: &CapturedPacket<'_>) {
        const SYN: u8 = 0x02;
        const MIN_HEADER: usize = 20;
        let bytes = &captured.packet.payload[..];
        let [_, _, _, _, a, b, c, d, ..] = *bytes else {
            return;
        };
        let (Some(offset), Some(flags)) = (bytes.get(12), bytes.get(13)) else {
            return;
        };
        let header = usize::from(offset >> 4) * 4;
        let Some(len) = bytes.len().checked_sub(header.max(MIN_HEADER)) else {
            return;
        };
        let sequence = u32::from_be_bytes([a, b, c, d]);
        let sender = match captured.direction {
            Direction::Outbound => captured.host,
            // The sender is the other host of the flow.
            Direction::Inbound { .. } => captured.host ^ 1,
        };
        let (Some(first), Some(first_mapped)) = (
            self.first.get_mut(sender),
            self.first_mapped.get_mut(sender),
        ) else {
            return;
        };
        let options = bytes.get(MIN_HEADER..header).unwrap_or_default();
        if let (Some((mapped, in_subflow)), true) = (mapping(options), len > 0) {
            let begin = mapped.wrapping_sub(in_subflow.wrapping_sub(1));
            let offset = mapped.wrapping_sub(*first_mapped.get_or_insert(begin));
            let offset = u64::from(offset);
            self.add(captured, PacketData::Segment { offset, len });
        } else if flags & SYN != 0 {
            *first = Some(sequence.wrapping_add(1));
        } else if let (Some(first), true) = (*first, len > 0) {
            let offset = u64::from(sequence.wrapping_sub(first));
            self.add(captured, PacketData::Segment { offset, len });
        }
    }
}

/// Returns the lower half of the data sequence number and the subflow sequence number, from 1, of the data of a segment
/// of Multipath TCP, given its options (RFC 8684, section 3.3).
fn mapping(mut options: &[u8]) -> Option<(u32, u32)> {
    const NO_OPERATION: u8 = 1;
    const MULTIPATH_TCP: u8 = 30;
    const DATA_SEQUENCE_SIGNAL: u8 = 2;
    let number = |bytes: &[u8]| bytes.first_chunk().map(|own| u32::from_be_bytes(*own));
    loop {
        let (kind, len) = match *options {
            [NO_OPERATION, ref rest @ ..] => {
                options = rest;
                continue;
            }
            [kind, len, ..] if (2..=options.len()).contains(&usize::from(len)) => (kind, len),
            _ => return None,
        };
        let (option, rest) = options.split_at(usize::from(len));
        options = rest;
        let [_, _, subtype, flags, ref fields @ ..] = *option else {
            continue;
        };
        if kind != MULTIPATH_TCP || subtype >> 4 != DATA_SEQUENCE_SIGNAL || flags & 0x04 == 0 {
            continue;
        }
        let acknowledgement = match flags & 0x03 {
            0x03 => 8,
            0x01 => 4,
            _ => 0,
        };
        let upper = if flags & 0x08 == 0 { 0 } else { 4 };
        let lower = fields.get(acknowledgement + upper..)?;
        return Some((number(lower)?, number(lower.get(4..)?)?));
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
        recorder.record(&CapturedPacket {
            time: NetTime::from_millis(3),
            host: 0,
            interface: 1,
            direction: Direction::Outbound,
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
    fn each_data_chunk_is_recorded_with_its_message() {
        let mut bytes = vec![0, 1, 0, 2, 0, 0, 0, 9, 0, 0, 0, 0];
        for (tsn, number) in [(7_u32, 40_u64), (8, 41)] {
            bytes.extend([0, 3, 0, 24]);
            bytes.extend(tsn.to_be_bytes());
            bytes.extend([0; 8]);
            bytes.extend(number.to_be_bytes());
            // A COOKIE ACK chunk between them.
            bytes.extend([11, 0, 0, 4]);
        }
        let mut recorder = Recorder::new(PacketRecording::Data, 1);
        out(&mut recorder, &packet(Protocol::Sctp, bytes));
        let recorded: Vec<_> = recorder
            .seen
            .iter()
            .map(|seen| match seen.data {
                PacketData::Chunk { tsn, message } => {
                    (tsn.value(), message, seen.interface, seen.out)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(recorded, [(7, 40, 1, true), (8, 41, 1, true)]);
        assert_eq!(recorder.seen[0].time, Time::from_millis(3));
    }

    #[test]
    fn tcp_offsets_count_from_the_syn_across_the_wrap() {
        const SYN: u8 = 2;
        let mut recorder = Recorder::new(PacketRecording::Data, 1);
        out(&mut recorder, &segment(5, 0, 100));
        assert!(
            recorder.seen.is_empty(),
            "offsets are unknown before the SYN"
        );
        out(&mut recorder, &segment(u32::MAX - 50, SYN, 0));
        out(&mut recorder, &segment(u32::MAX - 49, 0, 100));
        out(&mut recorder, &segment(50, 0, 0));
        out(&mut recorder, &segment(50, 0, 10));
        let recorded: Vec<_> = recorder.seen.iter().map(|seen| seen.data).collect();
        let expected = [(0, 100), (100, 10)];
        assert_eq!(
            recorded,
            expected.map(|(offset, len)| PacketData::Segment { offset, len })
        );
    }

    #[test]
    fn multipath_tcp_maps_data_of_all_subflows() {
        let mut recorder = Recorder::new(PacketRecording::Data, 1);
        let mut send = |interface: usize, mapped: u32, in_subflow: u32| {
            // No operation, then DSS with a data acknowledgement of 4 and a data sequence number of 8 bytes.
            let mut options = vec![1, 1, 30, 24, 0x20, 0x0d, 0, 0, 0, 9, 0, 0, 0, 7];
            for number in [mapped, in_subflow] {
                options.extend(number.to_be_bytes());
            }
            options.extend([0, 10, 0, 0, 0, 0]);
            let mut bytes = vec![0; 20];
            (bytes[12], bytes[13]) = (12 << 4, 0x10);
            bytes.extend(options);
            bytes.extend([0; 10]);
            recorder.record(&CapturedPacket {
                time: NetTime::from_millis(3),
                host: 0,
                interface,
                direction: Direction::Outbound,
                packet: &packet(Protocol::Tcp, bytes),
            });
        };
        send(0, u32::MAX - 4, 11);
        send(1, 5, 1);
        let recorded = recorder.seen.iter().map(|seen| (seen.interface, seen.data));
        let expected = [(0, 10), (1, 20)].map(|(interface, offset)| {
            let data = PacketData::Segment { offset, len: 10 };
            (interface, data)
        });
        assert_eq!(recorded.collect::<Vec<_>>(), expected);
        for invalid in [
            &[30, 1][..],
            &[30, 9, 0x20],
            &[2],
            &[30, 4, 0x20, 0x04],
            &[],
        ] {
            assert_eq!(mapping(invalid), None, "{invalid:?}");
        }
    }

    #[test]
    fn lengths_are_recorded_of_inbound_packets_only() {
        let mut recorder = Recorder::new(PacketRecording::Lengths, 2);
        let packet = packet(Protocol::Sctp, vec![0; 100]);
        out(&mut recorder, &packet);
        recorder.record(&CapturedPacket {
            time: NetTime::from_millis(5),
            host: 3,
            interface: 0,
            direction: Direction::Inbound {
                due: NetTime::from_millis(5),
            },
            packet: &packet,
        });
        let recorded: Vec<_> = recorder
            .seen
            .iter()
            .map(|s| (s.host, s.out, s.data))
            .collect();
        assert_eq!(recorded, [(3, false, PacketData::Packet { len: 120 })]);
    }

    #[test]
    fn lateness_of_malformed_packets_is_recorded() {
        let mut recorder = Recorder::new(PacketRecording::Data, 1);
        let packet = packet(Protocol::Tcp, vec![0; 13]);
        recorder.record(&CapturedPacket {
            time: NetTime::from_millis(5),
            host: 1,
            interface: 0,
            direction: Direction::Inbound {
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
