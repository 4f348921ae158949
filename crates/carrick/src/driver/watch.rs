//! The host's addresses come and go, and the endpoint with them.
//!
//! On Linux a netlink socket says that something changed; what it says exactly is not read: the
//! host's addresses are listed again and compared with those that are bound. So no message can be
//! misread, and one that was lost for want of buffer does no harm. Elsewhere the list is looked at
//! once in a while.

use std::io;
use std::net::IpAddr;
use std::task::Context;
use std::time::Duration;

use carrick_proto::Time;

use super::Driver;
use crate::socket::addresses;

/// How often the addresses are looked at without a word from the system: an address of IPv6 can be
/// bound only some time after it is there.
const INTERVAL: Duration = Duration::from_secs(1);

/// What tells that addresses may have changed.
pub(crate) struct Watch {
    /// What the user wants the endpoint to be bound to.
    wanted: Vec<IpAddr>,
    #[cfg(target_os = "linux")]
    notices: tokio::net::UdpSocket,
    interval: tokio::time::Interval,
}

impl Watch {
    /// Begins to listen.
    pub(crate) fn new(wanted: Vec<IpAddr>) -> io::Result<Self> {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        Ok(Self {
            wanted,
            #[cfg(target_os = "linux")]
            notices: netlink::open()?,
            interval,
        })
    }

    /// Whether it is time to look at the addresses again.
    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        while self.interval.poll_tick(cx).is_ready() {
            any = true;
        }
        #[cfg(target_os = "linux")]
        {
            any |= netlink::drain(&self.notices, cx);
        }
        any
    }
}

impl Driver {
    /// Binds addresses that have come and forgets those that are gone. Returns whether it looked.
    pub(super) fn follow_host(&mut self, cx: &mut Context<'_>, now: Time) -> bool {
        let Some(watch) = &mut self.watch else {
            return false;
        };
        if !watch.poll(cx) {
            return false;
        }
        let Ok(present) = addresses::present(&watch.wanted) else {
            // The system can't say now; it is asked again.
            return true;
        };
        let bound = self.core.local_addresses().to_vec();
        // The new ones first: an association keeps its last address until there is another.
        for address in present.iter().filter(|a| !bound.contains(a)) {
            if self.sockets.add(*address).is_ok() {
                self.core.local_address_added(*address);
            }
        }
        let gone = |a: &IpAddr| !present.contains(a) && !a.is_loopback();
        for address in bound.into_iter().filter(gone) {
            self.core.local_address_removed(now, address);
            self.sockets.remove(address);
        }
        true
    }
}

/// Notices of the Linux kernel (rtnetlink(7)).
#[cfg(target_os = "linux")]
mod netlink {
    use std::io;
    use std::os::fd::AsRawFd;
    use std::task::Context;

    use nix::libc::{ENOBUFS, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR};
    use nix::sys::socket::{
        AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, socket,
    };
    use tokio::net::UdpSocket;

    /// A socket that can be read when an address came or went. It is of the type of UDP sockets,
    /// which is what the runtime waits for without unsafe code.
    pub(super) fn open() -> io::Result<UdpSocket> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?;
        let groups = (RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR) as u32;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        UdpSocket::from_std(std::net::UdpSocket::from(socket))
    }

    /// Takes all notices. Returns whether there were any, lost ones included.
    pub(super) fn drain(socket: &UdpSocket, cx: &mut Context<'_>) -> bool {
        let mut buffer = [0; 4096];
        let mut any = false;
        while socket.poll_recv_ready(cx).is_ready() {
            match socket.try_recv(&mut buffer) {
                Ok(_) => any = true,
                // More than the socket could hold.
                Err(e) if e.raw_os_error() == Some(ENOBUFS) => any = true,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        any
    }
}
