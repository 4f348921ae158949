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
                if let Some(captured) = parse(&buffer[..length]) {
                    for sctp in packets(&captured.sctp) {
                        take(Captured {
                            sctp: sctp.to_vec(),
                            ..captured.clone()
                        });
                    }
                }
            }
            // No packet arrived for a while.
            Err(_) if done.load(Ordering::Acquire) => return,
            Err(_) => {}
        }
    }
}

/// Packets of one association that leave with one call: they are captured as one, before they are segmented. Of those that
/// are longer than a snapshot, only the first is found.
fn packets(joined: &[u8]) -> Vec<&[u8]> {
    const COMMON_HEADER: usize = 12;
    let ports_and_tag = |at: usize| joined.get(at..at + 8);
    let mut packets = Vec::new();
    let (mut begin, mut at) = (0, COMMON_HEADER);
    while let Some(&[_, _, high, low]) = joined.get(at..).and_then(<[u8]>::first_chunk) {
        let length = usize::from(u16::from_be_bytes([high, low]));
        if at > begin + COMMON_HEADER && ports_and_tag(at) == ports_and_tag(begin) {
            packets.push(&joined[begin..at]);
            begin = at;
            at += COMMON_HEADER;
        } else if length < 4 {
            break;
        } else {
            at += length.next_multiple_of(4);
        }
    }
    packets.push(&joined[begin..]);
    packets
}

/// Parses packets with SCTP, in UDP or not.
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

#[test]
fn joined_packets_are_found() {
    let header = [&[0x13, 0x88, 0x13, 0x88, 1, 2, 3, 4], &[9; 4][..]].concat();
    let sack = [3, 0, 0, 16, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0];
    let cookie_ack = [11, 0, 0, 4];
    let first = [&header[..], &cookie_ack, &sack].concat();
    let second = [&header[..], &sack, &cookie_ack].concat();
    let joined = [&first[..], &second, &first].concat();
    assert_eq!(packets(&joined), [&first[..], &second, &first]);
    // The third one is truncated by the snapshot.
    let snapshot = &joined[..joined.len() - 20];
    assert_eq!(packets(snapshot).concat(), snapshot);
    assert_eq!(packets(snapshot).len(), 3);
    assert_eq!(packets(&first), [&first[..]]);
    assert_eq!(packets(&header[..7]), [&header[..7]]);
}
