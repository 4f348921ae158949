//! The host's addresses come and go, and the endpoint with them.
//!
//! On Linux a netlink socket says that something changed; what it says exactly is not read: the
//! host's addresses are listed again and compared with those that are bound. So no message can be
//! misread, and one that was lost for want of buffer does no harm. Elsewhere the list is looked at
//! once in a while.

use std::io;
use std::net::IpAddr;
use std::task::{Context, Poll};
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
    notices: tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>,
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
        while let Poll::Ready(Ok(mut ready)) = self.notices.poll_read_ready(cx) {
            if netlink::drain(self.notices.get_ref()) {
                any = true;
            }
            ready.clear_ready();
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
    use std::os::fd::{AsRawFd, OwnedFd};

    use nix::errno::Errno;
    use nix::libc::{RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR};
    use nix::sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// A socket that can be read when an address came or went.
    pub(super) fn open() -> io::Result<AsyncFd<OwnedFd>> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?;
        let groups = (RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR) as u32;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        AsyncFd::with_interest(socket, Interest::READABLE)
    }

    /// Takes all notices. Returns whether there were any, lost ones included.
    pub(super) fn drain(socket: &OwnedFd) -> bool {
        let mut buffer = [0; 4096];
        let mut any = false;
        loop {
            match recv(socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                // ENOBUFS: more than the socket could hold.
                Ok(_) | Err(Errno::ENOBUFS) => any = true,
                Err(Errno::EINTR) => {}
                Err(_) => return any,
            }
        }
    }
}
