//! Address Configuration Change (ASCONF) and its Acknowledgement (ASCONF-ACK), RFC 5061, section 4.1.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |  193 or 128   |     flags     |            length             |
//! +---------------+---------------+---------------+---------------+
//! |                         serial number                         |
//! +---------------+---------------+---------------+---------------+
//! /  address parameter (only ASCONF): an address of the sender    /
//! +---------------+---------------+---------------+---------------+
//! /         requests (ASCONF) or answers (ASCONF-ACK)             /
//! +---------------+---------------+---------------+---------------+
//! ```

use core::net::IpAddr;

use crate::packet::CHUNK_HEADER_LEN;
use crate::parameter::leading_address;
use crate::tlv::split;
use crate::{AsconfParameters, AsconfSerial, ParseError, RawChunk, TlvKind};

/// Length of the serial number.
const SERIAL_LEN: usize = 4;

/// Address Configuration Change (ASCONF), RFC 5061, section 4.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asconf<'a> {
    /// Serial number of the chunk.
    pub serial: AsconfSerial,
    /// Address of the association by which the receiver finds it if the source address is unknown;
    /// unspecified if the verification tag identifies the association.
    pub address: IpAddr,
    parameters: &'a [u8],
    offset: usize,
}

impl<'a> Asconf<'a> {
    pub(crate) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let (serial, rest) = split::<SERIAL_LEN>(TlvKind::Chunk, raw.value, raw.offset)?;
        let offset = raw.offset + CHUNK_HEADER_LEN + SERIAL_LEN;
        let (address, parameters) = leading_address(rest, offset)?;
        let parameters = parameters.bytes();
        Ok(Self {
            serial: AsconfSerial::new(u32::from_be_bytes(*serial)),
            address,
            parameters,
            offset: offset + rest.len() - parameters.len(),
        })
    }

    /// Returns the requests.
    pub const fn parameters(&self) -> AsconfParameters<'a> {
        AsconfParameters::at(self.parameters, self.offset)
    }
}

/// Address Configuration Acknowledgement (ASCONF-ACK), RFC 5061, section 4.1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsconfAck<'a> {
    /// Serial number of the acknowledged ASCONF.
    pub serial: AsconfSerial,
    parameters: &'a [u8],
    offset: usize,
}

impl<'a> AsconfAck<'a> {
    pub(crate) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let (serial, parameters) = split::<SERIAL_LEN>(TlvKind::Chunk, raw.value, raw.offset)?;
        Ok(Self {
            serial: AsconfSerial::new(u32::from_be_bytes(*serial)),
            parameters,
            offset: raw.offset + CHUNK_HEADER_LEN + SERIAL_LEN,
        })
    }

    /// Returns the responses; a request without one was successful, unless an earlier one failed.
    pub const fn parameters(&self) -> AsconfParameters<'a> {
        AsconfParameters::at(self.parameters, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;
    use std::vec::Vec;

    use crate::testing::{assert_error, build, first_chunk, packet};
    use crate::{
        AddressRequest, AsconfSerial, Chunk, CorrelationId, Parameter, ParameterType,
        ParseErrorKind, TlvKind,
    };

    /// Adds 192.0.2.1 and prefers `2001:db8::7`.
    const ASCONF: [u8; 60] = [
        0xc1, 0x00, 0x00, 0x3c, 0xff, 0xff, 0xff, 0xff, // type, flags, length 60, serial
        0x00, 0x05, 0x00, 0x08, 10, 1, 0, 7, // an address of the sender
        0xc0, 0x01, 0x00, 0x10, 0x01, 0x02, 0x34, 0x74, // add, length 16, identifier
        0x00, 0x05, 0x00, 0x08, 192, 0, 2, 1, // the address
        0xc0, 0x04, 0x00, 0x1c, 0x01, 0x02, 0x34, 0x75, // set primary, length 28
        0x00, 0x06, 0x00, 0x14, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7,
    ];

    /// The first request is granted, the second refused.
    const ASCONF_ACK: [u8; 32] = [
        0x80, 0x00, 0x00, 0x20, 0xff, 0xff, 0xff, 0xff, // type, flags, length 32, serial
        0xc0, 0x05, 0x00, 0x08, 0x01, 0x02, 0x34, 0x74, // success
        0xc0, 0x03, 0x00, 0x10, 0x01, 0x02, 0x34, 0x75, // error, length 16
        0x00, 0xa4, 0x00, 0x08, 0xc0, 0x04, 0x00, 0x04, // no authorization
    ];

    const ADD: CorrelationId = CorrelationId(0x0102_3474);
    const PREFER: CorrelationId = CorrelationId(0x0102_3475);

    fn v6() -> IpAddr {
        "2001:db8::7".parse().unwrap()
    }

    #[test]
    fn parses_requests() {
        let bytes = packet(&ASCONF);
        let Ok(Chunk::Asconf(asconf)) = first_chunk(&bytes) else {
            panic!("no ASCONF")
        };
        assert_eq!(asconf.serial, AsconfSerial::new(u32::MAX));
        assert_eq!(asconf.address, IpAddr::from([10, 1, 0, 7]));
        let requests: Vec<_> = asconf.parameters().map(Result::unwrap).collect();
        let ids: Vec<_> = requests
            .iter()
            .map(|request| request.correlation_id)
            .collect();
        assert_eq!(ids, [ADD, PREFER]);
        assert_eq!((requests[0].raw.offset, requests[1].raw.offset), (28, 44));
        let add = AddressRequest {
            correlation_id: ADD,
            address: [192, 0, 2, 1].into(),
        };
        assert_eq!(
            Parameter::parse(requests[0].raw),
            Ok(Parameter::AddIpAddress(add))
        );
        let prefer = AddressRequest {
            correlation_id: PREFER,
            address: v6(),
        };
        assert_eq!(
            Parameter::parse(requests[1].raw),
            Ok(Parameter::SetPrimaryAddress(prefer))
        );
    }

    #[test]
    fn parses_answers() {
        let bytes = packet(&ASCONF_ACK);
        let Ok(Chunk::AsconfAck(ack)) = first_chunk(&bytes) else {
            panic!("no ASCONF-ACK")
        };
        assert_eq!(ack.serial, AsconfSerial::new(u32::MAX));
        let answers: Vec<_> = ack.parameters().map(Result::unwrap).collect();
        let kinds: Vec<_> = answers
            .iter()
            .map(|answer| (answer.correlation_id, answer.raw.kind))
            .collect();
        let expected = [
            (ADD, ParameterType::SUCCESS_INDICATION),
            (PREFER, ParameterType::ERROR_CAUSE_INDICATION),
        ];
        assert_eq!(kinds, expected);
        let all_granted = packet(&[0x80, 0, 0, 8, 0, 0, 0, 9]);
        let Ok(Chunk::AsconfAck(ack)) = first_chunk(&all_granted) else {
            panic!("no ASCONF-ACK")
        };
        assert_eq!(ack.parameters().next(), None);
    }

    #[test]
    fn parsed_chunk_builds_the_same_bytes() {
        let serial = AsconfSerial::new(u32::MAX);
        let asconf = build(|packet| {
            packet.asconf(serial, [10, 1, 0, 7].into(), |p| {
                p.add_ip_address(ADD, [192, 0, 2, 1].into());
                p.set_primary_address(PREFER, v6());
            });
        });
        assert_eq!(asconf, ASCONF);
        let ack = build(|packet| {
            packet.asconf_ack(serial, |p| {
                p.success_indication(ADD);
                p.error_cause_indication(PREFER, |causes| {
                    causes.no_authorization(&[0xc0, 4, 0, 4]);
                });
            });
        });
        assert_eq!(ack, ASCONF_ACK);
        let delete = build(|packet| {
            packet.asconf(serial, [10, 1, 0, 7].into(), |p| {
                p.delete_ip_address(ADD, [192, 0, 2, 1].into());
            });
        });
        let mut expected = ASCONF[..32].to_vec();
        expected[3] = 32;
        expected[17] = 2;
        assert_eq!(delete, expected);
    }

    #[test]
    fn causes_in_a_response_are_aligned() {
        let built = build(|packet| {
            packet.asconf_ack(AsconfSerial::new(1), |p| {
                p.error_cause_indication(ADD, |causes| {
                    // 1500 bytes less 12 + 8 + 8, and four for the cause's header.
                    assert!(causes.fits(1468) && !causes.fits(1469));
                    causes.no_authorization(&[1]);
                    causes.resource_shortage(&[2]);
                });
                p.success_indication(PREFER);
            });
        });
        let expected = [
            &[0x80, 0, 0, 40, 0, 0, 0, 1][..],
            &[0xc0, 3, 0, 21, 1, 2, 0x34, 0x74],
            &[0, 0xa4, 0, 5, 1, 0, 0, 0, 0, 0xa1, 0, 5, 2, 0, 0, 0],
            &[0xc0, 5, 0, 8, 1, 2, 0x34, 0x75],
        ]
        .concat();
        assert_eq!(built, expected);
    }

    #[test]
    fn the_address_is_mandatory() {
        let missing = ParseErrorKind::MissingAddress;
        assert_error(&[0xc1, 0, 0, 8, 0, 0, 0, 1], missing, 20);
        let mut bytes = ASCONF;
        bytes[8..10].copy_from_slice(&[0xc0, 0x01]);
        assert_error(&bytes, missing, 20);
        let item = TlvKind::Parameter;
        let mut bytes = ASCONF;
        bytes[11] = 9;
        let kind = ParseErrorKind::WrongLength {
            item,
            expected: 8,
            length: 9,
        };
        assert_error(&bytes, kind, 22);
        let mut bytes = ASCONF;
        bytes[11] = 200;
        let kind = ParseErrorKind::LengthPastEnd {
            item,
            length: 200,
            available: 52,
        };
        assert_error(&bytes, kind, 22);
    }

    #[test]
    fn the_serial_number_is_mandatory() {
        for kind in [0xc1, 0x80] {
            let error = ParseErrorKind::ValueTooShort {
                item: TlvKind::Chunk,
                needed: 8,
                length: 7,
            };
            assert_error(&[kind, 0, 0, 7, 0, 0, 0, 0], error, 14);
        }
    }
}
