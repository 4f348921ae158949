//! Writes the parameters of INIT and INIT ACK (RFC 9260, sections 3.3.2.1 and 3.3.3.1, and the extensions);
//! the files of this module write those of ASCONF and RE-CONFIG.

mod asconf;
mod reconfig;

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::tlv::TlvWriter;
use crate::{ChunkType, ErrorDetectionMethod, HmacId, ParameterType};

/// Appends parameters to a chunk.
#[derive(Debug)]
pub struct ParameterWriter<'w>(TlvWriter<'w>);

impl<'w> ParameterWriter<'w> {
    pub(crate) const fn new(out: TlvWriter<'w>) -> Self {
        Self(out)
    }

    /// Returns whether one more parameter with a value of this many bytes fits into the packet's limit.
    pub fn fits(&self, value_len: usize) -> bool {
        self.0.fits(value_len)
    }

    /// Writes a local address. An IPv4-mapped IPv6 address is written as an IPv4 address: the other form is
    /// forbidden (RFC 9260, section 3.3.2.1.2).
    pub fn ip_address(&mut self, address: IpAddr) {
        address_parameter(&mut self.0, address);
    }

    /// Writes a Cookie Preservative: requests a lifetime of the State Cookie that is `increment_ms`
    /// milliseconds longer.
    pub fn cookie_preservative(&mut self, increment_ms: u32) {
        self.raw(
            ParameterType::COOKIE_PRESERVATIVE,
            &increment_ms.to_be_bytes(),
        );
    }

    /// Writes Supported Address Types: 5 is IPv4, 6 is IPv6.
    pub fn supported_address_types(&mut self, types: &[u16]) {
        self.0
            .item(ParameterType::SUPPORTED_ADDRESS_TYPES.0, |buf| {
                buf.extend(types.iter().flat_map(|kind| kind.to_be_bytes()));
            });
    }

    /// Writes the State Cookie of an INIT ACK.
    pub fn state_cookie(&mut self, cookie: &[u8]) {
        self.raw(ParameterType::STATE_COOKIE, cookie);
    }

    /// Writes Unrecognized Parameter with a parameter of the peer's INIT, header included
    /// ([`RawParameter::bytes`](crate::RawParameter::bytes)).
    pub fn unrecognized(&mut self, parameter: &[u8]) {
        self.raw(ParameterType::UNRECOGNIZED_PARAMETER, parameter);
    }

    /// Writes ECN Capable.
    pub fn ecn_capable(&mut self) {
        self.raw(ParameterType::ECN_CAPABLE, &[]);
    }

    /// Writes Forward-TSN-Supported.
    pub fn forward_tsn_supported(&mut self) {
        self.raw(ParameterType::FORWARD_TSN_SUPPORTED, &[]);
    }

    /// Writes Zero Checksum Acceptable: packets with a checksum of zero are accepted if this method
    /// protects them.
    pub fn zero_checksum_acceptable(&mut self, method: ErrorDetectionMethod) {
        self.raw(
            ParameterType::ZERO_CHECKSUM_ACCEPTABLE,
            &method.0.to_be_bytes(),
        );
    }

    /// Writes Random: the random number for the keys of AUTH; RFC 4895 requires 32 bytes.
    pub fn random(&mut self, random: &[u8]) {
        self.raw(ParameterType::RANDOM, random);
    }

    /// Writes Chunk List: these chunks are accepted only if authenticated.
    pub fn chunks(&mut self, types: &[ChunkType]) {
        self.chunk_types(ParameterType::CHUNKS, types);
    }

    /// Writes Requested HMAC Algorithm, in descending order of preference.
    pub fn hmac_algo(&mut self, ids: &[HmacId]) {
        self.0.item(ParameterType::HMAC_ALGO.0, |buf| {
            buf.extend(ids.iter().flat_map(|id| id.0.to_be_bytes()));
        });
    }

    /// Writes Supported Extensions with the chunk types of the extensions.
    pub fn supported_extensions(&mut self, types: &[ChunkType]) {
        self.chunk_types(ParameterType::SUPPORTED_EXTENSIONS, types);
    }

    /// Writes Adaptation Layer Indication.
    pub fn adaptation_layer_indication(&mut self, code_point: u32) {
        self.raw(
            ParameterType::ADAPTATION_LAYER_INDICATION,
            &code_point.to_be_bytes(),
        );
    }

    /// Writes Padding of this many zeros.
    pub fn padding(&mut self, value_len: usize) {
        self.0.item(ParameterType::PADDING.0, |buf| {
            buf.resize(buf.len() + value_len, 0);
        });
    }

    fn chunk_types(&mut self, kind: ParameterType, types: &[ChunkType]) {
        self.0.item(kind.0, |buf| {
            buf.extend(types.iter().map(|kind| kind.0));
        });
    }

    /// Writes a parameter of any type.
    pub fn raw(&mut self, kind: ParameterType, value: &[u8]) {
        self.0.item(kind.0, |buf| buf.extend_from_slice(value));
    }
}

/// Appends an address parameter.
fn address_parameter(out: &mut TlvWriter<'_>, address: IpAddr) {
    match address.to_canonical() {
        IpAddr::V4(v4) => out.item(ParameterType::IPV4_ADDRESS.0, |buf| {
            buf.extend_from_slice(&v4.octets());
        }),
        IpAddr::V6(v6) => out.item(ParameterType::IPV6_ADDRESS.0, |buf| {
            buf.extend_from_slice(&v6.octets());
        }),
    }
}

/// Appends address parameters to a value at offset `chunk` of the buffer or later.
pub(crate) fn address_parameters(buf: &mut Vec<u8>, addresses: &[IpAddr]) {
    let start = buf.len();
    let mut out = TlvWriter::new(buf, start, usize::MAX);
    for address in addresses {
        address_parameter(&mut out, *address);
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use crate::testing::HEADER;
    use crate::{
        ChunkType, ErrorDetectionMethod, HmacId, InitFields, PacketBuilder, ParameterType, Tsn,
        VerificationTag,
    };

    const FIELDS: InitFields = InitFields {
        tag: VerificationTag(1),
        a_rwnd: 1500,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn::new(0),
    };

    /// Returns the bytes after the fixed fields of an INIT.
    fn written(fill: impl FnOnce(&mut super::ParameterWriter<'_>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut builder = PacketBuilder::new(&mut bytes, HEADER, 100);
        builder.init(ChunkType::INIT, FIELDS, fill);
        builder.finish();
        bytes.split_off(32)
    }

    #[test]
    fn a_mapped_address_is_written_as_ipv4() {
        let mapped = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(
            written(|p| p.ip_address(mapped)),
            [0, 5, 0, 8, 192, 0, 2, 1]
        );
    }

    #[test]
    fn the_cookie_preservative_is_in_milliseconds() {
        assert_eq!(
            written(|p| p.cookie_preservative(1000)),
            [0, 9, 0, 8, 0, 0, 3, 0xe8]
        );
    }

    #[test]
    fn extensions_are_announced_byte_by_byte() {
        let extensions = written(|p| {
            p.supported_extensions(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK, ChunkType::AUTH]);
            p.forward_tsn_supported();
            p.hmac_algo(&[HmacId::SHA_256, HmacId::SHA_1]);
            p.chunks(&[ChunkType::ASCONF]);
        });
        let expected = [
            0x80, 8, 0, 7, 0xc1, 0x80, 0x0f, 0, // supported extensions, padded
            0xc0, 0, 0, 4, // forward TSN
            0x80, 4, 0, 8, 0, 3, 0, 1, // algorithms
            0x80, 3, 0, 5, 0xc1, 0, 0, 0, // chunks
        ];
        assert_eq!(extensions, expected);
        let others = written(|p| {
            p.ecn_capable();
            p.zero_checksum_acceptable(ErrorDetectionMethod::DTLS);
            p.random(&[1, 2, 3, 4]);
            p.adaptation_layer_indication(7);
            p.padding(4);
        });
        let expected = [
            0x80, 0, 0, 4, // ECN
            0x80, 1, 0, 8, 0, 0, 0, 1, // zero checksum
            0x80, 2, 0, 8, 1, 2, 3, 4, // random
            0xc0, 6, 0, 8, 0, 0, 0, 7, // adaptation layer
            0x80, 5, 0, 8, 0, 0, 0, 0, // padding
        ];
        assert_eq!(others, expected);
    }

    #[test]
    fn fits_is_exact() {
        // Of 100 bytes 12 + 20 are used, 68 are left, 64 of them for a value.
        written(|p| {
            assert!(p.fits(64) && !p.fits(65));
            p.raw(ParameterType(0xc000), &[1]);
            assert!(p.fits(56) && !p.fits(57));
            p.raw(ParameterType(0xc000), &[1; 56]);
            assert!(!p.fits(0));
        });
    }
}
