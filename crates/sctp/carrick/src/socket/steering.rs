//! Sockets of the shards of an endpoint: several with one address and UDP port, between which the system
//! chooses by the verification tag of a packet.

use std::io;
use std::os::fd::AsFd;

use nix::libc::{BPF_ABS, BPF_ALU, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_MOD, BPF_RET, BPF_W};
use nix::libc::{sock_filter, sock_fprog};
use nix::sys::socket::{setsockopt, sockopt};

/// Accumulator as the result of a program (linux/filter.h).
const BPF_A: u32 = 0x10;

/// Offsets in a packet of the verification tag (RFC 9260, section 3.1), and of the Initiate Tag of an INIT
/// (section 3.3.2).
const TAG: u32 = 4;
const INITIATE_TAG: u32 = 16;

/// Lets the system choose among `count` sockets of a group: the one with the index tag mod `count`, in the
/// order in which they were bound. The tag of an INIT is its Initiate Tag, which spreads the peers also where
/// many of them have one UDP port. A packet that is too short goes to the first socket.
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
        step(BPF_JMP | BPF_JEQ | BPF_K, (0, 1), 0),
        step(BPF_LD | BPF_W | BPF_ABS, straight, INITIATE_TAG),
        step(BPF_ALU | BPF_MOD | BPF_K, straight, count),
        step(BPF_RET | BPF_A, straight, 0),
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
        // The tag at both offsets.
        let tags = [5u32, 6, 7, 0x8000_0000, u32::MAX, 9];
        let both = tags.into_iter().flat_map(|tag| [(tag, 4), (tag, 16)]);
        for (tag, offset) in both {
            let mut packet = [0; 20];
            packet[offset..offset + 4].copy_from_slice(&tag.to_be_bytes());
            sender.send_to(&packet, (ADDRESS, port)).unwrap();
            let socket = &all[(tag % 3) as usize];
            let receiver: UdpSocket = socket.duplicate().unwrap().into();
            receiver.set_nonblocking(false).unwrap();
            receiver
                .set_read_timeout(Some(Duration::from_secs(10)))
                .unwrap();
            let mut received = [0; 20];
            receiver.recv(&mut received).unwrap();
            assert_eq!(received, packet, "{tag}");
        }
    }
}
