//! `connect` and `sctp_connectx` (RFC 6458, sections 3.1.6, 4.1.5 and 9.9).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use carrick_proto::{AssociationConfig, ConnectError, PeerAddress, Time};

use crate::errno::Errno;
use crate::host::associations::insert_association;
use crate::host::calls::bind::bind_if_unbound;
use crate::host::memory::has_association_room;
use crate::host::options::apply_init;
use crate::host::{Sockets, settle};
use crate::ids::{AssocId, PortId, SocketId};
use crate::linux::InitMsg;
use crate::ports::is_link_local;

impl Sockets {
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
    /// - `EALREADY`, `EISCONN`: the association is being set up, or exists; the socket was branched off.
    /// - `ENETUNREACH`: no local address has the family of the peer's address.
    /// - `ENOMEM`: the limit of associations is reached, of all or of the owner.
    /// - `EADDRNOTAVAIL`: no ephemeral port is free, or an address is there twice.
    pub fn connectx(
        &mut self,
        now: Time,
        id: SocketId,
        peers: &[SocketAddr],
    ) -> Result<AssocId, Errno> {
        self.now = now;
        associate(self, id, peers, None)
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
}

/// Queues the result of a set-up if the caller waits for it.
pub(crate) fn end_setup(host: &mut Sockets, id: AssocId, result: Result<(), Errno>) {
    if let Some(association) = host.associations.get_mut(id)
        && std::mem::take(&mut association.is_setup_watched)
    {
        host.setups.push_back((id, result));
    }
}

/// Starts an association, with the values of `init` instead of those of `SCTP_INITMSG`.
///
/// 1. Check the state of the socket, the addresses and the limit.
/// 2. Refuse a second association with the same peer.
/// 3. Bind the socket, if it is not bound (RFC 6458, section 4.1.5).
/// 4. Start the association in the core; a one-to-one socket is connecting.
pub(crate) fn associate(
    host: &mut Sockets,
    id: SocketId,
    peers: &[SocketAddr],
    init: Option<InitMsg>,
) -> Result<AssocId, Errno> {
    let socket = host.table.open(id)?;
    socket.check_setup()?;
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
    if !has_association_room(host, socket.owner()) {
        return Err(Errno::ENOMEM);
    }
    let existing = host.lookup().with_peer(socket, addresses[0], number);
    if let Some(existing) = existing {
        return Err(if existing.own.is_established() {
            Errno::EISCONN
        } else {
            Errno::EALREADY
        });
    }
    let mut config = socket.options().config.clone();
    if let Some(init) = init {
        apply_init(&mut config, init);
    }
    let encapsulation = socket.options().encapsulation;
    let core_peers: Vec<PeerAddress> = addresses
        .iter()
        .map(|address| PeerAddress {
            address: *address,
            encapsulation,
        })
        .collect();
    let peer = SocketAddr::new(addresses[0], number);
    let port = bind_if_unbound(host, id)?;
    // Linux finds it when the socket is bound.
    let is_repeated = |(i, address)| addresses[..i].contains(address);
    if addresses.iter().enumerate().any(is_repeated) {
        return Err(Errno::EADDRNOTAVAIL);
    }
    let core = start(host, port, &core_peers, number, config)?;
    let association = insert_association(host, port, core, id, peer);
    let association = association.ok_or(Errno::EBADF)?;
    host.table.open_mut(id)?.start_setup();
    settle(host, port);
    Ok(association)
}

fn start(
    host: &mut Sockets,
    port: PortId,
    peers: &[PeerAddress],
    number: u16,
    config: AssociationConfig,
) -> Result<carrick_proto::AssociationId, Errno> {
    let core = host.ports.core_mut(port).ok_or(Errno::EINVAL)?;
    let started = core.associate(host.now, peers, number, Arc::new(config));
    started.map_err(|error| match error {
        ConnectError::NoAddress | ConnectError::InvalidPort | ConnectError::InvalidConfig(_) => {
            Errno::EINVAL
        }
        ConnectError::FamilyMismatch => Errno::ENETUNREACH,
        ConnectError::AlreadyConnected => Errno::EADDRNOTAVAIL,
        ConnectError::TooManyAssociations => Errno::ENOMEM,
    })
}
