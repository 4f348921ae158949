//! Error causes of ABORT and ERROR chunks (RFC 9260, section 3.3.10), and of ASCONF-ACK
//! (RFC 5061, section 4.3).
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |          cause code           |         cause length          |  header and information,
//! +---------------+---------------+---------------+---------------+  not the padding
//! /                  cause-specific information                   /
//! +---------------+---------------+---------------+---------------+
//! ```

use core::fmt;

use crate::bytes::u16_at;
use crate::error::{ParseError, TlvKind};
use crate::parameter::{ParameterType, Parameters, U16s};
use crate::tlv::{HEADER_LEN, Tlvs, exact, split, wrong_length};
use crate::{HmacId, StreamId, Tsn};

/// Code of an error cause. All values are possible; those of RFC 9260 and of its extensions are constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CauseCode(pub u16);

impl CauseCode {
    /// Invalid Stream Identifier (3.3.10.1).
    pub const INVALID_STREAM: Self = Self(1);
    /// Missing Mandatory Parameter (3.3.10.2).
    pub const MISSING_PARAMETERS: Self = Self(2);
    /// Stale Cookie (3.3.10.3).
    pub const STALE_COOKIE: Self = Self(3);
    /// Out of Resource (3.3.10.4).
    pub const OUT_OF_RESOURCE: Self = Self(4);
    /// Unresolvable Address (3.3.10.5).
    pub const UNRESOLVABLE_ADDRESS: Self = Self(5);
    /// Unrecognized Chunk Type (3.3.10.6).
    pub const UNRECOGNIZED_CHUNK: Self = Self(6);
    /// Invalid Mandatory Parameter (3.3.10.7).
    pub const INVALID_MANDATORY_PARAMETER: Self = Self(7);
    /// Unrecognized Parameters (3.3.10.8).
    pub const UNRECOGNIZED_PARAMETERS: Self = Self(8);
    /// No User Data (3.3.10.9).
    pub const NO_USER_DATA: Self = Self(9);
    /// Cookie Received While Shutting Down (3.3.10.10).
    pub const COOKIE_WHILE_SHUTTING_DOWN: Self = Self(10);
    /// Restart of an Association with New Addresses (3.3.10.11).
    pub const RESTART_WITH_NEW_ADDRESSES: Self = Self(11);
    /// User-Initiated Abort (3.3.10.12).
    pub const USER_INITIATED_ABORT: Self = Self(12);
    /// Protocol Violation (3.3.10.13).
    pub const PROTOCOL_VIOLATION: Self = Self(13);
    /// Missing DTLS Chunk Support (draft-ietf-tsvwg-sctp-dtls-chunk, 4.3.1; the code is to be confirmed).
    pub const MISSING_DTLS_CHUNK: Self = Self(100);
    /// No Common DTLS Key Management Method (draft-ietf-tsvwg-sctp-dtls-chunk, 4.3.2).
    pub const NO_COMMON_KEY_MANAGEMENT: Self = Self(101);
    /// DTLS Key Management Tie Breaker Collision (draft-ietf-tsvwg-sctp-dtls-chunk, 4.3.3).
    pub const TIE_BREAKER_COLLISION: Self = Self(102);
    /// Incompatible DTLS Key Management Roles (draft-ietf-tsvwg-sctp-dtls-chunk, 4.3.4).
    pub const INCOMPATIBLE_KEY_MANAGEMENT_ROLES: Self = Self(103);
    /// Request to Delete Last Remaining IP Address (RFC 5061, 4.3.1).
    pub const DELETE_LAST_ADDRESS: Self = Self(0xa0);
    /// Operation Refused Due to Resource Shortage (RFC 5061, 4.3.2).
    pub const RESOURCE_SHORTAGE: Self = Self(0xa1);
    /// Request to Delete Source IP Address (RFC 5061, 4.3.3).
    pub const DELETE_SOURCE_ADDRESS: Self = Self(0xa2);
    /// Association Aborted Due to Illegal ASCONF-ACK (RFC 5061, 4.3.4).
    pub const ILLEGAL_ASCONF_ACK: Self = Self(0xa3);
    /// Request Refused - No Authorization (RFC 5061, 4.3.5).
    pub const NO_AUTHORIZATION: Self = Self(0xa4);
    /// Unsupported HMAC Identifier (RFC 4895, 4.2).
    pub const UNSUPPORTED_HMAC_ID: Self = Self(0x105);
}

impl fmt::Display for CauseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::INVALID_STREAM => "Invalid Stream Identifier",
            Self::MISSING_PARAMETERS => "Missing Mandatory Parameter",
            Self::STALE_COOKIE => "Stale Cookie",
            Self::OUT_OF_RESOURCE => "Out of Resource",
            Self::UNRESOLVABLE_ADDRESS => "Unresolvable Address",
            Self::UNRECOGNIZED_CHUNK => "Unrecognized Chunk Type",
            Self::INVALID_MANDATORY_PARAMETER => "Invalid Mandatory Parameter",
            Self::UNRECOGNIZED_PARAMETERS => "Unrecognized Parameters",
            Self::NO_USER_DATA => "No User Data",
            Self::COOKIE_WHILE_SHUTTING_DOWN => "Cookie Received While Shutting Down",
            Self::RESTART_WITH_NEW_ADDRESSES => "Restart of an Association with New Addresses",
            Self::USER_INITIATED_ABORT => "User-Initiated Abort",
            Self::PROTOCOL_VIOLATION => "Protocol Violation",
            Self::MISSING_DTLS_CHUNK => "Missing DTLS Chunk Support",
            Self::NO_COMMON_KEY_MANAGEMENT => "No Common DTLS Key Management Method",
            Self::TIE_BREAKER_COLLISION => "DTLS Key Management Tie Breaker Collision",
            Self::INCOMPATIBLE_KEY_MANAGEMENT_ROLES => "Incompatible DTLS Key Management Roles",
            Self::DELETE_LAST_ADDRESS => "Request to Delete Last Remaining IP Address",
            Self::RESOURCE_SHORTAGE => "Operation Refused Due to Resource Shortage",
            Self::DELETE_SOURCE_ADDRESS => "Request to Delete Source IP Address",
            Self::ILLEGAL_ASCONF_ACK => "Association Aborted Due to Illegal ASCONF-ACK",
            Self::NO_AUTHORIZATION => "Request Refused - No Authorization",
            Self::UNSUPPORTED_HMAC_ID => "Unsupported HMAC Identifier",
            Self(other) => return write!(f, "cause {other}"),
        })
    }
}

/// Unparsed error cause of any code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawCause<'a> {
    /// Cause code.
    pub code: CauseCode,
    /// Cause-specific information, without padding.
    pub value: &'a [u8],
    /// Header and information, without padding.
    pub bytes: &'a [u8],
    /// Offset of the cause in the packet, or in the slice given to [`Causes::new`].
    pub offset: usize,
}

/// Iterator over unparsed error causes. It ends after the last one or after the first error. The padding of
/// the last one may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Causes<'a>(Tlvs<'a>);

impl<'a> Causes<'a> {
    /// Iterates over the causes in `bytes`; offsets count from its start.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self::at(bytes, 0)
    }

    pub(crate) const fn at(bytes: &'a [u8], offset: usize) -> Self {
        Self(Tlvs::new(TlvKind::Cause, bytes, offset))
    }

    /// Bytes of the causes that have not been returned yet, padding included.
    pub const fn bytes(&self) -> &'a [u8] {
        self.0.rest()
    }
}

impl<'a> Iterator for Causes<'a> {
    type Item = Result<RawCause<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let cut = self.0.next()?;
        Some(cut.map(|tlv| RawCause {
            code: CauseCode(u16::from_be_bytes(tlv.kind)),
            value: tlv.value,
            bytes: tlv.bytes,
            offset: tlv.offset,
        }))
    }
}

impl core::iter::FusedIterator for Causes<'_> {}

/// Parsed error cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause<'a> {
    /// A DATA chunk used a stream that does not exist.
    InvalidStream(StreamId),
    /// An INIT or INIT ACK lacks these parameters.
    MissingParameters(ParameterTypes<'a>),
    /// An authentic State Cookie has expired.
    StaleCookie {
        /// Time since the expiry in microseconds; 0 if the peer does not report it.
        staleness_us: u32,
    },
    /// The sender lacks resources.
    OutOfResource,
    /// An address parameter, header included, that the sender cannot use.
    UnresolvableAddress(&'a [u8]),
    /// A chunk, header included, whose type the sender does not support.
    UnrecognizedChunk(&'a [u8]),
    /// A mandatory field of an INIT or INIT ACK has a forbidden value.
    InvalidMandatoryParameter,
    /// Parameters of this side's INIT ACK that the sender does not support.
    UnrecognizedParameters(Parameters<'a>),
    /// The DATA chunk with this TSN had no user data.
    NoUserData(Tsn),
    /// A COOKIE ECHO arrived in SHUTDOWN-ACK-SENT.
    CookieWhileShuttingDown,
    /// An INIT for an existing association listed these new addresses.
    RestartWithNewAddresses(Parameters<'a>),
    /// The peer's user aborted, with this reason.
    UserInitiatedAbort(&'a [u8]),
    /// Another violation of the protocol, with information from the sender.
    ProtocolViolation(&'a [u8]),
    /// The request would delete the last address of its sender; with the request.
    DeleteLastAddress(Parameters<'a>),
    /// The receiver of the request lacks resources; with the request.
    ResourceShortage(Parameters<'a>),
    /// The request would delete its source address; with the request.
    DeleteSourceAddress(Parameters<'a>),
    /// This side's ASCONF-ACK answers an ASCONF that the peer never sent.
    IllegalAsconfAck,
    /// The request is not authorized; with the request.
    NoAuthorization(Parameters<'a>),
    /// The sender does not support HMACs of this algorithm.
    UnsupportedHmacId(HmacId),
    /// A code that neither RFC 9260 nor its extensions define.
    Unknown(RawCause<'a>),
}

impl<'a> Cause<'a> {
    /// Parses an error cause. Parameters inside the cause are not parsed.
    ///
    /// # Errors
    /// The length does not match the code.
    pub fn parse(raw: RawCause<'a>) -> Result<Self, ParseError> {
        let RawCause {
            code,
            value,
            offset,
            ..
        } = raw;
        let empty = || exact::<0>(TlvKind::Cause, value, offset);
        Ok(match code {
            CauseCode::INVALID_STREAM => {
                let fields: &[u8; 4] = exact(TlvKind::Cause, value, offset)?;
                Self::InvalidStream(StreamId(u16_at(fields, 0)))
            }
            CauseCode::MISSING_PARAMETERS => {
                Self::MissingParameters(ParameterTypes::parse(value, offset)?)
            }
            CauseCode::STALE_COOKIE => {
                let staleness = *exact(TlvKind::Cause, value, offset)?;
                Self::StaleCookie {
                    staleness_us: u32::from_be_bytes(staleness),
                }
            }
            CauseCode::OUT_OF_RESOURCE => empty().map(|_| Self::OutOfResource)?,
            CauseCode::UNRESOLVABLE_ADDRESS => Self::UnresolvableAddress(value),
            CauseCode::UNRECOGNIZED_CHUNK => Self::UnrecognizedChunk(value),
            CauseCode::INVALID_MANDATORY_PARAMETER => {
                empty().map(|_| Self::InvalidMandatoryParameter)?
            }
            CauseCode::UNRECOGNIZED_PARAMETERS => {
                Self::UnrecognizedParameters(Parameters::at(value, offset + HEADER_LEN))
            }
            CauseCode::NO_USER_DATA => {
                let tsn = *exact(TlvKind::Cause, value, offset)?;
                Self::NoUserData(Tsn::new(u32::from_be_bytes(tsn)))
            }
            CauseCode::COOKIE_WHILE_SHUTTING_DOWN => {
                empty().map(|_| Self::CookieWhileShuttingDown)?
            }
            CauseCode::RESTART_WITH_NEW_ADDRESSES => {
                Self::RestartWithNewAddresses(Parameters::at(value, offset + HEADER_LEN))
            }
            CauseCode::USER_INITIATED_ABORT => Self::UserInitiatedAbort(value),
            CauseCode::PROTOCOL_VIOLATION => Self::ProtocolViolation(value),
            CauseCode::DELETE_LAST_ADDRESS => {
                Self::DeleteLastAddress(Parameters::at(value, offset + HEADER_LEN))
            }
            CauseCode::RESOURCE_SHORTAGE => {
                Self::ResourceShortage(Parameters::at(value, offset + HEADER_LEN))
            }
            CauseCode::DELETE_SOURCE_ADDRESS => {
                Self::DeleteSourceAddress(Parameters::at(value, offset + HEADER_LEN))
            }
            CauseCode::ILLEGAL_ASCONF_ACK => empty().map(|_| Self::IllegalAsconfAck)?,
            CauseCode::NO_AUTHORIZATION => {
                Self::NoAuthorization(Parameters::at(value, offset + HEADER_LEN))
            }
            CauseCode::UNSUPPORTED_HMAC_ID => {
                let id = *exact(TlvKind::Cause, value, offset)?;
                Self::UnsupportedHmacId(HmacId(u16::from_be_bytes(id)))
            }
            _ => Self::Unknown(raw),
        })
    }
}

/// Types that a Missing Mandatory Parameter cause lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterTypes<'a>(U16s<'a>);

impl<'a> ParameterTypes<'a> {
    /// Parses the count of 32 bits and the list, which must agree.
    fn parse(value: &'a [u8], offset: usize) -> Result<Self, ParseError> {
        let (count, list) = split(TlvKind::Cause, value, offset)?;
        let count = u32::from_be_bytes(*count) as usize;
        let expected = count.saturating_mul(2);
        if list.len() != expected {
            let expected = expected.saturating_add(count_len());
            return Err(wrong_length(TlvKind::Cause, expected, value, offset));
        }
        Ok(Self(U16s::parse(TlvKind::Cause, list, offset)?))
    }
}

/// Length of the count before the list of missing parameters.
const fn count_len() -> usize {
    size_of::<u32>()
}

impl Iterator for ParameterTypes<'_> {
    type Item = ParameterType;

    fn next(&mut self) -> Option<ParameterType> {
        self.0.next().map(ParameterType)
    }
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;
    use std::vec::Vec;

    use super::{Cause, CauseCode, Causes};
    use crate::testing::build;
    use crate::{
        CauseWriter, HmacId, Parameter, ParameterType, Parameters, ParseError, ParseErrorKind,
        StreamId, TlvKind, Tsn,
    };

    fn parse(bytes: &[u8]) -> Result<Cause<'_>, ParseError> {
        Cause::parse(Causes::new(bytes).next().expect("a cause")?)
    }

    /// Returns the bytes of one cause in an ERROR chunk, without the padding.
    fn written(fill: impl FnOnce(&mut CauseWriter<'_>)) -> Vec<u8> {
        let mut chunk = build(|packet| packet.error(fill));
        chunk.truncate(usize::from(u16::from_be_bytes([chunk[2], chunk[3]])));
        chunk.split_off(4)
    }

    #[test]
    fn causes_of_fixed_length_parse_and_build() {
        type Write = fn(&mut CauseWriter<'_>);
        let cases: [(&[u8], Cause<'_>, Write); 7] = [
            (&[0, 0xa3, 0, 4], Cause::IllegalAsconfAck, |causes| {
                causes.illegal_asconf_ack();
            }),
            (
                &[0, 1, 0, 8, 0, 9, 0, 0],
                Cause::InvalidStream(StreamId(9)),
                |causes| {
                    causes.invalid_stream(StreamId(9));
                },
            ),
            (
                &[0, 3, 0, 8, 0, 0, 1, 0],
                Cause::StaleCookie { staleness_us: 256 },
                |causes| {
                    causes.stale_cookie(256);
                },
            ),
            (&[0, 4, 0, 4], Cause::OutOfResource, |causes| {
                causes.out_of_resource();
            }),
            (&[0, 7, 0, 4], Cause::InvalidMandatoryParameter, |causes| {
                causes.invalid_mandatory_parameter();
            }),
            (
                &[0, 9, 0, 8, 0, 0, 0, 5],
                Cause::NoUserData(Tsn::new(5)),
                |causes| {
                    causes.no_user_data(Tsn::new(5));
                },
            ),
            (&[0, 10, 0, 4], Cause::CookieWhileShuttingDown, |causes| {
                causes.cookie_while_shutting_down();
            }),
        ];
        for (bytes, cause, write) in cases {
            assert_eq!(parse(bytes), Ok(cause));
            assert_eq!(written(write), bytes);
        }
    }

    #[test]
    fn causes_of_variable_length_parse_and_build() {
        type Write = fn(&mut CauseWriter<'_>);
        let cases: [(&[u8], Cause<'_>, Write); 5] = [
            (
                &[0, 5, 0, 8, 0, 11, 0, 4],
                Cause::UnresolvableAddress(&[0, 11, 0, 4]),
                |causes| causes.unresolvable_address(&[0, 11, 0, 4]),
            ),
            (
                &[0, 6, 0, 8, 0xfe, 0, 0, 4],
                Cause::UnrecognizedChunk(&[0xfe, 0, 0, 4]),
                |causes| {
                    causes.unrecognized_chunk(&[0xfe, 0, 0, 4]);
                },
            ),
            (
                &[0, 12, 0, 6, b'b', b'y'],
                Cause::UserInitiatedAbort(b"by"),
                |causes| {
                    causes.user_initiated_abort(b"by");
                },
            ),
            (
                &[0, 13, 0, 5, b'?'],
                Cause::ProtocolViolation(b"?"),
                |causes| {
                    causes.protocol_violation(b"?");
                },
            ),
            (&[0, 12, 0, 4], Cause::UserInitiatedAbort(b""), |causes| {
                causes.user_initiated_abort(b"");
            }),
        ];
        for (bytes, cause, write) in cases {
            assert_eq!(parse(bytes), Ok(cause));
            assert_eq!(written(write), bytes);
        }
    }

    #[test]
    fn refusals_return_the_request() {
        type Write = fn(&mut CauseWriter<'_>);
        type Read = for<'a> fn(Cause<'a>) -> Option<Parameters<'a>>;
        const REQUEST: [u8; 8] = [0xc1, 0, 0, 8, 0, 0, 0, 1];
        let cases: [(u8, Write, Read); 4] = [
            (
                0xa0,
                |causes| causes.delete_last_address(&REQUEST),
                |cause| match cause {
                    Cause::DeleteLastAddress(request) => Some(request),
                    _ => None,
                },
            ),
            (
                0xa1,
                |causes| causes.resource_shortage(&REQUEST),
                |cause| match cause {
                    Cause::ResourceShortage(request) => Some(request),
                    _ => None,
                },
            ),
            (
                0xa2,
                |causes| causes.delete_source_address(&REQUEST),
                |cause| match cause {
                    Cause::DeleteSourceAddress(request) => Some(request),
                    _ => None,
                },
            ),
            (
                0xa4,
                |causes| causes.no_authorization(&REQUEST),
                |cause| match cause {
                    Cause::NoAuthorization(request) => Some(request),
                    _ => None,
                },
            ),
        ];
        for (code, write, read) in cases {
            let bytes = [&[0, code, 0, 12], &REQUEST[..]].concat();
            assert_eq!(written(write), bytes);
            let mut request = read(parse(&bytes).unwrap()).expect("the cause of the code");
            let parameter = request.next().unwrap().unwrap();
            assert_eq!((parameter.bytes, parameter.offset), (&REQUEST[..], 4));
            assert_eq!(request.next(), None);
        }
    }

    #[test]
    fn an_unsupported_algorithm_is_named() {
        let bytes = [1, 5, 0, 6, 0, 2];
        assert_eq!(parse(&bytes), Ok(Cause::UnsupportedHmacId(HmacId(2))));
        assert_eq!(written(|c| c.unsupported_hmac_id(HmacId(2))), bytes);
        let kind = ParseErrorKind::WrongLength {
            item: TlvKind::Cause,
            expected: 6,
            length: 8,
        };
        let long = [1, 5, 0, 8, 0, 2, 0, 0];
        assert_eq!(parse(&long), Err(ParseError { kind, offset: 2 }));
    }

    #[test]
    fn missing_parameters_are_counted() {
        let bytes = [0, 2, 0, 12, 0, 0, 0, 2, 0, 7, 0, 5];
        let expected = [ParameterType::STATE_COOKIE, ParameterType::IPV4_ADDRESS];
        let Ok(Cause::MissingParameters(missing)) = parse(&bytes) else {
            panic!()
        };
        assert!(missing.eq(expected));
        assert_eq!(
            written(|causes| causes.missing_parameters(&expected)),
            bytes
        );
    }

    #[test]
    fn a_wrong_count_of_missing_parameters_is_an_error() {
        for (count, expected) in [
            ([0, 0, 0, 1], 10),
            ([0, 0, 0, 3], 14),
            ([0, 1, 0, 2], 131_084),
        ] {
            let mut bytes = [0, 2, 0, 12, 0, 0, 0, 0, 0, 7, 0, 5];
            bytes[4..8].copy_from_slice(&count);
            let kind = ParseErrorKind::WrongLength {
                item: TlvKind::Cause,
                expected,
                length: 12,
            };
            assert_eq!(parse(&bytes), Err(ParseError { kind, offset: 2 }));
        }
        let kind = ParseErrorKind::ValueTooShort {
            item: TlvKind::Cause,
            needed: 8,
            length: 7,
        };
        assert_eq!(
            parse(&[0, 2, 0, 7, 0, 0, 0]),
            Err(ParseError { kind, offset: 2 })
        );
    }

    #[test]
    fn new_addresses_of_a_restart_are_parameters() {
        let bytes = [0, 11, 0, 12, 0, 5, 0, 8, 192, 0, 2, 1];
        let Ok(Cause::RestartWithNewAddresses(mut addresses)) = parse(&bytes) else {
            panic!()
        };
        let address = addresses.next().unwrap().unwrap();
        assert_eq!(address.offset, 4);
        assert_eq!(
            Parameter::parse(address),
            Ok(Parameter::Ipv4Address([192, 0, 2, 1].into()))
        );
        assert_eq!(addresses.next(), None);
        let addresses = [IpAddr::from([192, 0, 2, 1])];
        assert_eq!(
            written(|causes| causes.restart_with_new_addresses(&addresses)),
            bytes
        );
    }

    #[test]
    fn unrecognized_parameters_are_parameters() {
        let bytes = [0, 8, 0, 16, 0xc0, 0, 0, 5, 1, 0, 0, 0, 0xc0, 1, 0, 4];
        let Ok(Cause::UnrecognizedParameters(parameters)) = parse(&bytes) else {
            panic!()
        };
        assert_eq!(parameters.bytes(), &bytes[4..]);
        let kinds: Vec<_> = parameters
            .map(|parameter| parameter.unwrap().kind.0)
            .collect();
        assert_eq!(kinds, [0xc000, 0xc001]);
        assert_eq!(
            written(|causes| causes.unrecognized_parameters(&bytes[4..])),
            bytes
        );
    }

    #[test]
    fn fixed_lengths_are_kept() {
        let cases = [(1, 8), (3, 8), (4, 4), (7, 4), (9, 8), (10, 4), (0xa3, 4)];
        for (code, expected) in cases {
            let [high, low] = u16::to_be_bytes(code);
            let bytes = [high, low, 0, 6, 1, 2];
            let kind = ParseErrorKind::WrongLength {
                item: TlvKind::Cause,
                expected,
                length: 6,
            };
            assert_eq!(
                parse(&bytes),
                Err(ParseError { kind, offset: 2 }),
                "cause {code}"
            );
        }
    }

    #[test]
    fn other_codes_are_unknown() {
        for code in [0, 14, 0x9f, 0xa5, 0x104, 0xffff_u16] {
            let built = written(|causes| causes.raw(CauseCode(code), &[1, 2, 3]));
            let Ok(Cause::Unknown(raw)) = parse(&built) else {
                panic!("cause {code} is known")
            };
            assert_eq!((raw.code, raw.value), (CauseCode(code), &[1, 2, 3][..]));
        }
    }
}
