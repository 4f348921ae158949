//! UDP without a protocol above it: what the kernel's path of packets costs.
//!
//! The first byte of a datagram is its kind. The receiver acknowledges data now and then, so that the sender is never
//! ahead by more than the receiver's socket holds; bytes that are lost nevertheless do not count.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nix::sys::socket::sockopt::{RcvBuf, UdpGroSegment, UdpGsoSegment};
use nix::sys::socket::{getsockopt, setsockopt};

use super::{Delivered, Listening, end_with_input, measure_round_trips, print};

/// Payload of a packet of 1500 bytes of UDP on IPv4.
const MAX_PAYLOAD: usize = 1472;
/// Maximum number of bytes of a send call with segmentation offload.
const MAX_BATCH: usize = 65_000;
/// Maximum number of datagrams of a send call with segmentation offload.
const MAX_SEGMENTS: usize = 64;
/// Size of the receive buffer that is requested; the system may limit it.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Bytes in the receive buffer for a byte of data: the system counts its own structures, too.
const BUFFER_SHARE: usize = 4;
/// Time without an acknowledgement after which outstanding bytes count as lost.
const LOSS_TIME: Duration = Duration::from_millis(100);
/// Number of times that the final count is requested.
const REQUESTS: usize = 50;

const DATA: u8 = 0;
const COUNT: u8 = 1;
const PING: u8 = 2;
/// Asks for the size of the receive buffer.
const WINDOW: u8 = 3;
const END: u8 = 4;

/// Length of datagrams with a number.
const NUMBERED: usize = 9;

fn numbered(kind: u8, number: u64) -> [u8; NUMBERED] {
    let mut datagram = [kind; NUMBERED];
    datagram[1..].copy_from_slice(&number.to_be_bytes());
    datagram
}

fn number(datagram: &[u8]) -> u64 {
    datagram
        .get(1..NUMBERED)
        .and_then(|number| number.try_into().ok())
        .map_or(0, u64::from_be_bytes)
}

pub(super) fn serve(offload: bool) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    // The system limits the size; that which it grants is read.
    let _ = setsockopt(&socket, RcvBuf, &RECEIVE_BUFFER);
    let window = getsockopt(&socket, RcvBuf)? / BUFFER_SHARE;
    if offload {
        setsockopt(&socket, UdpGroSegment, &true)?;
    }
    let port = socket.local_addr()?.port();
    print(&Listening { port })?;
    end_with_input();
    let mut buffer = vec![0; 1 << 16];
    let (mut received, mut acknowledged) = (0_u64, 0);
    loop {
        let (length, from) = socket.recv_from(&mut buffer)?;
        match buffer[0] {
            DATA => {
                received += length as u64;
                if received - acknowledged >= window as u64 / 4 {
                    acknowledged = received;
                    socket.send_to(&numbered(DATA, received), from)?;
                }
            }
            COUNT => {
                socket.send_to(&numbered(COUNT, received), from)?;
            }
            PING => {
                socket.send_to(&buffer[..length], from)?;
            }
            WINDOW => {
                socket.send_to(&numbered(WINDOW, window as u64), from)?;
            }
            _ => return Ok(()),
        }
    }
}

fn connect(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(LOSS_TIME))?;
    Ok(socket)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Requests a number of the server until it arrives.
fn request(socket: &UdpSocket, kind: u8) -> io::Result<u64> {
    let mut datagram = [0; NUMBERED];
    for _ in 0..REQUESTS {
        socket.send(&[kind])?;
        loop {
            match socket.recv(&mut datagram) {
                Ok(_) if datagram[0] == kind => return Ok(number(&datagram)),
                // A late acknowledgement.
                Ok(_) => {}
                Err(error) if is_timeout(&error) => break,
                Err(error) => return Err(error),
            }
        }
    }
    Err(io::Error::other("the server does not answer"))
}

pub(super) fn send(
    address: SocketAddr,
    size: usize,
    time: Duration,
    offload: bool,
) -> io::Result<()> {
    let socket = connect(address)?;
    let window = request(&socket, WINDOW)?;
    let size = size.min(MAX_PAYLOAD);
    let mut batch = size;
    if offload {
        setsockopt(&socket, UdpGsoSegment, &(size as i32))?;
        batch *= (MAX_BATCH.min(window as usize / 2) / size).clamp(1, MAX_SEGMENTS);
    }
    let data = vec![DATA; batch];
    let mut datagram = [0; NUMBERED];
    // Bytes that were lost count as acknowledged.
    let (mut sent, mut acknowledged, mut lost) = (0_u64, 0_u64, 0_u64);
    let begin = Instant::now();
    while begin.elapsed() < time {
        if sent + batch as u64 <= acknowledged + window {
            sent += socket.send(&data)? as u64;
            continue;
        }
        match socket.recv(&mut datagram) {
            Ok(_) => acknowledged = number(&datagram) + lost,
            Err(error) if is_timeout(&error) => {
                lost = sent - (acknowledged - lost);
                acknowledged = sent;
            }
            Err(error) => return Err(error),
        }
    }
    if offload {
        // One byte is a datagram again.
        setsockopt(&socket, UdpGsoSegment, &0)?;
    }
    let bytes = request(&socket, COUNT)?;
    let seconds = begin.elapsed().as_secs_f64();
    socket.send(&[END])?;
    print(&Delivered { bytes, seconds })
}

pub(super) fn ping(address: SocketAddr, size: usize, count: u32) -> io::Result<()> {
    let socket = connect(address)?;
    let message = vec![PING; size];
    let mut answer = vec![0; size];
    measure_round_trips(count, || {
        socket.send(&message)?;
        socket.recv(&mut answer).map(drop)
    })?;
    socket.send(&[END]).map(drop)
}
