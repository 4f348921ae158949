//! Limits, counters, events and errors of a session layer.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::slot::SessionId;
use crate::error::ConnectError;
use crate::ids::AssociationId;

/// Limits of a session layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionLayerConfig {
    /// Maximum number of sessions, at least 1; further peers are not answered. Default: 65,536.
    pub max_sessions: usize,
    /// Maximum number of unfinished inbound handshakes of peers with validated addresses
    /// ([`super::PacketSession::has_validated_address`]), and as many of other peers; at least 1. A further
    /// one evicts the oldest one of the source (IPv4 address or IPv6 /64) that has the most of its kind.
    /// Default: 256.
    pub max_handshakes: usize,
    /// Limit of the duration of a handshake. Default: 40 s.
    pub handshake_timeout: Duration,
    /// Time after which a session without associations is closed. Default: 30 s.
    pub idle_timeout: Duration,
}

impl Default for SessionLayerConfig {
    fn default() -> Self {
        Self {
            max_sessions: 1 << 16,
            max_handshakes: 256,
            handshake_timeout: Duration::from_secs(40),
            idle_timeout: Duration::from_secs(30),
        }
    }
}

/// Counters of a session layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SessionStats {
    /// Finished handshakes, initiated by either side.
    pub established: u64,
    /// Sessions that failed, and handshakes with peers that are unreachable.
    pub failed: u64,
    /// Handshakes that timed out.
    pub timed_out: u64,
    /// Unfinished handshakes that were evicted by others.
    pub evicted: u64,
    /// Handshakes refused because of a limit.
    pub refused: u64,
    /// Datagrams of unknown senders that start no handshake, such as SCTP without protection.
    pub unknown_senders: u64,
    /// Datagrams of a session without a valid record: replayed, forged or damaged.
    pub discarded: u64,
    /// SCTP packets that were not sent because their session was not established.
    pub held_back: u64,
}

/// Event of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionEvent<E> {
    /// The handshake is finished and the peer is authenticated.
    Established(SessionId),
    /// The peer started a new session, which has replaced the previous one.
    Replaced(SessionId),
    /// The session was closed; its associations have ended.
    Closed(SessionId),
    /// The session failed; these associations have ended.
    Failed(SessionId, E, Vec<AssociationId>),
    /// The handshake timed out; these associations have ended.
    TimedOut(SessionId, Vec<AssociationId>),
    /// An ICMP message reported that nothing receives at the UDP port of the peer; these associations have ended.
    Unreachable(SessionId, Vec<AssociationId>),
}

/// Error of [`super::SessionLayer::connect`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionConnectError {
    /// The endpoint refused the association.
    Association(ConnectError),
    /// There is a session with another peer at this address.
    OtherPeer,
    /// The limit of sessions is reached.
    TooManySessions,
}

impl fmt::Display for SessionConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Association(error) => return fmt::Display::fmt(error, f),
            Self::OtherPeer => {
                "there is a session with this address that leads to another peer: end it first"
            }
            Self::TooManySessions => "the limit of sessions is reached: raise max_sessions",
        })
    }
}

impl core::error::Error for SessionConnectError {}
