//! Follows changes of the host's addresses and routes.
//!
//! On Linux netlink sockets report that something changed. Their content is not read: the host's addresses
//! are listed again and compared with those that are bound, and the routes are queried again. So no message
//! can be misinterpreted, and a message that is lost because the socket buffer is full has no effect. On other systems addresses
//! and routes are checked periodically.

use std::io;
use std::net::IpAddr;
use std::task::Context;
use std::time::Duration;

/// Time between two checks without a notice of the system: an IPv6 address can be bound only some time
/// after it was added. It also limits how often changes of routes are followed.
const INTERVAL: Duration = Duration::from_secs(1);

/// Notices of changes of the host's addresses and routes.
pub(crate) struct NetworkWatch {
    /// Addresses in the configuration.
    pub(super) wanted: Vec<IpAddr>,
    #[cfg(target_os = "linux")]
    addresses: tokio::net::UdpSocket,
    #[cfg(target_os = "linux")]
    routes: tokio::net::UdpSocket,
    /// Routes may have changed since the endpoint selected its sources.
    routes_changed: bool,
    interval: tokio::time::Interval,
}

/// Tables of the host that may have changed.
#[derive(Clone, Copy, Default)]
pub(super) struct ChangedTables {
    pub(super) addresses: bool,
    pub(super) routes: bool,
}

impl NetworkWatch {
    /// Opens the netlink sockets.
    pub(crate) fn new(wanted: Vec<IpAddr>) -> io::Result<Self> {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        Ok(Self {
            wanted,
            #[cfg(target_os = "linux")]
            addresses: netlink::open(netlink::ADDRESSES)?,
            #[cfg(target_os = "linux")]
            routes: netlink::open(netlink::ROUTES)?,
            routes_changed: false,
            interval,
        })
    }

    /// Schedules a check of the routes for the next call of [`Self::poll`].
    #[cfg(target_os = "linux")]
    pub(super) fn check_routes(&mut self) {
        self.routes_changed = true;
    }

    /// Returns the tables that have to be checked now.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> ChangedTables {
        let mut changes = ChangedTables::default();
        #[cfg(target_os = "linux")]
        {
            changes.addresses = netlink::drain(&self.addresses, cx);
            self.routes_changed |= netlink::drain(&self.routes, cx);
        }
        while self.interval.poll_tick(cx).is_ready() {
            changes.addresses = true;
            let unnoticed = !cfg!(target_os = "linux");
            changes.routes |= std::mem::take(&mut self.routes_changed) || unnoticed;
        }
        changes
    }
}

/// Notices of the Linux kernel (rtnetlink(7)).
#[cfg(target_os = "linux")]
mod netlink {
    use std::io;
    use std::os::fd::AsRawFd;
    use std::task::Context;

    use nix::libc::{
        ENOBUFS, RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV4_RULE, RTMGRP_IPV6_IFADDR,
        RTMGRP_IPV6_ROUTE, RTMGRP_LINK,
    };
    use nix::sys::socket::{
        AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, socket,
    };
    use tokio::net::UdpSocket;

    /// Groups of notices of addresses.
    pub(super) const ADDRESSES: u32 = (RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR) as u32;

    /// Groups of notices of routes. IPv4 routes that are removed with their interface have no notice of
    /// their own, nor is there a group of this form for IPv6 rules.
    pub(super) const ROUTES: u32 =
        (RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE | RTMGRP_IPV4_RULE | RTMGRP_LINK) as u32;

    /// Opens a socket that becomes readable after a notice of one of these groups. Its type is that of UDP
    /// sockets, for which the runtime can wait without unsafe code.
    pub(super) fn open(groups: u32) -> io::Result<UdpSocket> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        UdpSocket::from_std(std::net::UdpSocket::from(socket))
    }

    /// Reads all notices. Returns true if there were any, lost ones included.
    pub(super) fn drain(socket: &UdpSocket, cx: &mut Context<'_>) -> bool {
        let mut buffer = [0; 4096];
        let mut any = false;
        while socket.poll_recv_ready(cx).is_ready() {
            match socket.try_recv(&mut buffer) {
                Ok(_) => any = true,
                // More notices than fit into the socket's buffer.
                Err(e) if e.raw_os_error() == Some(ENOBUFS) => any = true,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        any
    }
}
