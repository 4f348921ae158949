//! Optional and variable-length parameters (RFC 9260, sections 3.2.1, 3.3.2.1, 3.3.3.1, 3.3.5).
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |        parameter type         |       parameter length        |  header and value,
//! +---------------+---------------+---------------+---------------+  not the padding
//! /                       parameter value                         /
//! +---------------+---------------+---------------+---------------+
//! ```

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use crate::UnknownAction;
use crate::error::{Item, ParseError, ParseErrorKind};
use crate::tlv::{HEADER_LEN, Tlvs, exact};

/// The type of a parameter. All values are possible; those of RFC 9260 are constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParameterType(pub u16);

impl ParameterType {
    /// Heartbeat Info, in HEARTBEAT and HEARTBEAT ACK (3.3.5).
    pub const HEARTBEAT_INFO: Self = Self(1);
    /// IPv4 Address (3.3.2.1.1).
    pub const IPV4_ADDRESS: Self = Self(5);
    /// IPv6 Address (3.3.2.1.2).
    pub const IPV6_ADDRESS: Self = Self(6);
    /// State Cookie, in INIT ACK (3.3.3.1.1).
    pub const STATE_COOKIE: Self = Self(7);
    /// Unrecognized Parameter, in INIT ACK (3.3.3.1.2).
    pub const UNRECOGNIZED_PARAMETER: Self = Self(8);
    /// Cookie Preservative, in INIT (3.3.2.1.3).
    pub const COOKIE_PRESERVATIVE: Self = Self(9);
    /// Host Name Address, deprecated (3.3.2.1.4).
    pub const HOST_NAME_ADDRESS: Self = Self(11);
    /// Supported Address Types, in INIT (3.3.2.1.5).
    pub const SUPPORTED_ADDRESS_TYPES: Self = Self(12);
    /// Reserved for ECN Capable (3.3.2, note 2).
    pub const ECN_CAPABLE: Self = Self(0x8000);

    /// What to do with the parameter if this type is not known (3.2.1, table 3).
    pub const fn unknown_action(self) -> UnknownAction {
        UnknownAction::from_high_bits((self.0 >> 14) as u8)
    }
}

impl fmt::Display for ParameterType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::HEARTBEAT_INFO => "Heartbeat Info",
            Self::IPV4_ADDRESS => "IPv4 Address",
            Self::IPV6_ADDRESS => "IPv6 Address",
            Self::STATE_COOKIE => "State Cookie",
            Self::UNRECOGNIZED_PARAMETER => "Unrecognized Parameter",
            Self::COOKIE_PRESERVATIVE => "Cookie Preservative",
            Self::HOST_NAME_ADDRESS => "Host Name Address",
            Self::SUPPORTED_ADDRESS_TYPES => "Supported Address Types",
            Self::ECN_CAPABLE => "ECN Capable",
            Self(other) => return write!(f, "type {other:#06x}"),
        })
    }
}

/// A parameter that has been cut out, of whatever type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawParameter<'a> {
    /// The parameter type.
    pub kind: ParameterType,
    /// What follows the header, without padding.
    pub value: &'a [u8],
    /// Header and value, without padding: what is returned to the sender as unrecognized.
    pub bytes: &'a [u8],
    /// Where the parameter begins in the packet, or in the slice given to [`Parameters::new`].
    pub offset: usize,
}

/// A sequence of parameters, cut but not parsed. It ends after the last one or after the first
/// error. The padding of the last one may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters<'a>(Tlvs<'a>);

impl<'a> Parameters<'a> {
    /// The parameters in `bytes`; offsets count from its start.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self::at(bytes, 0)
    }

    pub(crate) const fn at(bytes: &'a [u8], offset: usize) -> Self {
        Self(Tlvs::new(Item::Parameter, bytes, offset))
    }

    /// The bytes of the parameters that have not been taken yet, padding included.
    pub const fn bytes(&self) -> &'a [u8] {
        self.0.rest()
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Result<RawParameter<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let cut = self.0.next()?;
        Some(cut.map(|tlv| RawParameter {
            kind: ParameterType(u16::from_be_bytes(tlv.kind)),
            value: tlv.value,
            bytes: tlv.bytes,
            offset: tlv.offset,
        }))
    }
}

impl core::iter::FusedIterator for Parameters<'_> {}

/// A parameter with its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter<'a> {
    /// An IPv4 address of the sender.
    Ipv4Address(Ipv4Addr),
    /// An IPv6 address of the sender.
    Ipv6Address(Ipv6Addr),
    /// The sender of an INIT wishes the State Cookie to live longer.
    CookiePreservative {
        /// By how much, in milliseconds.
        increment_ms: u32,
    },
    /// A host name with its final zero byte. Deprecated: the answer is an ABORT.
    HostNameAddress(&'a [u8]),
    /// The address types that the sender can use.
    SupportedAddressTypes(AddressTypes<'a>),
    /// The State Cookie, to be echoed.
    StateCookie(&'a [u8]),
    /// A parameter of our INIT, header included, that the peer did not know.
    UnrecognizedParameter(&'a [u8]),
    /// What the sender of a HEARTBEAT wants back.
    HeartbeatInfo(&'a [u8]),
    /// Reserved for ECN.
    EcnCapable,
    /// Anything else; see [`ParameterType::unknown_action`].
    Unknown(RawParameter<'a>),
}

impl<'a> Parameter<'a> {
    /// Gives a parameter its meaning.
    ///
    /// # Errors
    /// The length is not the one of the type.
    pub fn parse(raw: RawParameter<'a>) -> Result<Self, ParseError> {
        let RawParameter {
            kind,
            value,
            offset,
            ..
        } = raw;
        Ok(match kind {
            ParameterType::IPV4_ADDRESS => {
                let octets: [u8; 4] = *exact(Item::Parameter, value, offset)?;
                Self::Ipv4Address(octets.into())
            }
            ParameterType::IPV6_ADDRESS => {
                let octets: [u8; 16] = *exact(Item::Parameter, value, offset)?;
                Self::Ipv6Address(octets.into())
            }
            ParameterType::COOKIE_PRESERVATIVE => {
                let increment = *exact(Item::Parameter, value, offset)?;
                Self::CookiePreservative {
                    increment_ms: u32::from_be_bytes(increment),
                }
            }
            ParameterType::HOST_NAME_ADDRESS => Self::HostNameAddress(value),
            ParameterType::SUPPORTED_ADDRESS_TYPES => Self::SupportedAddressTypes(AddressTypes(
                U16s::parse(Item::Parameter, value, offset)?,
            )),
            ParameterType::STATE_COOKIE => Self::StateCookie(value),
            ParameterType::UNRECOGNIZED_PARAMETER => Self::UnrecognizedParameter(value),
            ParameterType::HEARTBEAT_INFO => Self::HeartbeatInfo(value),
            ParameterType::ECN_CAPABLE => {
                exact::<0>(Item::Parameter, value, offset)?;
                Self::EcnCapable
            }
            _ => Self::Unknown(raw),
        })
    }
}

/// The address types of a Supported Address Types parameter, as numbers: 5 is IPv4, 6 is IPv6
/// (they are the types of the address parameters).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressTypes<'a>(U16s<'a>);

impl Iterator for AddressTypes<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        self.0.next()
    }
}

/// A list of 16-bit values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct U16s<'a>(&'a [[u8; 2]]);

impl<'a> U16s<'a> {
    /// The list that fills `value`, the value of an item at `offset`, or the end of it.
    pub(crate) fn parse(item: Item, value: &'a [u8], offset: usize) -> Result<Self, ParseError> {
        let (pairs, half) = value.as_chunks();
        if half.is_empty() {
            return Ok(Self(pairs));
        }
        let length = HEADER_LEN + value.len();
        Err(ParseError::new(
            ParseErrorKind::OddLength { item, length },
            offset + 2,
        ))
    }
}

impl Iterator for U16s<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*first))
    }
}

#[cfg(test)]
mod tests {
    use super::{Parameter, Parameters};
    use crate::{Item, ParseError, ParseErrorKind};

    fn parse(bytes: &[u8]) -> Result<Parameter<'_>, ParseError> {
        Parameter::parse(Parameters::new(bytes).next().expect("a parameter")?)
    }

    #[test]
    fn every_parameter_of_the_standard_has_its_meaning() {
        let cases: [(&[u8], Parameter<'_>); 8] = [
            (&[0, 1, 0, 5, 9], Parameter::HeartbeatInfo(&[9])),
            (
                &[0, 5, 0, 8, 192, 0, 2, 1],
                Parameter::Ipv4Address([192, 0, 2, 1].into()),
            ),
            (&[0, 7, 0, 6, 1, 2], Parameter::StateCookie(&[1, 2])),
            (
                &[0, 8, 0, 8, 0xc0, 0, 0, 4],
                Parameter::UnrecognizedParameter(&[0xc0, 0, 0, 4]),
            ),
            (
                &[0, 9, 0, 8, 0, 0, 0x03, 0xe8],
                Parameter::CookiePreservative { increment_ms: 1000 },
            ),
            (
                &[0, 11, 0, 8, b'h', b'o', b's', 0],
                Parameter::HostNameAddress(b"hos\0"),
            ),
            (&[0, 7, 0, 4], Parameter::StateCookie(&[])),
            (&[0x80, 0, 0, 4], Parameter::EcnCapable),
        ];
        for (bytes, expected) in cases {
            assert_eq!(parse(bytes), Ok(expected));
        }
        let Ok(Parameter::SupportedAddressTypes(types)) = parse(&[0, 12, 0, 6, 0, 6]) else {
            panic!("no address types")
        };
        assert!(types.eq([6]));
    }

    #[test]
    fn fixed_lengths_are_kept() {
        let cases: [(&[u8], usize); 5] = [
            (&[0, 5, 0, 7, 1, 2, 3], 8),
            (&[0, 5, 0, 9, 1, 2, 3, 4, 5], 8),
            (&[0, 6, 0, 8, 1, 2, 3, 4], 20),
            (&[0, 9, 0, 4], 8),
            (&[0x80, 0, 0, 5, 1], 4),
        ];
        for (bytes, expected) in cases {
            let length = bytes.len();
            let kind = ParseErrorKind::WrongLength {
                item: Item::Parameter,
                expected,
                length,
            };
            assert_eq!(parse(bytes), Err(ParseError { kind, offset: 2 }));
        }
    }

    #[test]
    fn half_an_address_type_is_an_error() {
        let kind = ParseErrorKind::OddLength {
            item: Item::Parameter,
            length: 7,
        };
        assert_eq!(
            parse(&[0, 12, 0, 7, 0, 5, 0]),
            Err(ParseError { kind, offset: 2 })
        );
    }

    #[test]
    fn lying_lengths_end_the_list() {
        let item = Item::Parameter;
        let cases: [(&[u8], ParseErrorKind, usize); 4] = [
            (
                &[0, 7, 0, 0],
                ParseErrorKind::LengthTooSmall { item, length: 0 },
                2,
            ),
            (
                &[0, 7, 0, 3],
                ParseErrorKind::LengthTooSmall { item, length: 3 },
                2,
            ),
            (
                &[0, 7, 0xff, 0xff, 1],
                ParseErrorKind::LengthPastEnd {
                    item,
                    length: 0xffff,
                    available: 5,
                },
                2,
            ),
            (&[0, 7, 0, 4, 0, 0, 0], ParseErrorKind::Truncated(item), 4),
        ];
        for (bytes, kind, offset) in cases {
            let mut parameters = Parameters::new(bytes);
            let error = parameters.by_ref().find_map(Result::err);
            assert_eq!(error, Some(ParseError { kind, offset }));
            assert_eq!(parameters.next(), None);
        }
    }

    #[test]
    fn parameters_inside_a_parameter_keep_to_it() {
        // The inner one claims the outer one's neighbour.
        let bytes = [0, 8, 0, 8, 0xc0, 0, 0, 8, 0, 7, 0, 4];
        let Ok(Parameter::UnrecognizedParameter(inner)) = parse(&bytes) else {
            panic!()
        };
        let error = Parameters::new(inner).next().unwrap().unwrap_err();
        let kind = ParseErrorKind::LengthPastEnd {
            item: Item::Parameter,
            length: 8,
            available: 4,
        };
        assert_eq!(error, ParseError { kind, offset: 2 });
    }
}
