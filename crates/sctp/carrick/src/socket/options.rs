//! Socket options that the other crates lack.

#[cfg(target_os = "linux")]
use std::os::fd::AsFd;

#[cfg(target_os = "linux")]
use nix::sys::socket::{GetSockOpt as _, SetSockOpt as _, setsockopt, sockopt};

#[cfg(target_os = "linux")]
mod linux {
    use nix::{getsockopt_impl, libc, setsockopt_impl, sockopt_impl};

    sockopt_impl!(
        /// Path MTU discovery of IPv4: one of the `IP_PMTUDISC` constants.
        MtuDiscoverV4,
        SetOnly,
        libc::IPPROTO_IP,
        libc::IP_MTU_DISCOVER,
        libc::c_int
    );
    sockopt_impl!(
        /// Path MTU discovery of IPv6: one of the `IPV6_PMTUDISC` constants.
        MtuDiscoverV6,
        SetOnly,
        libc::IPPROTO_IPV6,
        libc::IPV6_MTU_DISCOVER,
        libc::c_int
    );
    sockopt_impl!(
        /// Forbids fragmentation at this host.
        DontFragmentV6,
        SetOnly,
        libc::IPPROTO_IPV6,
        libc::IPV6_DONTFRAG,
        bool
    );
    sockopt_impl!(
        /// Reads the MTU of the route of a connected IPv6 socket; sets the size of fragments, 0 for that
        /// MTU.
        MtuV6,
        Both,
        libc::IPPROTO_IPV6,
        libc::IPV6_MTU,
        libc::c_int
    );
}

/// Returns the MTU of the route of a connected socket, in bytes.
#[cfg(target_os = "linux")]
pub(crate) fn mtu(socket: &impl AsFd, v4: bool) -> Option<usize> {
    let mtu = if v4 {
        sockopt::IpMtu.get(socket)
    } else {
        linux::MtuV6.get(socket)
    };
    mtu.ok().and_then(|mtu| usize::try_from(mtu).ok())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn mtu<S>(_: &S, _: bool) -> Option<usize> {
    None
}

/// Size of IPv6 fragments in bytes, which every link accepts (RFC 8200, section 5).
#[cfg(target_os = "linux")]
const FRAGMENT_V6: nix::libc::c_int = 1280;

/// Lets the system fragment packets larger than the path MTU, or forbids it again. IPv6 packets are
/// fragmented if they are larger than the MTU of the route.
#[cfg(target_os = "linux")]
pub(super) fn allow_fragments(socket: &impl AsFd, v4: bool, allow: bool) -> std::io::Result<()> {
    use nix::libc;
    if v4 {
        let how = if allow {
            libc::IP_PMTUDISC_DONT
        } else {
            libc::IP_PMTUDISC_PROBE
        };
        linux::MtuDiscoverV4.set(socket, &how)?;
    } else {
        let how = if allow {
            libc::IPV6_PMTUDISC_DONT
        } else {
            libc::IPV6_PMTUDISC_PROBE
        };
        linux::MtuDiscoverV6.set(socket, &how)?;
        linux::DontFragmentV6.set(socket, &!allow)?;
        linux::MtuV6.set(socket, &if allow { FRAGMENT_V6 } else { 0 })?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn allow_fragments<S>(_: &S, _: bool, _: bool) -> std::io::Result<()> {
    Ok(())
}

/// Enables ICMP messages in the socket's error queue. Enabling those of IPv4 on a raw IPv6 socket would
/// fail.
#[cfg(target_os = "linux")]
pub(super) fn report_errors(socket: &socket2::Socket, v4: bool) -> std::io::Result<()> {
    if v4 {
        setsockopt(socket, sockopt::Ipv4RecvErr, &true)?;
    } else {
        setsockopt(socket, sockopt::Ipv6RecvErr, &true)?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn report_errors(_: &socket2::Socket, _: bool) -> std::io::Result<()> {
    Ok(())
}

/// Disables the times of arrival, which are not used. The space for control messages of a datagram is so
/// small that, with the time and the segment size, the ECN field would be cut off.
#[cfg(target_os = "linux")]
pub(super) fn leave_out_timestamps(socket: &socket2::Socket) -> std::io::Result<()> {
    setsockopt(socket, sockopt::ReceiveTimestampns, &false)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn leave_out_timestamps(_: &socket2::Socket) -> std::io::Result<()> {
    Ok(())
}

/// Sets the size of the socket's buffers, as far as the system allows.
pub(super) fn set_buffers(socket: &socket2::Socket, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        // With CAP_NET_ADMIN the system's limit does not apply.
        let forced = setsockopt(socket, sockopt::RcvBufForce, &bytes).is_ok()
            && setsockopt(socket, sockopt::SndBufForce, &bytes).is_ok();
        if forced {
            return;
        }
    }
    // Smaller buffers only cost speed.
    let _ = socket.set_recv_buffer_size(bytes);
    let _ = socket.set_send_buffer_size(bytes);
}
