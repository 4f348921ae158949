//! `listen` and `accept` (RFC 6458, sections 3.1.3, 4.1.3 and 4.1.4), and associations that peers initiate.

use std::net::{IpAddr, SocketAddr};

use carrick_proto::SourceKey;

use crate::errno::Errno;
use crate::host::Sockets;
use crate::host::calls::bind::bind_if_unbound;
use crate::host::events::fill;
use crate::host::memory::has_association_room;
use crate::ids::{PortId, SocketId};
use crate::ports::Port;
use crate::table::Socket;

/// Associations of one source that an accept queue has place for beside other sources, whatever the backlog.
const SOURCE_PLACES: usize = 16;

impl Sockets {
    /// Accepts associations of peers: `listen` (RFC 6458, sections 3.1.3 and 4.1.3). The accept queue of a
    /// one-to-one socket holds at most one association more than `backlog`, as on Linux, which is limited
    /// to [`Config::max_backlog`](crate::Config::max_backlog); INITs beyond are refused with ABORT. While three quarters are taken and several
    /// sources have associations there, so are those of a source beyond its share
    /// ([`Config::backlog_per_source`](crate::Config::backlog_per_source)). 0 refuses associations again.
    ///
    /// # Errors
    /// - `EINVAL`: the one-to-one socket has or had an association; the socket was branched off; the
    ///   backlog is 0 and the socket does not listen.
    /// - `EADDRINUSE`: another socket listens on the port, and one of them has not `SO_REUSEPORT`.
    /// - `EADDRNOTAVAIL`: no ephemeral port is free.
    pub fn listen(&mut self, id: SocketId, backlog: i32) -> Result<(), Errno> {
        let socket = self.table.open(id)?;
        socket.check_listen()?;
        let stops = backlog == 0;
        if stops && !socket.is_listening() {
            return Err(Errno::EINVAL);
        }
        let port = bind_if_unbound(self, id)?;
        let socket = self.table.open(id)?;
        let users = self.ports.get(port).into_iter().flat_map(Port::sockets);
        let others = users.filter(|other| *other != id);
        let mut others = others.filter_map(|other| self.table.get(other));
        let conflicts = |other: &Socket| {
            let shares = other.options().shares_port() && socket.options().shares_port();
            other.is_listening() && !shares
        };
        if !stops && others.any(conflicts) {
            return Err(Errno::EADDRINUSE);
        }
        let limit = self.config.max_backlog.max(1);
        let socket = self.table.open_mut(id)?;
        if stops {
            socket.stop_listening();
        } else {
            socket.listen(usize::try_from(backlog).unwrap_or(limit).min(limit));
        }
        update_listening(self, port);
        Ok(())
    }

    /// Returns the socket of the first association in the accept queue: `accept` (RFC 6458, section
    /// 4.1.4). It has the options and subscriptions of the listening socket.
    ///
    /// # Errors
    /// - `EAGAIN`: the queue is empty.
    /// - `EINVAL`: the socket does not listen.
    /// - `EOPNOTSUPP`: a one-to-many socket.
    pub fn accept(&mut self, id: SocketId) -> Result<(SocketId, SocketAddr), Errno> {
        let socket = self.table.open_mut(id)?;
        if !socket.is_one_to_one() {
            return Err(Errno::EOPNOTSUPP);
        }
        if !socket.is_listening() {
            return Err(Errno::EINVAL);
        }
        let port = socket.port();
        let accepted = self.table.accept(id).ok_or(Errno::EAGAIN)?;
        if let Some(port) = port {
            update_listening(self, port);
        }
        let child = self.table.open(accepted)?;
        let peer = child.peer().map(|peer| child.present(peer));
        fill(self, accepted);
        self.table.raise_all(accepted);
        Ok((accepted, peer.ok_or(Errno::ECONNABORTED)?))
    }
}

/// Updates whether the endpoint of a port accepts associations, and with which parameters: those of a
/// listening socket.
pub(crate) fn update_listening(host: &mut Sockets, id: PortId) {
    let users = host.ports.get(id).into_iter().flat_map(Port::sockets);
    let users = users.filter_map(|id| host.table.get(id));
    let mut listening = users.filter(|socket| socket.is_listening());
    let accepts = listening.clone().any(Socket::may_accept);
    let config = listening.next().map(|first| first.options().config.clone());
    if let Some(core) = host.ports.core_mut(id) {
        if let Some(config) = config {
            // Options are checked when they are set.
            let _ = core.set_default_config(config);
        }
        core.set_accepting(accepts);
    }
}

/// Finds the socket of an association that a peer has initiated; creates it for a one-to-one socket.
/// `None` if no socket has room for it.
pub(crate) fn admit(
    host: &mut Sockets,
    port_id: PortId,
    (ip, number): (IpAddr, u16),
    source: SourceKey,
) -> Option<SocketId> {
    if host.associations.of_source(source).associations >= host.config.per_source() {
        return None;
    }
    let port = host.ports.get(port_id)?;
    let may_accept = |id: &SocketId| host.table.get(*id).is_some_and(Socket::may_accept);
    let listening: Vec<SocketId> = port.sockets().filter(may_accept).collect();
    // Sockets that share the port get the associations of different peers.
    let spread = usize::from(number) + peer_number(ip);
    let id = *listening.get(spread % listening.len().max(1))?;
    let listener = host.table.get(id)?;
    if !has_association_room(host, listener.owner()) {
        return None;
    }
    if !listener.is_one_to_one() {
        return Some(id);
    }
    if !has_place(host, listener, source) {
        return None;
    }
    let (peer, owner) = (SocketAddr::new(ip, number), listener.owner());
    let max = host.config.max_sockets;
    let child = host.table.enqueue(id, peer, source, max).ok()?;
    host.ports.join(port_id, child, owner);
    Some(child)
}

/// Returns whether the accept queue of a socket has a place for another association from a source. A source alone
/// may fill it; of the last quarter, sources that compete have no more than their shares.
fn has_place(host: &Sockets, listener: &Socket, source: SourceKey) -> bool {
    let (queue, backlog) = (listener.unaccepted(), listener.backlog().unwrap_or(0));
    if queue.len() < backlog - backlog / 4 {
        return true;
    }
    let is_from = |child: &&SocketId| {
        let child = host.table.get(**child);
        child.is_some_and(|child| child.queued_source() == Some(source))
    };
    let taken = queue.iter().filter(is_from).count();
    let quarter = (backlog / 4).max(SOURCE_PLACES);
    taken == queue.len() || taken < host.config.backlog_per_source.unwrap_or(quarter)
}

/// Returns a number that depends on a peer's address.
fn peer_number(ip: IpAddr) -> usize {
    let sum = |octets: &[u8]| octets.iter().map(|octet| usize::from(*octet)).sum();
    match ip {
        IpAddr::V4(v4) => sum(&v4.octets()),
        IpAddr::V6(v6) => sum(&v6.octets()),
    }
}
