//! Socket filter of a raw socket. Without one, each raw socket receives the packets for all SCTP ports of its address.

use nix::libc::{
    BPF_ABS, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_LDX, BPF_MSH, BPF_RET,
};
use socket2::SockFilter;

/// Chunk type of INIT (RFC 9260, section 3.2).
const INIT: u32 = 1;

/// Offsets in a packet of the destination port (RFC 9260, section 3.1) and of the type of the first chunk.
const DESTINATION_PORT: u32 = 2;
const FIRST_CHUNK: u32 = 12;

/// Returns a filter program that passes the packets to one port, and all packets that begin with an INIT, because an
/// INIT to an unused port is answered (`crate::strays`). The packets of an IPv4 socket begin with the IP header.
pub(super) fn program(v4: bool, port: u16) -> Vec<SockFilter> {
    let load = if v4 { BPF_IND } else { BPF_ABS };
    let step = |code: u32, (jt, jf): (u8, u8), k: u32| SockFilter::new(code as u16, jt, jf, k);
    let straight = (0, 0);
    let mut program = Vec::new();
    if v4 {
        // The length of the IP header becomes the index of the loads.
        program.push(step(BPF_LDX | BPF_B | BPF_MSH, straight, 0));
    }
    program.extend([
        step(BPF_LD | BPF_H | load, straight, DESTINATION_PORT),
        step(BPF_JMP | BPF_JEQ | BPF_K, (3, 0), port.into()),
        step(BPF_LD | BPF_B | load, straight, FIRST_CHUNK),
        step(BPF_JMP | BPF_JEQ | BPF_K, (1, 0), INIT),
        step(BPF_RET | BPF_K, straight, 0),
        step(BPF_RET | BPF_K, straight, u32::MAX),
    ]);
    program
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr, UdpSocket};
    use std::time::Duration;

    use crate::socket::{IP_PROTOCOL, SocketTransport, open};

    /// Common header and first chunk header of a packet.
    fn packet(port: u16, chunk: u8) -> [u8; 16] {
        let mut packet = [0; 16];
        packet[2..4].copy_from_slice(&port.to_be_bytes());
        packet[12] = chunk;
        packet
    }

    #[test]
    fn only_packets_of_the_port_and_inits_pass() {
        for address in ["127.0.0.87", "::1"].map(|a| a.parse::<IpAddr>().unwrap()) {
            let Ok(filtered) = open(address, SocketTransport::Raw, 0) else {
                // Without CAP_NET_RAW the test does nothing.
                return;
            };
            let program = super::program(address.is_ipv4(), 2905);
            filtered.attach_filter(&program).unwrap();
            let domain = socket2::Domain::for_address(SocketAddr::new(address, 0));
            let protocol = socket2::Protocol::from(IP_PROTOCOL);
            let sender = socket2::Socket::new(domain, socket2::Type::RAW, Some(protocol)).unwrap();
            let to = SocketAddr::new(address, 0).into();
            let (data, init) = (0, 1);
            let sent = [(2906, data), (2905, data), (2907, init), (5, 3), (2905, 3)];
            for (port, chunk) in sent {
                sender.send_to(&packet(port, chunk), &to).unwrap();
            }
            sender.send_to(b"short", &to).unwrap();
            let filtered = UdpSocket::from(filtered);
            let time = Duration::from_millis(200);
            filtered.set_read_timeout(Some(time)).unwrap();
            let mut buffer = [0; 64];
            let header = if address.is_ipv4() { 20 } else { 0 };
            let mut passed = Vec::new();
            while let Ok(length) = filtered.recv(&mut buffer) {
                let received = &buffer[header..length];
                let port = u16::from_be_bytes([received[2], received[3]]);
                passed.push((port, received[12]));
            }
            assert_eq!(passed, [(2905, data), (2907, init), (2905, 3)], "{address}");
        }
    }
}
