//! What can go wrong, one type an operation; each message says whose fault it is and what to do.

use std::fmt;
use std::io;
use std::net::IpAddr;

use bytes::Bytes;
use carrick_proto::{AbortCause, CloseReason};
use thiserror::Error;

/// Why [`crate::Endpoint::bind`] failed.
#[derive(Debug, Error)]
pub enum BindError {
    /// A parameter is out of its range.
    #[error(transparent)]
    Config(#[from] carrick_proto::ConfigError),
    /// A number in [`crate::Config`] that must not be zero is.
    #[error("configuration: {0}: must be at least 1")]
    Zero(&'static str),
    /// There is no tokio runtime.
    #[error("no tokio runtime with I/O and time here: call this within one")]
    NoRuntime,
    /// The host has no address to use.
    #[error("this host has no usable address: configure one, or name the addresses to bind to")]
    NoAddress,
    /// The host's addresses could not be listed.
    #[error("cannot list the addresses of this host: {0}")]
    ListAddresses(#[source] io::Error),
    /// The host does not tell when its addresses change.
    #[error("cannot watch the addresses of this host: {0}")]
    WatchAddresses(#[source] io::Error),
    /// Raw sockets need a privilege.
    #[error(
        "binding {0} on IP protocol 132 needs CAP_NET_RAW: run as root, or use UDP encapsulation"
    )]
    Privilege(IpAddr),
    /// The system keeps low UDP ports to privileged programs.
    #[error("UDP port {0} needs privileges: use 1024 or more")]
    PrivilegedPort(u16),
    /// The UDP port is taken, also if the SCTP port is free: one UDP port carries the packets of one
    /// endpoint.
    #[error(
        "UDP port {port} of {address} is taken: stop the program that has it, or use another encapsulation port"
    )]
    PortTaken {
        /// The address.
        address: IpAddr,
        /// The UDP port.
        port: u16,
    },
    /// Another endpoint in this network namespace has the SCTP port on plain IP, with this address.
    #[error(
        "SCTP port {port} of {address} is taken on plain IP: stop the program that has it, or use another SCTP port"
    )]
    SctpPortTaken {
        /// The address.
        address: IpAddr,
        /// The SCTP port.
        port: u16,
    },
    /// The address is an IPv6 link-local one.
    #[error("{0} is link-local, and SCTP has addresses without an interface: bind to another one")]
    LinkLocal(IpAddr),
    /// The address is not this host's.
    #[error("{0} is not an address of this host: configure it, or bind to another")]
    NotLocal(IpAddr),
    /// Anything else.
    #[error("cannot bind {address}: {source}")]
    Socket {
        /// The address.
        address: IpAddr,
        /// What the system said.
        source: io::Error,
    },
    /// DTLS can't be used so.
    #[error("DTLS: {0}")]
    Dtls(String),
    /// The system gave no random numbers.
    #[error("the system's random number generator failed: {0}")]
    Random(getrandom::Error),
    /// The endpoint is gone.
    #[error("the endpoint is closed: bind another one")]
    EndpointClosed,
}

/// Why [`crate::Endpoint::connect`] failed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ConnectError {
    /// The arguments don't fit.
    #[error(transparent)]
    Refused(#[from] carrick_proto::ConnectError),
    /// The parameters are out of their range.
    #[error(transparent)]
    Config(#[from] carrick_proto::ConfigError),
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
    LinkLocal(IpAddr),
    /// There is no session of DTLS with the peer, and so no association.
    #[error("no protected session: {0}")]
    Unprotected(String),
    /// The set-up ended without an association.
    #[error("no association: {}", describe_set_up(.0))]
    Failed(CloseReason),
    /// The endpoint is closed.
    #[error("the endpoint is closed: bind another one")]
    EndpointClosed,
}

/// Why a message was not sent.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SendError {
    /// The message or its options don't fit the association, or it is shutting down.
    #[error(transparent)]
    Refused(#[from] carrick_proto::SendError),
    /// The association has ended.
    #[error("the association has ended: {}", describe(.0))]
    Ended(CloseReason),
    /// The endpoint is gone.
    #[error("the endpoint is closed: bind another one")]
    EndpointClosed,
}

/// Why [`crate::SendHalf::try_send`] did not take a message.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TrySendError {
    /// There is no room now; the message comes back.
    #[error("the send queue is full: wait, or use send()")]
    Full(Bytes),
    /// It will never be taken.
    #[error(transparent)]
    Send(#[from] SendError),
}

/// Why nothing more can be received.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RecvError {
    /// The association did not end gracefully.
    #[error("the association has ended: {}", describe(.0))]
    Ended(CloseReason),
    /// The endpoint is gone.
    #[error("the endpoint is closed: bind another one")]
    EndpointClosed,
}

/// Why another operation failed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum OperationError {
    /// The operation does not fit.
    #[error(transparent)]
    Refused(#[from] carrick_proto::OperationError),
    /// A UDP port was given on an endpoint that is only on plain IP.
    #[error("the endpoint is on plain IP only: bind it to UDP as well")]
    NotEncapsulated,
    /// An address is to be reached on plain IP, from an endpoint that is only on UDP.
    #[error("the endpoint is on UDP only: bind it to plain IP as well, or give a UDP port")]
    NotPlainIp,
    /// A session of DTLS has its own way, which its packets show.
    #[error("the way to a peer over DTLS is its session's: there is no port to set")]
    OverDtls,
    /// The association ended before the operation was done, and not gracefully.
    #[error("the association has ended: {}", describe(.0))]
    Ended(CloseReason),
    /// The endpoint is gone.
    #[error("the endpoint is closed: bind another one")]
    EndpointClosed,
}

/// Why streams are not reset or added.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ReconfigError {
    /// It can't be asked for now.
    #[error(transparent)]
    Refused(#[from] carrick_proto::ReconfigError),
    /// The association has ended.
    #[error("the association has ended: {}", describe(.0))]
    Ended(CloseReason),
    /// The endpoint is gone.
    #[error("the endpoint is closed: bind another one")]
    EndpointClosed,
}

/// Why a key was not added, used or deleted.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum KeyError {
    /// The operation does not fit.
    #[error(transparent)]
    Refused(#[from] carrick_proto::KeyError),
    /// The association has ended.
    #[error("the association has ended: {}", describe(.0))]
    Ended(CloseReason),
    /// The endpoint is gone.
    #[error("the endpoint is closed: bind another one")]
    EndpointClosed,
}

/// Why the protection of an association could not be looked into.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ProtectionError {
    /// Only what both sides offer is in force, and this association has nothing of the kind.
    #[error(
        "no protection of chunks is in force: offer it with Config::chunk_protection on both sides"
    )]
    NotInForce,
    /// The offer of this side made a protection of another type.
    #[error("the protection in force is not a {0}: ask for the type that the offer begins")]
    OtherType(&'static str),
    /// The association has ended.
    #[error("the association has ended: {}", describe(.0))]
    Ended(CloseReason),
    /// The endpoint is gone.
    #[error("the endpoint is closed: bind another one")]
    EndpointClosed,
}

/// A reason in words.
pub(crate) fn describe(reason: &CloseReason) -> impl fmt::Display + '_ {
    Described(reason)
}

/// Why a set-up failed, in words.
fn describe_set_up(reason: &CloseReason) -> String {
    match reason {
        CloseReason::ProtocolUnreachable => {
            "nothing speaks SCTP there: check the peer's address, transport and UDP port".into()
        }
        // Section 8.4: an INIT for a port without an endpoint gets an ABORT without a cause. An endpoint
        // that refuses an association gives one.
        CloseReason::AbortedByPeer(cause) if *cause == AbortCause::NONE => {
            "nothing listens on that SCTP port of the peer: check the port".into()
        }
        reason => describe(reason).to_string(),
    }
}

struct Described<'a>(&'a CloseReason);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            CloseReason::Shutdown => f.write_str("it was shut down"),
            CloseReason::AbortedByUser => f.write_str("this side aborted it"),
            CloseReason::AbortedByPeer(cause) => write!(f, "the peer aborted it: {cause}"),
            CloseReason::AbortedByProtocol(cause) => {
                write!(f, "the peer broke the protocol: {cause}")
            }
            CloseReason::SetupTimedOut => {
                f.write_str("the peer does not answer: check its address, port and transport")
            }
            CloseReason::StaleCookie => f.write_str(
                "the peer's cookies are stale on arrival: the way is too slow for their lifetime",
            ),
            CloseReason::PeerUnreachable => {
                f.write_str("the peer no longer answers on any of its addresses")
            }
            CloseReason::ShutdownTimedOut => f.write_str("the peer did not finish the shutdown"),
            CloseReason::ProtocolUnreachable => f.write_str(
                "the peer's program is gone: its host says that nothing speaks SCTP there any more",
            ),
            CloseReason::LowerLayerLost => {
                f.write_str("the connection that protects it has ended or could not be made")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_vanishes_is_not_one_that_never_was() {
        let reason = CloseReason::ProtocolUnreachable;
        let never = ConnectError::Failed(reason.clone()).to_string();
        assert!(never.contains("check the peer's address"), "{never}");
        let vanished = RecvError::Ended(reason).to_string();
        assert!(
            vanished.contains("the peer's program is gone"),
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
