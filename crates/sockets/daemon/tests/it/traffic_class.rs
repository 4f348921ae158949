//! DSCP and ECN field on the wire.

use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use carrick_ipc::Request;
use carrick_sockets::linux::{
    IP_TOS, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_SCTP, IPV6_TCLASS, Layout, PaddrParams, SCTP_NODELAY,
    SCTP_PEER_ADDR_PARAMS, SPP_DSCP, write_address,
};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};

use crate::support::{ask, ask_value, client, config, serve};

/// Expedited Forwarding (RFC 3246), and Assured Forwarding class 1 (RFC 2597), as octets.
const EF: u8 = 46 << 2;
const AF11: u8 = 10 << 2;

/// Opens the UDP port of a peer that reads the octet of DSCP and ECN field of each packet.
fn peer(ip: IpAddr) -> UdpSocket {
    let socket = UdpSocket::bind((ip, 0)).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    if ip.is_ipv4() {
        setsockopt(&socket, sockopt::IpRecvTos, &true).unwrap();
    } else {
        setsockopt(&socket, sockopt::Ipv6RecvTClass, &true).unwrap();
    }
    socket
}

/// Returns the octet of the next packet, which is an INIT, and its SCTP source port.
fn next(socket: &UdpSocket) -> (u8, u16) {
    let mut bytes = [0; 2048];
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let mut control = [0; 256];
    let received = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut parts,
        Some(&mut control),
        MsgFlags::empty(),
    );
    let received = received.unwrap();
    let class = received.cmsgs().unwrap().find_map(|message| match message {
        ControlMessageOwned::Ipv4Tos(tos) => Some(tos),
        ControlMessageOwned::Ipv6TClass(class) => Some(class as u8),
        _ => None,
    });
    assert_eq!(bytes[12], 1, "INIT");
    (class.unwrap(), u16::from_be_bytes([bytes[0], bytes[1]]))
}

fn set(client: &OwnedFd, socket: &OwnedFd, (level, name): (i32, i32), value: &[u8]) {
    let request = Request::SetOption { level, name, value };
    assert_eq!(ask_value(client, &request, socket).0, 0);
}

/// Starts a set-up with a socket that has this option; returns the octet of its INIT. `seen` has the SCTP ports of
/// earlier sockets, whose INITs are retransmitted.
fn octet_of_init(
    (path, peer): (&Path, &UdpSocket),
    seen: &mut Vec<u16>,
    option: (i32, i32),
    value: &[u8],
) -> u8 {
    let client = client(path);
    let to: SocketAddr = peer.local_addr().unwrap();
    let socket = Request::Socket {
        domain: if to.is_ipv4() { 2 } else { 10 },
        kind: 5,
        protocol: 132,
    };
    let (error, socket) = ask(&client, &socket, None);
    assert_eq!(error, 0);
    let socket = socket.unwrap();
    set(&client, &socket, option, value);
    let to = write_address(SocketAddr::new(to.ip(), 5000));
    let message = Request::Send {
        flags: 0,
        address: &to,
        control: &[],
        data: b"sets up an association",
    };
    assert_eq!(ask_value(&client, &message, &socket).0, 0);
    loop {
        let (class, port) = next(peer);
        if !seen.contains(&port) {
            seen.push(port);
            return class;
        }
    }
}

/// RFC 6458, section 8.1.12; sections 1 of `ip(7)` and `ipv6(7)` of Linux
#[tokio::test]
async fn packets_leave_with_the_dscp_of_their_socket() {
    for ip in [
        IpAddr::from([127, 0, 0, 1]),
        IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1_u16]),
    ] {
        let peer = peer(ip);
        let mut config = config("dscp");
        config.addresses = vec![ip];
        config.peer_port = Some(peer.local_addr().unwrap().port());
        serve(config, move |path| {
            let (to, mut seen) = ((&*path, &peer), Vec::new());
            let option = if ip.is_ipv4() {
                (IPPROTO_IP, IP_TOS)
            } else {
                (IPPROTO_IPV6, IPV6_TCLASS)
            };
            let class = i32::from(EF).to_ne_bytes();
            assert_eq!(octet_of_init(to, &mut seen, option, &class), EF);
            let params = PaddrParams {
                flags: SPP_DSCP as u32,
                dscp: AF11,
                ..PaddrParams::default()
            };
            let option = (IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS);
            assert_eq!(octet_of_init(to, &mut seen, option, &params.encode()), AF11);
            let none = (IPPROTO_SCTP, SCTP_NODELAY);
            let off = 0_i32.to_ne_bytes();
            assert_eq!(octet_of_init(to, &mut seen, none, &off), 0);
        })
        .await;
    }
}
