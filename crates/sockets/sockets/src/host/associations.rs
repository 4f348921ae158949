//! Associations of sockets: how they come and go, how they are found, and access to one with its state in the core.

use std::net::{IpAddr, SocketAddr};

use carrick_proto::{AssociationConfig, AssociationStats, Endpoint, PathStats, Time};

use crate::associations::{Association, Associations};
use crate::errno::Errno;
use crate::host::calls::connect::end_setup;
use crate::host::calls::shutdown::shut_down_association;
use crate::host::memory::count_buffers;
use crate::host::{Sockets, settle_association};
use crate::ids::{AssocId, PortId, SocketId};
use crate::ports::Ports;
use crate::table::Socket;

/// Association with its state in the core, for reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AssociationRef<'a> {
    pub(crate) id: AssocId,
    pub(crate) own: &'a Association,
    pub(crate) core: &'a Endpoint,
    pub(crate) core_id: carrick_proto::AssociationId,
}

impl<'a> AssociationRef<'a> {
    /// Returns the association in the core; `None` after its end there.
    pub(crate) fn in_core(&self) -> Option<&'a carrick_proto::Association> {
        self.core.association(self.core_id)
    }

    /// Returns the state and counters; `None` after the end in the core.
    pub(crate) fn stats(&self) -> Option<AssociationStats> {
        self.in_core().map(|a| a.stats())
    }

    /// Returns the parameters; `None` after the end in the core.
    pub(crate) fn config(&self) -> Option<&'a AssociationConfig> {
        self.in_core().map(|a| &**a.config())
    }

    /// Returns the paths to the peer.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathStats> + use<'a> {
        self.in_core().into_iter().flat_map(|a| a.paths())
    }

    /// Returns the path to an address of the peer.
    pub(crate) fn path_to(&self, ip: IpAddr) -> Option<PathStats> {
        self.paths().find(|path| path.remote == ip)
    }

    /// Returns the path to which new data goes.
    pub(crate) fn current_path(&self) -> Option<PathStats> {
        let core = self.in_core()?;
        core.path_stats(core.stats().current?)
    }

    /// Returns the primary path, which new data may have left.
    pub(crate) fn primary_path(&self) -> Option<PathStats> {
        let core = self.in_core()?;
        core.path_stats(core.stats().primary?)
    }
}

/// Association with its state in the core, to change it: [`association_mut`], [`with_association`].
#[derive(Debug)]
pub(crate) struct AssociationMut<'a> {
    pub(crate) now: Time,
    pub(crate) own: &'a mut Association,
    pub(crate) core: &'a mut Endpoint,
    pub(crate) core_id: carrick_proto::AssociationId,
}

impl AssociationMut<'_> {
    /// Returns the association in the core, to change it; `None` after its end there.
    pub(crate) fn in_core(&mut self) -> Option<carrick_proto::AssociationMut<'_>> {
        self.core.association_mut(self.now, self.core_id)
    }
}

/// Associations with the endpoints that have their state, for reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AssociationLookup<'a> {
    all: &'a Associations,
    ports: &'a Ports,
}

impl<'a> AssociationLookup<'a> {
    pub(crate) fn get(self, id: AssocId) -> Option<AssociationRef<'a>> {
        let own = self.all.get(id)?;
        let (port, core_id) = own.core();
        Some(AssociationRef {
            id,
            own,
            core: self.ports.get(port)?.core(),
            core_id,
        })
    }

    /// Returns the association that an identifier means on a socket: the only one of a one-to-one or
    /// branched-off socket, whatever the identifier.
    pub(crate) fn meant(self, socket: &Socket, id: i32) -> Option<AssociationRef<'a>> {
        let id = match socket.only_association() {
            Some(only) => only,
            None if socket.is_one_to_one() => return None,
            None => AssocId(id),
        };
        let known = socket.associations().contains(&id) && self.all.is_open(id);
        self.get(id).filter(|_| known)
    }

    /// Returns the association of a socket with a peer at this address.
    pub(crate) fn with_peer(
        self,
        socket: &Socket,
        ip: IpAddr,
        number: u16,
    ) -> Option<AssociationRef<'a>> {
        let is_open = |id: &AssocId| socket.associations().contains(id) && self.all.is_open(*id);
        let indexed = self.all.with_peer(socket.port()?, ip, number);
        if let Some(id) = indexed.filter(is_open) {
            return self.get(id);
        }
        // The INIT ACK may have listed further addresses.
        let set_ups = self.all.setting_up().filter(is_open);
        set_ups.filter_map(|id| self.get(id)).find(|association| {
            association.own.peer.port() == number && association.path_to(ip).is_some()
        })
    }

    /// Returns the associations of a socket that have not ended.
    pub(crate) fn open_of(self, socket: &Socket) -> Vec<AssocId> {
        let all = socket.associations().iter().copied();
        all.filter(|id| self.all.is_open(*id)).collect()
    }
}

/// Returns an association to change it, after which its endpoint is to be settled.
pub(crate) fn association_mut(host: &mut Sockets, id: AssocId) -> Option<AssociationMut<'_>> {
    let own = host.associations.get_mut(id)?;
    let (port, core_id) = own.core();
    Some(AssociationMut {
        now: host.now,
        own,
        core: host.ports.core_mut(port)?,
        core_id,
    })
}

/// Changes an association and its state in the core, and takes the events of the change. `None` if there is no such
/// association.
pub(crate) fn with_association<T>(
    host: &mut Sockets,
    id: AssocId,
    change: impl FnOnce(&mut AssociationMut<'_>) -> T,
) -> Option<T> {
    let result = change(&mut association_mut(host, id)?);
    settle_association(host, id);
    Some(result)
}

impl Sockets {
    /// Returns the associations for reading.
    pub(crate) fn lookup(&self) -> AssociationLookup<'_> {
        AssociationLookup {
            all: &self.associations,
            ports: &self.ports,
        }
    }
}

/// Adds an association of a socket with the socket's options.
pub(crate) fn insert_association(
    host: &mut Sockets,
    port: PortId,
    core: carrick_proto::AssociationId,
    socket_id: SocketId,
    peer: SocketAddr,
) -> Option<AssocId> {
    let socket = host.table.get_mut(socket_id)?;
    let endpoint = host.ports.get(port)?.core();
    let of_socket = (socket_id, socket.options(), socket.owner());
    let mut association = Association::new((port, core), of_socket, peer, host.now);
    association.set_source(endpoint);
    let paths = endpoint
        .association(core)
        .into_iter()
        .flat_map(|a| a.paths());
    let peers = paths.map(|path| path.remote).collect();
    let id = host.associations.insert(association, peers);
    host.ports.add_association(port);
    socket.add_association(id);
    Some(id)
}

/// Removes an association, also from its socket and its port.
pub(crate) fn remove_association(host: &mut Sockets, id: AssocId) {
    end_setup(host, id, Err(Errno::ECONNREFUSED));
    if let Some(association) = host.associations.get(id) {
        count_buffers(host, association.core().0);
    }
    let Some(association) = host.associations.remove(id) else {
        return;
    };
    if let Some(socket) = association.socket().and_then(|id| host.table.get_mut(id)) {
        socket.remove_association(id);
    }
    host.ports.remove_association(association.core().0);
}

/// Enters the addresses of an association's peer into the index of peers, in place of those that it had.
pub(crate) fn index_peer(host: &mut Sockets, id: AssocId) {
    if let Some(association) = host.lookup().get(id) {
        let addresses = association.paths().map(|path| path.remote).collect();
        host.associations.set_peers(id, addresses);
    }
}

/// Starts the observation of an association for `SCTP_AUTOCLOSE`.
pub(crate) fn watch_idle(host: &mut Sockets, id: AssocId) {
    let socket = host.associations.get(id).and_then(|a| a.socket());
    let socket = socket.and_then(|id| host.table.get(id));
    // RFC 6458, section 8.1.8: one-to-many sockets only.
    if socket.is_some_and(|s| !s.is_single()) {
        host.associations.watch_idle(id);
    }
}

/// Shuts down associations that have been idle for long enough.
pub(crate) fn close_idle(host: &mut Sockets, now: Time) {
    while let Some(id) = host.associations.next_idle_check(now) {
        match host.associations.get(id).and_then(|a| a.idle_limit()) {
            Some(limit) if limit > now => watch_idle(host, id),
            Some(_) => shut_down_association(host, id),
            None => {}
        }
    }
}
