//! The parameters of ASCONF and ASCONF-ACK (RFC 5061, section 4.2).
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |    type = 0xC001 .. 0xC005    |       parameter length        |
//! +---------------+---------------+---------------+---------------+
//! |                    correlation identifier                     |
//! +---------------+---------------+---------------+---------------+
//! /  address parameter (add, delete, set primary), error causes   /
//! /  (error cause indication) or nothing (success indication)     /
//! +---------------+---------------+---------------+---------------+
//! ```

use core::net::IpAddr;

use super::{Parameter, Parameters, RawParameter};
use crate::error::{ParseError, ParseErrorKind, TlvKind};
use crate::tlv::{HEADER_LEN, exact, split, wrong_length};
use crate::{Causes, CorrelationId, ParameterType};

/// Length of the correlation identifier.
const ID_LEN: usize = 4;

/// Adds or deletes an address of the sender or sets the primary one. The unspecified address means the
/// source address of the packet; in a deletion, all addresses except the source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRequest {
    /// Identifier that the response repeats.
    pub correlation_id: CorrelationId,
    /// Address. It is not checked that it is a unicast address.
    pub address: IpAddr,
}

impl AddressRequest {
    pub(super) fn parse(value: &[u8], offset: usize) -> Result<Self, ParseError> {
        let (id, rest) = split::<ID_LEN>(TlvKind::Parameter, value, offset)?;
        let (address, after) = leading_address(rest, offset + HEADER_LEN + ID_LEN)?;
        if !after.bytes().is_empty() {
            let expected = value.len() - after.bytes().len();
            return Err(wrong_length(TlvKind::Parameter, expected, value, offset));
        }
        Ok(Self {
            correlation_id: CorrelationId(u32::from_be_bytes(*id)),
            address,
        })
    }
}

/// Causes for which a request of this side's ASCONF was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCauseIndication<'a> {
    /// Identifier of the request.
    pub correlation_id: CorrelationId,
    /// Unparsed causes, each with the request in it.
    pub causes: Causes<'a>,
}

impl<'a> ErrorCauseIndication<'a> {
    pub(super) fn parse(value: &'a [u8], offset: usize) -> Result<Self, ParseError> {
        let (id, causes) = split::<ID_LEN>(TlvKind::Parameter, value, offset)?;
        Ok(Self {
            correlation_id: CorrelationId(u32::from_be_bytes(*id)),
            causes: Causes::at(causes, offset + HEADER_LEN + ID_LEN),
        })
    }
}

pub(super) fn parse_success(value: &[u8], offset: usize) -> Result<CorrelationId, ParseError> {
    let id = *exact(TlvKind::Parameter, value, offset)?;
    Ok(CorrelationId(u32::from_be_bytes(id)))
}

/// Parses the address parameter at the start of `bytes`, whose offset is `offset`; returns it with the
/// bytes after it.
pub(crate) fn leading_address(
    bytes: &[u8],
    offset: usize,
) -> Result<(IpAddr, Parameters<'_>), ParseError> {
    let missing = ParseError::new(ParseErrorKind::MissingAddress, offset);
    let mut parameters = Parameters::at(bytes, offset);
    let raw = parameters.next().ok_or(missing)??;
    if !matches!(
        raw.kind,
        ParameterType::IPV4_ADDRESS | ParameterType::IPV6_ADDRESS
    ) {
        return Err(missing);
    }
    match Parameter::parse(raw)? {
        Parameter::Ipv4Address(address) => Ok((address.into(), parameters)),
        Parameter::Ipv6Address(address) => Ok((address.into(), parameters)),
        _ => Err(missing),
    }
}

/// Parameter of an ASCONF or ASCONF-ACK with its correlation identifier, also of an unknown type, because
/// the response needs the identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsconfParameter<'a> {
    /// Identifier that a request and its response share.
    pub correlation_id: CorrelationId,
    /// Whole parameter, for [`Parameter::parse`] and for the cause of a refusal.
    pub raw: RawParameter<'a>,
}

/// Iterator over the parameters after the fixed part of an ASCONF or ASCONF-ACK. It ends after the last one
/// or after the first error: a parameter that is malformed, or too short for its identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsconfParameters<'a>(Parameters<'a>);

impl<'a> AsconfParameters<'a> {
    pub(crate) const fn at(bytes: &'a [u8], offset: usize) -> Self {
        Self(Parameters::at(bytes, offset))
    }

    /// Bytes of the parameters that have not been returned yet, padding included.
    pub const fn bytes(&self) -> &'a [u8] {
        self.0.bytes()
    }
}

impl<'a> Iterator for AsconfParameters<'a> {
    type Item = Result<AsconfParameter<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let with_id = self.0.next()?.and_then(|raw| {
            let (id, _) = split::<ID_LEN>(TlvKind::Parameter, raw.value, raw.offset)?;
            Ok(AsconfParameter {
                correlation_id: CorrelationId(u32::from_be_bytes(*id)),
                raw,
            })
        });
        if with_id.is_err() {
            self.0 = Parameters::new(&[]);
        }
        Some(with_id)
    }
}

impl core::iter::FusedIterator for AsconfParameters<'_> {}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;

    use super::{AddressRequest, AsconfParameters};
    use crate::{
        Cause, CorrelationId, Parameter, ParameterType, Parameters, ParseError, ParseErrorKind,
        TlvKind,
    };

    /// The example of RFC 5061, 4.2.1.
    const ADD: [u8; 16] = [
        0xc0, 0x01, 0x00, 0x10, 0x01, 0x02, 0x34, 0x74, // type, length 16, identifier
        0x00, 0x05, 0x00, 0x08, 0xc0, 0x00, 0x02, 0x01, // 192.0.2.1
    ];

    /// The example of RFC 5061, 4.3.1.
    const REFUSAL: [u8; 28] = [
        0xc0, 0x03, 0x00, 0x1c, 0x01, 0x02, 0x34, 0x76, // type, length 28, identifier
        0x00, 0xa0, 0x00, 0x14, // last remaining address, length 20
        0xc0, 0x02, 0x00, 0x10, 0x01, 0x02, 0x34, 0x76, // the request
        0x00, 0x05, 0x00, 0x08, 0xc0, 0x00, 0x02, 0x01,
    ];

    fn parse(bytes: &[u8]) -> Result<Parameter<'_>, ParseError> {
        Parameter::parse(Parameters::new(bytes).next().expect("a parameter")?)
    }

    fn error(kind: ParseErrorKind, offset: usize) -> Result<Parameter<'static>, ParseError> {
        Err(ParseError { kind, offset })
    }

    #[test]
    fn the_examples_of_the_standard_parse() {
        let request = AddressRequest {
            correlation_id: CorrelationId(0x0102_3474),
            address: IpAddr::from([192, 0, 2, 1]),
        };
        assert_eq!(parse(&ADD), Ok(Parameter::AddIpAddress(request)));
        let mut bytes = ADD;
        bytes[1] = 2;
        assert_eq!(parse(&bytes), Ok(Parameter::DeleteIpAddress(request)));
        bytes[1] = 4;
        assert_eq!(parse(&bytes), Ok(Parameter::SetPrimaryAddress(request)));
        let success = Parameter::SuccessIndication(CorrelationId(5));
        assert_eq!(parse(&[0xc0, 5, 0, 8, 0, 0, 0, 5]), Ok(success));
    }

    #[test]
    fn refusal_contains_the_request() {
        let Ok(Parameter::ErrorCauseIndication(mut indication)) = parse(&REFUSAL) else {
            panic!("no error cause indication")
        };
        assert_eq!(indication.correlation_id, CorrelationId(0x0102_3476));
        let cause = indication.causes.next().unwrap().unwrap();
        assert_eq!(cause.offset, 8);
        let Ok(Cause::DeleteLastAddress(mut request)) = Cause::parse(cause) else {
            panic!("another cause")
        };
        let request = request.next().unwrap().unwrap();
        assert_eq!(request.offset, 12);
        assert_eq!(request.bytes, &REFUSAL[12..]);
        assert_eq!(indication.causes.next(), None);
    }

    #[test]
    fn an_address_must_be_there_and_be_alone() {
        let missing = ParseErrorKind::MissingAddress;
        assert_eq!(parse(&[0xc0, 1, 0, 8, 0, 0, 0, 1]), error(missing, 8));
        let mut bytes = ADD;
        bytes[9] = 11;
        assert_eq!(parse(&bytes), error(missing, 8));
        let mut bytes = ADD;
        bytes[11] = 7;
        let item = TlvKind::Parameter;
        let kind = ParseErrorKind::WrongLength {
            item,
            expected: 8,
            length: 7,
        };
        assert_eq!(parse(&bytes), error(kind, 10));
        let mut bytes = [ADD, ADD].concat();
        bytes[3] = 32;
        let kind = ParseErrorKind::WrongLength {
            item,
            expected: 16,
            length: 32,
        };
        assert_eq!(parse(&bytes), error(kind, 2));
        let kind = ParseErrorKind::ValueTooShort {
            item,
            needed: 8,
            length: 7,
        };
        assert_eq!(parse(&[0xc0, 1, 0, 7, 0, 0, 0, 0]), error(kind, 2));
        assert_eq!(parse(&[0xc0, 3, 0, 7, 0, 0, 0, 0]), error(kind, 2));
        let kind = ParseErrorKind::LengthPastEnd {
            item,
            length: 8,
            available: 7,
        };
        let mut bytes = ADD;
        bytes[3] = 15;
        assert_eq!(parse(&bytes), error(kind, 10));
    }

    #[test]
    fn every_parameter_has_an_identifier_known_or_not() {
        let unknown = [0xc1, 0x00, 0x00, 0x08, 0, 0, 0, 9];
        let bytes = [&ADD[..], &unknown, &[0xc0, 2, 0, 6, 1, 2, 0, 0], &ADD].concat();
        let mut parameters = AsconfParameters::at(&bytes, 100);
        let first = parameters.next().unwrap().unwrap();
        assert_eq!(first.correlation_id, CorrelationId(0x0102_3474));
        assert_eq!(first.raw.kind, ParameterType::ADD_IP_ADDRESS);
        let second = parameters.next().unwrap().unwrap();
        assert_eq!(second.correlation_id, CorrelationId(9));
        assert_eq!((second.raw.bytes, second.raw.offset), (&unknown[..], 116));
        let kind = ParseErrorKind::ValueTooShort {
            item: TlvKind::Parameter,
            needed: 8,
            length: 6,
        };
        let error = ParseError { kind, offset: 126 };
        assert_eq!(parameters.next(), Some(Err(error)));
        assert_eq!(parameters.next(), None, "nothing after an error");
    }
}
