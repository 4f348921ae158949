//! State of an association on behalf of its socket.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{CloseReason, Endpoint, PathId, SourceKey, Time, portable_struct};

use crate::ids::{PortId, SocketId};
use crate::settings::{Options, SendDefaults};

/// An association. Fields on which the indexes of [`Associations`](super::Associations) depend change by its methods
/// alone.
#[derive(Debug)]
pub(crate) struct Association {
    pub(super) port: PortId,
    pub(super) core: carrick_proto::AssociationId,
    /// `None` after its socket was closed.
    pub(super) socket: Option<SocketId>,
    pub(super) is_established: bool,
    /// The caller waits for the end of the set-up ([`Sockets::watch_setup`](crate::Sockets::watch_setup)).
    pub(crate) is_setup_watched: bool,
    /// Reason of its end. It remains until its messages have been read.
    pub(super) ended: Option<CloseReason>,
    /// Primary address, with IPv4 as IPv4; messages are reported to come from it.
    pub(crate) peer: SocketAddr,
    /// Addresses of the peer in the map of peers.
    pub(super) indexed: Vec<IpAddr>,
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
    pub(super) idle_check: Option<Time>,
    /// Owner of its socket, also after that was closed.
    pub(super) owner: u32,
    pub(super) source: Option<SourceKey>,
    /// The peer initiated it.
    pub(super) is_accepted: bool,
    /// Local address in its last report, for that of its end, when the core has no paths any longer.
    pub(crate) reported_source: Option<IpAddr>,
    /// Bytes of received data in the core.
    pub(super) held: usize,
    /// Bytes in its send buffer.
    pub(super) queued: usize,
    /// A message was refused at the limit of its owner's send buffers.
    pub(super) waits_for_owner: bool,
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
    /// Returns an association of a socket with these options and this owner, which is being set up.
    pub(crate) fn new(
        (port, core): (PortId, carrick_proto::AssociationId),
        (socket, options, owner): (SocketId, &Options, u32),
        peer: SocketAddr,
        now: Time,
    ) -> Self {
        Self {
            port,
            core,
            socket: Some(socket),
            is_established: false,
            is_setup_watched: false,
            ended: None,
            peer,
            indexed: Vec::new(),
            events: options.events,
            send: options.send,
            context: options.context,
            active_key: options.config.security.authentication.active.0,
            heartbeats: BTreeMap::new(),
            streams: (0, 0),
            last_notifications: Vec::new(),
            autoclose: options.autoclose,
            last_use: now,
            idle_check: None,
            owner,
            source: None,
            is_accepted: false,
            reported_source: None,
            held: 0,
            queued: 0,
            waits_for_owner: false,
            cookie_life: options.cookie_life(),
            exposed_pf: options.exposed_pf,
            discovers_mtu: options.discovers_mtu,
            dscp: options.dscp,
            path_dscps: BTreeMap::new(),
        }
    }

    /// Returns the source of the peer; `None` after the end of the association in the core.
    pub(crate) fn source(&self) -> Option<SourceKey> {
        self.source
    }

    /// Copies the source of the peer from the endpoint.
    pub(crate) fn set_source(&mut self, endpoint: &Endpoint) {
        if let Some((source, is_accepted)) = endpoint.source(self.core) {
            self.source = Some(source);
            self.is_accepted = is_accepted;
        }
    }

    /// Returns the port, and the identifier in its endpoint.
    pub(crate) fn core(&self) -> (PortId, carrick_proto::AssociationId) {
        (self.port, self.core)
    }

    /// Returns the socket; `None` after that was closed.
    pub(crate) fn socket(&self) -> Option<SocketId> {
        self.socket
    }

    /// Returns whether the set-up was completed.
    pub(crate) fn is_established(&self) -> bool {
        self.is_established
    }

    /// Returns whether the association has not ended. One that has ended remains until its messages have been read.
    pub(crate) fn is_open(&self) -> bool {
        self.ended.is_none()
    }

    /// Returns the time at which the association has been idle for as long as its limit, if it has one.
    pub(crate) fn idle_limit(&self) -> Option<Time> {
        let idle = Duration::from_secs(self.autoclose.into());
        (self.autoclose > 0).then(|| self.last_use + idle)
    }

    /// Returns the source to whose associations it counts.
    pub(super) fn counted_source(&self) -> Option<SourceKey> {
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
