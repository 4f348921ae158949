//! Errors of the operations: one type for each kind of call.
//!
//! Each message names the failed parameter or condition and the remedy, and has the text of its cause, which is a field:
//! no error has a source, so that a chain of errors has each text once.

use std::io;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use carrick_proto::{AbortCause, CloseReason, KeyError, Ppid, ReconfigError};
use thiserror::Error;

/// A parameter that is out of its range or contradicts another one.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("configuration: {field}: {reason}")]
#[non_exhaustive]
pub struct ConfigError {
    /// Name of the field of [`Config`](crate::Config) or [`AssociationConfig`](crate::AssociationConfig).
    pub field: &'static str,
    /// Condition that the value does not meet.
    pub reason: &'static str,
}

impl ConfigError {
    pub(crate) const fn new(field: &'static str, reason: &'static str) -> Self {
        Self { field, reason }
    }
}

impl From<carrick_proto::ConfigError> for ConfigError {
    fn from(error: carrick_proto::ConfigError) -> Self {
        Self::new(error.field(), error.reason())
    }
}

/// Errors of [`Endpoint::bind`](crate::Endpoint::bind) and [`Endpoint::local_address_added`](crate::Endpoint::local_address_added).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// A parameter is out of its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no tokio runtime, or one without I/O or time.
    #[error(
        "no tokio runtime with I/O and time here: call this within one that is built with `enable_all`"
    )]
    NoRuntime,
    /// The host has no address to use.
    #[error("this host has no usable address: configure one, or name the addresses to bind to")]
    NoAddress,
    /// The host's addresses could not be listed.
    #[error("cannot list the addresses of this host: {0}")]
    ListAddresses(io::Error),
    /// The host does not report changes of its addresses.
    #[error("cannot watch the addresses of this host: {0}")]
    WatchAddresses(io::Error),
    /// Raw sockets need a privilege.
    #[error(
        "binding {0} on IP protocol 132 needs CAP_NET_RAW: run as root, or use UDP encapsulation"
    )]
    Privilege(IpAddr),
    /// The system keeps low UDP ports to privileged programs.
    #[error("UDP port {0} needs privileges: use 1024 or more")]
    PrivilegedPort(u16),
    /// The UDP port is in use, also if the SCTP port is free: one UDP port carries the packets of one
    /// endpoint.
    #[error(
        "UDP port {port} of {address} is in use: stop the program that uses it, or choose another encapsulation port"
    )]
    PortTaken {
        /// The address.
        address: IpAddr,
        /// The UDP port.
        port: u16,
    },
    /// Another endpoint in this network namespace has the SCTP port on plain IP, with this address.
    #[error(
        "SCTP port {port} of {address} is in use on plain IP by {holder}: stop it, or choose another SCTP port"
    )]
    SctpPortTaken {
        /// The address.
        address: IpAddr,
        /// The SCTP port.
        port: u16,
        /// Process that holds the claim, or the name of the claim if the process is not visible. It need not be an SCTP
        /// endpoint: any program can take the name.
        holder: String,
    },
    /// Another program of this network namespace, usually a daemon, has all SCTP ports of this address on plain IP.
    #[error(
        "all SCTP ports of {address} are in use on plain IP by {holder}: stop it, or use another address or UDP"
    )]
    SctpTaken {
        /// Process that holds the claim, as for [`Self::SctpPortTaken`].
        holder: String,
        /// The address.
        address: IpAddr,
    },
    /// The address is an IPv6 link-local one.
    #[error("{0} is link-local, and SCTP has addresses without an interface: bind to another one")]
    LinkLocal(IpAddr),
    /// The address is not this host's.
    #[error("{0} is not an address of this host: configure it, or bind to another")]
    NotLocal(IpAddr),
    /// The system refused the socket for another reason.
    #[error("cannot bind {address}: {error}")]
    Socket {
        /// The address.
        address: IpAddr,
        /// Error of the system.
        error: io::Error,
    },
    /// The daemon does not lease the SCTP port ([`Config::daemon`](crate::Config::daemon)).
    #[error("the daemon on {daemon} does not lease SCTP port {port}: {reason}")]
    NotLeased {
        /// Path of its control socket.
        daemon: String,
        /// The SCTP port; 0 for an ephemeral one.
        port: u16,
        /// Reason.
        reason: String,
    },
    /// The configuration does not fit DTLS.
    #[error("DTLS: {0}")]
    Dtls(String),
    /// The system gave no random numbers.
    #[error("the system's random number generator failed: {0}")]
    Random(getrandom::Error),
    /// The endpoint is closed.
    #[error("the endpoint is closed: bind another one")]
    EndpointClosed,
}

/// Errors of [`Endpoint::connect`](crate::Endpoint::connect).
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// A name of the peer could not be resolved, or has no usable address.
    #[error("cannot resolve {name:?}: {reason}")]
    Resolve {
        /// The name.
        name: String,
        /// Error of the system, or what the name lacks.
        reason: String,
    },
    /// The addresses of the peer were given with more than one SCTP port.
    #[error("the peer's addresses have different ports: an SCTP endpoint has one")]
    DifferentPorts,
    /// No peer address was given.
    #[error("no peer address given: pass at least one")]
    NoAddress,
    /// None of the local addresses is of the family of a peer address.
    #[error("no local address of the peer address's family: bind one (IPv4 or IPv6)")]
    FamilyMismatch,
    /// The peer's SCTP port is 0.
    #[error("the peer's port is 0: pass a port from 1 to 65535")]
    InvalidPort,
    /// There is already an association with this peer: RFC 9260 allows one for each pair of
    /// endpoints. Reported before the set-up begins, or as soon as the peer's answer shows it.
    #[error("there is already an association with this peer: use it or shut it down first")]
    AlreadyConnected,
    /// The endpoint's limit of associations is reached.
    #[error("the endpoint's limit of associations is reached: raise max_associations")]
    TooManyAssociations,
    /// A parameter of the association is out of its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An encapsulation port was given on an endpoint on plain IP.
    #[error("the endpoint is on plain IP: leave out the encapsulation port, or bind it to UDP")]
    NotEncapsulated,
    /// An address is to be reached on plain IP, from an endpoint that is only on UDP.
    #[error("the endpoint is on UDP only: bind it to plain IP as well, or give a UDP port")]
    NotPlainIp,
    /// A peer address is an IPv6 link-local one.
    #[error(
        "{0} is link-local, and SCTP has addresses without an interface: use another address of the peer"
    )]
    LinkLocal(SocketAddr),
    /// There is no DTLS session with the peer, and so no association.
    #[error("no protected session: {0}")]
    Unprotected(String),
    /// The set-up ended without an association.
    #[error("no association: {}", describe_set_up(.0))]
    Failed(CloseReason),
    /// The endpoint is closed.
    #[error("the endpoint is closed: bind another one")]
    EndpointClosed,
}

impl ConnectError {
    /// Returns the error of a set-up that ended for this reason.
    pub(crate) fn of_set_up(reason: &CloseReason) -> Self {
        match reason {
            CloseReason::AlreadyConnected => Self::AlreadyConnected,
            reason => Self::Failed(reason.clone()),
        }
    }
}

impl From<carrick_proto::ConnectError> for ConnectError {
    fn from(error: carrick_proto::ConnectError) -> Self {
        use carrick_proto::ConnectError as Core;
        match error {
            Core::NoAddress => Self::NoAddress,
            Core::FamilyMismatch => Self::FamilyMismatch,
            Core::InvalidPort => Self::InvalidPort,
            Core::AlreadyConnected => Self::AlreadyConnected,
            Core::TooManyAssociations => Self::TooManyAssociations,
            Core::InvalidConfig(error) => Self::Config(error.into()),
        }
    }
}

/// Errors of [`SendHalf::send`](crate::SendHalf::send).
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The association is shutting down and takes no new messages.
    #[error("the association is shutting down and takes no new messages")]
    ShuttingDown,
    /// The message is empty; SCTP has no empty messages.
    #[error("the message is empty: SCTP messages have at least one byte")]
    Empty,
    /// The association has fewer outbound streams.
    #[error("no such stream: the association has streams 0 to {}", .streams.saturating_sub(1))]
    InvalidStream {
        /// Number of outbound streams.
        streams: u16,
    },
    /// The path in the options does not exist.
    #[error("no such path: pass one of the association's paths")]
    UnknownPath,
    /// Messages of stream 0 with this payload protocol identifier are those of the key management of the
    /// chunk protection.
    #[error(
        "the payload protocol identifier {} on stream 0 is that of the key management: use another stream or \
         identifier", .0.0
    )]
    KeyManagement(Ppid),
    /// The message does not fit into one packet and fragmentation is off.
    #[error("the message is larger than {limit} bytes and fragmentation is off")]
    TooLarge {
        /// Length of the largest message that fits, in bytes.
        limit: usize,
    },
    /// The association has ended.
    #[error("the association has ended: {0}")]
    Ended(CloseReason),
    /// The endpoint is closed.
    #[error("the endpoint is closed: bind another one")]
    EndpointClosed,
}

/// Errors of [`SendHalf::try_send`](crate::SendHalf::try_send).
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum TrySendError {
    /// There is no room now; the error contains the message.
    #[error("the send queue is full: wait, or use send()")]
    Full(Bytes),
    /// The association does not take the message.
    #[error(transparent)]
    Send(#[from] SendError),
}

/// Errors of [`RecvHalf::recv`](crate::RecvHalf::recv).
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RecvError {
    /// The association did not end gracefully.
    #[error("the association has ended: {0}")]
    Ended(CloseReason),
    /// The endpoint is closed.
    #[error("the endpoint is closed: bind another one")]
    EndpointClosed,
}

/// Errors of [`RecvHalf::try_recv`](crate::RecvHalf::try_recv).
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum TryRecvError {
    /// No message is queued.
    #[error("no message is queued: wait with recv()")]
    Empty,
    /// The association was shut down gracefully and all its messages were received.
    #[error("the association was shut down and all messages were received")]
    Finished,
    /// No message can be received any more.
    #[error(transparent)]
    Recv(#[from] RecvError),
}

/// Errors of the other operations on an association or an endpoint.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum OperationError {
    /// The path does not exist.
    #[error("no such path: pass one of the association's paths")]
    UnknownPath,
    /// The address is not one of this endpoint's.
    #[error("no such local address: add it to the endpoint first")]
    UnknownAddress,
    /// The UDP port is 0.
    #[error("the UDP port is 0: pass a port from 1 to 65535")]
    InvalidPort,
    /// The association has fewer outbound streams.
    #[error("no such stream: the association has fewer outbound streams")]
    InvalidStream,
    /// The operation does not fit the association's state.
    #[error("the association is not in a state for this: wait until it is established")]
    WrongState,
    /// Primary.Switchover.Max.Retrans is below the threshold at which data leaves the path
    /// (RFC 7829 section 5).
    #[error(
        "the switchover threshold is below the threshold at which data leaves the primary path: raise it"
    )]
    InvalidThresholds,
    /// A parameter is out of its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A UDP port was given on an endpoint that is only on plain IP.
    #[error("the endpoint is on plain IP only: bind it to UDP as well")]
    NotEncapsulated,
    /// An address is to be reached on plain IP, from an endpoint that is only on UDP.
    #[error("the endpoint is on UDP only: bind it to plain IP as well, or give a UDP port")]
    NotPlainIp,
    /// The transport of a DTLS session cannot be changed.
    #[error("the peer is reached over DTLS: its session selects the UDP port")]
    OverDtls,
    /// Streams cannot be reset or added.
    #[error(transparent)]
    Reconfig(ReconfigError),
    /// A key cannot be added, used or deleted.
    #[error(transparent)]
    Key(KeyError),
    /// No protection of chunks is in force.
    #[error(
        "no protection of chunks is in force: offer it with Config::chunk_protection on both sides"
    )]
    NoProtection,
    /// The offer of this side made a protection of another type.
    #[error("the protection in force is not a {0}: request the type that the offer begins")]
    OtherProtection(&'static str),
    /// The association has ended.
    #[error("the association has ended: {0}")]
    Ended(CloseReason),
    /// The endpoint is closed.
    #[error("the endpoint is closed: bind another one")]
    EndpointClosed,
}

impl From<carrick_proto::SendError> for SendError {
    fn from(error: carrick_proto::SendError) -> Self {
        use carrick_proto::SendError as Core;
        match error {
            // The handle knows the reason better.
            Core::UnknownAssociation | Core::ShuttingDown | Core::BufferFull => Self::ShuttingDown,
            Core::Empty => Self::Empty,
            Core::InvalidStream { streams } => Self::InvalidStream { streams },
            Core::UnknownPath => Self::UnknownPath,
            Core::TooLarge { limit } => Self::TooLarge { limit },
            Core::KeyManagement(ppid) => Self::KeyManagement(ppid),
        }
    }
}

impl From<carrick_proto::OperationError> for OperationError {
    fn from(error: carrick_proto::OperationError) -> Self {
        use carrick_proto::OperationError as Core;
        match error {
            Core::UnknownPath => Self::UnknownPath,
            Core::UnknownAddress => Self::UnknownAddress,
            Core::InvalidPort => Self::InvalidPort,
            Core::InvalidStream => Self::InvalidStream,
            // The handle reports an association that has ended before the operation.
            Core::WrongState | Core::UnknownAssociation => Self::WrongState,
            Core::InvalidThresholds => Self::InvalidThresholds,
            Core::InvalidConfig(error) => Self::Config(error.into()),
        }
    }
}

impl From<ReconfigError> for OperationError {
    fn from(error: ReconfigError) -> Self {
        Self::Reconfig(error)
    }
}

impl From<KeyError> for OperationError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

/// Returns the reason for which a set-up failed, in words.
fn describe_set_up(reason: &CloseReason) -> String {
    match reason {
        CloseReason::HandedOver => {
            "the endpoint was handed over, which aborted the set-up: connect in its successor"
                .into()
        }
        CloseReason::ProtocolUnreachable => {
            "no SCTP stack answers there: check the peer's address, transport and UDP port".into()
        }
        // RFC 9260, section 8.4: an INIT for a port without an endpoint gets an ABORT without a cause.
        // An endpoint that refuses an association gives one.
        CloseReason::AbortedByPeer(cause) if *cause == AbortCause::NONE => {
            "nothing listens on that SCTP port of the peer: check the port".into()
        }
        reason => reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn a_chain_of_errors_has_each_text_once() {
        let config = || ConfigError::new("backlog", "must not be 0");
        let system = || io::Error::other("refused");
        let address = IpAddr::from([192, 0, 2, 1]);
        let ended = || RecvError::Ended(CloseReason::PeerUnreachable);
        let errors: [Box<dyn Error>; 13] = [
            Box::new(BindError::from(config())),
            Box::new(BindError::ListAddresses(system())),
            Box::new(BindError::WatchAddresses(system())),
            Box::new(BindError::Socket {
                address,
                error: system(),
            }),
            Box::new(ConnectError::from(config())),
            Box::new(ConnectError::Failed(CloseReason::PeerUnreachable)),
            Box::new(SendError::Ended(CloseReason::PeerUnreachable)),
            Box::new(TrySendError::from(SendError::Empty)),
            Box::new(ended()),
            Box::new(TryRecvError::from(ended())),
            Box::new(OperationError::from(config())),
            Box::new(OperationError::Reconfig(ReconfigError::TooSoon)),
            Box::new(CloseReason::PeerUnreachable),
        ];
        for error in errors {
            assert!(error.source().is_none(), "{error}");
        }
    }

    #[test]
    fn a_lost_peer_differs_from_an_absent_one() {
        let reason = CloseReason::ProtocolUnreachable;
        let never = ConnectError::Failed(reason.clone()).to_string();
        assert!(never.contains("check the peer's address"), "{never}");
        let vanished = RecvError::Ended(reason).to_string();
        assert!(
            vanished.contains("the peer's program has ended"),
            "{vanished}"
        );
    }

    /// RFC 9260, section 8.4
    #[test]
    fn an_abort_without_cause_is_a_port_without_listener() {
        let failed = |cause| ConnectError::Failed(CloseReason::AbortedByPeer(cause)).to_string();
        assert!(failed(AbortCause::NONE).contains("nothing listens on that SCTP port"));
        let full = AbortCause {
            code: 4,
            ..AbortCause::NONE
        };
        assert!(failed(full).contains("the peer aborted it: out of resource"));
    }
}
