//! Associations of the host, and the indexes by which they are found.

mod association;
mod shares;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;

use carrick_proto::{CloseReason, ImportError, Time};

use crate::ids::{AssocId, PortId, SocketId};
use crate::ports::Ports;

pub(crate) use association::Association;
use shares::Shares;

/// Association in the endpoint of a port.
type CoreKey = (PortId, carrick_proto::AssociationId);

/// Associations of all sockets, of closed ones too. [`Self::insert`] and [`Self::remove`] are the only ways in and out,
/// and each change of an association that an index depends on is a method, so that the indexes agree with the
/// associations.
#[derive(Debug)]
pub(crate) struct Associations {
    by_id: BTreeMap<AssocId, Association>,
    next: AssocId,
    by_core: BTreeMap<CoreKey, AssocId>,
    /// Associations by the addresses and the port of their peers. A later association with the same peer replaces one
    /// that has ended.
    by_peer: BTreeMap<(PortId, IpAddr, u16), AssocId>,
    /// Associations that are not established, whose peers may list further addresses.
    setting_up: BTreeSet<AssocId>,
    /// Times at which associations may have been idle for long enough (`SCTP_AUTOCLOSE`).
    idle: BTreeSet<(Time, AssocId)>,
    /// Associations of closed sockets, with their socket.
    closing: BTreeMap<AssocId, SocketId>,
    shares: Shares,
}

impl Default for Associations {
    fn default() -> Self {
        Self {
            by_id: BTreeMap::new(),
            next: AssocId::FIRST,
            by_core: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            setting_up: BTreeSet::new(),
            idle: BTreeSet::new(),
            closing: BTreeMap::new(),
            shares: Shares::default(),
        }
    }
}

impl Associations {
    /// Adds an association with these addresses of its peer.
    pub(crate) fn insert(&mut self, association: Association, peers: Vec<IpAddr>) -> AssocId {
        let mut id = self.next;
        while self.by_id.contains_key(&id) {
            id = id.next();
        }
        self.next = id.next();
        self.shares.add(&association);
        self.by_core.insert(association.core(), id);
        self.setting_up.insert(id);
        self.by_id.insert(id, association);
        self.set_peers(id, peers);
        debug_assert!(self.agrees(id), "indexes of association {id}");
        id
    }

    /// Removes an association.
    pub(crate) fn remove(&mut self, id: AssocId) -> Option<Association> {
        debug_assert!(self.agrees(id), "indexes of association {id}");
        self.set_peers(id, Vec::new());
        let association = self.by_id.remove(&id)?;
        self.shares.remove(&association);
        self.by_core.remove(&association.core());
        self.setting_up.remove(&id);
        self.closing.remove(&id);
        if let Some(time) = association.idle_check {
            self.idle.remove(&(time, id));
        }
        Some(association)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn get(&self, id: AssocId) -> Option<&Association> {
        self.by_id.get(&id)
    }

    /// Returns an association, to change settings and counters of it.
    pub(crate) fn get_mut(&mut self, id: AssocId) -> Option<&mut Association> {
        self.by_id.get_mut(&id)
    }

    /// Returns whether an association exists and has not ended.
    pub(crate) fn is_open(&self, id: AssocId) -> bool {
        self.get(id).is_some_and(Association::is_open)
    }

    /// Returns all associations in the order of their identifiers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (AssocId, &Association)> {
        self.by_id
            .iter()
            .map(|(id, association)| (*id, association))
    }

    /// Returns the association that an endpoint has by this identifier.
    pub(crate) fn in_core(
        &self,
        port: PortId,
        core: carrick_proto::AssociationId,
    ) -> Option<AssocId> {
        self.by_core.get(&(port, core)).copied()
    }

    /// Returns the association with a peer at this address and SCTP port, the latest one if others have ended.
    pub(crate) fn with_peer(&self, port: PortId, ip: IpAddr, number: u16) -> Option<AssocId> {
        self.by_peer.get(&(port, ip, number)).copied()
    }

    /// Returns the associations that are not established.
    pub(crate) fn setting_up(&self) -> impl Iterator<Item = AssocId> {
        self.setting_up.iter().copied()
    }

    /// Replaces the addresses by which an association is found.
    pub(crate) fn set_peers(&mut self, id: AssocId, addresses: Vec<IpAddr>) {
        let Some(association) = self.by_id.get_mut(&id) else {
            return;
        };
        let (port, number) = (association.port, association.peer.port());
        for ip in std::mem::take(&mut association.indexed) {
            // A later association with the peer may have taken the place of one that has ended.
            if self.by_peer.get(&(port, ip, number)) == Some(&id) {
                self.by_peer.remove(&(port, ip, number));
            }
        }
        let keys = addresses.iter().map(|ip| ((port, *ip, number), id));
        self.by_peer.extend(keys);
        association.indexed = addresses;
    }

    /// Marks an association as established with these numbers of outbound and inbound streams.
    pub(crate) fn establish(&mut self, id: AssocId, streams: (u16, u16), now: Time) {
        if let Some(association) = self.by_id.get_mut(&id) {
            association.is_established = true;
            association.streams = streams;
            association.last_use = now;
            self.setting_up.remove(&id);
        }
    }

    /// Records the end of an association in the core.
    pub(crate) fn end(&mut self, id: AssocId, reason: CloseReason) {
        if let Some(association) = self.by_id.get_mut(&id) {
            association.ended = Some(reason);
            self.setting_up.remove(&id);
        }
    }

    /// Moves an association to another socket (`sctp_peeloff`).
    pub(crate) fn move_to(&mut self, id: AssocId, socket: SocketId) {
        if let Some(association) = self.by_id.get_mut(&id) {
            association.socket = Some(socket);
        }
    }

    /// Separates an association from its socket, which is closed.
    pub(crate) fn leave_socket(&mut self, id: AssocId) {
        if let Some(association) = self.by_id.get_mut(&id)
            && let Some(socket) = association.socket.take()
        {
            self.closing.insert(id, socket);
        }
    }

    /// Returns whether the socket of an association was closed.
    pub(crate) fn is_closing(&self, id: AssocId) -> bool {
        self.closing.contains_key(&id)
    }

    /// Returns the associations of closed sockets behind a place.
    pub(crate) fn closing(&self, begin: Bound<AssocId>) -> impl Iterator<Item = AssocId> {
        let closing = self.closing.range((begin, Bound::Unbounded));
        closing.map(|(id, _)| *id)
    }

    /// Returns the closed sockets of associations, one for each association.
    pub(crate) fn closed_sockets(&self) -> impl Iterator<Item = SocketId> {
        self.closing.values().copied()
    }

    /// Starts the observation of an association, if it has a limit of its idle time (`SCTP_AUTOCLOSE`).
    pub(crate) fn watch_idle(&mut self, id: AssocId) {
        if let Some(association) = self.by_id.get_mut(&id)
            && let Some(time) = association.idle_limit()
        {
            let before = association.idle_check.replace(time);
            if let Some(before) = before {
                self.idle.remove(&(before, id));
            }
            self.idle.insert((time, id));
        }
    }

    /// Returns the time of the next call of [`Self::next_idle_check`].
    pub(crate) fn idle_timeout(&self) -> Option<Time> {
        self.idle.first().map(|(time, _)| *time)
    }

    /// Ends the observation of the next association that may have been idle for long enough.
    pub(crate) fn next_idle_check(&mut self, now: Time) -> Option<AssocId> {
        let (time, id) = *self.idle.first()?;
        if time > now {
            return None;
        }
        self.idle.remove(&(time, id));
        if let Some(association) = self.by_id.get_mut(&id) {
            association.idle_check = None;
        }
        Some(id)
    }

    /// Returns the identifier of the next association, unless it is in use.
    pub(crate) fn next_id(&self) -> AssocId {
        self.next
    }

    /// Changes the identifier of the next association.
    pub(crate) fn set_next_id(&mut self, next: AssocId) {
        self.next = next;
    }

    /// Returns the state that is exported: the associations, the next identifier, and the closed sockets.
    pub(crate) fn exported(
        &self,
    ) -> (
        &BTreeMap<AssocId, Association>,
        &AssocId,
        &BTreeMap<AssocId, SocketId>,
    ) {
        (&self.by_id, &self.next, &self.closing)
    }

    /// Returns the associations of an export with rebuilt indexes.
    ///
    /// # Errors
    /// [`ImportError`] if the parts of the state contradict each other.
    pub(crate) fn imported(
        by_id: BTreeMap<AssocId, Association>,
        next: AssocId,
        closing: BTreeMap<AssocId, SocketId>,
        ports: &Ports,
    ) -> Result<Self, ImportError> {
        let mut all = Self {
            by_id,
            next,
            closing,
            ..Self::default()
        };
        for (id, association) in &mut all.by_id {
            if let Some(port) = ports.get(association.port) {
                association.set_source(port.core());
            }
            all.shares.add(association);
            all.by_core.insert(association.core(), *id);
            if !association.is_established && association.is_open() {
                all.setting_up.insert(*id);
            }
            all.idle
                .extend(association.idle_check.map(|time| (time, *id)));
        }
        // An association has taken the place of one with the same peer that has ended.
        let (open, ended): (Vec<_>, Vec<_>) = all.by_id.iter().partition(|(_, a)| a.is_open());
        for (id, association) in ended.into_iter().chain(open) {
            let (port, number) = (association.port, association.peer.port());
            let keys = association.indexed.iter();
            all.by_peer
                .extend(keys.map(|ip| ((port, *ip, number), *id)));
        }
        let exist = all.closing.keys().all(|id| all.by_id.contains_key(id));
        if !exist || !all.by_id.keys().all(|id| all.agrees(*id)) {
            return Err(ImportError::Malformed("Association"));
        }
        Ok(all)
    }

    /// Returns whether the indexes agree with an association.
    fn agrees(&self, id: AssocId) -> bool {
        let Some(association) = self.by_id.get(&id) else {
            return false;
        };
        let is_set_up = association.is_established || !association.is_open();
        self.by_core.get(&association.core()) == Some(&id)
            && self.setting_up.contains(&id) != is_set_up
            && self.closing.contains_key(&id) == association.socket.is_none()
            && association
                .idle_check
                .is_none_or(|time| self.idle.contains(&(time, id)))
    }
}
