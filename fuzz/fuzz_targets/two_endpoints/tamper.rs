//! Packets changed in transit, and forged packets.

use carrick_proto::Route;
use carrick_wire::{ChunkType, Packet};

use crate::input::Input;
use crate::network::{InFlight, Network};

/// Types that the type of a chunk may be changed to.
const KINDS: [ChunkType; 16] = [
    ChunkType::FORWARD_TSN,
    ChunkType::I_FORWARD_TSN,
    ChunkType::RE_CONFIG,
    ChunkType::ASCONF,
    ChunkType::ASCONF_ACK,
    ChunkType::AUTH,
    ChunkType::I_DATA,
    ChunkType::DATA,
    ChunkType::SACK,
    ChunkType::NR_SACK,
    ChunkType::ECNE,
    ChunkType::CWR,
    ChunkType::PAD,
    ChunkType::HEARTBEAT_ACK,
    ChunkType::COOKIE_ECHO,
    ChunkType::SHUTDOWN,
];

impl Network {
    /// Changes some bytes of a packet and corrects its checksum.
    pub fn change(&mut self, input: &mut Input<'_>) {
        if self.in_flight.is_empty() {
            return;
        }
        self.tampered = true;
        let index = input.below(self.in_flight.len());
        let mut bytes = self.in_flight[index].bytes.to_vec();
        for _ in 0..=input.below(4) {
            // Mostly near the beginning, where the headers are.
            let reach = if input.byte() & 1 == 0 { 64 } else { 65_536 };
            let at = input.below(bytes.len().clamp(1, reach));
            let value = input.byte();
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        fix_checksum(&mut bytes);
        self.in_flight[index].bytes = bytes.into();
    }

    pub fn truncate(&mut self, input: &mut Input<'_>) {
        if self.in_flight.is_empty() {
            return;
        }
        self.tampered = true;
        let index = input.below(self.in_flight.len());
        let mut bytes = self.in_flight[index].bytes.to_vec();
        bytes.truncate(input.below(bytes.len() + 1));
        fix_checksum(&mut bytes);
        self.in_flight[index].bytes = bytes.into();
    }

    /// Forges a packet: chunks from the input after the header of a real packet, with its verification tag,
    /// or after a header from the input.
    pub fn forge(&mut self, end: usize, input: &mut Input<'_>) {
        self.tampered = true;
        let how = input.byte();
        let mut bytes = Vec::new();
        let model = self
            .in_flight
            .iter()
            .chain(&self.delivered)
            .rfind(|f| f.to == end);
        let route = match model {
            Some(model) if how & 1 == 0 => {
                bytes.extend_from_slice(&model.bytes[..12.min(model.bytes.len())]);
                model.route
            }
            _ => {
                bytes.extend_from_slice(input.bytes(12));
                Route::plain(self.addresses[end][0], self.addresses[1 - end][0])
            }
        };
        let count = input.below(200);
        for _ in 0..=(how >> 1 & 3) {
            bytes.extend_from_slice(input.bytes(count));
        }
        if how & 8 != 0 {
            // Repeated, up to a large packet.
            let chunks = bytes.get(12..).unwrap_or_default().to_vec();
            while !chunks.is_empty() && bytes.len() + chunks.len() <= 65_000 {
                bytes.extend_from_slice(&chunks);
            }
        }
        fix_checksum(&mut bytes);
        let flight = InFlight {
            route,
            to: end,
            port: None,
            bytes: bytes.into(),
        };
        self.launch(flight);
    }

    /// Sends a chunk of an earlier packet alone, with another type and other numbers: TSNs and serial numbers
    /// stay near the valid ones.
    pub fn mutate(&mut self, end: usize, input: &mut Input<'_>) {
        let found = self.chunk_to(end, input);
        let Some((header, mut chunk, route)) = found else {
            return;
        };
        self.tampered = true;
        let how = input.byte();
        if how & 1 != 0 {
            chunk[0] = KINDS[usize::from(how >> 1 & 15)].0;
        }
        if how & 0x20 != 0 {
            chunk[1] = input.byte();
        }
        let delta = i32::from(input.byte().cast_signed());
        if let Some(word) = chunk.get_mut(4..8) {
            let value = u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
            word.copy_from_slice(&value.wrapping_add_signed(delta).to_be_bytes());
        }
        if how & 0x40 != 0 {
            let (at, value) = (input.below(chunk.len()), input.byte());
            chunk[at] = value;
        }
        if how & 0x80 != 0 {
            chunk.extend_from_slice(input.bytes(usize::from(how >> 1 & 15) * 4));
            let len = (chunk.len() as u16).to_be_bytes();
            chunk[2..4].copy_from_slice(&len);
        }
        let mut bytes = [header, chunk].concat();
        fix_checksum(&mut bytes);
        let flight = InFlight {
            route,
            to: end,
            port: None,
            bytes: bytes.into(),
        };
        self.launch(flight);
    }

    /// Adds a chunk of an earlier packet to a packet in flight.
    pub fn splice(&mut self, end: usize, input: &mut Input<'_>) {
        let Some((_, chunk, _)) = self.chunk_to(end, input) else {
            return;
        };
        let in_front = input.byte() & 1 != 0;
        let Some(flight) = self.in_flight.iter_mut().rfind(|f| f.to == end) else {
            return;
        };
        self.tampered = true;
        let (header, chunks) = flight.bytes.split_at(12.min(flight.bytes.len()));
        let order = if in_front {
            [&chunk, chunks]
        } else {
            [chunks, &chunk]
        };
        let mut bytes = [header, order[0], order[1]].concat();
        if bytes.len() <= 65_000 {
            fix_checksum(&mut bytes);
            flight.bytes = bytes.into();
        }
    }

    /// Returns the header of a packet to this end, one of its chunks with padding, and its route.
    fn chunk_to(&self, end: usize, input: &mut Input<'_>) -> Option<(Vec<u8>, Vec<u8>, Route)> {
        let to: Vec<&InFlight> = self
            .delivered
            .iter()
            .chain(&self.in_flight)
            .filter(|f| f.to == end)
            .collect();
        if to.is_empty() {
            return None;
        }
        let flight = to[input.below(to.len())];
        let packet = Packet::parse(&flight.bytes).ok()?;
        let chunks = packet.chunks().map_while(Result::ok);
        let starts: Vec<usize> = chunks.map(|raw| raw.offset).collect();
        let which = input.below(starts.len().max(1));
        let start = *starts.get(which)?;
        let end = starts.get(which + 1).copied();
        let chunk = flight.bytes.get(start..end.unwrap_or(flight.bytes.len()))?;
        (chunk.len() >= 4).then(|| (flight.bytes[..12].to_vec(), chunk.to_vec(), flight.route))
    }
}

fn fix_checksum(packet: &mut [u8]) {
    if packet.len() >= 12 {
        packet[8..12].fill(0);
        let crc = carrick_wire::crc32c(packet);
        packet[8..12].copy_from_slice(&crc.to_le_bytes());
    }
}
