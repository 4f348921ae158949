//! Associations of sockets: how they come and go, how they are found, and access to one with its state in the core.

use std::net::{IpAddr, SocketAddr};

use carrick_proto::{AssociationConfig, AssociationStats, Endpoint, PathStats, Time};

use super::Sockets;
use crate::associations::{Association, Associations};
use crate::errno::Errno;
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
    /// Returns the state and counters; `None` after the end in the core.
    pub(crate) fn stats(&self) -> Option<AssociationStats> {
        self.core.association_stats(self.core_id)
    }

    /// Returns the parameters; `None` after the end in the core.
    pub(crate) fn config(&self) -> Option<&'a AssociationConfig> {
        self.core.association_config(self.core_id)
    }

    /// Returns the paths to the peer.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathStats> + use<'a> {
        self.core.paths(self.core_id)
    }

    /// Returns the path to an address of the peer.
    pub(crate) fn path_to(&self, ip: IpAddr) -> Option<PathStats> {
        self.paths().find(|path| path.remote == ip)
    }

    /// Returns the path to which new data goes.
    pub(crate) fn current_path(&self) -> Option<PathStats> {
        let current = self.stats()?.current?;
        self.core.path_stats(self.core_id, current)
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

/// Associations with the endpoints that have their state, for reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AssociationLookup<'a> {
    all: &'a Associations,
    ports: &'a Ports,
}

impl<'a> AssociationLookup<'a> {
    pub(crate) fn new(all: &'a Associations, ports: &'a Ports) -> Self {
        Self { all, ports }
    }

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
        let known = socket.associations.contains(&id) && self.all.is_open(id);
        self.get(id).filter(|_| known)
    }

    /// Returns the association of a socket with a peer at this address.
    pub(crate) fn with_peer(
        self,
        socket: &Socket,
        ip: IpAddr,
        number: u16,
    ) -> Option<AssociationRef<'a>> {
        let is_open = |id: &AssocId| socket.associations.contains(id) && self.all.is_open(*id);
        let indexed = self.all.with_peer(socket.port?, ip, number);
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
        let all = socket.associations.iter().copied();
        all.filter(|id| self.all.is_open(*id)).collect()
    }
}

/// Returns an association to change it, after which its endpoint is to be settled.
pub(crate) fn association_mut(sockets: &mut Sockets, id: AssocId) -> Option<AssociationMut<'_>> {
    let own = sockets.associations.get_mut(id)?;
    let (port, core_id) = own.core();
    Some(AssociationMut {
        now: sockets.now,
        own,
        core: sockets.ports.core_mut(port)?,
        core_id,
    })
}

/// Changes an association and its state in the core, and takes the events of the change. `None` if there is no such
/// association.
pub(crate) fn with_association<T>(
    sockets: &mut Sockets,
    id: AssocId,
    change: impl FnOnce(&mut AssociationMut<'_>) -> T,
) -> Option<T> {
    let result = change(&mut association_mut(sockets, id)?);
    sockets.settle_association(id);
    Some(result)
}

impl Sockets {
    /// Returns the associations for reading.
    pub(crate) fn lookup(&self) -> AssociationLookup<'_> {
        AssociationLookup::new(&self.associations, &self.ports)
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

    /// Removes an association, also from its socket and its port.
    pub(crate) fn remove_association(&mut self, id: AssocId) {
        self.end_setup(id, Err(Errno::ECONNREFUSED));
        if let Some(association) = self.associations.get(id) {
            self.count_buffers(association.core().0);
        }
        let Some(association) = self.associations.remove(id) else {
            return;
        };
        if let Some(socket) = association.socket().and_then(|id| self.table.get_mut(id)) {
            socket.associations.remove(&id);
            socket.full.remove(&id);
        }
        self.ports.remove_association(association.core().0);
    }

    /// Returns the association that an identifier means on a socket: the only one of a one-to-one or
    /// branched-off socket, whatever the identifier.
    pub(crate) fn association_of(&self, socket: &Socket, id: i32) -> Option<AssocId> {
        let id = match socket.only_association() {
            Some(only) => only,
            None if socket.is_one_to_one() => return None,
            None => AssocId(id),
        };
        let known = socket.associations.contains(&id);
        (known && self.associations.is_open(id)).then_some(id)
    }

    /// Returns the endpoint and the core's identifier of an association.
    pub(crate) fn core_of(
        &mut self,
        id: AssocId,
    ) -> Option<(&mut Endpoint, carrick_proto::AssociationId)> {
        let (port, core_id) = self.associations.get(id)?.core();
        Some((self.ports.core_mut(port)?, core_id))
    }

    /// Returns the endpoint and the core's identifier of an association for reading.
    pub(crate) fn core_ref(
        &self,
        id: AssocId,
    ) -> Option<(&Endpoint, carrick_proto::AssociationId)> {
        let (port, core_id) = self.associations.get(id)?.core();
        Some((self.ports.get(port)?.core(), core_id))
    }

    /// Returns the state and counters of an association; `None` after its end in the core.
    pub(super) fn stats(&self, id: AssocId) -> Option<AssociationStats> {
        let (core, core_id) = self.core_ref(id)?;
        core.association_stats(core_id)
    }

    /// Returns the path to which new data of an association goes.
    pub(super) fn current_path(&self, id: AssocId) -> Option<PathStats> {
        let current = self.stats(id)?.current?;
        let (core, core_id) = self.core_ref(id)?;
        core.path_stats(core_id, current)
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

    /// Starts the observation of an association for `SCTP_AUTOCLOSE`.
    pub(crate) fn watch_idle(&mut self, id: AssocId) {
        let socket = self.associations.get(id).and_then(|a| a.socket());
        let socket = socket.and_then(|id| self.table.get(id));
        // RFC 6458, section 8.1.8: one-to-many sockets only.
        if socket.is_some_and(|s| !s.is_single()) {
            self.associations.watch_idle(id);
        }
    }

    /// Shuts down associations that have been idle for long enough.
    pub(crate) fn close_idle(&mut self, now: Time) {
        while let Some(id) = self.associations.next_idle_check(now) {
            match self.associations.get(id).and_then(|a| a.idle_limit()) {
                Some(limit) if limit > now => self.watch_idle(id),
                Some(_) => self.shut_down_association(id),
                None => {}
            }
        }
    }
}
