//! Errors of the caller, one type for each kind of operation. Faults of the peer are no errors: they
//! are counted and answered (see [`EndpointStats`](crate::EndpointStats)).

use alloc::vec::Vec;
use core::fmt;

use crate::peer_text::PeerText;

/// Error of [`Endpoint::connect`](crate::Endpoint::connect) and [`Endpoint::associate`](crate::Endpoint::associate).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectError {
    /// No peer address was given.
    NoAddress,
    /// No local address has the family of a peer address.
    FamilyMismatch,
    /// The peer's SCTP or UDP port is 0 (RFC 9260, section 3.1).
    InvalidPort,
    /// There is an association with this peer address and port.
    AlreadyConnected,
    /// The limit of associations is reached: [`EndpointConfig::max_associations`](crate::EndpointConfig::max_associations), or the limit for
    /// one peer address and port.
    TooManyAssociations,
    /// A parameter of the association is out of its range.
    InvalidConfig(crate::config::ConfigError),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAddress => "no peer address given: pass at least one",
            Self::FamilyMismatch => {
                "no local address of the peer address's family: bind one (IPv4 or IPv6)"
            }
            Self::InvalidPort => "the peer's port is 0: pass a port from 1 to 65535",
            Self::AlreadyConnected => {
                "there is already an association with this peer: use it or shut it down first"
            }
            Self::TooManyAssociations => {
                "the endpoint's limit of associations is reached: raise max_associations"
            }
            Self::InvalidConfig(error) => return fmt::Display::fmt(error, f),
        })
    }
}

impl core::error::Error for ConnectError {}

/// Error of [`Endpoint::send`](crate::Endpoint::send). The message was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendError {
    /// The association is unknown or already closed.
    UnknownAssociation,
    /// The association is shutting down and accepts no new messages (RFC 9260, section 9.2).
    ShuttingDown,
    /// The message is empty, which DATA chunks can't be (RFC 9260, section 3.3.1).
    Empty,
    /// The stream identifier is not below the number of outbound streams.
    InvalidStream {
        /// Number of outbound streams of the association.
        streams: u16,
    },
    /// The send buffer is full: wait for [`Event::SendBufferFree`](crate::Event::SendBufferFree).
    BufferFull,
    /// The path in the options does not exist.
    UnknownPath,
    /// The message does not fit into one packet and fragmentation is off (RFC 9260, section 6.9).
    TooLarge {
        /// Size of the largest message that fits, in bytes.
        limit: usize,
    },
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownAssociation => f.write_str("the association is closed: connect again"),
            Self::ShuttingDown => {
                f.write_str("the association is shutting down and takes no new messages")
            }
            Self::Empty => {
                f.write_str("the message is empty: SCTP messages have at least one byte")
            }
            Self::InvalidStream { streams } => write!(
                f,
                "no such stream: the association has streams 0 to {}",
                streams.saturating_sub(1)
            ),
            Self::BufferFull => {
                f.write_str("the send buffer is full: wait until messages are acknowledged")
            }
            Self::UnknownPath => {
                f.write_str("no such path: pass one of the association's peer addresses")
            }
            Self::TooLarge { limit } => write!(
                f,
                "the message is larger than {limit} bytes and fragmentation is off"
            ),
        }
    }
}

impl core::error::Error for SendError {}

/// Error of other operations on an association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationError {
    /// The association is unknown or already closed.
    UnknownAssociation,
    /// The path does not exist.
    UnknownPath,
    /// The address is no local address of the endpoint.
    UnknownAddress,
    /// The UDP port is 0.
    InvalidPort,
    /// The stream identifier is not below the number of outbound streams.
    InvalidStream,
    /// The state of the association does not allow the operation, for instance before it is established.
    WrongState,
    /// Primary.Switchover.Max.Retrans is below the threshold at which data leaves the path (RFC 7829,
    /// section 5).
    InvalidThresholds,
    /// A parameter would be out of its range.
    InvalidConfig(crate::config::ConfigError),
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownAssociation => "the association is closed: connect again",
            Self::UnknownPath => "no such path: pass one of the association's paths",
            Self::InvalidPort => "the UDP port is 0: pass a port from 1 to 65535",
            Self::UnknownAddress => "no such local address: add it to the endpoint first",
            Self::InvalidStream => "no such stream: the association has fewer outbound streams",
            Self::WrongState => {
                "the association is not in a state for this: wait until it is established"
            }
            Self::InvalidThresholds => {
                "the primary path would change before data leaves it: raise its switchover threshold"
            }
            Self::InvalidConfig(error) => return fmt::Display::fmt(error, f),
        })
    }
}

impl core::error::Error for OperationError {}

/// Error cause of an ABORT or ERROR chunk, sent or received (RFC 9260, section 3.3.10). Of an ABORT with
/// several causes it is the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AbortCause {
    /// Cause code; 0 if the ABORT had no cause.
    pub code: u16,
    /// Cause-specific information, for code 12 the reason of the upper layer. Truncated to 1 KiB.
    pub information: Vec<u8>,
}

portable_struct! { AbortCause { code, information } }

impl AbortCause {
    /// Absent cause.
    pub const NONE: Self = Self {
        code: 0,
        information: Vec::new(),
    };

    pub(crate) fn new(code: u16, information: &[u8]) -> Self {
        Self {
            code,
            information: information[..information.len().min(1024)].to_vec(),
        }
    }
}

impl fmt::Display for AbortCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.code {
            0 => "no cause given",
            1 => "invalid stream identifier",
            2 => "missing mandatory parameter",
            3 => "stale cookie",
            4 => "out of resource",
            5 => "unresolvable address",
            6 => "unrecognized chunk type",
            7 => "invalid mandatory parameter",
            8 => "unrecognized parameters",
            9 => "no user data",
            10 => "cookie received while shutting down",
            11 => "restart of an association with new addresses",
            12 => "user-initiated abort",
            13 => "protocol violation",
            160 => "request to delete the last address",
            161 => "no room for another address",
            162 => "request to delete the source address",
            163 => "illegal ASCONF-ACK",
            164 => "no authorization",
            261 => "unsupported HMAC identifier",
            _ => "unknown cause",
        };
        f.write_str(name)?;
        if matches!(self.code, 12 | 13) && !self.information.is_empty() {
            write!(f, " ({})", PeerText::new(&self.information))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    /// RFC 9260, sections 3.3.10.12 and 3.3.10.13: text in causes is escaped and bounded.
    #[test]
    fn cause_text_is_one_bounded_line() {
        for code in [12, 13] {
            let cause = AbortCause::new(code, b"\x1b]0;x\x07\ncarrick: connected \xe2\x80\xae");
            let text = cause.to_string();
            assert!(text.ends_with("(\\u{1b}]0;x\\u{7}\\ncarrick: connected \\u{202e})"));
            assert!(AbortCause::new(code, &[0; 4096]).to_string().len() < 300);
        }
    }
}
