//! Parameters of RE-CONFIG (RFC 6525, section 4).

use core::fmt;

use super::StreamIds;
use super::lists::U16s;
use crate::bytes::{u16_at, u32_at};
use crate::error::{ParseError, TlvKind};
use crate::tlv::{exact, split, wrong_length};
use crate::{ReconfigSerial, Tsn};

/// Outgoing SSN Reset Request, RFC 6525, section 4.1.
///
/// ```text
///  0               1               2               3
/// +---------------+---------------+---------------+---------------+
/// |           type = 13           |        length = 16 + 2N       |
/// +---------------+---------------+---------------+---------------+
/// |                    request sequence number                    |
/// +---------------+---------------+---------------+---------------+
/// |                   response sequence number                    |
/// +---------------+---------------+---------------+---------------+
/// |                   sender's last assigned TSN                  |
/// +---------------+---------------+---------------+---------------+
/// |                       stream identifier                       |  N times 16 bits
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingSsnReset<'a> {
    /// Number of this request.
    pub request: ReconfigSerial,
    /// Incoming SSN Reset Request that this request answers, or the last request of the peer that the
    /// sender has received.
    pub response: ReconfigSerial,
    /// Last TSN with the old SSNs.
    pub last_tsn: Tsn,
    /// Streams; an empty list means all.
    pub streams: StreamIds<'a>,
}

impl<'a> OutgoingSsnReset<'a> {
    pub(super) fn parse(value: &'a [u8], offset: usize) -> Result<Self, ParseError> {
        let (fixed, streams) = split::<12>(TlvKind::Parameter, value, offset)?;
        Ok(Self {
            request: ReconfigSerial::new(u32_at(fixed, 0)),
            response: ReconfigSerial::new(u32_at(fixed, 4)),
            last_tsn: Tsn::new(u32_at(fixed, 8)),
            streams: StreamIds(U16s::at_end(value, streams, offset)?),
        })
    }
}

/// Incoming SSN Reset Request, RFC 6525, section 4.2.
///
/// ```text
///  0               1               2               3
/// +---------------+---------------+---------------+---------------+
/// |           type = 14           |        length = 8 + 2N        |
/// +---------------+---------------+---------------+---------------+
/// |                    request sequence number                    |
/// +---------------+---------------+---------------+---------------+
/// |                       stream identifier                       |  N times 16 bits
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingSsnReset<'a> {
    /// Number of this request.
    pub request: ReconfigSerial,
    /// Streams; an empty list means all.
    pub streams: StreamIds<'a>,
}

impl<'a> IncomingSsnReset<'a> {
    pub(super) fn parse(value: &'a [u8], offset: usize) -> Result<Self, ParseError> {
        let (request, streams) = split(TlvKind::Parameter, value, offset)?;
        Ok(Self {
            request: ReconfigSerial::new(u32::from_be_bytes(*request)),
            streams: StreamIds(U16s::at_end(value, streams, offset)?),
        })
    }
}

/// Number of an SSN/TSN Reset Request, which has no other field (4.3).
pub(super) fn parse_tsn_reset(value: &[u8], offset: usize) -> Result<ReconfigSerial, ParseError> {
    let request = *exact(TlvKind::Parameter, value, offset)?;
    Ok(ReconfigSerial::new(u32::from_be_bytes(request)))
}

/// Re-configuration Response, RFC 6525, section 4.4.
///
/// ```text
///  0               1               2               3
/// +---------------+---------------+---------------+---------------+
/// |           type = 16           |        length = 12 or 20      |
/// +---------------+---------------+---------------+---------------+
/// |                   response sequence number                    |
/// +---------------+---------------+---------------+---------------+
/// |                            result                             |
/// +---------------+---------------+---------------+---------------+
/// |               sender's next TSN (with length 20)              |
/// +---------------+---------------+---------------+---------------+
/// |              receiver's next TSN (with length 20)             |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconfigResponse {
    /// Number of the answered request.
    pub response: ReconfigSerial,
    /// Result of the request.
    pub result: ReconfigResult,
    /// Next TSNs; only in the response to an SSN/TSN Reset Request that was performed.
    pub next_tsns: Option<NextTsns>,
}

/// Next TSNs of both directions after an SSN/TSN reset (RFC 6525, section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextTsns {
    /// Next TSN of the sender of the response.
    pub sender: Tsn,
    /// Next TSN of the receiver of the response.
    pub receiver: Tsn,
}

impl ReconfigResponse {
    /// Length without the TSNs.
    const SHORT: usize = 8;

    pub(super) fn parse(value: &[u8], offset: usize) -> Result<Self, ParseError> {
        let (fixed, rest) = split::<{ Self::SHORT }>(TlvKind::Parameter, value, offset)?;
        let next_tsns = if rest.is_empty() {
            None
        } else {
            let tsns: &[u8; 8] = rest
                .try_into()
                .map_err(|_| wrong_length(TlvKind::Parameter, Self::SHORT + 8, value, offset))?;
            Some(NextTsns {
                sender: Tsn::new(u32_at(tsns, 0)),
                receiver: Tsn::new(u32_at(tsns, 4)),
            })
        };
        Ok(Self {
            response: ReconfigSerial::new(u32_at(fixed, 0)),
            result: ReconfigResult(u32_at(fixed, 4)),
            next_tsns,
        })
    }
}

/// Result of a request (4.4). All values are possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReconfigResult(pub u32);

impl ReconfigResult {
    /// Success: nothing to do.
    pub const NOTHING_TO_DO: Self = Self(0);
    /// Success: performed.
    pub const PERFORMED: Self = Self(1);
    /// Denied.
    pub const DENIED: Self = Self(2);
    /// Error: wrong stream number.
    pub const WRONG_STREAM: Self = Self(3);
    /// Error: another request is in progress.
    pub const REQUEST_IN_PROGRESS: Self = Self(4);
    /// Error: bad sequence number.
    pub const BAD_SEQUENCE_NUMBER: Self = Self(5);
    /// In progress: the request is to be repeated with the same number.
    pub const IN_PROGRESS: Self = Self(6);
}

impl fmt::Display for ReconfigResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::NOTHING_TO_DO => "nothing to do",
            Self::PERFORMED => "performed",
            Self::DENIED => "denied",
            Self::WRONG_STREAM => "wrong stream",
            Self::REQUEST_IN_PROGRESS => "another request is in progress",
            Self::BAD_SEQUENCE_NUMBER => "bad sequence number",
            Self::IN_PROGRESS => "in progress",
            Self(other) => return write!(f, "result {other}"),
        })
    }
}

/// Add Outgoing Streams Request or Add Incoming Streams Request, RFC 6525, sections 4.5 and 4.6.
///
/// ```text
///  0               1               2               3
/// +---------------+---------------+---------------+---------------+
/// |         type = 17 or 18       |          length = 12          |
/// +---------------+---------------+---------------+---------------+
/// |                    request sequence number                    |
/// +---------------+---------------+---------------+---------------+
/// |      number of new streams    |           reserved            |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddStreams {
    /// Number of this request.
    pub request: ReconfigSerial,
    /// Number of new streams; a peer may request 0.
    pub count: u16,
}

impl AddStreams {
    pub(super) fn parse(value: &[u8], offset: usize) -> Result<Self, ParseError> {
        let fields: &[u8; 8] = exact(TlvKind::Parameter, value, offset)?;
        Ok(Self {
            request: ReconfigSerial::new(u32_at(fields, 0)),
            count: u16_at(fields, 4),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{AddStreams, NextTsns, ReconfigResponse, ReconfigResult};
    use crate::{
        Parameter, Parameters, ParseError, ParseErrorKind, ReconfigSerial, StreamId, TlvKind, Tsn,
    };

    fn parse(bytes: &[u8]) -> Result<Parameter<'_>, ParseError> {
        Parameter::parse(Parameters::new(bytes).next().expect("a parameter")?)
    }

    #[test]
    fn resets_name_their_streams() {
        let bytes = [
            0, 13, 0, 20, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 9, 0, 3, 0x12, 0x34,
        ];
        let Ok(Parameter::OutgoingSsnReset(reset)) = parse(&bytes) else {
            panic!("no outgoing reset")
        };
        assert_eq!(reset.request, ReconfigSerial::new(1));
        assert_eq!(reset.response, ReconfigSerial::new(u32::MAX));
        assert_eq!(reset.last_tsn, Tsn::new(9));
        assert_eq!(reset.streams.len(), 2);
        assert!(reset.streams.eq([StreamId(3), StreamId(0x1234)]));
        let Ok(Parameter::IncomingSsnReset(reset)) = parse(&[0, 14, 0, 10, 0, 0, 0, 2, 0, 7])
        else {
            panic!("no incoming reset")
        };
        assert_eq!(reset.request, ReconfigSerial::new(2));
        assert!(reset.streams.eq([StreamId(7)]));
        let Ok(Parameter::IncomingSsnReset(all)) = parse(&[0, 14, 0, 8, 0, 0, 0, 2]) else {
            panic!("no incoming reset")
        };
        assert_eq!(all.streams.len(), 0);
        let tsn_reset = Parameter::SsnTsnReset(ReconfigSerial::new(5));
        assert_eq!(parse(&[0, 15, 0, 8, 0, 0, 0, 5]), Ok(tsn_reset));
    }

    #[test]
    fn responses_have_both_tsns_or_none() {
        let bytes = [0, 16, 0, 20, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 9];
        let response = ReconfigResponse {
            response: ReconfigSerial::new(7),
            result: ReconfigResult::PERFORMED,
            next_tsns: Some(NextTsns {
                sender: Tsn::new(8),
                receiver: Tsn::new(9),
            }),
        };
        assert_eq!(parse(&bytes), Ok(Parameter::ReconfigResponse(response)));
        let mut short = [0; 12];
        short.copy_from_slice(&bytes[..12]);
        short[3] = 12;
        let next_tsns = None;
        let without = ReconfigResponse {
            next_tsns,
            ..response
        };
        assert_eq!(parse(&short), Ok(Parameter::ReconfigResponse(without)));
        let mut half = bytes;
        half[3] = 16;
        let kind = ParseErrorKind::WrongLength {
            item: TlvKind::Parameter,
            expected: 20,
            length: 16,
        };
        assert_eq!(parse(&half), Err(ParseError { kind, offset: 2 }));
    }

    #[test]
    fn added_streams_are_counted() {
        let expected = AddStreams {
            request: ReconfigSerial::new(3),
            count: 0x0102,
        };
        let mut bytes = [0, 17, 0, 12, 0, 0, 0, 3, 1, 2, 0xff, 0xff];
        assert_eq!(parse(&bytes), Ok(Parameter::AddOutgoingStreams(expected)));
        bytes[1] = 18;
        assert_eq!(parse(&bytes), Ok(Parameter::AddIncomingStreams(expected)));
    }

    #[test]
    fn lengths_are_kept() {
        let item = TlvKind::Parameter;
        for (kind, needed) in [(13, 16), (14, 8), (16, 12)] {
            let error = ParseErrorKind::ValueTooShort {
                item,
                needed,
                length: 6,
            };
            let expected = Err(ParseError {
                kind: error,
                offset: 2,
            });
            assert_eq!(parse(&[0, kind, 0, 6, 1, 2]), expected, "{kind}");
        }
        for (kind, expected) in [(15, 8), (17, 12), (18, 12)] {
            let error = ParseErrorKind::WrongLength {
                item,
                expected,
                length: 6,
            };
            let expected = Err(ParseError {
                kind: error,
                offset: 2,
            });
            assert_eq!(parse(&[0, kind, 0, 6, 1, 2]), expected, "{kind}");
        }
        let odd = [0, 14, 0, 9, 0, 0, 0, 1, 5];
        let kind = ParseErrorKind::OddLength { item, length: 9 };
        assert_eq!(parse(&odd), Err(ParseError { kind, offset: 2 }));
    }
}
