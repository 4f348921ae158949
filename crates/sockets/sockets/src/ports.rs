//! SCTP ports in use: a protocol endpoint for each, its addresses, and which sockets may share it
//! (RFC 6458, sections 3.1.2, 8.1.27 and 9.1).

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use carrick_proto::export::{ExportReader, ExportWriter, ImportError, Portable};
use carrick_proto::{Endpoint, EndpointConfig, Time, portable_enum, portable_struct};
use rand_core::Rng;

use crate::config::Config;
use crate::errno::Errno;
use crate::export::{read_endpoint, write_endpoint};
use crate::ids::{PortId, SocketId};
use crate::linux::unmapped;
use crate::socket::{Family, Socket, SocketState};
use crate::sockets::Sockets;
use crate::statistics::HostCounters;

/// Address families that a wildcard bind covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wildcard {
    v4: bool,
    v6: bool,
}

portable_struct! { Wildcard { v4, v6 } }

impl Wildcard {
    fn covers(self, address: IpAddr) -> bool {
        if address.is_ipv4() { self.v4 } else { self.v6 }
    }
}

/// Local addresses of a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// All addresses of the host, of these families.
    Any(Wildcard),
    /// These addresses.
    Only(Vec<IpAddr>),
}

portable_enum! { Scope { 0: Any(families), 1: Only(addresses) } }

impl Scope {
    /// Returns the wildcard address, that of IPv6 for both families; `None` if single addresses are bound.
    pub(crate) fn wildcard(&self) -> Option<IpAddr> {
        match self {
            Self::Any(any) if any.v6 => Some([0; 16].into()),
            Self::Any(_) => Some([0; 4].into()),
            Self::Only(_) => None,
        }
    }

    /// Returns whether an address belongs to both scopes.
    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any(a), Self::Any(b)) => a.v4 && b.v4 || a.v6 && b.v6,
            (Self::Any(any), Self::Only(list)) | (Self::Only(list), Self::Any(any)) => {
                list.iter().any(|address| any.covers(*address))
            }
            (Self::Only(a), Self::Only(b)) => a.iter().any(|address| b.contains(address)),
        }
    }

    /// Returns whether all addresses of another scope belong to this one.
    fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any(any), Self::Only(list)) => list.iter().all(|ip| any.covers(*ip)),
            (Self::Only(a), Self::Only(b)) => b.iter().all(|ip| a.contains(ip)),
            _ => self == other,
        }
    }
}

/// A port in use: an SCTP endpoint.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) core: Endpoint,
    pub(crate) number: u16,
    pub(crate) scope: Scope,
    pub(crate) sockets: BTreeSet<SocketId>,
    pub(crate) associations: usize,
    /// Bytes of received data that are counted in [`Sockets::received`].
    pub(crate) received: usize,
    /// All sockets that were closed before their associations ended had `SO_REUSEADDR`.
    closed_are_reusable: bool,
}

impl Port {
    /// Appends the state. Sockets, associations and received bytes follow from those.
    pub(crate) fn write_state(&self, out: &mut ExportWriter) {
        let Self {
            core,
            number: _,
            scope,
            sockets: _,
            associations: _,
            received: _,
            closed_are_reusable,
        } = self;
        write_endpoint(core, out);
        scope.write(out);
        closed_are_reusable.write(out);
    }

    /// Reads what [`Self::write_state`] appended.
    ///
    /// # Errors
    /// [`ImportError`]
    pub(crate) fn read_state(
        input: &mut ExportReader<'_>,
        config: &Config,
    ) -> Result<Self, ImportError> {
        let mut core = read_endpoint(input, config)?;
        core.set_max_associations(config.max_associations, Some(config.per_source()));
        core.record_buffer_changes();
        Ok(Self {
            number: core.port(),
            received: core.stats().receive_memory,
            core,
            scope: Portable::read(input)?,
            sockets: BTreeSet::new(),
            associations: 0,
            closed_are_reusable: Portable::read(input)?,
        })
    }

    /// Returns whether packets to an address are for the port: with a wildcard address also those to
    /// addresses of 127.0.0.0/8 that no interface lists.
    fn has(&self, local: IpAddr) -> bool {
        let covers = |any: Wildcard| any.covers(local) && is_loopback_v4(local);
        self.core.local_addresses().contains(&local)
            || matches!(self.scope, Scope::Any(any) if covers(any))
    }

    /// Returns whether the port has a socket or an association. Otherwise it only has last packets to send.
    fn is_in_use(&self) -> bool {
        !self.sockets.is_empty() || self.associations > 0
    }
}

impl Sockets {
    /// Binds a socket to an address and a port, which may be 0 for an ephemeral one, or to all addresses
    /// of the host by the wildcard address: `bind` (RFC 6458, sections 3.1.2 and 4.1.2).
    ///
    /// # Errors
    /// - `EINVAL`: the socket is bound, or the address has another family.
    /// - `EADDRNOTAVAIL`: no address of the host, or a link-local address; no ephemeral port is free.
    /// - `EADDRINUSE`: the port is in use at an address, and not to be shared.
    /// - `EACCES`: the port needs privileges, or is reserved for another owner.
    pub fn bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), Errno> {
        let socket = self.table.get(&id).ok_or(Errno::EBADF)?;
        if socket.port.is_some() {
            return Err(Errno::EINVAL);
        }
        self.bind_first(id, address)
    }

    /// Adds addresses to those of a socket, which may be bound already: `sctp_bindx` with
    /// `SCTP_BINDX_ADD_ADDR` (RFC 6458, section 9.1). Ports are 0 or the port of the socket. Associations
    /// with dynamic addresses (RFC 5061) add them. Sockets that share the port share its addresses.
    ///
    /// # Errors
    /// As for [`Self::bind`]; `EINVAL` for a wildcard address, an address that the socket has, or another
    /// port. Addresses before the one that failed are removed again.
    pub fn bindx_add(&mut self, id: SocketId, addresses: &[SocketAddr]) -> Result<(), Errno> {
        for (done, address) in addresses.iter().enumerate() {
            if let Err(error) = self.add_address(id, *address) {
                let now = self.now;
                for added in &addresses[..done] {
                    // The first one of an unbound socket is its last one and stays.
                    let _ = self.bindx_remove(now, id, &[*added]);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes addresses of a socket: `sctp_bindx` with `SCTP_BINDX_REM_ADDR` (RFC 6458, section 9.1).
    ///
    /// # Errors
    /// None is removed if one of them cannot be.
    /// - `EBUSY`: the socket has no other address, is bound to a wildcard address, or not bound.
    /// - `EINVAL`: the socket has not this address or port.
    /// - `EADDRNOTAVAIL`: a wildcard address.
    pub fn bindx_remove(
        &mut self,
        now: Time,
        id: SocketId,
        addresses: &[SocketAddr],
    ) -> Result<(), Errno> {
        self.now = now;
        let socket = self.socket_ref(id)?;
        let port_id = socket.port.ok_or(Errno::EBUSY)?;
        let port = self.ports.get(&port_id).ok_or(Errno::EBUSY)?;
        let Scope::Only(list) = &port.scope else {
            return Err(Errno::EBUSY);
        };
        let mut remaining = list.clone();
        for address in addresses {
            if remaining.len() == 1 {
                return Err(Errno::EBUSY);
            }
            let ip = canonical(socket, *address)?;
            if ip.is_unspecified() {
                return Err(Errno::EADDRNOTAVAIL);
            }
            if ![0, port.number].contains(&address.port()) || !remaining.contains(&ip) {
                return Err(Errno::EINVAL);
            }
            remaining.retain(|other| *other != ip);
        }
        let removed = list.iter().filter(|ip| !remaining.contains(ip));
        let removed: Vec<IpAddr> = removed.copied().collect();
        if let Some(port) = self.ports.get_mut(&port_id) {
            port.scope = Scope::Only(remaining);
            for ip in removed {
                port.core.local_address_removed(now, ip);
            }
        }
        self.settle(port_id);
        Ok(())
    }

    /// Allows or forbids a socket to bind ports below [`Config::first_unprivileged_port`](crate::Config::first_unprivileged_port).
    /// Default: forbidden.
    ///
    /// # Errors
    /// `EBADF`
    pub fn set_privileged(&mut self, id: SocketId, privileged: bool) -> Result<(), Errno> {
        self.socket_mut(id)?.is_privileged = privileged;
        Ok(())
    }

    /// Returns the local address of a socket, the last one if it was bound to several: `getsockname`. An
    /// unbound socket has the wildcard address and port 0; a one-to-one socket that is bound to the wildcard
    /// address has, with an association, the address of its primary path.
    ///
    /// # Errors
    /// `EBADF`
    pub fn local_address(&self, id: SocketId) -> Result<SocketAddr, Errno> {
        let socket = self.socket_ref(id)?;
        let any: IpAddr = match socket.family {
            Family::Inet => [0; 4].into(),
            Family::Inet6 => [0; 16].into(),
        };
        let Some(port) = socket.port.and_then(|port| self.ports.get(&port)) else {
            return Ok(SocketAddr::new(any, 0));
        };
        Ok(match &port.scope {
            Scope::Any(_) => {
                let source = self.source_address(socket).unwrap_or(any);
                present(socket, SocketAddr::new(source, port.number))
            }
            Scope::Only(list) => {
                let last = list.last().copied().unwrap_or(any);
                present(socket, SocketAddr::new(last, port.number))
            }
        })
    }

    fn source_address(&self, socket: &Socket) -> Option<IpAddr> {
        let association = socket.only_association().filter(|_| socket.is_one_to_one());
        let (core, core_id) = self.core_ref(association?)?;
        let primary = core.association_stats(core_id)?.current;
        let mut paths = core.paths(core_id);
        paths.find(|path| Some(path.id) == primary)?.local
    }

    /// Returns all local addresses of a socket, those of the host for a wildcard address:
    /// `sctp_getladdrs` (RFC 6458, section 9.5). Empty if it is not bound.
    ///
    /// # Errors
    /// `EBADF`
    pub fn local_addresses(&self, id: SocketId) -> Result<Vec<SocketAddr>, Errno> {
        let socket = self.socket_ref(id)?;
        let Some(port) = socket.port.and_then(|port| self.ports.get(&port)) else {
            return Ok(Vec::new());
        };
        let local = port.core.local_addresses().iter();
        Ok(local
            .map(|address| present(socket, SocketAddr::new(*address, port.number)))
            .collect())
    }

    /// Adds an address of the host. Sockets that are bound to a wildcard address get it.
    pub fn host_address_added(&mut self, address: IpAddr) {
        if self.config.addresses.contains(&address) {
            return;
        }
        self.config.addresses.push(address);
        let covering = |(id, port): (&PortId, &Port)| match &port.scope {
            Scope::Any(any) if any.covers(address) => Some(*id),
            _ => None,
        };
        let ids: Vec<PortId> = self.ports.iter().filter_map(covering).collect();
        for id in ids {
            if let Some(port) = self.ports.get_mut(&id) {
                port.core.local_address_added(address);
            }
            self.settle(id);
        }
    }

    /// Selects the source address of every path again, after the routes of the host have changed.
    pub fn host_routes_changed(&mut self) {
        let ids: Vec<PortId> = self.ports.keys().copied().collect();
        for id in ids {
            if let Some(port) = self.ports.get_mut(&id) {
                port.core.local_routes_changed();
            }
            self.settle(id);
        }
    }

    /// Removes an address of the host from all sockets.
    pub fn host_address_removed(&mut self, now: Time, address: IpAddr) {
        self.now = now;
        self.config.addresses.retain(|other| *other != address);
        let ids: Vec<PortId> = self.ports.keys().copied().collect();
        for id in ids {
            if let Some(port) = self.ports.get_mut(&id) {
                port.core.local_address_removed(now, address);
            }
            self.settle(id);
        }
    }

    /// Binds an unbound socket to all addresses and an ephemeral port, before `listen`, `connect` or the
    /// first message.
    pub(crate) fn bind_if_unbound(&mut self, id: SocketId) -> Result<PortId, Errno> {
        let socket = self.socket_ref(id)?;
        if let Some(port) = socket.port {
            return Ok(port);
        }
        let any: IpAddr = match socket.family {
            Family::Inet => [0; 4].into(),
            Family::Inet6 => [0; 16].into(),
        };
        self.bind_first(id, SocketAddr::new(any, 0))?;
        self.socket_ref(id)?.port.ok_or(Errno::EINVAL)
    }

    fn bind_first(&mut self, id: SocketId, address: SocketAddr) -> Result<(), Errno> {
        let socket = self.socket_ref(id)?;
        let scope = self.scope(socket, address)?;
        let number = address.port();
        if number != 0 && !self.may_bind(socket, number) {
            return Err(Errno::EACCES);
        }
        let port = if number == 0 {
            let number = self.ephemeral_port(&scope).ok_or(Errno::EADDRNOTAVAIL)?;
            self.open_port(id, number, scope)?
        } else {
            match self.find_sharable(id, number, &scope)? {
                Some(port) => {
                    self.narrow(port, scope);
                    port
                }
                None => self.open_port(id, number, scope)?,
            }
        };
        if let Some(found) = self.ports.get_mut(&port) {
            found.sockets.insert(id);
        }
        self.socket_mut(id)?.port = Some(port);
        Ok(())
    }

    /// Removes the addresses of a port that do not belong to a scope.
    fn narrow(&mut self, id: PortId, scope: Scope) {
        let now = self.now;
        let Some(port) = self.ports.get_mut(&id).filter(|port| port.scope != scope) else {
            return;
        };
        if let Scope::Only(remaining) = &scope {
            let mut removed = port.core.local_addresses().to_vec();
            removed.retain(|ip| !remaining.contains(ip));
            for ip in removed {
                port.core.local_address_removed(now, ip);
            }
        }
        port.scope = scope;
        self.settle(id);
    }

    /// Returns whether a socket may bind a port: one that is reserved for its owner, or an unprivileged one.
    fn may_bind(&self, socket: &Socket, number: u16) -> bool {
        let reserved = self.config.reserved_ports.iter();
        let mut owners = reserved.filter(|reserved| reserved.ports.contains(&number));
        let is_reserved = owners.clone().next().is_some();
        socket.is_privileged
            || owners.any(|reserved| reserved.owner == socket.owner)
            || !is_reserved && number >= self.config.first_unprivileged_port
    }

    /// Returns the scope of an address that a socket binds.
    fn scope(&self, socket: &Socket, address: SocketAddr) -> Result<Scope, Errno> {
        let ip = canonical(socket, address)?;
        if ip.is_unspecified() {
            return Ok(Scope::Any(Wildcard {
                v4: ip.is_ipv4() || !socket.options.v6_only,
                v6: ip.is_ipv6(),
            }));
        }
        if is_link_local(ip) || !self.has_address(ip) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        Ok(Scope::Only(vec![ip]))
    }

    /// Returns whether the host has an address: with a loopback interface all of 127.0.0.0/8 (RFC 1122, section
    /// 3.2.1.3), of which the interface lists only some.
    fn has_address(&self, ip: IpAddr) -> bool {
        let mut addresses = self.config.addresses.iter();
        addresses.clone().any(|known| *known == ip)
            || is_loopback_v4(ip) && addresses.any(|known| is_loopback_v4(*known))
    }

    /// Returns the addresses of 127.0.0.0/8 to which sockets are bound, and those of the paths of associations.
    pub fn loopback_in_use(&self) -> BTreeSet<IpAddr> {
        let mut used = BTreeSet::new();
        for port in self.ports.values() {
            if let Scope::Only(list) = &port.scope {
                used.extend(list);
            }
            for id in port.core.associations() {
                let paths = port.core.paths(id);
                used.extend(paths.flat_map(|path| path.local.into_iter().chain([path.remote])));
            }
        }
        used.retain(|ip| is_loopback_v4(*ip));
        used
    }

    /// Returns the port in use that a socket may share; `None` if it is free at these addresses.
    fn find_sharable(
        &self,
        id: SocketId,
        number: u16,
        scope: &Scope,
    ) -> Result<Option<PortId>, Errno> {
        let socket = self.socket_ref(id)?;
        let in_use = self.numbers.get(&number).into_iter().flatten();
        let conflicts = in_use
            .filter_map(|port| Some((*port, self.ports.get(port)?)))
            .filter(|(_, port)| port.is_in_use() && port.scope.overlaps(scope));
        let mut shared = None;
        for (id, port) in conflicts {
            let mut users = port.sockets.iter().filter_map(|id| self.table.get(id));
            let by_port = socket.options.shares_port()
                && users.clone().all(|user| user.options.shares_port());
            let by_address = socket.options.reuse_address
                && port.closed_are_reusable
                && users.all(|u| u.options.reuse_address && u.state != SocketState::Listening);
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

    fn ephemeral_port(&mut self, scope: &Scope) -> Option<u16> {
        let (first, last) = (
            *self.config.ephemeral_ports.start(),
            *self.config.ephemeral_ports.end(),
        );
        let count = u32::from(last.checked_sub(first)?) + 1;
        let start = self.random.next_u32() % count;
        let candidates = (0..count).map(|n| first + ((start + n) % count) as u16);
        let is_reserved = |number: u16| {
            let mut reserved = self.config.reserved_ports.iter();
            reserved.any(|reserved| reserved.ports.contains(&number))
        };
        let is_free = |number: &u16| {
            let in_use = self.numbers.get(number).into_iter().flatten();
            let mut ports = in_use.filter_map(|port| self.ports.get(port));
            *number != 0
                && !is_reserved(*number)
                && !ports.any(|port| port.is_in_use() && port.scope.overlaps(scope))
        };
        candidates.into_iter().find(is_free)
    }

    fn open_port(&mut self, id: SocketId, number: u16, scope: Scope) -> Result<PortId, Errno> {
        let socket = self.table.get(&id).ok_or(Errno::EBADF)?;
        let addresses = match &scope {
            Scope::Any(any) => {
                let host = self.config.addresses.iter().copied();
                host.filter(|address| any.covers(*address)).collect()
            }
            Scope::Only(list) => list.clone(),
        };
        let mut seed = [0; 32];
        self.random.fill_bytes(&mut seed);
        let mut config = EndpointConfig::new(number, addresses, seed);
        config.accept = false;
        config.max_associations = self.config.max_associations;
        config.max_associations_per_source = Some(self.config.per_source());
        config.association = socket.options.config.clone();
        config.source_selection = (self.config.source_selection)();
        let mut core = Endpoint::new(config).map_err(|_| Errno::EINVAL)?;
        core.record_buffer_changes();
        if let Some(observers) = &self.config.observers {
            core.set_observer(Time::ZERO, Some(observers.create()));
        }
        let port = PortId(self.next_port);
        self.next_port += 1;
        let opened = Port {
            core,
            number,
            scope,
            sockets: BTreeSet::new(),
            associations: 0,
            received: 0,
            closed_are_reusable: true,
        };
        self.ports.insert(port, opened);
        self.numbers.entry(number).or_default().push(port);
        Ok(port)
    }

    fn add_address(&mut self, id: SocketId, address: SocketAddr) -> Result<(), Errno> {
        let socket = self.socket_ref(id)?;
        let Some(port_id) = socket.port else {
            return self.bind_first(id, address);
        };
        let port = self.ports.get(&port_id).ok_or(Errno::EINVAL)?;
        if ![0, port.number].contains(&address.port()) {
            return Err(Errno::EINVAL);
        }
        let Scope::Only(new) = self.scope(socket, address)? else {
            return Err(Errno::EINVAL);
        };
        let (Some(ip), Scope::Only(old)) = (new.first().copied(), &port.scope) else {
            return Err(Errno::EINVAL);
        };
        if old.contains(&ip) {
            return Err(Errno::EINVAL);
        }
        let same_number = self.numbers.get(&port.number).into_iter().flatten();
        let mut neighbours = same_number.filter(|other| **other != port_id);
        let added = Scope::Only(new);
        let overlaps = |port: &Port| port.is_in_use() && port.scope.overlaps(&added);
        if neighbours.any(|id| self.ports.get(id).is_some_and(overlaps)) {
            return Err(Errno::EADDRINUSE);
        }
        if let Some(port) = self.ports.get_mut(&port_id) {
            if let Scope::Only(list) = &mut port.scope {
                list.push(ip);
            }
            port.core.local_address_added(ip);
        }
        self.settle(port_id);
        Ok(())
    }

    /// Removes a socket from its port. The port remains in use until its associations have ended.
    pub(crate) fn leave_port(&mut self, id: SocketId, socket: &Socket) {
        let Some(port_id) = socket.port else {
            return;
        };
        if let Some(port) = self.ports.get_mut(&port_id) {
            port.sockets.remove(&id);
            port.closed_are_reusable &= socket.options.reuse_address;
        }
        self.update_listening(port_id);
        self.release_port(port_id);
    }

    /// Frees a port without sockets and associations, once its last packets have been polled.
    pub(crate) fn release_port(&mut self, id: PortId) {
        let Some(port) = self.ports.get_mut(&id) else {
            return;
        };
        port.closed_are_reusable |= port.associations == 0;
        if port.is_in_use() || self.ready.contains(id) {
            return;
        }
        let number = port.number;
        self.received -= port.received;
        self.removed += HostCounters::of(&port.core);
        self.ports.remove(&id);
        self.timers.remove(id);
        if let Some(list) = self.numbers.get_mut(&number) {
            list.retain(|other| *other != id);
            if list.is_empty() {
                self.numbers.remove(&number);
            }
        }
    }

    /// Returns the endpoint of a port for a packet to this local address.
    pub(crate) fn find_port(&self, number: u16, local: Option<IpAddr>) -> Option<PortId> {
        let candidates = self.numbers.get(&number)?;
        let has = |id: &&PortId| {
            let port = self.ports.get(id);
            port.is_some_and(|p| local.is_none_or(|l| p.has(l)))
        };
        // A port that has only its last packets to send precedes its successor.
        candidates.iter().rev().find(has).copied()
    }
}

/// Returns an address that the user passed as the core has it: mapped addresses as IPv4.
pub(crate) fn canonical(socket: &Socket, address: SocketAddr) -> Result<IpAddr, Errno> {
    let ip = unmapped(address.ip());
    match socket.family {
        Family::Inet if !address.is_ipv4() => Err(Errno::EINVAL),
        Family::Inet6 if ip.is_ipv4() && socket.options.v6_only => Err(Errno::EINVAL),
        _ => Ok(ip),
    }
}

/// Returns whether an address is of 127.0.0.0/8.
fn is_loopback_v4(ip: IpAddr) -> bool {
    ip.is_ipv4() && ip.is_loopback()
}

/// Returns whether an address needs a scope, which paths do not have.
pub(crate) fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// Returns an address in the form that a socket reports: on IPv6 sockets IPv4 addresses are mapped,
/// unless `SCTP_I_WANT_MAPPED_V4_ADDR` is off.
pub(crate) fn present(socket: &Socket, address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(v4) if socket.family == Family::Inet6 && socket.options.mapped_v4 => {
            SocketAddr::new(v4.to_ipv6_mapped().into(), address.port())
        }
        _ => address,
    }
}
