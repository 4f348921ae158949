//! Parameters with the same tag and format in several layers (RFC 4666, section 3.2).

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use bytes::Bytes;

use super::field::{Parameter, Value, enumerations, named_numbers, newtypes, single_parameters};
use super::{DecodeError, EncodeError, MessageWriter, tag::common as tag};
use crate::PointCode;
use crate::aspm::AsIds;

newtypes! {
    /// Routing Context: identifies a Routing Key, and with it an application server (RFC 4666, section 1.4.2.1).
    RoutingContext(u32) = tag::ROUTING_CONTEXT;
    /// Correlation Id of a message within an application server (RFC 4666, section 3.3.1).
    CorrelationId(u32) = tag::CORRELATION_ID;
    /// ASP Identifier: unique among the ASPs of an application server (RFC 4666, section 3.5.1).
    AspIdentifier(u32) = tag::ASP_IDENTIFIER;
}

named_numbers! {
    /// Error Code (RFC 4666, section 3.8.1; RFC 3868, section 3.9.12; RFC 3331 and RFC 4233, section 3.3.3.1). The layers
    /// share the numbers, and each uses some of them.
    ErrorCode: u32 {
        INVALID_VERSION = 0x01, "Invalid Version";
        INVALID_INTERFACE_IDENTIFIER = 0x02, "Invalid Interface Identifier";
        UNSUPPORTED_MESSAGE_CLASS = 0x03, "Unsupported Message Class";
        UNSUPPORTED_MESSAGE_TYPE = 0x04, "Unsupported Message Type";
        UNSUPPORTED_TRAFFIC_MODE_TYPE = 0x05, "Unsupported Traffic Mode Type";
        UNEXPECTED_MESSAGE = 0x06, "Unexpected Message";
        PROTOCOL_ERROR = 0x07, "Protocol Error";
        UNSUPPORTED_INTERFACE_IDENTIFIER_TYPE = 0x08, "Unsupported Interface Identifier Type";
        INVALID_STREAM_IDENTIFIER = 0x09, "Invalid Stream Identifier";
        UNASSIGNED_TEI = 0x0a, "Unassigned TEI";
        UNRECOGNIZED_SAPI = 0x0b, "Unrecognized SAPI";
        INVALID_TEI_SAPI_COMBINATION = 0x0c, "Invalid TEI, SAPI combination";
        MANAGEMENT_BLOCKING = 0x0d, "Refused - Management Blocking";
        ASP_IDENTIFIER_REQUIRED = 0x0e, "ASP Identifier Required";
        INVALID_ASP_IDENTIFIER = 0x0f, "Invalid ASP Identifier";
        ASP_ACTIVE_FOR_INTERFACE_IDENTIFIER = 0x10, "ASP Active for Interface Identifier(s)";
        INVALID_PARAMETER_VALUE = 0x11, "Invalid Parameter Value";
        PARAMETER_FIELD_ERROR = 0x12, "Parameter Field Error";
        UNEXPECTED_PARAMETER = 0x13, "Unexpected Parameter";
        DESTINATION_STATUS_UNKNOWN = 0x14, "Destination Status Unknown";
        INVALID_NETWORK_APPEARANCE = 0x15, "Invalid Network Appearance";
        MISSING_PARAMETER = 0x16, "Missing Parameter";
        INVALID_ROUTING_CONTEXT = 0x19, "Invalid Routing Context";
        NO_CONFIGURED_AS = 0x1a, "No Configured AS for ASP";
        SUBSYSTEM_STATUS_UNKNOWN = 0x1b, "Subsystem Status Unknown";
        INVALID_LOADSHARING_LABEL = 0x1c, "Invalid loadsharing label";
    }

    /// Traffic Mode Type (RFC 4666, section 3.7.1).
    TrafficMode: u32 {
        OVERRIDE = 1, "Override";
        LOADSHARE = 2, "Loadshare";
        BROADCAST = 3, "Broadcast";
    }

    /// Unavailability Cause (RFC 4666, section 3.4.5; RFC 3868, section 3.10.12). National networks may use further
    /// values.
    UnavailabilityCause: u16 {
        UNKNOWN = 0, "Unknown";
        UNEQUIPPED = 1, "Unequipped Remote User";
        INACCESSIBLE = 2, "Inaccessible Remote User";
    }

    /// MTP3-User Identity (RFC 4666, section 3.4.5). National networks may use further values.
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

// Undefined codes are accepted: an Error message must not be answered with another one.
single_parameters! {
    ErrorCode = tag::ERROR_CODE,
}

newtypes! {
    /// Diagnostic Information: usually the begin of the offending message (RFC 4666, section 3.8.1).
    DiagnosticInformation(Bytes) = tag::DIAGNOSTIC_INFORMATION;
}

enumerations! {
    /// Status of a Notify message: status type and status information (RFC 4666, section 3.8.2).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          status type          |      status information       |
    /// +-------------------------------+-------------------------------+
    /// ```
    Status = tag::STATUS, number, else invalid {
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
}

impl Parameter for TrafficMode {
    const TAG: u16 = tag::TRAFFIC_MODE_TYPE;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let mode = value.number().map(Self)?;
        if mode.name().is_none() {
            return Err(value.undefined_traffic_mode(mode.0));
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

impl fmt::Display for RoutingContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "routing context {}", self.0)
    }
}

impl RoutingContexts {
    /// Routing contexts of a list.
    pub(crate) fn of(ids: Option<AsIds<RoutingContext>>) -> Option<Self> {
        Self::new(ids?.into_singles())
    }
}

impl AsIds<RoutingContext> {
    /// List of a message's routing contexts.
    pub(crate) fn from_contexts(contexts: RoutingContexts) -> Option<Self> {
        Self::new(contexts.0)
    }
}

impl RoutingContext {
    const fn from_field(field: u32) -> Self {
        Self(field)
    }

    const fn field(self) -> u32 {
        self.0
    }
}

/// Affected Point Code: a destination, or a range of them (RFC 4666, section 3.4.1).
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
    #[must_use]
    pub const fn aligned(self) -> Self {
        let mask = if self.mask > 24 { 24 } else { self.mask };
        Self::range(self.point_code.value(), mask)
    }

    /// Returns the range of a larger mask, at most 24, that contains this one.
    #[must_use]
    pub const fn widened(self, mask: u8) -> Self {
        Self::range(self.point_code.value(), mask)
    }

    /// Range of a mask of at most 24 that contains a point code.
    pub(crate) const fn range(code: u32, mask: u8) -> Self {
        Self {
            mask,
            point_code: PointCode::low_bits(code >> mask << mask),
        }
    }

    /// Returns the last point code of an aligned range.
    pub(crate) const fn last(self) -> PointCode {
        PointCode::low_bits(self.point_code.value() | ((1 << self.mask) - 1))
    }

    /// Returns both halves of an aligned range, none of a single point code.
    pub(crate) fn halves(self) -> impl Iterator<Item = Self> {
        let mask = self.mask.checked_sub(1);
        let halves = mask.map(|mask| {
            [
                Self { mask, ..self },
                Self::range(self.last().value(), mask),
            ]
        });
        halves.into_iter().flatten()
    }

    pub(crate) const fn from_field(field: u32) -> Self {
        Self {
            mask: (field >> 24) as u8,
            point_code: PointCode::low_bits(field),
        }
    }

    pub(crate) const fn field(self) -> u32 {
        (self.mask as u32) << 24 | self.point_code.value()
    }
}

/// Affected Point Code of a DUPU: one destination, without mask (RFC 4666, section 3.4.5).
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
pub(crate) fn unmasked(value: Value<'_>) -> Result<PointCode, DecodeError> {
    let field = value.number()?;
    PointCode::new(field).ok_or_else(|| value.invalid(field))
}

/// INFO String of at most 255 octets (RFC 4666, section 3.4.1). It should be UTF-8, but is for debugging only, so that
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
        Ok(Self(value.all()))
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        writer.parameter(Self::TAG, &self.0);
        Ok(())
    }
}

/// Declares the User/Cause of a layer, which has its own tag (RFC 4666, section 3.4.5; RFC 3868, section 3.10.12).
macro_rules! user_cause {
    ($(#[$doc:meta])* $name:ident = $tag:path;) => {
        $(#[$doc])*
        ///
        /// ```text
        /// +-------------------------------+-------------------------------+
        /// |     unavailability cause      |             user              |
        /// +-------------------------------+-------------------------------+
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name {
            /// Reason for which the user part is unavailable.
            pub cause: $crate::message::UnavailabilityCause,
            /// User part.
            pub user: $crate::message::UserIdentity,
        }

        impl Parameter for $name {
            const TAG: u16 = $tag;

            fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
                let [c0, c1, u0, u1] = value.exact()?;
                Ok(Self {
                    cause: $crate::message::UnavailabilityCause(u16::from_be_bytes([c0, c1])),
                    user: $crate::message::UserIdentity(u16::from_be_bytes([u0, u1])),
                })
            }

            fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
                let value = u32::from(self.cause.0) << 16 | u32::from(self.user.0);
                writer.number(Self::TAG, value);
                Ok(())
            }
        }
    };
}
pub(crate) use user_cause;

/// Declares the Deregistration Status of routing keys of a layer, which has its own tag.
macro_rules! deregistration_status {
    ($(#[$doc:meta])* $name:ident = $tag:path;) => {
        named_numbers! {
            $(#[$doc])*
            $name: u32 {
                SUCCESS = 0, "Successfully Deregistered";
                UNKNOWN = 1, "Error - Unknown";
                INVALID_ROUTING_CONTEXT = 2, "Error - Invalid Routing Context";
                PERMISSION_DENIED = 3, "Error - Permission Denied";
                NOT_REGISTERED = 4, "Error - Not Registered";
                ASP_ACTIVE = 5, "Error - ASP Currently Active for Routing Context";
            }
        }

        single_parameters! {
            $name = $tag,
        }
    };
}
pub(crate) use deregistration_status;
