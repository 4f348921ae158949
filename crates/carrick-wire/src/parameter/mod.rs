//! Optional and variable-length parameters (RFC 9260, sections 3.2.1, 3.3.2.1, 3.3.3.1, 3.3.5),
//! those of the extensions included.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |        parameter type         |       parameter length        |  header and value,
//! +---------------+---------------+---------------+---------------+  not the padding
//! /                       parameter value                         /
//! +---------------+---------------+---------------+---------------+
//! ```

mod asconf;
mod kind;
mod lists;
mod reconfig;

use core::net::{Ipv4Addr, Ipv6Addr};

pub(crate) use asconf::leading_address;
pub use asconf::{AddressRequest, AsconfParameter, AsconfParameters, ErrorCauseIndication};
pub use kind::ParameterType;
pub(crate) use lists::U16s;
pub use lists::{AddressTypes, ChunkTypes, HmacIds, StreamIds};
pub use reconfig::{
    AddStreams, IncomingSsnReset, NextTsns, OutgoingSsnReset, ReconfigResponse, ReconfigResult,
};

use crate::error::{Item, ParseError};
use crate::tlv::{Tlvs, exact};
use crate::{CorrelationId, ErrorDetectionMethod, ReconfigSerial};

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
    /// The sender resets its outgoing streams.
    OutgoingSsnReset(OutgoingSsnReset<'a>),
    /// The sender asks for a reset of its incoming streams.
    IncomingSsnReset(IncomingSsnReset<'a>),
    /// The sender asks for a reset of all SSNs and TSNs; the number of the request.
    SsnTsnReset(ReconfigSerial),
    /// The answer to a request of a RE-CONFIG.
    ReconfigResponse(ReconfigResponse),
    /// The sender wants more outgoing streams.
    AddOutgoingStreams(AddStreams),
    /// The sender wants more incoming streams.
    AddIncomingStreams(AddStreams),
    /// The sender understands ECN.
    EcnCapable,
    /// The sender accepts packets whose checksum is zero, if this method protects them.
    ZeroChecksumAcceptable(ErrorDetectionMethod),
    /// The sender's random number for the keys of AUTH; those of the standard have 32 bytes.
    Random(&'a [u8]),
    /// The sender accepts these chunks only when they are authenticated.
    Chunks(ChunkTypes<'a>),
    /// The algorithms that the sender can verify.
    HmacAlgo(HmacIds<'a>),
    /// Nothing: it makes the chunk longer.
    Padding(&'a [u8]),
    /// Chunk types of extensions that the sender supports.
    SupportedExtensions(ChunkTypes<'a>),
    /// The sender understands FORWARD-TSN.
    ForwardTsnSupported,
    /// The sender has one more address.
    AddIpAddress(AddressRequest),
    /// The sender has one address less.
    DeleteIpAddress(AddressRequest),
    /// A request was refused.
    ErrorCauseIndication(ErrorCauseIndication<'a>),
    /// The sender prefers to be sent to at this address.
    SetPrimaryAddress(AddressRequest),
    /// A request was granted.
    SuccessIndication(CorrelationId),
    /// A code point for the users of both sides.
    AdaptationLayerIndication(u32),
    /// Anything else; see [`ParameterType::unknown_action`].
    Unknown(RawParameter<'a>),
}

impl<'a> Parameter<'a> {
    /// Gives a parameter its meaning.
    ///
    /// # Errors
    /// The length is not the one of the type, or an address in it is missing or malformed.
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
            _ => return Self::parse_extension(raw),
        })
    }

    fn parse_extension(raw: RawParameter<'a>) -> Result<Self, ParseError> {
        let RawParameter {
            kind,
            value,
            offset,
            ..
        } = raw;
        Ok(match kind {
            ParameterType::OUTGOING_SSN_RESET => {
                Self::OutgoingSsnReset(OutgoingSsnReset::parse(value, offset)?)
            }
            ParameterType::INCOMING_SSN_RESET => {
                Self::IncomingSsnReset(IncomingSsnReset::parse(value, offset)?)
            }
            ParameterType::SSN_TSN_RESET => {
                Self::SsnTsnReset(reconfig::parse_tsn_reset(value, offset)?)
            }
            ParameterType::RECONFIG_RESPONSE => {
                Self::ReconfigResponse(ReconfigResponse::parse(value, offset)?)
            }
            ParameterType::ADD_OUTGOING_STREAMS => {
                Self::AddOutgoingStreams(AddStreams::parse(value, offset)?)
            }
            ParameterType::ADD_INCOMING_STREAMS => {
                Self::AddIncomingStreams(AddStreams::parse(value, offset)?)
            }
            ParameterType::ZERO_CHECKSUM_ACCEPTABLE => {
                let method = *exact(Item::Parameter, value, offset)?;
                Self::ZeroChecksumAcceptable(ErrorDetectionMethod(u32::from_be_bytes(method)))
            }
            ParameterType::RANDOM => Self::Random(value),
            ParameterType::CHUNKS => Self::Chunks(ChunkTypes::new(value)),
            ParameterType::HMAC_ALGO => {
                Self::HmacAlgo(HmacIds(U16s::parse(Item::Parameter, value, offset)?))
            }
            ParameterType::PADDING => Self::Padding(value),
            ParameterType::SUPPORTED_EXTENSIONS => {
                Self::SupportedExtensions(ChunkTypes::new(value))
            }
            ParameterType::FORWARD_TSN_SUPPORTED => {
                exact::<0>(Item::Parameter, value, offset)?;
                Self::ForwardTsnSupported
            }
            ParameterType::ADD_IP_ADDRESS => {
                Self::AddIpAddress(AddressRequest::parse(value, offset)?)
            }
            ParameterType::DELETE_IP_ADDRESS => {
                Self::DeleteIpAddress(AddressRequest::parse(value, offset)?)
            }
            ParameterType::ERROR_CAUSE_INDICATION => {
                Self::ErrorCauseIndication(ErrorCauseIndication::parse(value, offset)?)
            }
            ParameterType::SET_PRIMARY_ADDRESS => {
                Self::SetPrimaryAddress(AddressRequest::parse(value, offset)?)
            }
            ParameterType::SUCCESS_INDICATION => {
                Self::SuccessIndication(asconf::parse_success(value, offset)?)
            }
            ParameterType::ADAPTATION_LAYER_INDICATION => {
                let code_point = *exact(Item::Parameter, value, offset)?;
                Self::AdaptationLayerIndication(u32::from_be_bytes(code_point))
            }
            _ => Self::Unknown(raw),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ChunkTypes, Parameter, ParameterType, Parameters};
    use crate::{ChunkType, ErrorDetectionMethod, HmacId, Item, ParseError, ParseErrorKind};

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
    fn parameters_of_extensions_in_an_init_have_their_meaning() {
        let method = ErrorDetectionMethod::DTLS;
        let cases: [(&[u8], Parameter<'_>); 7] = [
            (
                &[0x80, 1, 0, 8, 0, 0, 0, 1],
                Parameter::ZeroChecksumAcceptable(method),
            ),
            (&[0x80, 2, 0, 6, 1, 2], Parameter::Random(&[1, 2])),
            (&[0x80, 5, 0, 5, 0], Parameter::Padding(&[0])),
            (
                &[0x80, 8, 0, 5, 64],
                Parameter::SupportedExtensions(ChunkTypes::new(&[64])),
            ),
            (&[0xc0, 0, 0, 4], Parameter::ForwardTsnSupported),
            (
                &[0xc0, 6, 0, 8, 0, 0, 0, 9],
                Parameter::AdaptationLayerIndication(9),
            ),
            (
                &[0x80, 3, 0, 6, 0xc1, 0x80],
                Parameter::Chunks(ChunkTypes::new(&[0xc1, 0x80])),
            ),
        ];
        for (bytes, expected) in cases {
            assert_eq!(parse(bytes), Ok(expected));
        }
        let Ok(Parameter::HmacAlgo(algorithms)) = parse(&[0x80, 4, 0, 8, 0, 3, 0, 1]) else {
            panic!("no algorithms")
        };
        assert!(algorithms.eq([HmacId::SHA_256, HmacId::SHA_1]));
    }

    #[test]
    fn a_set_of_chunk_types_is_asked_for_its_members() {
        let types = ChunkTypes::new(&[0xc1, 0x80, 0x0f, 0x80]);
        assert!(types.contains(ChunkType::ASCONF) && types.contains(ChunkType::AUTH));
        assert!(!types.contains(ChunkType::RE_CONFIG) && !types.contains(ChunkType::DATA));
        assert_eq!(types.iter().len(), 4);
        assert_eq!(types.iter().next(), Some(ChunkType::ASCONF));
        assert!(!ChunkTypes::new(&[]).contains(ChunkType::DATA));
    }

    #[test]
    fn types_of_the_base_are_told_from_those_of_extensions() {
        for kind in [1, 5, 6, 7, 8, 9, 11, 12] {
            assert!(ParameterType(kind).is_base(), "{kind}");
        }
        for kind in [0, 2, 10, 13, 18, 0x8000, 0x8008, 0xc000, 0xffff] {
            assert!(!ParameterType(kind).is_base(), "{kind}");
        }
    }

    #[test]
    fn fixed_lengths_are_kept() {
        let cases: [(&[u8], usize); 8] = [
            (&[0x80, 1, 0, 6, 0, 1], 8),
            (&[0xc0, 0, 0, 5, 0], 4),
            (&[0xc0, 6, 0, 4], 8),
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
    fn half_an_address_type_or_algorithm_is_an_error() {
        let kind = ParseErrorKind::OddLength {
            item: Item::Parameter,
            length: 7,
        };
        for [high, low] in [[0, 12], [0x80, 4]] {
            assert_eq!(
                parse(&[high, low, 0, 7, 0, 5, 0]),
                Err(ParseError { kind, offset: 2 })
            );
        }
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
