//! Captures all SCTP packets that a host sends and receives.

use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

/// Number of bytes captured of each packet; the beginning of the first chunks is sufficient.
const SNAPSHOT: usize = 512;

/// Receive buffer for captured packets, in bytes.
const BUFFER: usize = 256 << 20;

/// `ETH_P_ALL` in network byte order.
const ALL: i32 = 0x0003_u16.to_be() as i32;

const UDP: u8 = 17;
const SCTP: u8 = 132;

/// Addresses of a packet and its SCTP part, which may be truncated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Captured {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    /// DSCP (RFC 2474, section 3) and ECN field (RFC 3168, section 5).
    pub(crate) dscp: u8,
    pub(crate) ecn: u8,
    pub(crate) sctp: Vec<u8>,
}

/// Opens the capture on the calling thread's host.
pub(crate) fn open() -> Socket {
    let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(ALL))).unwrap();
    setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    socket
}

/// Passes every SCTP packet to `take`, until `done` is set and no more packets arrive.
pub(crate) fn read(socket: Socket, done: &Arc<AtomicBool>, mut take: impl FnMut(Captured)) {
    let mut socket = std::fs::File::from(OwnedFd::from(socket));
    let mut buffer = [0; SNAPSHOT];
    loop {
        match socket.read(&mut buffer) {
            Ok(length) => {
                if let Some(packet) = parse(&buffer[..length]) {
                    take(packet);
                }
            }
            // No packet arrived for a while.
            Err(_) if done.load(Ordering::Acquire) => return,
            Err(_) => {}
        }
    }
}

/// Parses a packet with SCTP, in UDP or not.
fn parse(packet: &[u8]) -> Option<Captured> {
    match packet.first()? >> 4 {
        4 => parse_v4(packet),
        6 => parse_v6(packet),
        _ => None,
    }
}

fn parse_v4(packet: &[u8]) -> Option<Captured> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let address = |at: usize| {
        Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]).into()
    };
    let start = sctp_at(usize::from(header[0] & 15) * 4, header[9])?;
    Some(Captured {
        from: address(12),
        to: address(16),
        dscp: header[1] >> 2,
        ecn: header[1] & 3,
        sctp: packet.get(start..)?.to_vec(),
    })
}

fn parse_v6(packet: &[u8]) -> Option<Captured> {
    let header: &[u8; 40] = packet.first_chunk()?;
    let address = |at: usize| {
        let octets: Option<[u8; 16]> = header[at..].first_chunk().copied();
        octets.map(|octets| Ipv6Addr::from(octets).into())
    };
    let start = sctp_at(header.len(), header[6])?;
    Some(Captured {
        from: address(8)?,
        to: address(24)?,
        dscp: (header[0] & 15) << 2 | header[1] >> 6,
        ecn: header[1] >> 4 & 3,
        sctp: packet.get(start..)?.to_vec(),
    })
}

/// Offset of SCTP after an IP header of this length, if the protocol carries SCTP.
fn sctp_at(header: usize, protocol: u8) -> Option<usize> {
    match protocol {
        SCTP => Some(header),
        UDP => Some(header + 8),
        _ => None,
    }
}
