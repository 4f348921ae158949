//! Parameter types (RFC 9260, 3.2.1, and the extensions).

use core::fmt;

use crate::UnknownAction;

/// Type of a parameter. All values are possible; those of RFC 9260 and of its extensions are constants.
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
    /// Outgoing SSN Reset Request, in RE-CONFIG (RFC 6525, 4.1).
    pub const OUTGOING_SSN_RESET: Self = Self(13);
    /// Incoming SSN Reset Request, in RE-CONFIG (RFC 6525, 4.2).
    pub const INCOMING_SSN_RESET: Self = Self(14);
    /// SSN/TSN Reset Request, in RE-CONFIG (RFC 6525, 4.3).
    pub const SSN_TSN_RESET: Self = Self(15);
    /// Re-configuration Response, in RE-CONFIG (RFC 6525, 4.4).
    pub const RECONFIG_RESPONSE: Self = Self(16);
    /// Add Outgoing Streams Request, in RE-CONFIG (RFC 6525, 4.5).
    pub const ADD_OUTGOING_STREAMS: Self = Self(17);
    /// Add Incoming Streams Request, in RE-CONFIG (RFC 6525, 4.6).
    pub const ADD_INCOMING_STREAMS: Self = Self(18);
    /// ECN Capable (RFC 4960, appendix A; reserved in RFC 9260, 3.3.2, note 2).
    pub const ECN_CAPABLE: Self = Self(0x8000);
    /// Zero Checksum Acceptable (RFC 9653, 4).
    pub const ZERO_CHECKSUM_ACCEPTABLE: Self = Self(0x8001);
    /// Random (RFC 4895, 3.1).
    pub const RANDOM: Self = Self(0x8002);
    /// Chunk List: chunks that must be authenticated (RFC 4895, 3.2).
    pub const CHUNKS: Self = Self(0x8003);
    /// Requested HMAC Algorithm (RFC 4895, 3.3).
    pub const HMAC_ALGO: Self = Self(0x8004);
    /// Padding (RFC 4820, 4).
    pub const PADDING: Self = Self(0x8005);
    /// Supported Extensions (RFC 5061, 4.2.7).
    pub const SUPPORTED_EXTENSIONS: Self = Self(0x8008);
    /// Forward-TSN-Supported (RFC 3758, 3.1).
    pub const FORWARD_TSN_SUPPORTED: Self = Self(0xc000);
    /// Add IP Address, in ASCONF (RFC 5061, 4.2.1).
    pub const ADD_IP_ADDRESS: Self = Self(0xc001);
    /// Delete IP Address, in ASCONF (RFC 5061, 4.2.2).
    pub const DELETE_IP_ADDRESS: Self = Self(0xc002);
    /// Error Cause Indication, in ASCONF-ACK (RFC 5061, 4.2.3).
    pub const ERROR_CAUSE_INDICATION: Self = Self(0xc003);
    /// Set Primary IP Address (RFC 5061, 4.2.4).
    pub const SET_PRIMARY_ADDRESS: Self = Self(0xc004);
    /// Success Indication, in ASCONF-ACK (RFC 5061, 4.2.5).
    pub const SUCCESS_INDICATION: Self = Self(0xc005);
    /// Adaptation Layer Indication (RFC 5061, 4.2.6).
    pub const ADAPTATION_LAYER_INDICATION: Self = Self(0xc006);

    /// Returns whether RFC 9260 itself defines the type, so that every implementation supports it. ECN
    /// Capable, for which RFC 9260 reserves the number, is not included.
    pub const fn is_base(self) -> bool {
        matches!(
            self,
            Self::HEARTBEAT_INFO
                | Self::IPV4_ADDRESS
                | Self::IPV6_ADDRESS
                | Self::STATE_COOKIE
                | Self::UNRECOGNIZED_PARAMETER
                | Self::COOKIE_PRESERVATIVE
                | Self::HOST_NAME_ADDRESS
                | Self::SUPPORTED_ADDRESS_TYPES
        )
    }

    /// Returns the action for an unknown parameter of this type (RFC 9260, section 3.2.1, table 3).
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
            Self::OUTGOING_SSN_RESET => "Outgoing SSN Reset Request",
            Self::INCOMING_SSN_RESET => "Incoming SSN Reset Request",
            Self::SSN_TSN_RESET => "SSN/TSN Reset Request",
            Self::RECONFIG_RESPONSE => "Re-configuration Response",
            Self::ADD_OUTGOING_STREAMS => "Add Outgoing Streams Request",
            Self::ADD_INCOMING_STREAMS => "Add Incoming Streams Request",
            Self::ECN_CAPABLE => "ECN Capable",
            Self::ZERO_CHECKSUM_ACCEPTABLE => "Zero Checksum Acceptable",
            Self::RANDOM => "Random",
            Self::CHUNKS => "Chunk List",
            Self::HMAC_ALGO => "Requested HMAC Algorithm",
            Self::PADDING => "Padding",
            Self::SUPPORTED_EXTENSIONS => "Supported Extensions",
            Self::FORWARD_TSN_SUPPORTED => "Forward-TSN-Supported",
            Self::ADD_IP_ADDRESS => "Add IP Address",
            Self::DELETE_IP_ADDRESS => "Delete IP Address",
            Self::ERROR_CAUSE_INDICATION => "Error Cause Indication",
            Self::SET_PRIMARY_ADDRESS => "Set Primary IP Address",
            Self::SUCCESS_INDICATION => "Success Indication",
            Self::ADAPTATION_LAYER_INDICATION => "Adaptation Layer Indication",
            Self(other) => return write!(f, "type {other:#06x}"),
        })
    }
}
