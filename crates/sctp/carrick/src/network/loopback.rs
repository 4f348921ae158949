//! Addresses of 127.0.0.0/8 that no interface has. They are the host's all the same (RFC 1122, section 3.2.1.3, g), so
//! that programs bind and connect to any of them. Each has its own socket, as every other address has, which is
//! open while a program uses the address: another process may bind the addresses that nothing uses.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use carrick_proto::Route;

use super::Network;
use crate::error::BindError;
use crate::socket::addresses;

/// Limit of the addresses with a socket, and of those that were refused.
const MAX_ADDRESSES: usize = 256;

/// Addresses of 127.0.0.0/8 that no interface has.
#[derive(Debug, Default)]
pub(super) struct LoopbackAddresses {
    /// The network is bound to all IPv4 addresses of the host.
    are_included: bool,
    /// Destinations whose sockets could not be opened since [`Network::close_loopback`]: those of other processes.
    refused: BTreeSet<Ipv4Addr>,
}

impl LoopbackAddresses {
    pub(super) fn new(wanted: &[IpAddr]) -> Self {
        Self {
            are_included: addresses::include_loopback(wanted),
            refused: BTreeSet::new(),
        }
    }
}

impl Network {
    /// Opens the sockets of an address of 127.0.0.0/8, if the network is bound to all IPv4 addresses of the host; of 256
    /// such addresses at most. Without effect if they are open.
    ///
    /// # Errors
    /// [`BindError::NotLocal`] for any other address, and beyond the limit; otherwise as for [`Self::bind`].
    pub fn open_loopback(&mut self, address: Ipv4Addr) -> Result<(), BindError> {
        if self.sockets.has(address.into()) {
            return Ok(());
        }
        let is_host = address.is_loopback() && address != Ipv4Addr::new(127, 255, 255, 255);
        if !self.loopback.are_included
            || !is_host
            || self.loopback_addresses().count() >= MAX_ADDRESSES
        {
            return Err(BindError::NotLocal(address.into()));
        }
        self.add(address.into())
    }

    /// Opens the sockets of the destination of a packet if this network receives the packets to other addresses of
    /// the host. Without effect if another process has them, which then receives the packet.
    pub fn open_destination(&mut self, route: &Route) {
        let IpAddr::V4(remote) = route.remote else {
            return;
        };
        if !remote.is_loopback() || !self.loopback.are_included || self.sockets.has(route.remote) {
            return;
        }
        let transport = self.transport();
        let arrives = match route.encapsulation {
            None => transport.has_plain_ip(),
            port => port == transport.encapsulation_port(),
        };
        let refused = &self.loopback.refused;
        if arrives
            && !refused.contains(&remote)
            && refused.len() < MAX_ADDRESSES
            && self.open_loopback(remote).is_err()
        {
            self.loopback.refused.insert(remote);
        }
    }

    /// Closes the sockets of the addresses of 127.0.0.0/8 that are neither `known`, as those of interfaces, nor used.
    pub fn close_loopback(&mut self, known: &[IpAddr], used: &BTreeSet<IpAddr>) {
        self.loopback.refused.clear();
        for address in self.loopback_addresses() {
            if !known.contains(&address) && !used.contains(&address) {
                self.remove(address);
            }
        }
    }

    /// Returns the addresses of 127.0.0.0/8 that have sockets.
    pub fn loopback_addresses(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let all = self.sockets.addresses().into_iter();
        all.filter(|address| address.is_ipv4() && address.is_loopback())
    }
}
