//! Sockets and associations of the host, as `ss` lists them.

use std::net::{IpAddr, SocketAddr};
use std::ops::Bound;
use std::time::Duration;

use carrick_proto::{AssociationStats, PathStats};

use super::Sockets;
use crate::ids::{AssocId, PortId, SocketId};
use crate::table::Style;

/// Place of a row in [`Sockets::overview`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OverviewKey {
    /// Number of the socket; `i64::MAX` for associations whose socket was closed and that are shut down in
    /// the background.
    pub socket: i64,
    /// Association identifier; 0 for the row of the socket itself.
    pub association: i32,
}

/// A socket, or one of its associations.
#[derive(Debug)]
pub struct OverviewRow {
    /// Place of the row.
    pub key: OverviewKey,
    /// Socket, if it has not been closed.
    pub socket: Option<SocketId>,
    /// Local addresses with the port, those of the host for a wildcard address; empty if not bound.
    pub local: Vec<SocketAddr>,
    /// Addresses as the socket is bound: the wildcard address if it has all addresses of the host.
    pub bound: Vec<SocketAddr>,
    /// The socket or association of the row.
    pub subject: OverviewSubject,
}

/// Subject of an [`OverviewRow`].
#[derive(Debug)]
pub enum OverviewSubject {
    /// The socket itself.
    Socket {
        /// Style of the socket: one-to-one or one-to-many.
        style: Style,
        /// Limit of the accept queue of a socket that listens; `None` for others.
        backlog: Option<usize>,
        /// Sockets in the accept queue.
        waiting: usize,
        /// Number of its associations, which are the next rows.
        associations: usize,
    },
    /// An association.
    Association {
        /// Primary address and port of the peer.
        peer: SocketAddr,
        /// State and counters; `None` once the association has ended and only its messages are left.
        stats: Option<Box<AssociationStats>>,
        /// Settings; `None` once the association has ended.
        settings: Option<AssociationSettings>,
        /// Paths to the peer.
        paths: Vec<PathStats>,
    },
}

/// Settings of an association that tools list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssociationSettings {
    /// Interval of heartbeats on an idle path (HB.interval).
    pub hb_interval: Duration,
    /// Consecutive timeouts after which the association ends (Association.Max.Retrans).
    pub max_retrans: u32,
    /// Size of the send buffer in bytes.
    pub send_buffer: usize,
    /// Size of the receive buffer in bytes.
    pub receive_buffer: usize,
}

/// SCTP ports and addresses by which the packets of an association are recognized.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AssociationAddresses {
    /// Its socket, if that has not been closed.
    pub socket: Option<SocketId>,
    /// Local SCTP port.
    pub local_port: u16,
    /// SCTP port of the peer.
    pub peer_port: u16,
    /// Addresses of the peer.
    pub peers: Vec<IpAddr>,
}

impl Sockets {
    /// Returns socket, ports and addresses of an association by its identifier; `None` if it does not exist.
    pub fn association_addresses(&self, association: i32) -> Option<AssociationAddresses> {
        let id = AssocId(association);
        let association = self.lookup().get(id)?;
        Some(AssociationAddresses {
            socket: association.own.socket(),
            local_port: association.core.port(),
            peer_port: association.own.peer.port(),
            peers: association.paths().map(|path| path.remote).collect(),
        })
    }

    /// Returns the rows after a place, or all: the sockets in the order of their creation, each followed by
    /// its associations, then the associations whose sockets were closed. Sockets in accept queues are among
    /// them.
    pub fn overview(&self, after: Option<OverviewKey>) -> impl Iterator<Item = OverviewRow> {
        let first = after.map_or(0, |key| u64::try_from(key.socket).unwrap_or(0));
        let sockets = self.table.from(SocketId(first));
        let listed = sockets.flat_map(move |(id, socket)| {
            let number = i64::try_from(id.0).unwrap_or(i64::MAX);
            let begin = after_association(number, after);
            let key = OverviewKey {
                socket: number,
                association: 0,
            };
            let own = (begin == Bound::Unbounded).then(|| OverviewRow {
                key,
                socket: Some(id),
                local: addresses_of(self, socket.port()),
                bound: bound_addresses(self, socket.port()),
                subject: OverviewSubject::Socket {
                    style: socket.style(),
                    backlog: socket.backlog(),
                    waiting: socket.unaccepted().len(),
                    associations: socket.associations().len(),
                },
            });
            let associations = socket.associations().range((begin, Bound::Unbounded));
            own.into_iter()
                .chain(associations.filter_map(move |a| association_row(self, key, Some(id), *a)))
        });
        let key = OverviewKey {
            socket: i64::MAX,
            association: 0,
        };
        let begin = after_association(key.socket, after);
        let closed = self.associations.closing(begin);
        listed.chain(closed.filter_map(move |id| association_row(self, key, None, id)))
    }
}

fn association_row(
    host: &Sockets,
    key: OverviewKey,
    socket: Option<SocketId>,
    id: AssocId,
) -> Option<OverviewRow> {
    let association = host.lookup().get(id)?;
    let (port, _) = association.own.core();
    Some(OverviewRow {
        key: OverviewKey {
            association: id.number(),
            ..key
        },
        socket,
        local: addresses_of(host, Some(port)),
        bound: bound_addresses(host, Some(port)),
        subject: OverviewSubject::Association {
            peer: association.own.peer,
            stats: association.stats().map(Box::new),
            settings: association.config().map(|config| AssociationSettings {
                hb_interval: config.paths.hb_interval,
                max_retrans: config.paths.association_max_retrans,
                send_buffer: config.buffers.send_buffer,
                receive_buffer: config.buffers.receive_buffer,
            }),
            paths: association.paths().collect(),
        },
    })
}

fn bound_addresses(host: &Sockets, port: Option<PortId>) -> Vec<SocketAddr> {
    let found = port.and_then(|id| host.ports.get(id));
    let wildcard = found.and_then(|port| Some((port.scope().wildcard()?, port.core().port())));
    match wildcard {
        Some(address) => vec![address.into()],
        None => addresses_of(host, port),
    }
}

/// Returns the local addresses of a port, those of the host for a wildcard address.
pub(crate) fn addresses_of(host: &Sockets, port: Option<PortId>) -> Vec<SocketAddr> {
    let Some(port) = port.and_then(|id| host.ports.get(id)) else {
        return Vec::new();
    };
    let (addresses, number) = (port.core().local_addresses(), port.core().port());
    let addresses = addresses.iter();
    addresses.map(|ip| SocketAddr::new(*ip, number)).collect()
}

/// Returns where the associations of a socket begin that follow a place; unbounded if the row of the socket
/// follows it, too.
fn after_association(socket: i64, after: Option<OverviewKey>) -> Bound<AssocId> {
    match after {
        Some(key) if key.socket == socket => Bound::Excluded(AssocId(key.association)),
        _ => Bound::Unbounded,
    }
}
