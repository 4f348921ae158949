//! System calls that send packets on Linux.
//!
//! `quinn-udp`, which sends elsewhere, takes the error EINVAL of one packet for a sign that the system has neither segmentation
//! offload nor ancillary data, and sends all later packets of the socket without them. But it may be the packet's:
//! its destination is a port 0, or an address with a route to nowhere. Here such an error is that of its packet alone. Other reasons:
//! `quinn-udp` writes the ECN field of each packet with DSCP 0, and takes a call for each packet where there is no offload, as on
//! plain IP.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use carrick_proto::Transmit;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg};
use socket2::{MsgHdr, SockAddr, SockRef};

/// Blocks that leave without segmentation offload after the system has refused it, before it is tried again. A device
/// may have no checksum offload, and be replaced.
const BLOCKS_WITHOUT_OFFLOAD: u32 = 1000;

/// Segmentation offload of a socket.
#[derive(Debug)]
pub(super) struct Offload {
    /// Packets of a block.
    segments: usize,
    /// Blocks that are to leave without it.
    without: AtomicU32,
}

impl Offload {
    /// `segments` is the limit of the packets of a block, 1 where the system has no offload.
    pub(super) fn new(segments: usize) -> Self {
        Self {
            segments,
            without: AtomicU32::new(0),
        }
    }

    /// Returns the limit of the packets of the next block, 1 if it is to leave without offload.
    pub(super) fn segments(&self) -> usize {
        match self.without.load(Ordering::Relaxed) {
            0 => self.segments,
            _ => 1,
        }
    }

    /// Records that the system has refused a block and has sent it without offload.
    fn refused(&self) {
        self.without
            .store(BLOCKS_WITHOUT_OFFLOAD, Ordering::Relaxed);
    }

    /// Records that a block leaves without offload.
    fn count(&self) {
        let less = |left: u32| left.checked_sub(1);
        let _ = self
            .without
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// Sends packets of `size` bytes, the last of which may be shorter, with the DSCP and the ECN field of the transmit.
/// Returns the number of bytes that were sent: whole packets, of which the system may accept only the first ones.
///
/// With segmentation offload the system gets them as one; where it has none, or refuses, as several with one call.
pub(super) fn send(
    socket: &(impl AsFd + AsRawFd),
    transmit: &Transmit,
    part: &[u8],
    size: usize,
    offload: &Offload,
) -> io::Result<usize> {
    let route = &transmit.route;
    let remote = SocketAddr::new(route.remote, route.encapsulation.unwrap_or(0));
    let send_one = |segment: Option<u16>| {
        let control = Control::new(transmit, segment);
        let (address, slices) = (SockAddr::from(remote), [IoSlice::new(part)]);
        let message = MsgHdr::new().with_addr(&address).with_buffers(&slices);
        let message = message.with_control(control.bytes());
        loop {
            match SockRef::from(socket).sendmsg(&message, 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                sent => return sent,
            }
        }
    };
    if part.len() <= size {
        return send_one(None);
    }
    let in_udp = route.encapsulation.is_some() && offload.segments() > 1;
    let mut is_refused = false;
    if in_udp && let Ok(segment) = u16::try_from(size) {
        match send_one(Some(segment)) {
            // Without offload at the device, or by the system; or the destination is wrong.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL)) => {
                is_refused = true;
            }
            sent => return sent,
        }
    }
    let sent = send_several(socket, transmit, part, size, remote)?;
    if is_refused {
        offload.refused();
    } else {
        offload.count();
    }
    Ok(sent)
}

/// Sends several packets with one call.
fn send_several(
    socket: &impl AsRawFd,
    transmit: &Transmit,
    part: &[u8],
    size: usize,
    remote: SocketAddr,
) -> io::Result<usize> {
    let (tos, class) = (transmit.traffic_class(), transmit.traffic_class().into());
    let class = if remote.is_ipv4() {
        ControlMessage::Ipv4Tos(&tos)
    } else {
        ControlMessage::Ipv6TClass(&class)
    };
    let slices: Vec<_> = part.chunks(size).map(|p| [IoSlice::new(p)]).collect();
    let control = nix::cmsg_space!(u32);
    let mut headers = MultiHeaders::preallocate(slices.len(), Some(control));
    let remotes = vec![Some(SockaddrStorage::from(remote)); slices.len()];
    let (descriptor, flags) = (socket.as_raw_fd(), MsgFlags::empty());
    let sent = sendmmsg(descriptor, &mut headers, &slices, remotes, [class], flags)
        .map_err(|error: Errno| io::Error::from(error))?;
    Ok(sent.map(|packet| packet.bytes).sum())
}

/// Length of the header of an ancillary message: its length, level and type.
const HEADER: usize = size_of::<usize>() + 2 * size_of::<i32>();
/// Length of an ancillary message of up to eight bytes.
const MESSAGE: usize = HEADER + 8;

/// Ancillary messages of a packet: its traffic class, and the length of the packets of a block.
struct Control {
    bytes: [u8; 2 * MESSAGE],
    length: usize,
}

impl Control {
    fn new(transmit: &Transmit, segment: Option<u16>) -> Self {
        let mut control = Self {
            bytes: [0; 2 * MESSAGE],
            length: 0,
        };
        let class = i32::from(transmit.traffic_class());
        if class != 0 {
            let (level, kind) = if transmit.route.remote.is_ipv4() {
                (libc::IPPROTO_IP, libc::IP_TOS)
            } else {
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
            };
            control.push(level, kind, &class.to_ne_bytes());
        }
        if let Some(segment) = segment {
            control.push(libc::SOL_UDP, libc::UDP_SEGMENT, &segment.to_ne_bytes());
        }
        control
    }

    /// Appends a message; its data has at most eight bytes.
    fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        let message = &mut self.bytes[self.length..][..MESSAGE];
        let (header, rest) = message.split_at_mut(HEADER);
        let (length, numbers) = header.split_at_mut(size_of::<usize>());
        length.copy_from_slice(&(HEADER + data.len()).to_ne_bytes());
        numbers[..4].copy_from_slice(&level.to_ne_bytes());
        numbers[4..].copy_from_slice(&kind.to_ne_bytes());
        rest[..data.len()].copy_from_slice(data);
        self.length += MESSAGE;
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use carrick_proto::{Ecn, Route};

    use super::*;

    #[test]
    fn packets_of_one_call_arrive_apart() {
        let [near, far] = [0; 2].map(|port| UdpSocket::bind(("127.0.0.1", port)).unwrap());
        far.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let to = far.local_addr().unwrap();
        let bytes: Vec<u8> = (0..=255).cycle().take(9 * 100 + 40).collect();
        let transmit = Transmit {
            route: Route {
                local: None,
                remote: to.ip(),
                encapsulation: Some(to.port()),
                ecn: Ecn::Capable0,
            },
            len: bytes.len(),
            segment_size: Some(100),
            may_fragment: false,
            probe: false,
            dscp: 46,
        };
        for offload in [1, 64].map(Offload::new) {
            let sent = send(&near, &transmit, &bytes, 100, &offload).unwrap();
            assert_eq!(sent, bytes.len());
            for packet in bytes.chunks(100) {
                let mut buffer = [0; 2000];
                let length = far.recv(&mut buffer).unwrap();
                assert_eq!(&buffer[..length], packet);
            }
        }
        let one = send(&near, &transmit, &bytes[..40], 100, &Offload::new(1)).unwrap();
        assert_eq!((one, far.recv(&mut [0; 2000]).unwrap()), (40, 40));
    }

    #[test]
    fn an_error_of_one_destination_concerns_no_other() {
        let [near, far] = [0; 2].map(|port| UdpSocket::bind(("127.0.0.1", port)).unwrap());
        far.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let offload = Offload::new(64);
        let bytes = [7; 1000];
        let transmit = |port| Transmit {
            route: Route {
                local: None,
                remote: far.local_addr().unwrap().ip(),
                encapsulation: Some(port),
                ecn: Ecn::Capable0,
            },
            len: bytes.len(),
            segment_size: Some(100),
            may_fragment: false,
            probe: false,
            dscp: 0,
        };
        for part in [&bytes[..], &bytes[..100]] {
            assert!(send(&near, &transmit(0), part, 100, &offload).is_err());
        }
        assert_eq!(offload.segments(), 64);
        let port = far.local_addr().unwrap().port();
        let sent = send(&near, &transmit(port), &bytes, 100, &offload).unwrap();
        assert_eq!((sent, far.recv(&mut [0; 2000]).unwrap()), (1000, 100));
    }

    #[test]
    fn offload_that_was_refused_is_tried_again() {
        let offload = Offload::new(64);
        offload.refused();
        for _ in 0..BLOCKS_WITHOUT_OFFLOAD {
            assert_eq!(offload.segments(), 1);
            offload.count();
        }
        assert_eq!(offload.segments(), 64);
        offload.count();
        assert_eq!(offload.segments(), 64);
    }
}
