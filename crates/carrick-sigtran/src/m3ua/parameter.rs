//! Parameters (RFC 4666, sections 3.2 to 3.8). Those of a Routing Key are in `routing_key`.

use std::borrow::Cow;
use std::ops::Deref;

use bytes::Bytes;

use super::error::{DecodeError, DecodeErrorKind, EncodeError};
use super::{PointCode, tag};
use crate::message::{MessageWriter, Parameters, RawParameter};

/// Received value of a parameter.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    pub(super) raw: RawParameter<'a>,
    /// Message that contains it, for slices without copies.
    pub(super) message: &'a Bytes,
}

impl<'a> Value<'a> {
    /// Returns the value if it has N octets.
    pub(super) fn exact<const N: usize>(self) -> Result<[u8; N], DecodeError> {
        self.raw.value.try_into().map_err(|_| self.wrong_length())
    }

    /// Returns the value if it is one number.
    pub(super) fn number(self) -> Result<u32, DecodeError> {
        self.exact().map(u32::from_be_bytes)
    }

    /// Returns the numbers of a list with at least one.
    pub(super) fn numbers(self) -> Result<impl Iterator<Item = u32> + use<'a>, DecodeError> {
        let (numbers, rest) = self.raw.value.as_chunks();
        if numbers.is_empty() || !rest.is_empty() {
            return Err(self.wrong_length());
        }
        Ok(numbers.iter().map(|&octets| u32::from_be_bytes(octets)))
    }

    /// Returns octets of the value as a part of the message.
    pub(super) fn bytes(self, octets: &'a [u8]) -> Bytes {
        self.message.slice_ref(octets)
    }

    pub(super) fn nested(self) -> Parameters<'a> {
        self.raw.nested()
    }

    pub(super) fn wrong_length(self) -> DecodeError {
        let RawParameter { tag, value, offset } = self.raw;
        let length = value.len();
        DecodeError::new(DecodeErrorKind::ParameterLength { tag, length }, offset + 2)
    }

    pub(super) fn invalid(self, value: u32) -> DecodeError {
        let RawParameter { tag, offset, .. } = self.raw;
        DecodeError::new(DecodeErrorKind::Value { tag, value }, offset)
    }

    pub(super) fn repeated(self) -> DecodeError {
        DecodeError::new(DecodeErrorKind::Repeated(self.raw.tag), self.raw.offset)
    }
}

/// Skips a parameter that the message's format does not list. Every message may have such parameters (RFC 4666,
/// section 3), except those of other adaptation layers.
pub(super) fn skip(raw: RawParameter<'_>) -> Result<(), DecodeError> {
    if tag::is_excluded(raw.tag) {
        return Err(DecodeError::new(
            DecodeErrorKind::Excluded(raw.tag),
            raw.offset,
        ));
    }
    Ok(())
}

/// Parameter with its tag.
pub(super) trait Parameter: Sized {
    const TAG: u16;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError>;

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError>;
}

/// Parameter of a message: mandatory, `Option` if it is optional or conditional, `Vec` if it is mandatory and
/// may be repeated.
pub(super) trait Field: Sized {
    const FIELD_TAG: u16;

    /// Adds a received parameter to those found before.
    fn add(found: &mut Option<Self>, value: Value<'_>) -> Result<(), DecodeError>;

    /// Returns the field after all parameters, which end at `end`.
    fn finish(found: Option<Self>, end: usize) -> Result<Self, DecodeError>;

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError>;
}

/// Error of a mandatory parameter that is missing in what ends at `end`.
pub(super) const fn missing(tag: u16, end: usize) -> DecodeError {
    DecodeError::new(DecodeErrorKind::Missing(tag), end)
}

impl<T: Parameter> Field for T {
    const FIELD_TAG: u16 = T::TAG;

    fn add(found: &mut Option<Self>, value: Value<'_>) -> Result<(), DecodeError> {
        if found.is_some() {
            return Err(value.repeated());
        }
        *found = Some(T::decode(value)?);
        Ok(())
    }

    fn finish(found: Option<Self>, end: usize) -> Result<Self, DecodeError> {
        found.ok_or(missing(T::TAG, end))
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        Parameter::encode(self, writer)
    }
}

impl<T: Parameter> Field for Option<T> {
    const FIELD_TAG: u16 = T::TAG;

    fn add(found: &mut Option<Self>, value: Value<'_>) -> Result<(), DecodeError> {
        T::add(found.get_or_insert(None), value)
    }

    fn finish(found: Option<Self>, _end: usize) -> Result<Self, DecodeError> {
        Ok(found.flatten())
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        self.iter()
            .try_for_each(|parameter| Parameter::encode(parameter, writer))
    }
}

impl<T: Parameter> Field for Vec<T> {
    const FIELD_TAG: u16 = T::TAG;

    fn add(found: &mut Option<Self>, value: Value<'_>) -> Result<(), DecodeError> {
        found.get_or_insert_default().push(T::decode(value)?);
        Ok(())
    }

    fn finish(found: Option<Self>, end: usize) -> Result<Self, DecodeError> {
        found.ok_or(missing(T::TAG, end))
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        if self.is_empty() {
            return Err(EncodeError::Empty(T::TAG));
        }
        self.iter()
            .try_for_each(|parameter| Parameter::encode(parameter, writer))
    }
}

/// Parameters that are one number of 32 bits. Undefined values are kept as received.
macro_rules! number_parameters {
    ($($name:ident = $tag:ident;)*) => {$(
        impl Parameter for $name {
            const TAG: u16 = tag::$tag;

            fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
                value.number().map(Self)
            }

            fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
                writer.number(tag::$tag, self.0);
                Ok(())
            }
        }
    )*};
}

/// Types of a number without named values.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident = $tag:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);

        number_parameters! { $name = $tag; }
    )*};
}

numbers! {
    /// Network Appearance: the SS7 network of a message, and with it the format of its point codes
    /// (section 3.3.1). Local to an SGP and its ASPs.
    NetworkAppearance = NETWORK_APPEARANCE;
    /// Routing Context: identifies a Routing Key, and with it an application server (section 1.4.2.1).
    RoutingContext = ROUTING_CONTEXT;
    /// Correlation Id of an MSU within an application server (section 3.3.1).
    CorrelationId = CORRELATION_ID;
    /// ASP Identifier: unique among the ASPs of an application server (section 3.5.1).
    AspIdentifier = ASP_IDENTIFIER;
    /// Local-RK-Identifier: correlates a registration with its result (section 3.6.1).
    LocalRoutingKeyIdentifier = LOCAL_ROUTING_KEY_IDENTIFIER;
}

/// Numbers with named values; others are kept as received.
macro_rules! named_numbers {
    ($($(#[$doc:meta])* $name:ident: $number:ty {
        $($(#[$value_doc:meta])* $value:ident = $code:literal, $text:literal;)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub $number);

        impl $name {
            $($(#[$value_doc])* #[doc = $text] pub const $value: Self = Self($code);)*

            /// Returns the RFC's name of the value, `None` if it is not defined.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$value => Some($text),)*
                    _ => None,
                }
            }
        }
    )*};
}

named_numbers! {
    /// Error Code (section 3.8.1).
    ErrorCode: u32 {
        INVALID_VERSION = 0x01, "Invalid Version";
        UNSUPPORTED_MESSAGE_CLASS = 0x03, "Unsupported Message Class";
        UNSUPPORTED_MESSAGE_TYPE = 0x04, "Unsupported Message Type";
        UNSUPPORTED_TRAFFIC_MODE_TYPE = 0x05, "Unsupported Traffic Mode Type";
        UNEXPECTED_MESSAGE = 0x06, "Unexpected Message";
        PROTOCOL_ERROR = 0x07, "Protocol Error";
        INVALID_STREAM_IDENTIFIER = 0x09, "Invalid Stream Identifier";
        MANAGEMENT_BLOCKING = 0x0d, "Refused - Management Blocking";
        ASP_IDENTIFIER_REQUIRED = 0x0e, "ASP Identifier Required";
        INVALID_ASP_IDENTIFIER = 0x0f, "Invalid ASP Identifier";
        INVALID_PARAMETER_VALUE = 0x11, "Invalid Parameter Value";
        PARAMETER_FIELD_ERROR = 0x12, "Parameter Field Error";
        UNEXPECTED_PARAMETER = 0x13, "Unexpected Parameter";
        DESTINATION_STATUS_UNKNOWN = 0x14, "Destination Status Unknown";
        INVALID_NETWORK_APPEARANCE = 0x15, "Invalid Network Appearance";
        MISSING_PARAMETER = 0x16, "Missing Parameter";
        INVALID_ROUTING_CONTEXT = 0x19, "Invalid Routing Context";
        NO_CONFIGURED_AS = 0x1a, "No Configured AS for ASP";
    }

    /// Traffic Mode Type (section 3.7.1).
    TrafficMode: u32 {
        OVERRIDE = 1, "Override";
        LOADSHARE = 2, "Loadshare";
        BROADCAST = 3, "Broadcast";
    }

    /// Registration Status (section 3.6.2).
    RegistrationStatus: u32 {
        SUCCESS = 0, "Successfully Registered";
        UNKNOWN = 1, "Error - Unknown";
        INVALID_DPC = 2, "Error - Invalid DPC";
        INVALID_NETWORK_APPEARANCE = 3, "Error - Invalid Network Appearance";
        INVALID_ROUTING_KEY = 4, "Error - Invalid Routing Key";
        PERMISSION_DENIED = 5, "Error - Permission Denied";
        NO_UNIQUE_ROUTING = 6, "Error - Cannot Support Unique Routing";
        NOT_PROVISIONED = 7, "Error - Routing Key not Currently Provisioned";
        INSUFFICIENT_RESOURCES = 8, "Error - Insufficient Resources";
        UNSUPPORTED_PARAMETER = 9, "Error - Unsupported RK parameter Field";
        UNSUPPORTED_TRAFFIC_MODE = 10, "Error - Unsupported/Invalid Traffic Handling Mode";
        CHANGE_REFUSED = 11, "Error - Routing Key Change Refused";
        ALREADY_REGISTERED = 12, "Error - Routing Key Already Registered";
    }

    /// Deregistration Status (section 3.6.4).
    DeregistrationStatus: u32 {
        SUCCESS = 0, "Successfully Deregistered";
        UNKNOWN = 1, "Error - Unknown";
        INVALID_ROUTING_CONTEXT = 2, "Error - Invalid Routing Context";
        PERMISSION_DENIED = 3, "Error - Permission Denied";
        NOT_REGISTERED = 4, "Error - Not Registered";
        ASP_ACTIVE = 5, "Error - ASP Currently Active for Routing Context";
    }

    /// Unavailability Cause (section 3.4.5). National networks may use further values.
    UnavailabilityCause: u16 {
        UNKNOWN = 0, "Unknown";
        UNEQUIPPED = 1, "Unequipped Remote User";
        INACCESSIBLE = 2, "Inaccessible Remote User";
    }

    /// MTP3-User Identity (section 3.4.5). National networks may use further values.
    UserIdentity: u16 {
        SCCP = 3, "SCCP";
        TUP = 4, "TUP";
        ISUP = 5, "ISUP";
        BROADBAND_ISUP = 9, "Broadband ISUP";
        SATELLITE_ISUP = 10, "Satellite ISUP";
        AAL_TYPE_2 = 12, "AAL type 2 Signalling";
        BICC = 13, "Bearer Independent Call Control";
        GATEWAY_CONTROL = 14, "Gateway Control Protocol";
    }
}

// An undefined Error Code is accepted, because an Error message must not be answered with another one.
number_parameters! {
    ErrorCode = ERROR_CODE;
    RegistrationStatus = REGISTRATION_STATUS;
    DeregistrationStatus = DEREGISTRATION_STATUS;
}

impl Parameter for TrafficMode {
    const TAG: u16 = tag::TRAFFIC_MODE_TYPE;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let mode = value.number().map(Self)?;
        if mode.name().is_none() {
            let kind = DecodeErrorKind::TrafficMode(mode.0);
            return Err(DecodeError::new(kind, value.raw.offset));
        }
        Ok(mode)
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        let Self(value) = *self;
        if self.name().is_none() {
            return Err(EncodeError::Value {
                tag: Self::TAG,
                value,
            });
        }
        writer.number(Self::TAG, value);
        Ok(())
    }
}

/// Lists of fields of 32 bits, with at least one entry.
macro_rules! lists {
    ($($(#[$doc:meta])* $name:ident of $item:ident = $tag:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        pub struct $name(pub Vec<$item>);

        impl $name {
            /// List of these entries, `None` if there is none: the parameter is absent then.
            pub fn new(entries: impl IntoIterator<Item = $item>) -> Option<Self> {
                let entries: Vec<_> = entries.into_iter().collect();
                (!entries.is_empty()).then_some(Self(entries))
            }
        }

        impl Deref for $name {
            type Target = [$item];

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl Parameter for $name {
            const TAG: u16 = tag::$tag;

            fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
                Ok(Self(value.numbers()?.map($item::from_field).collect()))
            }

            fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
                if self.is_empty() {
                    return Err(EncodeError::Empty(Self::TAG));
                }
                writer.numbers(Self::TAG, self.iter().map(|entry| entry.field()));
                Ok(())
            }
        }
    )*};
}

lists! {
    /// Routing Context as a list, with at least one entry.
    RoutingContexts of RoutingContext = ROUTING_CONTEXT;
    /// Affected Point Code as a list, with at least one entry.
    AffectedPointCodes of AffectedPointCode = AFFECTED_POINT_CODE;
}

impl RoutingContext {
    const fn from_field(field: u32) -> Self {
        Self(field)
    }

    const fn field(self) -> u32 {
        self.0
    }
}

/// Affected Point Code: a destination, or a range of them (section 3.4.1).
///
/// ```text
/// +---------------+-----------------------------------------------+
/// |     mask      |          point code, padded on the left       |
/// +---------------+-----------------------------------------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AffectedPointCode {
    /// Number of low bits of the point code that are wildcarded.
    pub mask: u8,
    /// Point code.
    pub point_code: PointCode,
}

impl AffectedPointCode {
    /// All destinations of a network appearance, whatever its point code format.
    pub const ALL: Self = Self {
        mask: 24,
        point_code: PointCode::low_bits(0),
    };

    /// One destination.
    pub const fn single(point_code: PointCode) -> Self {
        Self {
            mask: 0,
            point_code,
        }
    }

    /// Returns whether the range contains a point code. A mask of all bits of the format or more contains every one,
    /// because the bits above are the same in all point codes.
    pub const fn contains(self, code: PointCode) -> bool {
        let difference = self.point_code.value() ^ code.value();
        self.mask >= 24 || difference >> self.mask == 0
    }

    /// Returns whether two ranges have a point code in common.
    pub const fn overlaps(self, other: Self) -> bool {
        if self.mask >= other.mask {
            self.contains(other.point_code)
        } else {
            other.contains(self.point_code)
        }
    }

    /// Returns the range with the wildcarded bits 0, and a mask of at most 24.
    pub(super) const fn aligned(self) -> Self {
        let mask = if self.mask > 24 { 24 } else { self.mask };
        Self::range(self.point_code.value(), mask)
    }

    /// Returns the range of a larger mask, at most 24, that contains this one.
    pub(super) const fn widened(self, mask: u8) -> Self {
        Self::range(self.point_code.value(), mask)
    }

    /// Range of a mask of at most 24 that contains a point code.
    pub(super) const fn range(code: u32, mask: u8) -> Self {
        Self {
            mask,
            point_code: PointCode::low_bits(code >> mask << mask),
        }
    }

    /// Returns the last point code of an aligned range.
    pub(super) const fn last(self) -> PointCode {
        PointCode::low_bits(self.point_code.value() | ((1 << self.mask) - 1))
    }

    /// Returns both halves of an aligned range, none of a single point code.
    pub(super) fn halves(self) -> impl Iterator<Item = Self> {
        let mask = self.mask.checked_sub(1);
        let halves = mask.map(|mask| {
            [
                Self { mask, ..self },
                Self::range(self.last().value(), mask),
            ]
        });
        halves.into_iter().flatten()
    }

    pub(super) const fn from_field(field: u32) -> Self {
        Self {
            mask: (field >> 24) as u8,
            point_code: PointCode::low_bits(field),
        }
    }

    pub(super) const fn field(self) -> u32 {
        (self.mask as u32) << 24 | self.point_code.value()
    }
}

/// Affected Point Code of a DUPU: one destination, without mask (section 3.4.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UnavailableUserPart(pub PointCode);

impl Parameter for UnavailableUserPart {
    const TAG: u16 = tag::AFFECTED_POINT_CODE;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        unmasked(value).map(Self)
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        writer.number(Self::TAG, self.0.value());
        Ok(())
    }
}

/// Point code whose mask must be 0.
pub(super) fn unmasked(value: Value<'_>) -> Result<PointCode, DecodeError> {
    let field = value.number()?;
    PointCode::new(field).ok_or_else(|| value.invalid(field))
}

/// INFO String of at most 255 octets (section 3.4.1). It should be UTF-8, but is for debugging only, so that
/// other octets are no reason to reject a message.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct InfoString(Bytes);

/// Maximum number of octets of an INFO String.
pub const MAX_INFO_STRING: usize = 255;

impl InfoString {
    /// INFO String with this text, `None` if it is longer than 255 octets.
    pub fn new(text: &str) -> Option<Self> {
        (text.len() <= MAX_INFO_STRING).then(|| Self(Bytes::copy_from_slice(text.as_bytes())))
    }

    /// Returns the octets.
    pub const fn octets(&self) -> &Bytes {
        &self.0
    }

    /// Returns the text; octets that are not UTF-8 are replaced.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl Parameter for InfoString {
    const TAG: u16 = tag::INFO_STRING;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        if value.raw.value.len() > MAX_INFO_STRING {
            return Err(value.wrong_length());
        }
        Ok(Self(value.bytes(value.raw.value)))
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        writer.parameter(Self::TAG, &self.0);
        Ok(())
    }
}

/// Diagnostic Information: usually the begin of the offending message (section 3.8.1).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DiagnosticInformation(pub Bytes);

impl Parameter for DiagnosticInformation {
    const TAG: u16 = tag::DIAGNOSTIC_INFORMATION;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        Ok(Self(value.bytes(value.raw.value)))
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        writer.parameter(Self::TAG, &self.0);
        Ok(())
    }
}

/// Status of a Notify message: status type and status information (section 3.8.2).
///
/// ```text
/// +-------------------------------+-------------------------------+
/// |          status type          |      status information       |
/// +-------------------------------+-------------------------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u32)]
pub enum Status {
    /// AS-State_Change: Application Server Inactive.
    AsInactive = 0x0001_0002,
    /// AS-State_Change: Application Server Active.
    AsActive = 0x0001_0003,
    /// AS-State_Change: Application Server Pending.
    AsPending = 0x0001_0004,
    /// Other: Insufficient ASP Resources Active in AS.
    InsufficientAspResources = 0x0002_0001,
    /// Other: Alternate ASP Active.
    AlternateAspActive = 0x0002_0002,
    /// Other: ASP Failure.
    AspFailure = 0x0002_0003,
}

impl Parameter for Status {
    const TAG: u16 = tag::STATUS;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        Ok(match value.number()? {
            0x0001_0002 => Self::AsInactive,
            0x0001_0003 => Self::AsActive,
            0x0001_0004 => Self::AsPending,
            0x0002_0001 => Self::InsufficientAspResources,
            0x0002_0002 => Self::AlternateAspActive,
            0x0002_0003 => Self::AspFailure,
            other => return Err(value.invalid(other)),
        })
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        writer.number(Self::TAG, *self as u32);
        Ok(())
    }
}

/// Congestion Indications: the congestion level of national networks (section 3.4.4).
///
/// ```text
/// +-----------------------------------------------+---------------+
/// |                   reserved                    |     level     |
/// +-----------------------------------------------+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CongestionLevel(u8);

impl CongestionLevel {
    /// No congestion, or undefined.
    pub const NONE: Self = Self(0);
    /// All levels.
    pub(super) const ALL: [Self; 4] = [Self(0), Self(1), Self(2), Self(3)];

    /// Congestion level 0 (no congestion or undefined) to 3, `None` above.
    pub const fn new(level: u8) -> Option<Self> {
        if level <= 3 { Some(Self(level)) } else { None }
    }

    /// Returns the level, 0 to 3.
    pub const fn level(self) -> u8 {
        self.0
    }
}

impl Parameter for CongestionLevel {
    const TAG: u16 = tag::CONGESTION_INDICATIONS;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let [_, _, _, level] = value.exact()?;
        Self::new(level).ok_or_else(|| value.invalid(level.into()))
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        writer.number(Self::TAG, self.0.into());
        Ok(())
    }
}

/// Concerned Destination: the originator of the message that caused an SCON of an ASP (section 3.4.4). The octet
/// before the point code is reserved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConcernedDestination(pub PointCode);

impl Parameter for ConcernedDestination {
    const TAG: u16 = tag::CONCERNED_DESTINATION;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        Ok(Self(PointCode::low_bits(value.number()?)))
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        writer.number(Self::TAG, self.0.value());
        Ok(())
    }
}

/// User/Cause (section 3.4.5).
///
/// ```text
/// +-------------------------------+-------------------------------+
/// |     unavailability cause      |      MTP3-User identity       |
/// +-------------------------------+-------------------------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UserCause {
    /// Reason for which the user part is unavailable.
    pub cause: UnavailabilityCause,
    /// User part.
    pub user: UserIdentity,
}

impl Parameter for UserCause {
    const TAG: u16 = tag::USER_CAUSE;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let [c0, c1, u0, u1] = value.exact()?;
        Ok(Self {
            cause: UnavailabilityCause(u16::from_be_bytes([c0, c1])),
            user: UserIdentity(u16::from_be_bytes([u0, u1])),
        })
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        let value = u32::from(self.cause.0) << 16 | u32::from(self.user.0);
        writer.number(Self::TAG, value);
        Ok(())
    }
}

/// Protocol Data: an SS7 message with its routing label (section 3.3.1).
///
/// ```text
/// +---------------------------------------------------------------+
/// |                   originating point code                      |
/// +---------------------------------------------------------------+
/// |                   destination point code                      |
/// +---------------+---------------+---------------+---------------+
/// |      SI       |      NI       |      MP       |      SLS      |
/// +---------------+---------------+---------------+---------------+
/// |  user protocol data                                         ...
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ProtocolData {
    /// Originating point code, OPC.
    pub opc: PointCode,
    /// Destination point code, DPC.
    pub dpc: PointCode,
    /// Service indicator, SI: 4 bits.
    pub si: u8,
    /// Network indicator, NI: 2 bits.
    pub ni: u8,
    /// Message priority, MP: 2 bits.
    pub mp: u8,
    /// Signalling link selection, SLS: 4, 5 or 8 bits, as the network has.
    pub sls: u8,
    /// MTP3-User information, from the octet after the routing label.
    pub user_data: Bytes,
}

impl ProtocolData {
    /// Octets before the user protocol data.
    const FIXED: usize = 12;

    /// Returns the first of SI, NI and MP with bits beyond those that the field has in SS7.
    fn excess(&self) -> Option<u8> {
        let fields = [(self.si, 0x0f), (self.ni, 0x03), (self.mp, 0x03)];
        let excess = fields.into_iter().find(|(value, max)| value > max);
        excess.map(|(value, _)| value)
    }
}

impl Parameter for ProtocolData {
    const TAG: u16 = tag::PROTOCOL_DATA;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let split = value.raw.value.split_first_chunk::<{ Self::FIXED }>();
        let (fixed, user_data) = split.ok_or_else(|| value.wrong_length())?;
        let [o0, o1, o2, o3, d0, d1, d2, d3, si, ni, mp, sls] = *fixed;
        let point_code = |octets| {
            let code = u32::from_be_bytes(octets);
            PointCode::new(code).ok_or_else(|| value.invalid(code))
        };
        let data = Self {
            opc: point_code([o0, o1, o2, o3])?,
            dpc: point_code([d0, d1, d2, d3])?,
            si,
            ni,
            mp,
            sls,
            user_data: value.bytes(user_data),
        };
        match data.excess() {
            Some(field) => Err(value.invalid(field.into())),
            None => Ok(data),
        }
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        if let Some(field) = self.excess() {
            return Err(EncodeError::Value {
                tag: Self::TAG,
                value: field.into(),
            });
        }
        writer.nested(Self::TAG, |writer| {
            writer.value(&self.opc.value().to_be_bytes());
            writer.value(&self.dpc.value().to_be_bytes());
            writer.value(&[self.si, self.ni, self.mp, self.sls]);
            writer.value(&self.user_data);
        });
        Ok(())
    }
}

/// Parameters that contain one parameter of each field's type.
macro_rules! results {
    ($($(#[$doc:meta])* $name:ident = $tag:ident {
        $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Parameter for $name {
            const TAG: u16 = tag::$tag;

            fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
                $(let mut $field = None;)*
                for raw in value.nested() {
                    let raw = raw?;
                    let nested = Value { raw, ..value };
                    match raw.tag {
                        $(<$type as Field>::FIELD_TAG => <$type as Field>::add(&mut $field, nested)?,)*
                        _ => skip(raw)?,
                    }
                }
                let end = value.raw.offset;
                Ok(Self { $($field: Field::finish($field, end)?,)* })
            }

            fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
                let mut result = Ok(());
                writer.nested(tag::$tag, |writer| {
                    $(result = result.and(Field::encode(&self.$field, writer));)*
                });
                result
            }
        }
    )*};
}

results! {
    /// Registration Result of one Routing Key (section 3.6.2).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x020a          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                     Local-RK-Identifier                       |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0212          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                     registration status                       |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0006          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                       routing context                         |
    /// +---------------------------------------------------------------+
    /// ```
    RegistrationResult = REGISTRATION_RESULT {
        /// Local-RK-Identifier of the request.
        local_id: LocalRoutingKeyIdentifier,
        /// Result.
        status: RegistrationStatus,
        /// Routing context of the key; 0 if it was not registered.
        routing_context: RoutingContext,
    }

    /// Deregistration Result of one routing context (section 3.6.4).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0006          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                       routing context                         |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0213          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                    deregistration status                      |
    /// +---------------------------------------------------------------+
    /// ```
    DeregistrationResult = DEREGISTRATION_RESULT {
        /// Routing context of the request.
        routing_context: RoutingContext,
        /// Result.
        status: DeregistrationStatus,
    }
}
