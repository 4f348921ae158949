//! System calls that send what `quinn-udp` does not send well: packets with a DSCP, since it writes the ECN field of each
//! packet with DSCP 0, and several packets where there is no segmentation offload, as on plain IP, since it takes a call
//! for each of them.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use carrick_proto::Transmit;
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg, sendmsg,
};

/// Sends packets of `size` bytes, the last of which may be shorter, with the DSCP and the ECN field of the transmit.
/// Returns the number of bytes that were sent: whole packets, of which the system may accept only the first ones.
///
/// With segmentation offload the system gets them as one; where it has none, or refuses, as several with one call.
pub(super) fn send(
    socket: &impl AsRawFd,
    transmit: &Transmit,
    part: &[u8],
    size: usize,
    offload: bool,
) -> io::Result<usize> {
    let route = &transmit.route;
    let (tos, class) = (transmit.traffic_class(), transmit.traffic_class().into());
    let class = if route.remote.is_ipv4() {
        ControlMessage::Ipv4Tos(&tos)
    } else {
        ControlMessage::Ipv6TClass(&class)
    };
    let remote = SocketAddr::new(route.remote, route.encapsulation.unwrap_or(0));
    let remote = SockaddrStorage::from(remote);
    let send_one = |control: &[ControlMessage<'_>]| {
        let (slices, flags) = ([IoSlice::new(part)], MsgFlags::empty());
        sendmsg(socket.as_raw_fd(), &slices, control, flags, Some(&remote))
    };
    if part.len() <= size {
        return Ok(send_one(&[class])?);
    }
    if offload && let Ok(segment) = u16::try_from(size) {
        match send_one(&[class, ControlMessage::UdpGsoSegments(&segment)]) {
            // Without offload at the device, or by the system.
            Err(Errno::EIO | Errno::EINVAL) => {}
            sent => return Ok(sent?),
        }
    }
    let slices: Vec<_> = part.chunks(size).map(|p| [IoSlice::new(p)]).collect();
    let control = nix::cmsg_space!(u32);
    let mut headers = MultiHeaders::preallocate(slices.len(), Some(control));
    let remotes = vec![Some(remote); slices.len()];
    let (descriptor, flags) = (socket.as_raw_fd(), MsgFlags::empty());
    let sent = sendmmsg(descriptor, &mut headers, &slices, remotes, [class], flags)?;
    Ok(sent.map(|packet| packet.bytes).sum())
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
        for offload in [false, true] {
            let sent = send(&near, &transmit, &bytes, 100, offload).unwrap();
            assert_eq!(sent, bytes.len());
            for packet in bytes.chunks(100) {
                let mut buffer = [0; 2000];
                let length = far.recv(&mut buffer).unwrap();
                assert_eq!(&buffer[..length], packet);
            }
        }
        let one = send(&near, &transmit, &bytes[..40], 100, false).unwrap();
        assert_eq!((one, far.recv(&mut [0; 2000]).unwrap()), (40, 40));
    }
}
