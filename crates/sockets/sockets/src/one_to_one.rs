//! Calls of one-to-one sockets (RFC 6458, section 4), of which `listen` and `connect` also work on
//! one-to-many sockets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use carrick_proto::{AssociationConfig, ConnectError, PeerAddress, SourceKey, Time};

use crate::associations::Association;
use crate::errno::Errno;
use crate::ids::{AssocId, PortId, SocketId};
use crate::linux::{InitMsg, SHUT_RD, SHUT_RDWR, SHUT_WR};
use crate::options::apply_init;
use crate::ports::{Port, is_link_local};
use crate::sockets::Sockets;
use crate::table::{Readiness, Socket, SocketState};

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
        if socket.is_peeled_off
            || !matches!(socket.state, SocketState::Open | SocketState::Listening)
        {
            return Err(Errno::EINVAL);
        }
        let stops = backlog == 0;
        if stops && socket.state != SocketState::Listening {
            return Err(Errno::EINVAL);
        }
        let port = self.bind_if_unbound(id)?;
        let socket = self.table.open(id)?;
        let users = self.ports.get(port).into_iter().flat_map(Port::sockets);
        let others = users.filter(|other| *other != id);
        let mut others = others.filter_map(|other| self.table.get(other));
        let conflicts = |other: &Socket| {
            let shares = other.options.shares_port() && socket.options.shares_port();
            other.state == SocketState::Listening && !shares
        };
        if !stops && others.any(conflicts) {
            return Err(Errno::EADDRINUSE);
        }
        let limit = self.config.max_backlog.max(1);
        let socket = self.table.open_mut(id)?;
        socket.backlog = usize::try_from(backlog).unwrap_or(limit).min(limit);
        socket.state = if stops {
            SocketState::Open
        } else {
            SocketState::Listening
        };
        self.update_listening(port);
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
        if socket.state != SocketState::Listening {
            return Err(Errno::EINVAL);
        }
        let port = socket.port;
        let accepted = self.table.accept(id).ok_or(Errno::EAGAIN)?;
        if let Some(port) = port {
            self.update_listening(port);
        }
        let child = self.table.open(accepted)?;
        let peer = child.peer.map(|peer| child.present(peer));
        self.fill(accepted);
        self.table.raise_all(accepted);
        Ok((accepted, peer.ok_or(Errno::ECONNABORTED)?))
    }

    /// Starts an association with a peer: `connect` (RFC 6458, sections 3.1.6 and 4.1.5). It never
    /// completes at once: when the socket is writable, the association is established; `SO_ERROR` and
    /// hang-up report a failure.
    ///
    /// # Errors
    /// `EINPROGRESS` if the set-up has started; otherwise as for [`Self::connectx`].
    pub fn connect(&mut self, now: Time, id: SocketId, peer: SocketAddr) -> Result<(), Errno> {
        let started = self.connectx(now, id, &[peer]);
        started.and(Err(Errno::EINPROGRESS))
    }

    /// Starts an association with a peer at several addresses, which have the same port: `sctp_connectx`
    /// (RFC 6458, section 9.9). Returns its identifier.
    ///
    /// # Errors
    /// - `EINVAL`: no address, different ports, port 0, an address of another family, or a link-local address, as
    ///   on Linux with a scope that the host does not have.
    /// - `EALREADY`, `EISCONN`: the association is being set up, or exists.
    /// - `ENETUNREACH`: no local address has the family of the peer's address.
    /// - `ENOMEM`: the limit of associations is reached, of all or of the owner.
    /// - `EADDRNOTAVAIL`: no ephemeral port is free, or an address is there twice.
    pub fn connectx(
        &mut self,
        now: Time,
        id: SocketId,
        peers: &[SocketAddr],
    ) -> Result<AssocId, Errno> {
        self.associate(now, id, peers, None)
    }

    /// Requests the result of the set-up of an association, for a caller that blocks until its end:
    /// [`Self::poll_setup`]. Without effect unless the association is being set up.
    pub fn watch_setup(&mut self, id: AssocId) {
        let association = self.associations.get_mut(id);
        if let Some(association) = association.filter(|association| !association.is_established()) {
            association.is_setup_watched = true;
        }
    }

    /// Returns the next result of a set-up for [`Self::watch_setup`]: `ECONNREFUSED` also where the set-up was
    /// cancelled, as `connect` of Linux.
    pub fn poll_setup(&mut self) -> Option<(AssocId, Result<(), Errno>)> {
        self.setups.pop_front()
    }

    /// Queues the result of a set-up if the caller waits for it.
    pub(crate) fn end_setup(&mut self, id: AssocId, result: Result<(), Errno>) {
        if let Some(association) = self.associations.get_mut(id)
            && std::mem::take(&mut association.is_setup_watched)
        {
            self.setups.push_back((id, result));
        }
    }

    /// Starts an association, with the values of `init` instead of those of `SCTP_INITMSG`.
    ///
    /// 1. Check the state of the socket, the addresses and the limit.
    /// 2. Refuse a second association with the same peer.
    /// 3. Bind the socket, if it is not bound (RFC 6458, section 4.1.5).
    /// 4. Start the association in the core; a one-to-one socket is connecting.
    pub(crate) fn associate(
        &mut self,
        now: Time,
        id: SocketId,
        peers: &[SocketAddr],
        init: Option<InitMsg>,
    ) -> Result<AssocId, Errno> {
        self.now = now;
        let socket = self.table.open(id)?;
        match socket.state {
            SocketState::Established | SocketState::Ended => return Err(Errno::EISCONN),
            SocketState::Listening if socket.is_one_to_one() => return Err(Errno::EISCONN),
            SocketState::Connecting => return Err(Errno::EALREADY),
            SocketState::Open | SocketState::Listening => {}
        }
        let number = peers.first().ok_or(Errno::EINVAL)?.port();
        if number == 0 || peers.iter().any(|peer| peer.port() != number) {
            return Err(Errno::EINVAL);
        }
        let addresses = peers.iter().map(|peer| socket.canonical(*peer));
        let addresses = addresses.collect::<Result<Vec<IpAddr>, Errno>>()?;
        if addresses.iter().any(|a| {
            a.is_unspecified()
                || a.is_multicast()
                || *a == IpAddr::V4(Ipv4Addr::BROADCAST)
                || is_link_local(*a)
        }) {
            return Err(Errno::EINVAL);
        }
        if !self.has_association_room(socket.owner) {
            return Err(Errno::ENOMEM);
        }
        if let Some(existing) = self.find_by_peer(socket, addresses[0], number) {
            let existing = self.associations.get(existing);
            let is_up = existing.is_some_and(|association| association.is_established());
            return Err(if is_up {
                Errno::EISCONN
            } else {
                Errno::EALREADY
            });
        }
        let mut config = socket.options.config.clone();
        if let Some(init) = init {
            apply_init(&mut config, init);
        }
        let encapsulation = socket.options.encapsulation;
        let core_peers: Vec<PeerAddress> = addresses
            .iter()
            .map(|address| PeerAddress {
                address: *address,
                encapsulation,
            })
            .collect();
        let peer = SocketAddr::new(addresses[0], number);
        let port = self.bind_if_unbound(id)?;
        // Linux finds it when the socket is bound.
        let is_repeated = |(i, address)| addresses[..i].contains(address);
        if addresses.iter().enumerate().any(is_repeated) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        let core = self.start(port, now, &core_peers, number, config)?;
        let association = self.insert_association(port, core, id, peer);
        let association = association.ok_or(Errno::EBADF)?;
        let socket = self.table.open_mut(id)?;
        socket.failed = false;
        if socket.is_one_to_one() {
            socket.state = SocketState::Connecting;
            socket.error = None;
        }
        self.settle(port);
        Ok(association)
    }

    fn start(
        &mut self,
        port: PortId,
        now: Time,
        peers: &[PeerAddress],
        number: u16,
        config: AssociationConfig,
    ) -> Result<carrick_proto::AssociationId, Errno> {
        let core = self.ports.core_mut(port).ok_or(Errno::EINVAL)?;
        let started = core.associate(now, peers, number, Arc::new(config));
        started.map_err(|error| match error {
            ConnectError::NoAddress
            | ConnectError::InvalidPort
            | ConnectError::InvalidConfig(_) => Errno::EINVAL,
            ConnectError::FamilyMismatch => Errno::ENETUNREACH,
            ConnectError::AlreadyConnected => Errno::EADDRNOTAVAIL,
            ConnectError::TooManyAssociations => Errno::ENOMEM,
        })
    }

    /// Adds an association of a socket with the socket's options.
    pub(crate) fn insert_association(
        &mut self,
        port: PortId,
        core: carrick_proto::AssociationId,
        socket_id: SocketId,
        peer: SocketAddr,
    ) -> Option<AssocId> {
        let socket = self.table.get_mut(socket_id)?;
        let endpoint = self.ports.get(port)?.core();
        let of_socket = (socket_id, &socket.options, socket.owner);
        let mut association = Association::new((port, core), of_socket, peer, self.now);
        association.set_source(endpoint);
        let peers = endpoint.paths(core).map(|path| path.remote).collect();
        let id = self.associations.insert(association, peers);
        self.ports.add_association(port);
        socket.associations.insert(id);
        Some(id)
    }

    /// Returns the association of a socket with a peer at this address.
    pub(crate) fn find_by_peer(&self, socket: &Socket, ip: IpAddr, number: u16) -> Option<AssocId> {
        let is_open =
            |id: &AssocId| socket.associations.contains(id) && self.associations.is_open(*id);
        let indexed = self.associations.with_peer(socket.port?, ip, number);
        if let Some(id) = indexed.filter(is_open) {
            return Some(id);
        }
        // The INIT ACK may have listed further addresses.
        let mut set_ups = self.associations.setting_up().filter(is_open);
        set_ups.find(|id| {
            let association = self.associations.get(*id);
            let same_port = association.is_some_and(|a| a.peer.port() == number);
            let mut paths = self.core_ref(*id).into_iter();
            same_port && paths.any(|(core, id)| core.paths(id).any(|path| path.remote == ip))
        })
    }

    /// Enters the addresses of an association's peer into the index of peers, in place of those that it had.
    pub(crate) fn index_peer(&mut self, id: AssocId) {
        if let Some((core, core_id)) = self.core_ref(id) {
            let addresses = core.paths(core_id).map(|path| path.remote).collect();
            self.associations.set_peers(id, addresses);
        }
    }

    /// Ends one direction or both of a one-to-one socket: `shutdown` (RFC 6458, section 4.1.7).
    /// `SHUT_WR` delivers the messages that were sent and shuts the association down; messages that the
    /// peer sends until then can still be read. After `SHUT_RD` messages that arrive are dropped. As on
    /// Linux, `SHUT_WR` of a branched-off socket has no effect.
    ///
    /// # Errors
    /// - `ENOTCONN`: no association, or a one-to-many socket that is not branched off.
    /// - `EOPNOTSUPP`: the reading side of a listening socket.
    /// - `EINVAL`: another `how`.
    pub fn shutdown(&mut self, now: Time, id: SocketId, how: i32) -> Result<(), Errno> {
        self.now = now;
        if ![SHUT_RD, SHUT_WR, SHUT_RDWR].contains(&how) {
            return Err(Errno::EINVAL);
        }
        let socket = self.table.open_mut(id)?;
        match socket.state {
            SocketState::Established | SocketState::Ended => {}
            SocketState::Listening if socket.is_one_to_one() && how == SHUT_WR => return Ok(()),
            SocketState::Listening if socket.is_one_to_one() => return Err(Errno::EOPNOTSUPP),
            _ => return Err(Errno::ENOTCONN),
        }
        let mut edges = Readiness::NONE;
        if how != SHUT_WR {
            socket.read_closed = true;
            socket.drops_messages = true;
            edges |= Readiness::READABLE | Readiness::READ_CLOSED;
        }
        if how != SHUT_RD && socket.is_one_to_one() {
            socket.write_closed = true;
            if let Some(association) = socket.only_association() {
                self.shut_down_association(now, association);
            }
        }
        self.table.raise(id, edges);
        Ok(())
    }

    /// Starts the graceful shutdown of an association.
    pub(crate) fn shut_down_association(&mut self, now: Time, id: AssocId) {
        if let Some((core, core_id)) = self.core_of(id) {
            // An association that has ended is shut down already.
            let _ = core.shutdown(now, core_id);
        }
        self.settle_association(id);
    }

    /// Updates whether the endpoint of a port accepts associations, and with which parameters: those of a
    /// listening socket.
    pub(crate) fn update_listening(&mut self, id: PortId) {
        let sockets = self.ports.get(id).into_iter().flat_map(Port::sockets);
        let sockets = sockets.filter_map(|id| self.table.get(id));
        let mut listening = sockets.filter(|socket| socket.state == SocketState::Listening);
        let accepts = listening.clone().any(|socket| socket.may_accept());
        let config = listening.next().map(|first| first.options.config.clone());
        if let Some(core) = self.ports.core_mut(id) {
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
        &mut self,
        port_id: PortId,
        (ip, number): (IpAddr, u16),
        source: SourceKey,
    ) -> Option<SocketId> {
        if self.associations.of_source(source).associations >= self.config.per_source() {
            return None;
        }
        let port = self.ports.get(port_id)?;
        let may_accept = |id: &SocketId| {
            let socket = self.table.get(*id);
            socket.is_some_and(|s| s.state == SocketState::Listening && s.may_accept())
        };
        let listening: Vec<SocketId> = port.sockets().filter(may_accept).collect();
        // Sockets that share the port get the associations of different peers.
        let spread = usize::from(number) + peer_number(ip);
        let id = *listening.get(spread % listening.len().max(1))?;
        let listener = self.table.get(id)?;
        if !self.has_association_room(listener.owner) {
            return None;
        }
        if !listener.is_one_to_one() {
            return Some(id);
        }
        if !self.has_place(listener, source) {
            return None;
        }
        let mut child = Socket::new(listener.style, listener.family, listener.options.clone());
        child.port = Some(port_id);
        child.state = SocketState::Established;
        child.owner = listener.owner;
        child.source = Some(source);
        child.peer = Some(SocketAddr::new(ip, number));
        let child = self.table.enqueue(id, child, self.config.max_sockets);
        let child = child.ok()?;
        self.ports.join(port_id, child);
        Some(child)
    }
}

impl Sockets {
    /// Returns whether the accept queue of a socket has a place for another association from a source. A source alone
    /// may fill it; of the last quarter, sources that compete have no more than their shares.
    fn has_place(&self, listener: &Socket, source: SourceKey) -> bool {
        let queue = listener.unaccepted();
        if queue.len() < listener.backlog - listener.backlog / 4 {
            return true;
        }
        let is_from = |child: &&SocketId| {
            let child = self.table.get(**child);
            child.is_some_and(|child| child.source == Some(source))
        };
        let taken = queue.iter().filter(is_from).count();
        let quarter = (listener.backlog / 4).max(SOURCE_PLACES);
        taken == queue.len() || taken < self.config.backlog_per_source.unwrap_or(quarter)
    }
}

impl Socket {
    /// Returns whether a listening socket has room for another association.
    fn may_accept(&self) -> bool {
        if self.is_one_to_one() {
            self.unaccepted().len() <= self.backlog
        } else {
            self.queue.accepts_notifications()
        }
    }
}

/// Returns a number that depends on a peer's address.
fn peer_number(ip: IpAddr) -> usize {
    let sum = |octets: &[u8]| octets.iter().map(|octet| usize::from(*octet)).sum();
    match ip {
        IpAddr::V4(v4) => sum(&v4.octets()),
        IpAddr::V6(v6) => sum(&v6.octets()),
    }
}
