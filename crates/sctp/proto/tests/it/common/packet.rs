//! A packet that an endpoint sent, decoded.

use std::net::IpAddr;

use bytes::Bytes;
use carrick_proto::{Route, Time};
use carrick_wire::{
    CauseCode, Causes, Chunk, ChunkType, Data, DataFlags, Init, Packet, Parameter, ParameterType,
    Sack, Tsn, VerificationTag,
};

/// Header fields of a DATA or I-DATA chunk, and the length of its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserData {
    pub tsn: Tsn,
    pub stream: u16,
    /// SSN of DATA, MID of I-DATA.
    pub number: u32,
    /// FSN of I-DATA.
    pub fsn: Option<u32>,
    pub flags: DataFlags,
    pub len: usize,
}

#[derive(Clone, Debug)]
pub struct SentPacket {
    pub time: Time,
    /// Index of the endpoint that sent it.
    pub from: usize,
    /// Route as the sender passed it to the driver.
    pub route: Route,
    pub bytes: Bytes,
    pub may_fragment: bool,
    pub probe: bool,
    /// Dropped by a rule or at a blocked address.
    pub lost: bool,
}

impl SentPacket {
    pub fn packet(&self) -> Packet<'_> {
        Packet::parse(&self.bytes).expect("endpoints send packets")
    }

    pub fn chunks(&self) -> Vec<Chunk<'_>> {
        self.packet()
            .chunks()
            .map(|raw| Chunk::parse(raw.expect("a chunk")).expect("a valid chunk"))
            .collect()
    }

    pub fn kinds(&self) -> Vec<ChunkType> {
        self.packet()
            .chunks()
            .map(|raw| raw.expect("a chunk").kind)
            .collect()
    }

    pub fn has(&self, kind: ChunkType) -> bool {
        self.kinds().contains(&kind)
    }

    /// Flags of the first chunk of this type.
    pub fn flags(&self, kind: ChunkType) -> u8 {
        self.packet()
            .chunks()
            .flatten()
            .find(|raw| raw.kind == kind)
            .expect("a chunk of this type")
            .flags
    }

    pub fn tag(&self) -> VerificationTag {
        self.packet().header().tag
    }

    /// Length of the IP packet.
    pub fn ip_len(&self) -> usize {
        let ip = if self.route.remote.is_ipv4() { 20 } else { 40 };
        let udp = if self.route.encapsulation.is_some() {
            8
        } else {
            0
        };
        self.bytes.len() + ip + udp
    }

    pub fn to(&self) -> IpAddr {
        self.route.remote
    }

    pub fn source(&self) -> IpAddr {
        self.route.local.expect("a source address")
    }

    pub fn data(&self) -> Vec<Data<'_>> {
        self.chunks()
            .into_iter()
            .filter_map(|c| match c {
                Chunk::Data(data) => Some(data),
                _ => None,
            })
            .collect()
    }

    /// DATA and I-DATA chunks.
    pub fn user_data(&self) -> Vec<UserData> {
        let chunks = self.chunks().into_iter();
        let user_data = chunks.filter_map(|c| match c {
            Chunk::Data(data) => Some(UserData {
                tsn: data.tsn,
                stream: data.stream.0,
                number: u32::from(data.ssn.value()),
                fsn: None,
                flags: data.flags,
                len: data.payload.len(),
            }),
            Chunk::IData(data) => Some(UserData {
                tsn: data.header.tsn,
                stream: data.header.stream.0,
                number: data.header.mid.value(),
                fsn: Some(data.header.fragment.fsn().value()),
                flags: data.header.flags(),
                len: data.payload.len(),
            }),
            _ => None,
        });
        user_data.collect()
    }

    pub fn sack(&self) -> Option<Sack<'_>> {
        self.chunks().into_iter().find_map(|c| match c {
            Chunk::Sack(sack) => Some(sack),
            _ => None,
        })
    }

    /// The INIT or INIT ACK chunk.
    pub fn init(&self) -> Init<'_> {
        self.chunks()
            .into_iter()
            .find_map(|c| match c {
                Chunk::Init(init) | Chunk::InitAck(init) => Some(init),
                _ => None,
            })
            .expect("INIT or INIT ACK")
    }

    /// Parameters of the INIT or INIT ACK.
    pub fn parameters(&self) -> Vec<Parameter<'_>> {
        let all = self.init().parameters();
        all.map(|p| Parameter::parse(p.expect("parameter")).expect("good parameter"))
            .collect()
    }

    /// Parameter types of the INIT or INIT ACK.
    pub fn parameter_types(&self) -> Vec<ParameterType> {
        let all = self.init().parameters();
        all.map(|p| p.expect("parameter").kind).collect()
    }

    /// IP addresses in the INIT or INIT ACK.
    pub fn listed(&self) -> Vec<IpAddr> {
        self.parameters()
            .iter()
            .filter_map(|p| match p {
                Parameter::Ipv4Address(a) => Some(IpAddr::V4(*a)),
                Parameter::Ipv6Address(a) => Some(IpAddr::V6(*a)),
                _ => None,
            })
            .collect()
    }

    /// Codes and values of the causes in ERROR and ABORT chunks.
    pub fn causes(&self) -> Vec<(CauseCode, Vec<u8>)> {
        let collect = |causes: Causes<'_>| {
            causes
                .map(|c| {
                    let c = c.expect("cause");
                    (c.code, c.value.to_vec())
                })
                .collect::<Vec<_>>()
        };
        self.chunks()
            .into_iter()
            .flat_map(|c| match c {
                Chunk::Error(error) => collect(error.causes()),
                Chunk::Abort(abort) => collect(abort.causes()),
                _ => Vec::new(),
            })
            .collect()
    }

    /// Heartbeat Info of the HEARTBEAT.
    pub fn heartbeat_info(&self) -> Option<Vec<u8>> {
        self.chunks().into_iter().find_map(|c| match c {
            Chunk::Heartbeat(h) => Some(h.info.to_vec()),
            _ => None,
        })
    }
}

/// Recomputes the CRC32c of a modified packet.
pub fn fix_checksum(packet: &mut [u8]) {
    if packet.len() >= 12 {
        packet[8..12].fill(0);
        let crc = carrick_wire::crc32c(packet);
        packet[8..12].copy_from_slice(&crc.to_le_bytes());
    }
}
