//! Encoding of TCP segments (RFC 9293, section 3.1) with the options MSS (RFC 9293), window scale (RFC 7323) and
//! SACK (RFC 2018).

use std::net::IpAddr;
use std::ops::Range;

use bytes::Bytes;
use carrick_netsim::{Packet, transport_checksum};

/// Length of a header without options.
pub(super) const HEADER: usize = 20;
/// Protocol number in the IP header.
const PROTOCOL: u8 = 6;
/// Maximum number of SACK blocks in the 40 bytes of options.
const MAX_SACK_BLOCKS: usize = 4;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// Header of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    pub(super) sequence: u32,
    /// Acknowledgment number; `None` without the ACK flag.
    pub(super) acknowledgment: Option<u32>,
    pub(super) syn: bool,
    pub(super) window: u16,
    pub(super) mss: Option<u16>,
    pub(super) window_scale: Option<u8>,
    pub(super) sack_permitted: bool,
    /// Left and right edge of each SACK block, the most recent first.
    pub(super) sack: Vec<Range<u32>>,
}

/// Returns the length of the SACK option with `blocks` blocks, as [`Header::encode`] pads it.
pub(super) fn sack_option_len(blocks: usize) -> u64 {
    match blocks.min(MAX_SACK_BLOCKS) as u64 {
        0 => 0,
        blocks => 4 + 8 * blocks,
    }
}

impl Header {
    /// Returns the segment with `data` between these addresses, which its checksum covers.
    pub(super) fn encode(&self, source: IpAddr, destination: IpAddr, data: &[u8]) -> Vec<u8> {
        let mut out = vec![0; HEADER];
        if let Some(mss) = self.mss {
            out.extend([2, 4]);
            out.extend(mss.to_be_bytes());
        }
        if self.sack_permitted {
            out.extend([1, 1, 4, 2]);
        }
        if let Some(shift) = self.window_scale {
            out.extend([1, 3, 3, shift]);
        }
        if !self.sack.is_empty() {
            let blocks = &self.sack[..self.sack.len().min(MAX_SACK_BLOCKS)];
            out.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
            for block in blocks {
                out.extend(block.start.to_be_bytes());
                out.extend(block.end.to_be_bytes());
            }
        }
        let mut flags = if self.syn { SYN } else { 0 };
        flags |= self.acknowledgment.map_or(0, |_| ACK);
        flags |= if data.is_empty() { 0 } else { PSH };
        out[0..2].copy_from_slice(&self.source_port.to_be_bytes());
        out[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        out[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        out[8..12].copy_from_slice(&self.acknowledgment.unwrap_or(0).to_be_bytes());
        out[12] = (out.len() as u8 / 4) << 4;
        out[13] = flags;
        out[14..16].copy_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(data);
        let sum = transport_checksum(source, destination, PROTOCOL, &out);
        out[16..18].copy_from_slice(&sum.to_be_bytes());
        out
    }

    /// Parses the segment in a packet; returns its data, too. Returns `None` if the segment is malformed, if its
    /// checksum is wrong, and for a reset, which no host of a simulation sends.
    pub(super) fn parse(packet: &Packet) -> Option<(Self, Bytes)> {
        let bytes = &packet.payload;
        let fixed: &[u8; HEADER] = bytes.first_chunk()?;
        let len = usize::from(fixed[12] >> 4) * 4;
        let flags = fixed[13];
        let sum = transport_checksum(packet.source, packet.destination, PROTOCOL, bytes);
        if sum != 0 || flags & RST != 0 {
            return None;
        }
        let word = |at: usize| {
            u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        let mut header = Self {
            source_port: u16::from_be_bytes([fixed[0], fixed[1]]),
            destination_port: u16::from_be_bytes([fixed[2], fixed[3]]),
            sequence: word(4),
            acknowledgment: (flags & ACK != 0).then(|| word(8)),
            syn: flags & SYN != 0,
            window: u16::from_be_bytes([fixed[14], fixed[15]]),
            ..Self::default()
        };
        let mut options = bytes.get(HEADER..len)?;
        while let [kind, rest @ ..] = options {
            match (kind, rest) {
                (0, _) => break,
                (1, _) => options = rest,
                (_, [len, ..]) => {
                    let len = usize::from(*len);
                    header.set_option(*kind, options.get(2..len)?);
                    options = &options[len..];
                }
                (_, []) => return None,
            }
        }
        Some((header, bytes.slice(len..)))
    }

    fn set_option(&mut self, kind: u8, value: &[u8]) {
        match (kind, value) {
            (2, [high, low]) => self.mss = Some(u16::from_be_bytes([*high, *low])),
            (3, [shift]) => self.window_scale = Some((*shift).min(14)),
            (4, []) => self.sack_permitted = true,
            (5, blocks) => {
                let edges = blocks
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|edge| u32::from_be_bytes(*edge));
                let edges: Vec<u32> = edges.collect();
                self.sack = edges
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .map(|[left, right]| *left..*right)
                    .collect();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use carrick_netsim::Protocol;

    use super::*;

    fn packet(header: &Header, data: &[u8]) -> Packet {
        let [a, b]: [IpAddr; 2] =
            ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().expect("an address"));
        Packet::new(a, b, Protocol::Tcp, header.encode(a, b, data))
    }

    fn header() -> Header {
        Header {
            source_port: 1,
            destination_port: 80,
            sequence: 7,
            window: 1000,
            ..Header::default()
        }
    }

    /// RFC 9293, section 3.1
    #[test]
    fn segments_round_trip() {
        let syn = Header {
            syn: true,
            mss: Some(1460),
            window_scale: Some(3),
            sack_permitted: true,
            ..header()
        };
        let data = Header {
            acknowledgment: Some(u32::MAX),
            sack: vec![5..9, 11..20],
            ..header()
        };
        for (header, data) in [(syn, &[][..]), (data, b"data"), (header(), b"odd")] {
            let packet = packet(&header, data);
            let parsed = Header::parse(&packet).expect("a segment");
            assert_eq!(parsed, (header.clone(), Bytes::copy_from_slice(data)));
            for byte in 0..packet.payload.len() {
                let mut damaged = packet.clone();
                let mut bytes = packet.payload.to_vec();
                bytes[byte] ^= 4;
                damaged.payload = bytes.into();
                assert_eq!(Header::parse(&damaged), None, "byte {byte}");
            }
        }
    }

    /// RFC 2018, section 3
    #[test]
    fn four_sack_blocks_fit() {
        let blocks: Vec<Range<u32>> = (0..6).map(|i| 10 * i..10 * i + 5).collect();
        let header = Header {
            sack: blocks.clone(),
            ..header()
        };
        let packet = packet(&header, &[]);
        assert_eq!(
            packet.payload.len() as u64,
            HEADER as u64 + sack_option_len(6)
        );
        let (parsed, _) = Header::parse(&packet).expect("a segment");
        assert_eq!(parsed.sack, blocks[..4]);
    }

    /// RFC 9293, section 3.2
    #[test]
    fn malformed_options_are_rejected() {
        let parse = |options: [u8; 4]| {
            let mut bytes = header().encode(
                "::1".parse().expect("an address"),
                "::2".parse().expect("an address"),
                &[],
            );
            bytes[12] = 6 << 4;
            bytes[16..18].fill(0);
            bytes.extend(options);
            let [a, b]: [IpAddr; 2] = ["::1", "::2"].map(|text| text.parse().expect("an address"));
            let sum = transport_checksum(a, b, PROTOCOL, &bytes);
            bytes[16..18].copy_from_slice(&sum.to_be_bytes());
            Header::parse(&Packet::new(a, b, Protocol::Tcp, bytes)).map(|(header, _)| header)
        };
        assert_eq!(parse([1, 1, 1, 99]), None, "without length");
        assert_eq!(parse([99, 1, 0, 0]), None, "too short");
        assert_eq!(parse([99, 5, 0, 0]), None, "too long");
        assert_eq!(parse([0, 99, 99, 99]), Some(header()), "end of options");
        let scaled = parse([1, 3, 3, 200]).expect("a segment");
        assert_eq!(scaled.window_scale, Some(14), "limited");
    }
}
