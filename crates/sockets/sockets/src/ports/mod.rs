//! SCTP ports in use: a protocol endpoint for each, its addresses, and which sockets may share it
//! (RFC 6458, sections 3.1.2, 8.1.27 and 9.1).

mod port;
mod schedule;
mod scope;

use std::collections::BTreeMap;
use std::net::IpAddr;

use carrick_proto::{Endpoint, ImportError, Time, Transmit};

use crate::errno::Errno;
use crate::ids::{PortId, SocketId, check_next};
use schedule::{PortTimers, ReadyPorts};

pub(crate) use port::{Port, import_config, read_endpoint, write_endpoint};
pub(crate) use scope::{Scope, is_link_local, is_loopback_v4};

/// Ports in use, also those whose sockets were closed and that have associations or packets to send.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    by_id: BTreeMap<PortId, Port>,
    next: u64,
    by_number: BTreeMap<u16, Vec<PortId>>,
    /// Ports that may have packets to send.
    ready: ReadyPorts,
    timers: PortTimers,
    /// Bytes of received data of all ports.
    received: usize,
}

/// Properties of a socket on which the sharing of its port depends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sharing {
    /// `SO_REUSEPORT` or `SCTP_REUSE_PORT`
    pub(crate) shares_port: bool,
    /// `SO_REUSEADDR`
    pub(crate) reuses_address: bool,
    pub(crate) is_listening: bool,
}

impl Ports {
    /// Adds a port with an endpoint.
    pub(crate) fn open(&mut self, core: Endpoint, scope: Scope) -> PortId {
        let id = PortId(self.next);
        self.next += 1;
        self.by_number.entry(core.port()).or_default().push(id);
        self.by_id.insert(id, Port::new(core, scope));
        id
    }

    /// Removes and returns a port without sockets and associations, once its last packets have been polled.
    pub(crate) fn release(&mut self, id: PortId) -> Option<Port> {
        let port = self.by_id.get_mut(&id)?;
        port.closed_are_reusable |= port.associations == 0;
        if port.is_in_use() || self.ready.contains(id) {
            return None;
        }
        let port = self.by_id.remove(&id)?;
        self.received -= port.received;
        self.timers.remove(id);
        let number = port.core.port();
        if let Some(list) = self.by_number.get_mut(&number) {
            list.retain(|other| *other != id);
            if list.is_empty() {
                self.by_number.remove(&number);
            }
        }
        Some(port)
    }

    pub(crate) fn get(&self, id: PortId) -> Option<&Port> {
        self.by_id.get(&id)
    }

    /// Returns the endpoint of a port.
    pub(crate) fn core_mut(&mut self, id: PortId) -> Option<&mut Endpoint> {
        self.by_id.get_mut(&id).map(|port| &mut port.core)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns all ports in the order of their identifiers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PortId, &Port)> {
        self.by_id.iter().map(|(id, port)| (*id, port))
    }

    /// Returns the identifiers of all ports, to change each.
    pub(crate) fn ids(&self) -> Vec<PortId> {
        self.by_id.keys().copied().collect()
    }

    /// Returns the ports with a wildcard address that covers an address.
    pub(crate) fn covering(&self, address: IpAddr) -> Vec<PortId> {
        let covering = self.iter().filter(|(_, port)| port.scope.covers(address));
        covering.map(|(id, _)| id).collect()
    }

    /// Returns the ports in use of a number, in the order in which they were opened.
    fn numbered(&self, number: u16) -> impl Iterator<Item = (PortId, &Port)> {
        let ids = self.by_number.get(&number).into_iter().flatten();
        ids.filter_map(|id| Some((*id, self.by_id.get(id)?)))
    }

    /// Returns the identifiers of the ports of a number.
    pub(crate) fn with_number(&self, number: u16) -> Vec<PortId> {
        self.by_number.get(&number).cloned().unwrap_or_default()
    }

    /// Returns the endpoint of a port for a packet to this local address.
    pub(crate) fn find(&self, number: u16, local: Option<IpAddr>) -> Option<PortId> {
        let ids = self.by_number.get(&number)?;
        let has = |id: &&PortId| {
            let port = self.by_id.get(id);
            port.is_some_and(|p| local.is_none_or(|l| p.has(l)))
        };
        // A port that has only its last packets to send precedes its successor.
        ids.iter().rev().find(has).copied()
    }

    /// Returns the port in use that a socket may share; `None` if it is free at these addresses.
    ///
    /// # Errors
    /// `EADDRINUSE`
    pub(crate) fn find_sharable(
        &self,
        number: u16,
        scope: &Scope,
        sharing: Sharing,
        users: impl Fn(SocketId) -> Option<Sharing>,
    ) -> Result<Option<PortId>, Errno> {
        let conflicts = self.numbered(number);
        let conflicts = conflicts.filter(|(_, p)| p.is_in_use() && p.scope.overlaps(scope));
        let mut shared = None;
        for (id, port) in conflicts {
            let mut users = port.sockets().filter_map(&users);
            let by_port = sharing.shares_port && users.clone().all(|user| user.shares_port);
            let by_address = sharing.reuses_address
                && port.closed_are_reusable
                && users.all(|user| user.reuses_address && !user.is_listening);
            // Sockets share an endpoint, so their addresses have to be the same. A port whose sockets were closed gets
            // those of the new one.
            let same_addresses = if port.sockets.is_empty() {
                port.scope.contains(scope)
            } else {
                port.scope == *scope
            };
            if !(by_port || by_address) || !same_addresses {
                return Err(Errno::EADDRINUSE);
            }
            shared = Some(id);
        }
        Ok(shared)
    }

    /// Returns whether no port in use but `except` has a number at one of these addresses.
    pub(crate) fn is_free(&self, number: u16, scope: &Scope, except: Option<PortId>) -> bool {
        let mut others = self.numbered(number).filter(|(id, _)| Some(*id) != except);
        !others.any(|(_, port)| port.is_in_use() && port.scope.overlaps(scope))
    }

    /// Adds a socket with an owner to a port, whose packets have the turns of that owner from now on.
    pub(crate) fn join(&mut self, id: PortId, socket: SocketId, owner: u32) {
        if let Some(port) = self.by_id.get_mut(&id) {
            port.sockets.insert(socket);
            port.owner = owner;
        }
    }

    /// Removes a socket, which had `SO_REUSEADDR` or not, from its port.
    pub(crate) fn leave(&mut self, id: PortId, socket: SocketId, reuses_address: bool) {
        if let Some(port) = self.by_id.get_mut(&id) {
            port.sockets.remove(&socket);
            port.closed_are_reusable &= reuses_address;
        }
    }

    /// Counts a new association of a port.
    pub(crate) fn add_association(&mut self, id: PortId) {
        if let Some(port) = self.by_id.get_mut(&id) {
            port.associations += 1;
        }
    }

    /// Removes an association from the count of its port, which may have last packets to send.
    pub(crate) fn remove_association(&mut self, id: PortId) {
        if let Some(port) = self.by_id.get_mut(&id) {
            port.associations -= 1;
        }
        self.set_ready(id);
    }

    /// Removes the addresses of a port that do not belong to a scope. Returns whether the scope changed.
    pub(crate) fn narrow(&mut self, now: Time, id: PortId, scope: Scope) -> bool {
        let Some(port) = self.by_id.get_mut(&id).filter(|port| port.scope != scope) else {
            return false;
        };
        if let Scope::Only(remaining) = &scope {
            let mut removed = port.core.local_addresses().to_vec();
            removed.retain(|ip| !remaining.contains(ip));
            for ip in removed {
                port.core.local_address_removed(now, ip);
            }
        }
        port.scope = scope;
        true
    }

    /// Adds an address to those of a port.
    ///
    /// # Errors
    /// - `EINVAL`: the port has a wildcard address, or this one.
    /// - `EADDRINUSE`: another port of the number has it.
    pub(crate) fn add_address(&mut self, id: PortId, ip: IpAddr) -> Result<(), Errno> {
        let port = self.by_id.get(&id).ok_or(Errno::EINVAL)?;
        if port.scope.wildcard().is_some() || port.scope.single().contains(&ip) {
            return Err(Errno::EINVAL);
        }
        if !self.is_free(port.core.port(), &Scope::Only(vec![ip]), Some(id)) {
            return Err(Errno::EADDRINUSE);
        }
        if let Some(port) = self.by_id.get_mut(&id)
            && let Scope::Only(list) = &mut port.scope
        {
            list.push(ip);
            port.core.local_address_added(ip);
        }
        Ok(())
    }

    /// Queues a port for output.
    pub(crate) fn set_ready(&mut self, id: PortId) {
        let owner = self.by_id.get(&id).map_or(0, |port| port.owner);
        self.ready.insert(owner, id);
    }

    /// Returns the port whose turn it is to send packets, if it has any.
    pub(crate) fn first_ready(&self) -> Option<PortId> {
        self.ready.first()
    }

    /// Appends the next packets of [`Self::first_ready`] to `buf`, which ends its turn. Without any, the port waits for
    /// its next timeout.
    pub(crate) fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let id = self.ready.first()?;
        let port = self.by_id.get_mut(&id);
        let transmit = port.and_then(|port| port.core.poll_transmit(now, buf));
        if transmit.is_some() {
            self.ready.end_turn();
        } else {
            let timeout = self.get(id).and_then(|port| port.core.poll_timeout());
            self.timers.set(id, timeout);
            self.ready.remove_first();
        }
        transmit
    }

    /// Returns the next timeout of the ports.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Returns the next port whose timeout has expired, and removes that.
    pub(crate) fn pop_expired(&mut self, now: Time) -> Option<PortId> {
        self.timers.pop_expired(now)
    }

    /// Returns the bytes of received data of all ports.
    pub(crate) fn received(&self) -> usize {
        self.received
    }

    /// Updates the bytes of received data by those of a port.
    pub(crate) fn count_received(&mut self, id: PortId) {
        if let Some(port) = self.by_id.get_mut(&id) {
            let held = port.core.stats().receive_memory;
            let before = std::mem::replace(&mut port.received, held);
            self.received = self.received - before + held;
        }
    }

    /// Limits the received data of a port to what other ports have left of `memory`, and that of the next association
    /// to `room`.
    pub(crate) fn limit_received(&mut self, id: PortId, memory: usize, room: Option<usize>) {
        if let Some(port) = self.by_id.get_mut(&id) {
            let others = self.received.saturating_sub(port.received);
            port.core.set_receive_memory(memory.saturating_sub(others));
            port.core.set_receive_room(room);
        }
    }

    /// Returns the state that is exported: the ports and the next identifier.
    pub(crate) fn exported(&self) -> (&BTreeMap<PortId, Port>, u64) {
        (&self.by_id, self.next)
    }

    /// Returns the ports of an export, each queued for output.
    ///
    /// # Errors
    /// [`ImportError`] if the parts of the state contradict each other.
    pub(crate) fn imported(by_id: BTreeMap<PortId, Port>, next: u64) -> Result<Self, ImportError> {
        check_next(next, by_id.keys().next_back().map(|id| id.0))?;
        let mut all = Self {
            by_id,
            next,
            ..Self::default()
        };
        for (id, port) in &all.by_id {
            all.by_number.entry(port.core.port()).or_default().push(*id);
            all.ready.insert(port.owner, *id);
            let sum = all.received.checked_add(port.received);
            all.received = sum.ok_or(ImportError::Malformed("received bytes"))?;
        }
        Ok(all)
    }
}
