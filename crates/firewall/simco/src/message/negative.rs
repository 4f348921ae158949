//! Negative replies (RFC 4540, section 4.2.3). They consist of a header, except 0x0322, which carries
//! the version of the middlebox (RFC 4540, section 5.2.6).

use super::{ProtocolVersion, TransactionId};

macro_rules! negative_replies {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// Reason of a refusal. The number is the sub-type.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum NegativeReply {
            $($(#[$doc])* $name,)*
            /// 0x22: the middlebox has another protocol version.
            VersionMismatch(ProtocolVersion),
        }

        impl NegativeReply {
            /// All replies without attributes, in the order of their numbers.
            pub const PLAIN: &[Self] = &[$(Self::$name),*];

            /// Returns the sub-type.
            pub const fn code(self) -> u8 {
                match self {
                    $(Self::$name => $code,)*
                    Self::VersionMismatch(_) => 0x22,
                }
            }

            /// Returns the reply without attributes with this sub-type.
            pub(super) const fn plain(code: u8) -> Option<Self> {
                Some(match code {
                    $($code => Self::$name,)*
                    _ => return None,
                })
            }

            /// Returns the text of the RFC.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    Self::VersionMismatch(_) => "protocol version mismatch",
                }
            }
        }
    };
}

negative_replies! {
    /// 0x10
    WrongBasicType = 0x10, "wrong basic request message type";
    /// 0x11
    WrongSubType = 0x11, "wrong request message sub-type";
    /// 0x12
    BadlyFormed = 0x12, "badly formed request";
    /// 0x13
    ReplyTooBig = 0x13, "reply message too big";
    /// 0x20
    NotApplicable = 0x20, "request not applicable";
    /// 0x21
    LackOfResources = 0x21, "lack of resources";
    /// 0x23
    AuthenticationFailed = 0x23, "authentication failed";
    /// 0x24
    NoAuthorization = 0x24, "no authorization";
    /// 0x25
    TransportProblem = 0x25, "transport protocol problem";
    /// 0x26
    InsufficientSecurity = 0x26, "security of underlying protocol layers insufficient";
    /// 0x40
    TransactionNotSupported = 0x40, "transaction not supported";
    /// 0x41
    AgentNotAuthorized = 0x41, "agent not authorized for this transaction";
    /// 0x42
    NoResources = 0x42, "no resources available for this transaction";
    /// 0x43
    NoSuchRule = 0x43, "specified policy rule does not exist";
    /// 0x44
    NoSuchGroup = 0x44, "specified policy rule group does not exist";
    /// 0x45
    RuleNotAuthorized = 0x45, "not authorized for accessing specified policy";
    /// 0x46
    GroupNotAuthorized = 0x46, "not authorized for accessing specified group";
    /// 0x47
    AddressSpaceUnavailable = 0x47, "requested address space not available";
    /// 0x48
    LackOfAddresses = 0x48, "lack of IP addresses";
    /// 0x49
    LackOfPorts = 0x49, "lack of port numbers";
    /// 0x4A
    ConfigurationFailed = 0x4a, "middlebox configuration failed";
    /// 0x4B
    Inconsistent = 0x4b, "inconsistent request";
    /// 0x4C
    WildcardingNotSupported = 0x4c, "requested wildcarding not supported";
    /// 0x4D
    ProtocolMismatch = 0x4d, "protocol type doesn't match";
    /// 0x4E
    NatModeNotSupported = 0x4e, "NAT mode not supported";
    /// 0x4F
    IpVersionMismatch = 0x4f, "IP version mismatch";
    /// 0x50
    Conflict = 0x50, "conflict with existing rule";
    /// 0x51
    LifetimeNotAuthorized = 0x51, "not authorized to change lifetime";
    /// 0x52
    LifetimeNotExtendable = 0x52, "lifetime can't be extended";
    /// 0x53
    IllegalAddress = 0x53, "illegal IP address";
    /// 0x54
    ProtocolNotSupported = 0x54, "protocol type not supported";
    /// 0x55
    IllegalPort = 0x55, "illegal port number";
    /// 0x56
    IllegalPortRange = 0x56, "illegal number of subsequent ports";
    /// 0x57
    AlreadyEnabled = 0x57, "already enabled policy rule";
    /// 0x58
    ParityMismatch = 0x58, "parity doesn't match";
}

impl NegativeReply {
    /// Encodes the message.
    pub fn to_bytes(self, transaction: TransactionId) -> bytes::Bytes {
        super::Reply::Negative(self).to_bytes(transaction)
    }
}
