//! Writing the parameters of INIT and INIT ACK (RFC 9260, sections 3.3.2.1 and 3.3.3.1).

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::ParameterType;
use crate::tlv::TlvWriter;

/// Appends parameters to the chunk that is being built.
#[derive(Debug)]
pub struct ParameterWriter<'w>(TlvWriter<'w>);

impl<'w> ParameterWriter<'w> {
    pub(crate) const fn new(out: TlvWriter<'w>) -> Self {
        Self(out)
    }

    /// Whether one more parameter with a value of this many bytes stays within the packet's
    /// limit.
    pub fn fits(&self, value_len: usize) -> bool {
        self.0.fits(value_len)
    }

    /// An address of ours. An IPv4-mapped IPv6 address is written as the IPv4 address that it
    /// is: the other form is forbidden (RFC 9260, 3.3.2.1.2).
    pub fn ip_address(&mut self, address: IpAddr) {
        address_parameter(&mut self.0, address);
    }

    /// The wish for a State Cookie that lives `increment_ms` milliseconds longer.
    pub fn cookie_preservative(&mut self, increment_ms: u32) {
        self.raw(
            ParameterType::COOKIE_PRESERVATIVE,
            &increment_ms.to_be_bytes(),
        );
    }

    /// The address types that we can use: 5 is IPv4, 6 is IPv6.
    pub fn supported_address_types(&mut self, types: &[u16]) {
        self.0
            .item(ParameterType::SUPPORTED_ADDRESS_TYPES.0, |buf| {
                buf.extend(types.iter().flat_map(|kind| kind.to_be_bytes()));
            });
    }

    /// The State Cookie of an INIT ACK.
    pub fn state_cookie(&mut self, cookie: &[u8]) {
        self.raw(ParameterType::STATE_COOKIE, cookie);
    }

    /// A parameter of the peer's INIT that we do not know: header and value
    /// ([`RawParameter::bytes`](crate::RawParameter::bytes)).
    pub fn unrecognized(&mut self, parameter: &[u8]) {
        self.raw(ParameterType::UNRECOGNIZED_PARAMETER, parameter);
    }

    /// A parameter of any type.
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

/// Appends address parameters to a value that lies `chunk` bytes into the buffer or later.
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
    use crate::{ChunkType, InitFields, PacketBuilder, ParameterType, Tsn, VerificationTag};

    const FIELDS: InitFields = InitFields {
        tag: VerificationTag(1),
        a_rwnd: 1500,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn::new(0),
    };

    /// The bytes after the fixed fields of an INIT.
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
    fn what_is_said_to_fit_fits_and_no_more() {
        // Of 100 bytes, 12 + 20 are gone, 68 are left, 64 of them for a value.
        written(|p| {
            assert!(p.fits(64) && !p.fits(65));
            p.raw(ParameterType(0xc000), &[1]);
            assert!(p.fits(56) && !p.fits(57));
            p.raw(ParameterType(0xc000), &[1; 56]);
            assert!(!p.fits(0));
        });
    }
}
