//! Interface identifiers, and the messages with them that M2UA and IUA share (RFC 3331, section 3.3; RFC 4233, section
//! 3.3).

use std::fmt;

use bytes::Bytes;

use super::body::message;
use super::field::{Field, Parameter, Value};
use super::tag::interface as tag;
use super::{
    AspIdentifier, DecodeError, DecodeErrorKind, EncodeError, InfoString, MessageWriter,
    RawMessage, Status,
};
use crate::aspm::AsIds;

/// Interface Identifier of the message header: the link or the D channel of a message (RFC 3331, section 3.2; RFC 4233,
/// section 3.2).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum InterfaceIdentifier {
    /// Integer format, which every implementation supports.
    Integer(u32),
    /// Text format.
    Text(TextIdentifier),
}

impl fmt::Display for InterfaceIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "interface identifier {number}"),
            Self::Text(text) => write!(f, "interface identifier {:?}", text.as_str()),
        }
    }
}

impl InterfaceIdentifier {
    /// Returns how many identifiers of this format a message lists at most.
    pub(crate) const fn list_limit(&self) -> usize {
        match self {
            Self::Integer(_) => 8192,
            // Each has a parameter of up to 260 octets.
            Self::Text(_) => 200,
        }
    }

    /// Returns a number that selects the stream of the interface.
    pub(crate) fn flow(&self) -> u32 {
        match self {
            Self::Integer(number) => *number,
            Self::Text(text) => text.0.iter().map(|octet| u32::from(*octet)).sum(),
        }
    }
}

impl AsIds<InterfaceIdentifier> {
    /// List of a message's interfaces.
    pub(crate) fn from_interfaces(identifiers: &InterfaceIdentifiers) -> Option<Self> {
        let integer = InterfaceIdentifier::Integer;
        match identifiers {
            InterfaceIdentifiers::Integers {
                identifiers,
                ranges,
            } => {
                let singles = identifiers.iter().map(|&id| (integer(id), integer(id)));
                let ranges = ranges.iter();
                let ranges = ranges.map(|range| (integer(range.start), integer(range.stop)));
                Self::of_ranges(singles.chain(ranges))
            }
            InterfaceIdentifiers::Texts(texts) => {
                Self::new(texts.iter().cloned().map(InterfaceIdentifier::Text))
            }
        }
    }
}

impl Parameter for InterfaceIdentifier {
    const TAG: u16 = tag::INTERFACE_IDENTIFIER;

    fn accepts(tag: u16) -> bool {
        matches!(
            tag,
            tag::INTERFACE_IDENTIFIER | tag::INTERFACE_IDENTIFIER_TEXT
        )
    }

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        Ok(match value.raw.tag {
            tag::INTERFACE_IDENTIFIER => Self::Integer(value.number()?),
            _ => Self::Text(TextIdentifier::decode(value)?),
        })
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        match self {
            Self::Integer(identifier) => writer.number(Self::TAG, *identifier),
            Self::Text(identifier) => identifier.encode(writer),
        }
        Ok(())
    }
}

/// Checks that the interface identifier is the first parameter, as message header (RFC 3331, section 3.2).
pub(crate) fn identifier_is_first(raw: RawMessage<'_>) -> Result<(), DecodeError> {
    is_at(raw, 0, <InterfaceIdentifier as Parameter>::accepts)
}

/// Checks that the first parameter with a tag is the one at this index.
pub(crate) fn is_at(
    raw: RawMessage<'_>,
    index: usize,
    accepts: fn(u16) -> bool,
) -> Result<(), DecodeError> {
    let mut parameters = raw.parameters().flatten().enumerate();
    match parameters.find(|(_, parameter)| accepts(parameter.tag)) {
        Some((found, parameter)) if found != index => Err(DecodeError::new(
            DecodeErrorKind::NotFirst(parameter.tag),
            parameter.offset,
        )),
        _ => Ok(()),
    }
}

/// Interface Identifier in text format: 1 to 255 octets of ASCII (RFC 3331, section 3.2).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TextIdentifier(Bytes);

impl TextIdentifier {
    /// Maximum number of octets.
    pub const MAX_LEN: usize = 255;

    /// Identifier with this text, `None` if it is empty, not ASCII, or longer than 255 octets.
    pub fn new(text: &str) -> Option<Self> {
        let valid = text.is_ascii() && (1..=Self::MAX_LEN).contains(&text.len());
        valid.then(|| Self(Bytes::copy_from_slice(text.as_bytes())))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let octets = value.raw.value;
        if !(1..=Self::MAX_LEN).contains(&octets.len()) {
            return Err(value.wrong_length());
        }
        match octets.iter().find(|octet| !octet.is_ascii()) {
            Some(&octet) => Err(value.invalid(octet.into())),
            None => Ok(Self(value.all())),
        }
    }

    fn encode(&self, writer: &mut MessageWriter) {
        writer.parameter(tag::INTERFACE_IDENTIFIER_TEXT, &self.0);
    }
}

/// Range of interface identifiers (RFC 3331, section 3.3.2.7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InterfaceRange {
    /// First identifier.
    pub start: u32,
    /// Last identifier, not below the first one.
    pub stop: u32,
}

/// Interface Identifiers of maintenance messages: integers and ranges of them, or texts (RFC 3331, section 3.3.2.7).
///
/// ```text
/// +-------------------------------+-------------------------------+
/// |         tag = 0x0001          |            length             |
/// +-------------------------------+-------------------------------+
/// |  interface identifiers                                      ...
/// +-------------------------------+-------------------------------+
/// |         tag = 0x0008          |            length             |
/// +-------------------------------+-------------------------------+
/// |                  interface identifier start                   |
/// +---------------------------------------------------------------+
/// |                   interface identifier stop                 ...
/// +---------------------------------------------------------------+
///
/// +-------------------------------+-------------------------------+
/// |         tag = 0x0003          |            length             |
/// +-------------------------------+-------------------------------+
/// |  interface identifier, each in its own parameter            ...
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum InterfaceIdentifiers {
    /// Integer format, at least one identifier or range.
    Integers {
        /// Single identifiers.
        identifiers: Vec<u32>,
        /// Ranges.
        ranges: Vec<InterfaceRange>,
    },
    /// Text format, at least one identifier.
    Texts(Vec<TextIdentifier>),
}

impl InterfaceIdentifiers {
    /// Identifiers in integer format, `None` if there is none: the parameter is absent then.
    pub fn integers(identifiers: impl IntoIterator<Item = u32>) -> Option<Self> {
        let identifiers: Vec<_> = identifiers.into_iter().collect();
        (!identifiers.is_empty()).then_some(Self::Integers {
            identifiers,
            ranges: Vec::new(),
        })
    }

    /// Interfaces of a list. Those in text format are left out beside integers.
    pub(crate) fn of(ids: Option<AsIds<InterfaceIdentifier>>) -> Option<Self> {
        let (mut identifiers, mut ranges, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for (first, last) in ids?.ranges() {
            match (first, last) {
                (InterfaceIdentifier::Integer(start), InterfaceIdentifier::Integer(stop)) => {
                    let (start, stop) = (*start, *stop);
                    if start == stop {
                        identifiers.push(start);
                    } else {
                        ranges.push(InterfaceRange { start, stop });
                    }
                }
                (InterfaceIdentifier::Text(text), _) => texts.push(text.clone()),
                _ => {}
            }
        }
        if identifiers.is_empty() && ranges.is_empty() {
            return (!texts.is_empty()).then_some(Self::Texts(texts));
        }
        Some(Self::Integers {
            identifiers,
            ranges,
        })
    }

    const fn tag(&self) -> u16 {
        match self {
            Self::Integers { .. } => tag::INTERFACE_IDENTIFIER,
            Self::Texts(_) => tag::INTERFACE_IDENTIFIER_TEXT,
        }
    }
}

/// Reads the ranges of a parameter.
fn read_ranges(value: Value<'_>) -> Result<Vec<InterfaceRange>, DecodeError> {
    let (pairs, rest) = value.raw.value.as_chunks::<8>();
    if pairs.is_empty() || !rest.is_empty() {
        return Err(value.wrong_length());
    }
    let ranges = pairs.iter().map(|&[a0, a1, a2, a3, o0, o1, o2, o3]| {
        let start = u32::from_be_bytes([a0, a1, a2, a3]);
        let stop = u32::from_be_bytes([o0, o1, o2, o3]);
        if start > stop {
            return Err(value.invalid(start));
        }
        Ok(InterfaceRange { start, stop })
    });
    ranges.collect()
}

impl Field for Option<InterfaceIdentifiers> {
    fn accepts(tag: u16) -> bool {
        tag == tag::INTERFACE_IDENTIFIER_RANGE || <InterfaceIdentifier as Parameter>::accepts(tag)
    }

    fn add(found: &mut Option<Self>, value: Value<'_>) -> Result<(), DecodeError> {
        let found = found.get_or_insert(None);
        let found = match value.raw.tag {
            tag::INTERFACE_IDENTIFIER_TEXT => {
                found.get_or_insert_with(|| InterfaceIdentifiers::Texts(Vec::new()))
            }
            _ => found.get_or_insert_with(|| InterfaceIdentifiers::Integers {
                identifiers: Vec::new(),
                ranges: Vec::new(),
            }),
        };
        match (value.raw.tag, found) {
            (tag::INTERFACE_IDENTIFIER_TEXT, InterfaceIdentifiers::Texts(texts)) => {
                texts.push(TextIdentifier::decode(value)?);
            }
            (tag::INTERFACE_IDENTIFIER, InterfaceIdentifiers::Integers { identifiers, .. }) => {
                identifiers.extend(value.numbers()?);
            }
            (tag::INTERFACE_IDENTIFIER_RANGE, InterfaceIdentifiers::Integers { ranges, .. }) => {
                ranges.extend(read_ranges(value)?);
            }
            _ => return Err(value.conflict()),
        }
        Ok(())
    }

    fn finish(found: Option<Self>, _end: usize) -> Result<Self, DecodeError> {
        Ok(found.flatten())
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        match self {
            None => {}
            Some(InterfaceIdentifiers::Integers {
                identifiers,
                ranges,
            }) if !identifiers.is_empty() || !ranges.is_empty() => {
                if let Some(range) = ranges.iter().find(|range| range.start > range.stop) {
                    return Err(EncodeError::Value {
                        tag: tag::INTERFACE_IDENTIFIER_RANGE,
                        value: range.start,
                    });
                }
                if !identifiers.is_empty() {
                    writer.numbers(tag::INTERFACE_IDENTIFIER, identifiers.iter().copied());
                }
                if !ranges.is_empty() {
                    let numbers = ranges.iter().flat_map(|range| [range.start, range.stop]);
                    writer.numbers(tag::INTERFACE_IDENTIFIER_RANGE, numbers);
                }
            }
            Some(InterfaceIdentifiers::Texts(texts)) if !texts.is_empty() => {
                for text in texts {
                    text.encode(writer);
                }
            }
            Some(empty) => return Err(EncodeError::Empty(empty.tag())),
        }
        Ok(())
    }
}

message! {
    /// Content of ASP Inactive and ASP Inactive Ack (RFC 3331, sections 3.3.2.9 and 3.3.2.10; RFC 4233, sections 3.3.2.7 and
    /// 3.3.2.8).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |  tag = 0x0001, 0x0003, 0x0008 |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifiers, in several parameters               ...
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0004          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    #[derive(Default)]
    AspInactive {
        /// Interfaces, all of the ASP if absent.
        identifiers: Option<InterfaceIdentifiers>,
        /// Text for debugging.
        info: Option<InfoString>,
    }
}

message! {
    /// Notify, NTFY (RFC 3331, section 3.3.3.2; RFC 4233, section 3.3.3.2).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x000d          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |          status type          |      status information       |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0011          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                        ASP identifier                         |
    /// +-------------------------------+-------------------------------+
    /// |  tag = 0x0001, 0x0003, 0x0008 |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifiers, in several parameters               ...
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0004          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    Notify {
        /// Event.
        status: Status,
        /// ASP that became active or failed, if it has an identifier.
        asp_identifier: Option<AspIdentifier>,
        /// Interfaces of the application server.
        identifiers: Option<InterfaceIdentifiers>,
        /// Text for debugging.
        info: Option<InfoString>,
    }
}

impl AspInactive {
    /// ASP Inactive or its acknowledgement for interfaces.
    pub(crate) fn of(ids: Option<AsIds<InterfaceIdentifier>>) -> Self {
        Self {
            identifiers: InterfaceIdentifiers::of(ids),
            info: None,
        }
    }
}

impl Notify {
    /// Notify message about interfaces.
    pub(crate) fn of(
        status: Status,
        asp_identifier: Option<AspIdentifier>,
        ids: Option<AsIds<InterfaceIdentifier>>,
    ) -> Self {
        Self {
            status,
            asp_identifier,
            identifiers: InterfaceIdentifiers::of(ids),
            info: None,
        }
    }
}
