//! `bind` and `sctp_bindx` (RFC 6458, sections 3.1.2, 4.1.2 and 9.1), and local addresses.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use carrick_proto::{Endpoint, EndpointConfig, Time};
use rand_core::Rng;

use crate::errno::Errno;
use crate::host::calls::listen::update_listening;
use crate::host::overview::addresses_of;
use crate::host::{Sockets, settle};
use crate::ids::{PortId, SocketId};
use crate::ports::{Scope, is_link_local, is_loopback_v4};
use crate::table::Socket;

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
        let socket = self.table.get(id).ok_or(Errno::EBADF)?;
        if socket.port().is_some() {
            return Err(Errno::EINVAL);
        }
        bind_first(self, id, address)
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
            if let Err(error) = add_address(self, id, *address) {
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
        let socket = self.table.open(id)?;
        let port_id = socket.port().ok_or(Errno::EBUSY)?;
        let port = self.ports.get(port_id).ok_or(Errno::EBUSY)?;
        let Scope::Only(list) = port.scope() else {
            return Err(Errno::EBUSY);
        };
        let mut remaining = list.clone();
        for address in addresses {
            if remaining.len() == 1 {
                return Err(Errno::EBUSY);
            }
            let ip = socket.canonical(*address)?;
            if ip.is_unspecified() {
                return Err(Errno::EADDRNOTAVAIL);
            }
            if ![0, port.core().port()].contains(&address.port()) || !remaining.contains(&ip) {
                return Err(Errno::EINVAL);
            }
            remaining.retain(|other| *other != ip);
        }
        self.ports.narrow(now, port_id, Scope::Only(remaining));
        settle(self, port_id);
        Ok(())
    }

    /// Allows or forbids a socket to bind ports below [`Config::first_unprivileged_port`](crate::Config::first_unprivileged_port).
    /// Default: forbidden.
    ///
    /// # Errors
    /// `EBADF`
    pub fn set_privileged(&mut self, id: SocketId, privileged: bool) -> Result<(), Errno> {
        self.table.open_mut(id)?.set_privileged(privileged);
        Ok(())
    }

    /// Returns the local address of a socket, the last one if it was bound to several: `getsockname`. An
    /// unbound socket has the wildcard address and port 0; a one-to-one socket that is bound to the wildcard
    /// address has, with an association, the address of its primary path.
    ///
    /// # Errors
    /// `EBADF`
    pub fn local_address(&self, id: SocketId) -> Result<SocketAddr, Errno> {
        let socket = self.table.open(id)?;
        let Some(port) = socket.port().and_then(|port| self.ports.get(port)) else {
            return Ok(SocketAddr::new(socket.any_address(), 0));
        };
        let ip = match port.scope() {
            Scope::Any(_) => source_address(self, socket),
            Scope::Only(list) => list.last().copied(),
        };
        let ip = ip.unwrap_or(socket.any_address());
        Ok(socket.present(SocketAddr::new(ip, port.core().port())))
    }

    /// Returns all local addresses of a socket, those of the host for a wildcard address:
    /// `sctp_getladdrs` (RFC 6458, section 9.5). Empty if it is not bound.
    ///
    /// # Errors
    /// `EBADF`
    pub fn local_addresses(&self, id: SocketId) -> Result<Vec<SocketAddr>, Errno> {
        let socket = self.table.open(id)?;
        let addresses = addresses_of(self, socket.port()).into_iter();
        Ok(addresses.map(|address| socket.present(address)).collect())
    }

    /// Adds an address of the host. Sockets that are bound to a wildcard address get it.
    pub fn host_address_added(&mut self, address: IpAddr) {
        if self.config.addresses.contains(&address) {
            return;
        }
        self.config.addresses.push(address);
        for id in self.ports.covering(address) {
            if let Some(core) = self.ports.core_mut(id) {
                core.local_address_added(address);
            }
            settle(self, id);
        }
    }

    /// Selects the source address of every path again, after the routes of the host have changed.
    pub fn host_routes_changed(&mut self) {
        for id in self.ports.ids() {
            if let Some(core) = self.ports.core_mut(id) {
                core.local_routes_changed();
            }
            settle(self, id);
        }
    }

    /// Removes an address of the host from all sockets.
    pub fn host_address_removed(&mut self, now: Time, address: IpAddr) {
        self.now = now;
        self.config.addresses.retain(|other| *other != address);
        for id in self.ports.ids() {
            if let Some(core) = self.ports.core_mut(id) {
                core.local_address_removed(now, address);
            }
            settle(self, id);
        }
    }

    /// Returns the addresses of 127.0.0.0/8 to which sockets are bound, and those of the paths of associations.
    pub fn loopback_in_use(&self) -> BTreeSet<IpAddr> {
        let mut used = BTreeSet::new();
        for (_, port) in self.ports.iter() {
            used.extend(port.scope().single());
            for id in port.core().associations() {
                let association = port.core().association(id).into_iter();
                let paths = association.flat_map(|a| a.paths());
                used.extend(paths.flat_map(|path| path.local.into_iter().chain([path.remote])));
            }
        }
        used.retain(|ip| is_loopback_v4(*ip));
        used
    }
}

fn source_address(host: &Sockets, socket: &Socket) -> Option<IpAddr> {
    let association = socket.only_association().filter(|_| socket.is_one_to_one());
    host.lookup().get(association?)?.current_path()?.local
}

/// Binds an unbound socket to all addresses and an ephemeral port, before `listen`, `connect` or the
/// first message.
pub(crate) fn bind_if_unbound(host: &mut Sockets, id: SocketId) -> Result<PortId, Errno> {
    let socket = host.table.open(id)?;
    if let Some(port) = socket.port() {
        return Ok(port);
    }
    bind_first(host, id, SocketAddr::new(socket.any_address(), 0))?;
    host.table.open(id)?.port().ok_or(Errno::EINVAL)
}

fn bind_first(host: &mut Sockets, id: SocketId, address: SocketAddr) -> Result<(), Errno> {
    let socket = host.table.open(id)?;
    let scope = scope_of(host, socket, address)?;
    bind_scope(host, id, address.port(), scope)
}

/// Binds an unbound socket to a port at the addresses of a scope.
///
/// # Errors
/// As for [`Sockets::bind`].
pub(crate) fn bind_scope(
    host: &mut Sockets,
    id: SocketId,
    number: u16,
    scope: Scope,
) -> Result<(), Errno> {
    let socket = host.table.open(id)?;
    let mut single = scope.single().iter();
    if !single.all(|ip| may_use(host, *ip)) {
        return Err(Errno::EADDRNOTAVAIL);
    }
    if number != 0 && !may_bind(host, socket, number) {
        return Err(Errno::EACCES);
    }
    let port = if number == 0 {
        let number = ephemeral_port(host, &scope).ok_or(Errno::EADDRNOTAVAIL)?;
        open_port(host, id, number, scope)?
    } else {
        let users = |id| host.table.get(id).map(Socket::sharing);
        let shared = host
            .ports
            .find_sharable(number, &scope, socket.sharing(), users)?;
        match shared {
            Some(port) => {
                if host.ports.narrow(host.now, port, scope) {
                    settle(host, port);
                }
                port
            }
            None => open_port(host, id, number, scope)?,
        }
    };
    let socket = host.table.open_mut(id)?;
    socket.set_port(port);
    host.ports.join(port, id, socket.owner());
    Ok(())
}

/// Returns whether a socket may bind a port: one that is reserved for its owner, or an unprivileged one.
fn may_bind(host: &Sockets, socket: &Socket, number: u16) -> bool {
    let reserved = host.config.reserved_ports.iter();
    let mut owners = reserved.filter(|reserved| reserved.ports.contains(&number));
    let is_reserved = owners.clone().next().is_some();
    socket.is_privileged()
        || owners.any(|reserved| reserved.owner == socket.owner())
        || !is_reserved && number >= host.config.first_unprivileged_port
}

/// Returns the scope of an address that a socket binds.
fn scope_of(host: &Sockets, socket: &Socket, address: SocketAddr) -> Result<Scope, Errno> {
    let ip = socket.canonical(address)?;
    if ip.is_unspecified() {
        let has_v4 = ip.is_ipv4() || !socket.options().v6_only;
        return Ok(Scope::any(has_v4, ip.is_ipv6()));
    }
    if !may_use(host, ip) {
        return Err(Errno::EADDRNOTAVAIL);
    }
    Ok(Scope::Only(vec![ip]))
}

/// Returns whether a socket may be bound to an address.
fn may_use(host: &Sockets, ip: IpAddr) -> bool {
    !is_link_local(ip) && has_address(host, ip)
}

/// Returns whether the host has an address: with a loopback interface all of 127.0.0.0/8 (RFC 1122, section
/// 3.2.1.3), of which the interface lists only some.
fn has_address(host: &Sockets, ip: IpAddr) -> bool {
    let mut addresses = host.config.addresses.iter();
    addresses.clone().any(|known| *known == ip)
        || is_loopback_v4(ip) && addresses.any(|known| is_loopback_v4(*known))
}

/// Returns a random free port number at these addresses.
fn ephemeral_port(host: &mut Sockets, scope: &Scope) -> Option<u16> {
    let (first, last) = (
        *host.config.ephemeral_ports.start(),
        *host.config.ephemeral_ports.end(),
    );
    let count = u32::from(last.checked_sub(first)?) + 1;
    let start = host.random.next_u32() % count;
    let candidates = (0..count).map(|n| first + ((start + n) % count) as u16);
    let is_reserved = |number: u16| {
        let mut reserved = host.config.reserved_ports.iter();
        reserved.any(|reserved| reserved.ports.contains(&number))
    };
    let is_free = |number: &u16| {
        *number != 0 && !is_reserved(*number) && host.ports.is_free(*number, scope, None)
    };
    candidates.into_iter().find(is_free)
}

/// Opens a port with the parameters of a socket.
fn open_port(host: &mut Sockets, id: SocketId, number: u16, scope: Scope) -> Result<PortId, Errno> {
    let socket = host.table.get(id).ok_or(Errno::EBADF)?;
    let addresses = scope.addresses(&host.config.addresses);
    let mut seed = [0; 32];
    host.random.fill_bytes(&mut seed);
    let mut config = EndpointConfig::new(number, addresses, seed);
    config.accept = false;
    config.max_associations = host.config.max_associations;
    config.max_associations_per_source = Some(host.config.per_source());
    config.association = socket.options().config.clone();
    config.source_selection = (host.config.source_selection)();
    let mut core = Endpoint::new(config).map_err(|_| Errno::EINVAL)?;
    core.record_buffer_changes();
    if let Some(observers) = &host.config.observers {
        core.set_observer(Time::ZERO, Some(observers.create()));
    }
    Ok(host.ports.open(core, scope))
}

fn add_address(host: &mut Sockets, id: SocketId, address: SocketAddr) -> Result<(), Errno> {
    let socket = host.table.open(id)?;
    let Some(port_id) = socket.port() else {
        return bind_first(host, id, address);
    };
    let port = host.ports.get(port_id).ok_or(Errno::EINVAL)?;
    if ![0, port.core().port()].contains(&address.port()) {
        return Err(Errno::EINVAL);
    }
    let scope = scope_of(host, socket, address)?;
    let ip = scope.single().first().ok_or(Errno::EINVAL)?;
    host.ports.add_address(port_id, *ip)?;
    settle(host, port_id);
    Ok(())
}

/// Removes a socket from its port. The port remains in use until its associations have ended.
pub(crate) fn leave_port(host: &mut Sockets, id: SocketId, socket: &Socket) {
    let Some(port_id) = socket.port() else {
        return;
    };
    host.ports
        .leave(port_id, id, socket.options().reuse_address);
    update_listening(host, port_id);
    release_port(host, port_id);
}

/// Frees a port without sockets and associations, once its last packets have been polled.
pub(crate) fn release_port(host: &mut Sockets, id: PortId) {
    if let Some(port) = host.ports.release(id) {
        host.removed.add(port.core());
    }
}
