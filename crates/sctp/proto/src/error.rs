//! Errors of the caller, one type for each kind of operation. Faults of the peer are no errors: they
//! are counted and answered (see [`EndpointStats`](crate::EndpointStats)).

use core::fmt;

use carrick_wire::Ppid;

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
    InvalidConfig(ConfigError),
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
    /// Messages of stream 0 with this payload protocol identifier are those of the key management
    /// ([`ChunkProtectionOffer::key_management`](crate::protection::ChunkProtectionOffer::key_management)).
    KeyManagement(Ppid),
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
            Self::KeyManagement(ppid) => write!(
                f,
                "the payload protocol identifier {} on stream 0 is that of the key management of the chunk \
                 protection: use another stream or identifier",
                ppid.0
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
    InvalidConfig(ConfigError),
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

/// Error of a request to reset streams or the association, or to add streams (RFC 6525).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReconfigError {
    /// The association is not established, or shutting down.
    WrongState,
    /// Re-configuration is not negotiated: this side or the peer did not offer it.
    NotInForce,
    /// A request of either side is outstanding; only one at a time is allowed (RFC 6525 section 5.1.1).
    InProgress,
    /// A stream to be reset does not exist.
    InvalidStream {
        /// Number of streams in that direction.
        streams: u16,
    },
    /// The streams to be reset don't fit into one packet; all streams always do.
    ListTooLong {
        /// Number of streams that fit.
        limit: usize,
    },
    /// There would be more streams than 65535, or than this side accepts.
    TooManyStreams {
        /// Number of streams that can be added in that direction.
        limit: u16,
    },
    /// No stream is to be added.
    NothingToAdd,
    /// Numbers were reset less than 30 seconds ago; packets from before may still arrive (RFC 6525
    /// section 5.1.4).
    TooSoon,
}

impl fmt::Display for ReconfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongState => {
                f.write_str("the association is not established, or it is shutting down")
            }
            Self::NotInForce => f.write_str(
                "re-configuration of streams is not in force: both sides have to offer it",
            ),
            Self::InProgress => {
                f.write_str("a re-configuration is under way: wait for its event and try again")
            }
            Self::InvalidStream { streams } => write!(
                f,
                "no such stream: there are streams 0 to {}",
                streams.saturating_sub(1)
            ),
            Self::ListTooLong { limit } => write!(
                f,
                "a packet has room for {limit} streams: reset fewer at a time, or all"
            ),
            Self::TooManyStreams { limit } => write!(f, "only {limit} streams can be added"),
            Self::NothingToAdd => f.write_str("no stream to add: request at least one"),
            Self::TooSoon => {
                f.write_str("the association was reset less than 30 seconds ago: try again later")
            }
        }
    }
}

impl core::error::Error for ReconfigError {}

/// Parameter that is out of its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfigError(pub(crate) &'static str);

impl ConfigError {
    /// Name of the parameter, or of several with "and" between them.
    pub fn field(&self) -> &'static str {
        self.0.split_once(": ").map_or("", |(field, _)| field)
    }

    /// Condition that the parameter does not meet.
    pub fn reason(&self) -> &'static str {
        self.0.split_once(": ").map_or(self.0, |(_, reason)| reason)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configuration: {}", self.0)
    }
}

impl core::error::Error for ConfigError {}
