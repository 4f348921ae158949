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

use crate::error::{ParseError, TlvKind};
use crate::tlv::{Tlvs, exact};
use crate::{CorrelationId, ErrorDetectionMethod, ReconfigSerial};

/// Unparsed parameter of any type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawParameter<'a> {
    /// Parameter type.
    pub kind: ParameterType,
    /// Parameter value, without padding.
    pub value: &'a [u8],
    /// Header and value, without padding: the content of an Unrecognized Parameter.
    pub bytes: &'a [u8],
    /// Offset of the parameter in the packet, or in the slice given to [`Parameters::new`].
    pub offset: usize,
}

/// Iterator over unparsed parameters. It ends after the last one or after the first error. The padding of
/// the last one may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters<'a>(Tlvs<'a>);

impl<'a> Parameters<'a> {
    /// Iterates over the parameters in `bytes`; offsets count from its start.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self::at(bytes, 0)
    }

    pub(crate) const fn at(bytes: &'a [u8], offset: usize) -> Self {
        Self(Tlvs::new(TlvKind::Parameter, bytes, offset))
    }

    /// Bytes of the parameters that have not been returned yet, padding included.
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

/// Parsed parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter<'a> {
    /// IPv4 address of the sender.
    Ipv4Address(Ipv4Addr),
    /// IPv6 address of the sender.
    Ipv6Address(Ipv6Addr),
    /// Cookie Preservative: the sender of an INIT requests a longer lifetime of the State Cookie.
    CookiePreservative {
        /// Requested increment in milliseconds.
        increment_ms: u32,
    },
    /// Host name with its final zero byte. Deprecated: the INIT is answered with an ABORT.
    HostNameAddress(&'a [u8]),
    /// Address types that the sender supports.
    SupportedAddressTypes(AddressTypes<'a>),
    /// State Cookie, to be echoed.
    StateCookie(&'a [u8]),
    /// Parameter of this side's INIT, header included, that the peer does not support.
    UnrecognizedParameter(&'a [u8]),
    /// Information that the HEARTBEAT ACK returns to the sender of the HEARTBEAT.
    HeartbeatInfo(&'a [u8]),
    /// Outgoing SSN Reset Request.
    OutgoingSsnReset(OutgoingSsnReset<'a>),
    /// Incoming SSN Reset Request.
    IncomingSsnReset(IncomingSsnReset<'a>),
    /// SSN/TSN Reset Request, with the number of the request.
    SsnTsnReset(ReconfigSerial),
    /// Response to a request of a RE-CONFIG.
    ReconfigResponse(ReconfigResponse),
    /// Add Outgoing Streams Request.
    AddOutgoingStreams(AddStreams),
    /// Add Incoming Streams Request.
    AddIncomingStreams(AddStreams),
    /// The sender supports ECN.
    EcnCapable,
    /// The sender accepts packets with a checksum of zero, if this method protects them.
    ZeroChecksumAcceptable(ErrorDetectionMethod),
    /// Random number of the sender for the keys of AUTH; RFC 4895 requires 32 bytes.
    Random(&'a [u8]),
    /// The sender accepts these chunks only if they are authenticated.
    Chunks(ChunkTypes<'a>),
    /// HMAC algorithms that the sender supports.
    HmacAlgo(HmacIds<'a>),
    /// Padding, which is ignored.
    Padding(&'a [u8]),
    /// Chunk types of extensions that the sender supports.
    SupportedExtensions(ChunkTypes<'a>),
    /// The sender supports FORWARD-TSN.
    ForwardTsnSupported,
    /// Add IP Address.
    AddIpAddress(AddressRequest),
    /// Delete IP Address.
    DeleteIpAddress(AddressRequest),
    /// Error Cause Indication: a request was refused.
    ErrorCauseIndication(ErrorCauseIndication<'a>),
    /// Set Primary IP Address.
    SetPrimaryAddress(AddressRequest),
    /// Success Indication.
    SuccessIndication(CorrelationId),
    /// Adaptation code point for the users of both sides.
    AdaptationLayerIndication(u32),
    /// Any other parameter; see [`ParameterType::unknown_action`].
    Unknown(RawParameter<'a>),
}

impl<'a> Parameter<'a> {
    /// Parses a parameter.
    ///
    /// # Errors
    /// The length does not match the type, or an address in it is missing or malformed.
    pub fn parse(raw: RawParameter<'a>) -> Result<Self, ParseError> {
        let RawParameter {
            kind,
            value,
            offset,
            ..
        } = raw;
        Ok(match kind {
            ParameterType::IPV4_ADDRESS => {
                let octets: [u8; 4] = *exact(TlvKind::Parameter, value, offset)?;
                Self::Ipv4Address(octets.into())
            }
            ParameterType::IPV6_ADDRESS => {
                let octets: [u8; 16] = *exact(TlvKind::Parameter, value, offset)?;
                Self::Ipv6Address(octets.into())
            }
            ParameterType::COOKIE_PRESERVATIVE => {
                let increment = *exact(TlvKind::Parameter, value, offset)?;
                Self::CookiePreservative {
                    increment_ms: u32::from_be_bytes(increment),
                }
            }
            ParameterType::HOST_NAME_ADDRESS => Self::HostNameAddress(value),
            ParameterType::SUPPORTED_ADDRESS_TYPES => Self::SupportedAddressTypes(AddressTypes(
                U16s::parse(TlvKind::Parameter, value, offset)?,
            )),
            ParameterType::STATE_COOKIE => Self::StateCookie(value),
            ParameterType::UNRECOGNIZED_PARAMETER => Self::UnrecognizedParameter(value),
            ParameterType::HEARTBEAT_INFO => Self::HeartbeatInfo(value),
            ParameterType::ECN_CAPABLE => {
                exact::<0>(TlvKind::Parameter, value, offset)?;
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
                let method = *exact(TlvKind::Parameter, value, offset)?;
                Self::ZeroChecksumAcceptable(ErrorDetectionMethod(u32::from_be_bytes(method)))
            }
            ParameterType::RANDOM => Self::Random(value),
            ParameterType::CHUNKS => Self::Chunks(ChunkTypes::new(value)),
            ParameterType::HMAC_ALGO => {
                Self::HmacAlgo(HmacIds(U16s::parse(TlvKind::Parameter, value, offset)?))
            }
            ParameterType::PADDING => Self::Padding(value),
            ParameterType::SUPPORTED_EXTENSIONS => {
                Self::SupportedExtensions(ChunkTypes::new(value))
            }
            ParameterType::FORWARD_TSN_SUPPORTED => {
                exact::<0>(TlvKind::Parameter, value, offset)?;
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
                let code_point = *exact(TlvKind::Parameter, value, offset)?;
                Self::AdaptationLayerIndication(u32::from_be_bytes(code_point))
            }
            _ => Self::Unknown(raw),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ChunkTypes, Parameter, ParameterType, Parameters};
    use crate::{ChunkType, ErrorDetectionMethod, HmacId, ParseError, ParseErrorKind, TlvKind};

    fn parse(bytes: &[u8]) -> Result<Parameter<'_>, ParseError> {
        Parameter::parse(Parameters::new(bytes).next().expect("a parameter")?)
    }

    #[test]
    fn all_parameters_of_rfc_9260_are_parsed() {
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
    fn parameters_of_extensions_are_parsed() {
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
    fn a_set_of_chunk_types_contains_its_members() {
        let types = ChunkTypes::new(&[0xc1, 0x80, 0x0f, 0x80]);
        assert!(types.contains(ChunkType::ASCONF) && types.contains(ChunkType::AUTH));
        assert!(!types.contains(ChunkType::RE_CONFIG) && !types.contains(ChunkType::DATA));
        assert_eq!(types.iter().len(), 4);
        assert_eq!(types.iter().next(), Some(ChunkType::ASCONF));
        assert!(!ChunkTypes::new(&[]).contains(ChunkType::DATA));
    }

    #[test]
    fn base_types_differ_from_extension_types() {
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
                item: TlvKind::Parameter,
                expected,
                length,
            };
            assert_eq!(parse(bytes), Err(ParseError { kind, offset: 2 }));
        }
    }

    #[test]
    fn half_an_address_type_or_algorithm_is_an_error() {
        let kind = ParseErrorKind::OddLength {
            item: TlvKind::Parameter,
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
    fn invalid_lengths_end_the_list() {
        let item = TlvKind::Parameter;
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
    fn inner_parameters_do_not_exceed_the_outer_one() {
        // The length of the inner parameter exceeds the outer one.
        let bytes = [0, 8, 0, 8, 0xc0, 0, 0, 8, 0, 7, 0, 4];
        let Ok(Parameter::UnrecognizedParameter(inner)) = parse(&bytes) else {
            panic!()
        };
        let error = Parameters::new(inner).next().unwrap().unwrap_err();
        let kind = ParseErrorKind::LengthPastEnd {
            item: TlvKind::Parameter,
            length: 8,
            available: 4,
        };
        assert_eq!(error, ParseError { kind, offset: 2 });
    }
}
