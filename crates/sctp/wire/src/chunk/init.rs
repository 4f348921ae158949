//! Initiation (INIT) and Initiation Acknowledgement (INIT ACK), RFC 9260, sections 3.3.2 and 3.3.3.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! | type = 1 or 2 |     flags     |            length             |
//! +---------------+---------------+---------------+---------------+
//! |                         initiate tag                          |
//! +---------------+---------------+---------------+---------------+
//! |          advertised receiver window credit (a_rwnd)           |
//! +---------------+---------------+---------------+---------------+
//! |  number of outbound streams   |   number of inbound streams   |
//! +---------------+---------------+---------------+---------------+
//! |                          initial TSN                          |
//! +---------------+---------------+---------------+---------------+
//! /                          parameters                           /
//! +---------------+---------------+---------------+---------------+
//! ```

use crate::bytes::{u16_at, u32_at};
use crate::packet::CHUNK_HEADER_LEN;
use crate::tlv::split;
use crate::{Parameters, ParseError, RawChunk, TlvKind, Tsn, VerificationTag};

const FIXED_LEN: usize = 16;

/// Fixed fields of INIT and INIT ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitFields {
    /// Initiate tag: verification tag of packets to the sender. Not 0.
    pub tag: VerificationTag,
    /// Advertised receiver window credit in bytes. Not below 1500.
    pub a_rwnd: u32,
    /// Number of outbound streams that the sender requests. Not 0.
    pub outbound_streams: u16,
    /// Maximum number of inbound streams of the sender. Not 0.
    pub inbound_streams: u16,
    /// TSN of the sender's first DATA chunk.
    pub initial_tsn: Tsn,
}

impl InitFields {
    pub(crate) fn encode(&self) -> [u8; FIXED_LEN] {
        let mut bytes = [0; FIXED_LEN];
        bytes[0..4].copy_from_slice(&self.tag.0.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.a_rwnd.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.outbound_streams.to_be_bytes());
        bytes[10..12].copy_from_slice(&self.inbound_streams.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.initial_tsn.value().to_be_bytes());
        bytes
    }
}

/// INIT or INIT ACK chunk. Forbidden values (a tag of 0, no streams, a window below 1500) are parsed; the
/// protocol defines a reaction to each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init<'a> {
    /// Initiate tag: verification tag of packets to the sender.
    pub tag: VerificationTag,
    /// Advertised receiver window credit in bytes.
    pub a_rwnd: u32,
    /// Number of outbound streams that the sender requests.
    pub outbound_streams: u16,
    /// Maximum number of inbound streams of the sender.
    pub inbound_streams: u16,
    /// TSN of the sender's first DATA chunk.
    pub initial_tsn: Tsn,
    parameters: &'a [u8],
    parameters_offset: usize,
}

impl<'a> Init<'a> {
    pub(crate) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let (fixed, parameters) = split::<FIXED_LEN>(TlvKind::Chunk, raw.value, raw.offset)?;
        Ok(Self {
            tag: VerificationTag(u32_at(fixed, 0)),
            a_rwnd: u32_at(fixed, 4),
            outbound_streams: u16_at(fixed, 8),
            inbound_streams: u16_at(fixed, 10),
            initial_tsn: Tsn::new(u32_at(fixed, 12)),
            parameters,
            parameters_offset: raw.offset + CHUNK_HEADER_LEN + FIXED_LEN,
        })
    }

    /// Parameters after the fixed fields.
    pub const fn parameters(&self) -> Parameters<'a> {
        Parameters::at(self.parameters, self.parameters_offset)
    }

    /// Fixed fields.
    pub const fn fields(&self) -> InitFields {
        InitFields {
            tag: self.tag,
            a_rwnd: self.a_rwnd,
            outbound_streams: self.outbound_streams,
            inbound_streams: self.inbound_streams,
            initial_tsn: self.initial_tsn,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::InitFields;
    use crate::testing::{assert_error, build, first_chunk, packet};
    use crate::{Chunk, ChunkType, Parameter, ParseErrorKind, TlvKind, Tsn, VerificationTag};

    const FIELDS: InitFields = InitFields {
        tag: VerificationTag(0x1122_3344),
        a_rwnd: 65_536,
        outbound_streams: 10,
        inbound_streams: 2048,
        initial_tsn: Tsn::new(0xcafe_f00d),
    };

    /// With two addresses, the supported address types, and "forward TSN supported", a
    /// parameter of RFC 3758.
    const INIT: [u8; 60] = [
        0x01, 0x00, 0x00, 0x3c, // type, flags, length 60
        0x11, 0x22, 0x33, 0x44, // initiate tag
        0x00, 0x01, 0x00, 0x00, // a_rwnd
        0x00, 0x0a, 0x08, 0x00, // streams
        0xca, 0xfe, 0xf0, 0x0d, // initial TSN
        0x00, 0x05, 0x00, 0x08, 10, 1, 0, 7, // IPv4 address
        0x00, 0x06, 0x00, 0x14, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0x00,
        0x0c, 0x00, 0x08, 0x00, 0x05, 0x00, 0x06, // supported address types
        0xc0, 0x00, 0x00, 0x04, // forward TSN supported
    ];

    /// With a cookie of five bytes and the unrecognized parameter 0xc000. The padding of the cookie counts
    /// in the chunk's length, that of the last parameter does not.
    const INIT_ACK: [u8; 44] = [
        0x02, 0x00, 0x00, 0x29, // type, flags, length 41
        0x11, 0x22, 0x33, 0x44, 0x00, 0x01, 0x00, 0x00, 0x00, 0x0a, 0x08,
        0x00, // tag to streams
        0xca, 0xfe, 0xf0, 0x0d, // initial TSN
        0x00, 0x07, 0x00, 0x09, b'c', b'o', b'o', b'k', b'y', 0x00, 0x00,
        0x00, // state cookie
        0x00, 0x08, 0x00, 0x09, 0xc0, 0x00, 0x00, 0x05, 0xaa, 0x00, 0x00,
        0x00, // unrecognized
    ];

    #[test]
    fn parses_an_init() {
        let bytes = packet(&INIT);
        let Ok(Chunk::Init(init)) = first_chunk(&bytes) else {
            panic!("no INIT")
        };
        assert_eq!(init.fields(), FIELDS);
        let raw: Vec<_> = init.parameters().map(Result::unwrap).collect();
        let places: Vec<_> = raw.iter().map(|parameter| parameter.offset).collect();
        assert_eq!(places, [32, 40, 60, 68]);
        let mut parsed = raw
            .into_iter()
            .map(|parameter| Parameter::parse(parameter).unwrap());
        let v4 = [10, 1, 0, 7].into();
        assert_eq!(parsed.next(), Some(Parameter::Ipv4Address(v4)));
        let v6 = "2001:db8::7".parse().unwrap();
        assert_eq!(parsed.next(), Some(Parameter::Ipv6Address(v6)));
        let Some(Parameter::SupportedAddressTypes(types)) = parsed.next() else {
            panic!()
        };
        assert!(types.eq([5, 6]));
        assert_eq!(parsed.next(), Some(Parameter::ForwardTsnSupported));
        assert_eq!(parsed.next(), None);
    }

    #[test]
    fn builds_an_init() {
        let built = build(|packet| {
            packet.init(ChunkType::INIT, FIELDS, |parameters| {
                parameters.ip_address([10, 1, 0, 7].into());
                parameters.ip_address("2001:db8::7".parse().unwrap());
                parameters.supported_address_types(&[5, 6]);
                parameters.forward_tsn_supported();
            });
        });
        assert_eq!(built, INIT);
    }

    #[test]
    fn parses_an_init_ack() {
        let bytes = packet(&INIT_ACK);
        let Ok(Chunk::InitAck(init)) = first_chunk(&bytes) else {
            panic!("no INIT ACK")
        };
        assert_eq!(init.fields(), FIELDS);
        let parsed: Vec<_> = init
            .parameters()
            .map(|parameter| Parameter::parse(parameter.unwrap()).unwrap())
            .collect();
        let cookie = Parameter::StateCookie(b"cooky");
        let unrecognized = Parameter::UnrecognizedParameter(&[0xc0, 0, 0, 5, 0xaa]);
        assert_eq!(parsed, [cookie, unrecognized]);
    }

    #[test]
    fn builds_an_init_ack() {
        let built = build(|packet| {
            packet.init(ChunkType::INIT_ACK, FIELDS, |parameters| {
                parameters.state_cookie(b"cooky");
                parameters.unrecognized(&[0xc0, 0, 0, 5, 0xaa]);
            });
        });
        assert_eq!(built, INIT_ACK);
    }

    #[test]
    fn forbidden_values_are_parsed() {
        let mut bytes = packet(&INIT);
        bytes[16..28].fill(0);
        let Ok(Chunk::Init(init)) = first_chunk(&bytes) else {
            panic!("no INIT")
        };
        assert!(init.tag.is_zero());
        assert_eq!(
            (init.a_rwnd, init.outbound_streams, init.inbound_streams),
            (0, 0, 0)
        );
    }

    #[test]
    fn missing_fields_are_an_error() {
        let mut bytes = INIT;
        bytes[3] = 19;
        let kind = ParseErrorKind::ValueTooShort {
            item: TlvKind::Chunk,
            needed: 20,
            length: 19,
        };
        assert_error(&bytes, kind, 14);
    }

    #[test]
    fn a_parameter_beyond_the_chunk_is_an_error() {
        let mut bytes = packet(&INIT);
        bytes[12 + 59] = 5;
        let Ok(Chunk::Init(init)) = first_chunk(&bytes) else {
            panic!("no INIT")
        };
        let error = init.parameters().find_map(Result::err).expect("an error");
        assert_eq!(error.offset, 70);
        let kind = ParseErrorKind::LengthPastEnd {
            item: TlvKind::Parameter,
            length: 5,
            available: 4,
        };
        assert_eq!(error.kind, kind);
        assert_eq!(init.parameters().count(), 4, "nothing after the error");
    }
}
