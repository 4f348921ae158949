//! State of an association on behalf of its socket.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use carrick_proto::export::{ExportReader, ExportWriter, ImportError, Portable};
use carrick_proto::{CloseReason, PathId, SourceKey, Time, portable_struct};

use crate::options::SendDefaults;
use crate::ports::PortId;
use crate::socket::SocketId;
#[cfg(doc)]
use crate::sockets::Sockets;

/// Association identifier, `sctp_assoc_t`: 3 and above, since 0 to 2 have other meanings. Reused only
/// after all others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AssocId(pub(crate) i32);

impl AssocId {
    /// First identifier.
    pub(crate) const FIRST: Self = Self(3);

    /// Returns the number.
    pub const fn number(self) -> i32 {
        self.0
    }

    pub(crate) fn next(self) -> Self {
        self.0.checked_add(1).map_or(Self::FIRST, Self)
    }
}

impl fmt::Display for AssocId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Portable for AssocId {
    fn write(&self, out: &mut ExportWriter) {
        (self.0 as u32).write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let number = u32::read(input)? as i32;
        if number < Self::FIRST.0 {
            return Err(ImportError::Malformed("association identifier"));
        }
        Ok(Self(number))
    }
}

/// An association.
#[derive(Debug)]
pub(crate) struct Association {
    pub(crate) port: PortId,
    pub(crate) core: carrick_proto::AssociationId,
    /// `None` after its socket was closed.
    pub(crate) socket: Option<SocketId>,
    pub(crate) is_established: bool,
    /// The caller waits for the end of the set-up ([`Sockets::watch_setup`]).
    pub(crate) is_setup_watched: bool,
    /// Reason of its end. It remains until its messages have been read.
    pub(crate) ended: Option<CloseReason>,
    /// Primary address, with IPv4 as IPv4; messages are reported to come from it.
    pub(crate) peer: SocketAddr,
    /// Addresses of the peer in the map of peers.
    pub(crate) indexed: Vec<IpAddr>,
    /// Subscribed notifications.
    pub(crate) events: u16,
    pub(crate) send: SendDefaults,
    /// Context of received messages (`SCTP_CONTEXT`).
    pub(crate) context: u32,
    /// Key that authenticates sent packets (RFC 4895).
    pub(crate) active_key: u16,
    /// Paths whose heartbeats the user turned on or off.
    pub(crate) heartbeats: BTreeMap<PathId, bool>,
    /// Outbound and inbound streams that the user was notified of.
    pub(crate) streams: (u16, u16),
    /// Notifications that follow the last message.
    pub(crate) last_notifications: Vec<Bytes>,
    /// Idle time in seconds after which it is shut down; 0 for none.
    pub(crate) autoclose: u32,
    pub(crate) last_use: Time,
    /// Time of its entry among those that may be idle.
    pub(crate) idle_check: Option<Time>,
    /// Owner of its socket, also after that was closed.
    pub(crate) owner: u32,
    /// Source of the peer; `None` after its end in the core.
    pub(crate) source: Option<SourceKey>,
    /// The peer initiated it.
    pub(crate) is_accepted: bool,
    /// Local address in its last report, for that of its end, when the core has no paths any longer.
    pub(crate) reported_source: Option<IpAddr>,
    /// Bytes of received data in the core.
    pub(crate) held: usize,
    /// Bytes in its send buffer.
    pub(crate) queued: usize,
    /// A message was refused at the limit of its owner's send buffers.
    pub(crate) waits_for_owner: bool,
    /// Values that the user has set and are reported: cookie life in milliseconds, exposure of the state
    /// "potentially failed" in Linux's numbers, and discovery of the path MTU.
    pub(crate) cookie_life: u32,
    pub(crate) exposed_pf: u32,
    pub(crate) discovers_mtu: bool,
    /// DSCP of `SCTP_PEER_ADDR_PARAMS` in the six upper bits, of the association and of single paths.
    pub(crate) dscp: Option<u8>,
    pub(crate) path_dscps: BTreeMap<PathId, u8>,
}

impl Association {
    /// Returns the source to whose associations it counts.
    pub(crate) fn counted_source(&self) -> Option<SourceKey> {
        self.source.filter(|_| self.is_accepted)
    }
}

portable_struct! {
    Association {
        port, core, socket, is_established, is_setup_watched, ended, peer, indexed, events, send, context, active_key,
        heartbeats, streams, last_notifications, autoclose, last_use, idle_check, owner,
        cookie_life, exposed_pf, discovers_mtu, dscp, path_dscps, waits_for_owner,
    }
    rebuilt { source: None, is_accepted: false, reported_source: None, held: 0, queued: 0 }
}
