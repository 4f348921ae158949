//! Packets with a DSCP. `quinn-udp`, which sends all other packets, writes the ECN field of each packet with DSCP 0.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use carrick_proto::Transmit;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};

/// Sends packets of `size` bytes, the last of which may be shorter, with the DSCP and the ECN field of the transmit:
/// with segmentation offload, or one by one where the system has none.
pub(super) fn send(
    socket: &impl AsRawFd,
    transmit: &Transmit,
    part: &[u8],
    size: usize,
) -> io::Result<()> {
    if part.len() <= size {
        return Ok(send_packets(socket, transmit, part, None)?);
    }
    match send_packets(socket, transmit, part, u16::try_from(size).ok()) {
        // Without offload at the device, or by the system.
        Err(Errno::EIO | Errno::EINVAL) => {
            for packet in part.chunks(size) {
                send_packets(socket, transmit, packet, None)?;
            }
            Ok(())
        }
        sent => Ok(sent?),
    }
}

fn send_packets(
    socket: &impl AsRawFd,
    transmit: &Transmit,
    bytes: &[u8],
    segment_size: Option<u16>,
) -> Result<(), Errno> {
    let route = &transmit.route;
    let (tos, class) = (transmit.traffic_class(), transmit.traffic_class().into());
    let first = if route.remote.is_ipv4() {
        ControlMessage::Ipv4Tos(&tos)
    } else {
        ControlMessage::Ipv6TClass(&class)
    };
    let mut control = vec![first];
    control.extend(segment_size.as_ref().map(ControlMessage::UdpGsoSegments));
    let remote = SocketAddr::new(route.remote, route.encapsulation.unwrap_or(0));
    sendmsg(
        socket.as_raw_fd(),
        &[IoSlice::new(bytes)],
        &control,
        MsgFlags::empty(),
        Some(&SockaddrStorage::from(remote)),
    )?;
    Ok(())
}
