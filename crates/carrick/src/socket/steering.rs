//! Sockets of the shards of an endpoint: several with one address and UDP port, between which the system
//! chooses by the verification tag of a packet.

use std::io;
use std::os::fd::AsFd;

use nix::libc::{BPF_ABS, BPF_ALU, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_MOD, BPF_RET, BPF_W};
use nix::libc::{sock_filter, sock_fprog};
use nix::sys::socket::{setsockopt, sockopt};

/// Accumulator as the result of a program (linux/filter.h).
const BPF_A: u32 = 0x10;

/// Offset of the verification tag in a packet (RFC 9260, section 3.1).
const TAG: u32 = 4;

/// Lets the system choose among `count` sockets of a group: the one with the index tag mod `count`, in the
/// order in which they were bound; for a packet without a tag, as an INIT, by its addresses and ports.
pub(super) fn steer(socket: &impl AsFd, count: u32) -> io::Result<()> {
    let step = |code: u32, (jt, jf): (u8, u8), k: u32| sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let straight = (0, 0);
    let mut program = [
        step(BPF_LD | BPF_W | BPF_ABS, straight, TAG),
        step(BPF_JMP | BPF_JEQ | BPF_K, (2, 0), 0),
        step(BPF_ALU | BPF_MOD | BPF_K, straight, count),
        step(BPF_RET | BPF_A, straight, 0),
        // No socket has this index.
        step(BPF_RET | BPF_K, straight, u32::MAX),
    ];
    let program = sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    Ok(setsockopt(socket, sockopt::AttachReusePortCbpf, &program)?)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use crate::socket::{Socket, SocketTransport};

    const ADDRESS: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[tokio::test]
    async fn the_tag_selects_the_socket() {
        let (first, port) =
            Socket::bind(ADDRESS, SocketTransport::Udp { port: 0 }, 1 << 20).unwrap();
        let mut all = vec![first];
        let others = all[0].open_group(port, 3, 1 << 20).unwrap();
        all.extend(others);
        let again = Socket::bind(ADDRESS, SocketTransport::Udp { port }, 1 << 20);
        assert!(again.is_err(), "another endpoint has the port");
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for tag in [5u32, 6, 7, 0x8000_0000, u32::MAX, 9] {
            let mut packet = [0; 16];
            packet[4..8].copy_from_slice(&tag.to_be_bytes());
            sender.send_to(&packet, (ADDRESS, port)).unwrap();
            let socket = &all[(tag % 3) as usize];
            let receiver: UdpSocket = socket.duplicate().unwrap().into();
            receiver.set_nonblocking(false).unwrap();
            receiver
                .set_read_timeout(Some(Duration::from_secs(10)))
                .unwrap();
            let mut received = [0; 16];
            receiver.recv(&mut received).unwrap();
            assert_eq!(received, packet, "{tag}");
        }
    }
}
