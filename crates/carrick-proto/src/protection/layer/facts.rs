//! The limits of a layer of sessions, and what it tells.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::association::AssociationId;
use crate::error::ConnectError;
use crate::protection::slot::SessionId;

/// How many sessions there may be, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionLayerConfig {
    /// Sessions at most, at least 1. Further peers are not answered.
    pub max_sessions: usize,
    /// Sessions of peers whose handshake is not finished, at most, at least 1. A further one takes the
    /// place of the oldest whose peer has not shown that it is where its datagrams say
    /// ([`crate::protection::PacketSession::has_shown_itself`]), if there is such a one.
    pub max_handshakes: usize,
    /// A handshake may take so long.
    pub handshake_timeout: Duration,
    /// A session without associations is closed after this.
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

/// What a layer counted since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SessionStats {
    /// Handshakes that were finished, on either side.
    pub established: u64,
    /// Sessions that failed.
    pub failed: u64,
    /// Handshakes that took too long.
    pub timed_out: u64,
    /// Unfinished handshakes that made room for others.
    pub evicted: u64,
    /// Handshakes that found no room.
    pub refused: u64,
    /// Datagrams of nobody that begin no handshake: SCTP without protection, for instance.
    pub strangers: u64,
    /// Datagrams of a session in which there was nothing: replayed, forged or damaged.
    pub discarded: u64,
    /// Packets of SCTP that were not sent because their session was not established.
    pub held_back: u64,
}

/// What happened to a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionEvent<E> {
    /// The handshake is finished and the peer is who it should be.
    Established(SessionId),
    /// The peer began anew and proved to be the same: its new session took over.
    Replaced(SessionId),
    /// It was closed; its associations have ended.
    Closed(SessionId),
    /// It failed; these associations of its end.
    Failed(SessionId, E, Vec<AssociationId>),
    /// Its handshake took too long; these associations of its end.
    TimedOut(SessionId, Vec<AssociationId>),
}

/// Why [`super::SessionLayer::connect`] refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionConnectError {
    /// The endpoint refused the association.
    Association(ConnectError),
    /// There is a session with this address already, and it leads to somebody else.
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
