//! ICMP messages, from the error queue of a socket (Linux), with the packet they quote.

use std::net::IpAddr;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;

use carrick_proto::{IcmpInput, IcmpKind};

/// ICMP message about a packet of this endpoint.
#[derive(Debug)]
pub(crate) struct IcmpNote {
    kind: IcmpKind,
    /// Destination of that packet, with the UDP port if it was in UDP.
    remote: IpAddr,
    encapsulation: Option<u16>,
    /// The beginning of that SCTP packet.
    quoted: Vec<u8>,
}

impl From<&IcmpInput<'_>> for IcmpNote {
    fn from(input: &IcmpInput<'_>) -> Self {
        Self {
            kind: input.kind,
            remote: input.remote,
            encapsulation: input.encapsulation,
            quoted: input.quoted.to_vec(),
        }
    }
}

impl IcmpNote {
    pub(crate) fn input(&self) -> IcmpInput<'_> {
        IcmpInput {
            kind: self.kind,
            remote: self.remote,
            encapsulation: self.encapsulation,
            quoted: &self.quoted,
        }
    }
}

/// Reads a bounded number of errors from the queue. The second value is true if the queue is empty then.
/// The protocol ignores messages that quote too little of the packet to identify an association (RFC 6951,
/// section 5.5).
#[cfg(target_os = "linux")]
pub(super) fn take(socket: &impl AsRawFd, encapsulated: bool) -> (Vec<IcmpNote>, bool) {
    linux::take(socket, encapsulated)
}

/// Other systems have no error queue; ICMP is not needed for SCTP to work.
#[cfg(not(target_os = "linux"))]
pub(super) fn take<S>(_: &S, _: bool) -> (Vec<IcmpNote>, bool) {
    (Vec::new(), true)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::IoSliceMut;

    use nix::libc;
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};

    use super::{AsRawFd, IcmpKind, IcmpNote, IpAddr};

    /// Maximum number of messages read at once.
    const AT_ONCE: usize = 64;

    /// Number of bytes of the quoted packet that are needed: the headers and the beginning of INIT.
    const QUOTED: usize = 64;

    pub(super) fn take(socket: &impl AsRawFd, encapsulated: bool) -> (Vec<IcmpNote>, bool) {
        let mut notes = Vec::new();
        for _ in 0..AT_ONCE {
            let mut quoted = [0; QUOTED];
            let mut slices = [IoSliceMut::new(&mut quoted)];
            let mut control = [0; 256];
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let Ok(message) = recvmsg::<SockaddrStorage>(
                socket.as_raw_fd(),
                &mut slices,
                Some(&mut control),
                flags,
            ) else {
                return (notes, true);
            };
            let length = message.bytes.min(QUOTED);
            let kind = message.cmsgs().ok().and_then(|mut messages| {
                messages.find_map(|message| match message {
                    ControlMessageOwned::Ipv4RecvErr(error, _)
                    | ControlMessageOwned::Ipv6RecvErr(error, _) => kind(&error),
                    _ => None,
                })
            });
            let (Some(kind), Some((remote, port))) = (kind, message.address.and_then(address))
            else {
                continue;
            };
            notes.push(IcmpNote {
                kind,
                remote,
                encapsulation: encapsulated.then_some(port),
                quoted: quoted[..length].to_vec(),
            });
        }
        (notes, false)
    }

    fn address(address: SockaddrStorage) -> Option<(IpAddr, u16)> {
        let v4 = address.as_sockaddr_in();
        let v4 = v4.map(|a| (IpAddr::from(a.ip()), a.port()));
        v4.or_else(|| {
            let v6 = address.as_sockaddr_in6()?;
            Some((v6.ip().into(), v6.port()))
        })
    }

    /// RFC 792, RFC 4443, and the host's own "message too long".
    fn kind(error: &libc::sock_extended_err) -> Option<IcmpKind> {
        let too_big = || IcmpKind::PacketTooBig {
            mtu: error.ee_info as usize,
        };
        Some(match (error.ee_origin, error.ee_type, error.ee_code) {
            (libc::SO_EE_ORIGIN_LOCAL, ..) => {
                (error.ee_errno == libc::EMSGSIZE as u32).then(too_big)?
            }
            (libc::SO_EE_ORIGIN_ICMP, 3, 4) | (libc::SO_EE_ORIGIN_ICMP6, 2, 0) => too_big(),
            (libc::SO_EE_ORIGIN_ICMP, 3, 2) | (libc::SO_EE_ORIGIN_ICMP6, 4, 1) => {
                IcmpKind::ProtocolUnreachable
            }
            (libc::SO_EE_ORIGIN_ICMP, 3, 3) | (libc::SO_EE_ORIGIN_ICMP6, 1, 4) => {
                IcmpKind::PortUnreachable
            }
            (libc::SO_EE_ORIGIN_ICMP, 3, _) | (libc::SO_EE_ORIGIN_ICMP6, 1, _) => {
                IcmpKind::DestinationUnreachable
            }
            _ => return None,
        })
    }
}
