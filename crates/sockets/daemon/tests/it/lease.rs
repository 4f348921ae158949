//! Leased ports: the policy of ports, and processes that send something else than their packets.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use carrick_daemon::ReservedPorts;
use carrick_ipc::{LeaseFrame, LeaseFrameKind, LeaseGrant, Request, address_bytes};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;

use crate::support::{STREAM, ask, client, config, exchange, serve};

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const EADDRINUSE: i32 = 98;

/// `struct sockaddr_in`
fn place(address: IpAddr, port: u16) -> Vec<u8> {
    address_bytes(Some(SocketAddr::new(address, port)))[..16].to_vec()
}

/// Requests a lease; returns the error number, and what was granted.
fn lease(client: &OwnedFd, address: IpAddr, port: u16) -> (i32, Option<(LeaseGrant, OwnedFd)>) {
    let addresses = place(address, port);
    let request = Request::Lease {
        addresses: &addresses,
    };
    let (error, value, pair) = exchange(client, &request, &[]);
    let granted = pair.map(|pair| (LeaseGrant::decode(&value).unwrap(), pair));
    (error, granted)
}

fn granted(path: &Path, port: u16) -> (LeaseGrant, OwnedFd) {
    let (error, granted) = lease(&client(path), LOOPBACK, port);
    assert_eq!(error, 0);
    granted.unwrap()
}

/// A frame with packets to a peer, each of 16 bytes with a source port.
fn frame(local: IpAddr, remote: SocketAddr, ports: &[u16]) -> Vec<u8> {
    let packets: Vec<[u8; 16]> = ports
        .iter()
        .map(|port| {
            let mut packet = [7; 16];
            packet[..2].copy_from_slice(&port.to_be_bytes());
            packet
        })
        .collect();
    let frame = LeaseFrame {
        kind: LeaseFrameKind::Packets {
            traffic_class: 0,
            segment_size: 16,
            may_fragment: false,
            is_probe: false,
        },
        local: Some(local),
        remote,
        bytes: &packets.concat(),
    };
    [&frame.fields()[..], frame.bytes].concat()
}

fn has_ended(pair: &OwnedFd) -> bool {
    let mut byte = [0];
    // The daemon may have unread frames of the process.
    recv(pair, &mut byte, RecvFlags::empty()).map_or(true, |(len, _)| len == 0)
}

#[tokio::test]
async fn sockets_and_leases_exclude_each_other() {
    serve(config("lease-ports"), |path| {
        let client = client(&path);
        let bind = |port: u16| {
            let socket = ask(&client, &STREAM, None).1.unwrap();
            let address = place(LOOPBACK, port);
            let bind = Request::Bind { address: &address };
            let (error, _) = ask(&client, &bind, Some(socket.as_fd()));
            (error, socket)
        };
        let (error, socket) = bind(5000);
        assert_eq!(error, 0);
        assert_eq!(lease(&client, LOOPBACK, 5000).0, EADDRINUSE);
        let (grant, pair) = granted(&path, 5001);
        assert_eq!((grant.port, &grant.addresses[..]), (5001, &[LOOPBACK][..]));
        assert_eq!(lease(&client, LOOPBACK, 5001).0, EADDRINUSE);
        assert_eq!(bind(5001).0, EADDRINUSE);
        // The ports are free at once.
        drop((socket, pair));
        assert_eq!(bind(5001).0, 0);
        assert_eq!(lease(&client, LOOPBACK, 5000).0, 0);
        let other = IpAddr::from([192, 0, 2, 1]);
        assert_eq!(lease(&client, other, 5003).0, 99, "EADDRNOTAVAIL");
        let (chosen, _pair) = granted(&path, 0);
        assert!(chosen.port >= 1024, "{}", chosen.port);
    })
    .await;
}

#[tokio::test]
async fn leases_of_a_user_are_limited() {
    let mut config = config("lease-limit");
    config.limits.descriptors = 2;
    serve(config, |path| {
        let client = client(&path);
        let first = lease(&client, LOOPBACK, 5000);
        let _socket = ask(&client, &STREAM, None);
        assert_eq!(lease(&client, LOOPBACK, 5001).0, 24, "EMFILE");
        drop(first);
        // The daemon reads the end of the lease, and the request, in either order.
        while lease(&client, LOOPBACK, 5002).0 != 0 {}
    })
    .await;
}

/// RFC 6458, section 3.1.2: as with `bind` of a socket.
#[tokio::test]
async fn the_owner_of_a_reserved_port_leases_it() {
    let owner = 65_534;
    if !geteuid().is_root() {
        return;
    }
    let mut config = config("lease-owner");
    config.reserved_ports = vec![ReservedPorts {
        owner,
        ports: 7000..=7001,
    }];
    serve(config, move |path| {
        let as_user = |uid: u32, port| {
            let path = path.clone();
            let leased = std::thread::spawn(move || {
                let uid = Some(Uid::from_raw(uid));
                set_thread_res_uid(uid, uid, uid).unwrap();
                lease(&client(&path), LOOPBACK, port).0
            });
            leased.join().unwrap()
        };
        assert_eq!((as_user(owner, 7000), as_user(owner, 7001)), (0, 0));
        assert_eq!(as_user(owner - 1, 7001), 13, "EACCES");
        assert_eq!(as_user(owner, 700), 13, "EACCES");
    })
    .await;
}

/// Other processes keep their leases.
#[tokio::test]
async fn packets_of_another_port_end_the_lease() {
    serve(config("lease-source"), |path| {
        let peer = UdpSocket::bind((LOOPBACK, 0)).unwrap();
        let to = peer.local_addr().unwrap();
        let (grant, good) = granted(&path, 5000);
        for (port, bytes) in [
            (5001, frame(LOOPBACK, to, &[5001, 5000])),
            (5002, frame(LOOPBACK, to, &[])),
            (5003, b"something else".to_vec()),
        ] {
            let (_, bad) = granted(&path, port);
            send(&bad, &bytes, SendFlags::NOSIGNAL).unwrap();
            assert!(has_ended(&bad), "{port}");
        }
        // A source address that is not leased: the packet is lost.
        let foreign = frame([192, 0, 2, 1].into(), to, &[5000]);
        send(&good, &foreign, SendFlags::NOSIGNAL).unwrap();
        let own = frame(LOOPBACK, to, &[5000, 5000]);
        send(&good, &own, SendFlags::NOSIGNAL).unwrap();
        let mut packet = [0; 64];
        for _ in 0..2 {
            let (len, from) = peer.recv_from(&mut packet).unwrap();
            assert_eq!((len, &packet[..2]), (16, &5000u16.to_be_bytes()[..]));
            assert_eq!(Some(from.port()), grant.udp_port);
        }
        peer.set_nonblocking(true).unwrap();
        assert!(
            peer.recv_from(&mut packet).is_err(),
            "only the packets of the lease were sent"
        );
    })
    .await;
}

/// In the order of arrival, in as many frames as they need.
#[tokio::test]
async fn packets_to_a_leased_port_pass_to_its_process() {
    serve(config("lease-arrival"), |path| {
        let peer = UdpSocket::bind((LOOPBACK, 0)).unwrap();
        let (grant, pair) = granted(&path, 5000);
        let lengths = [100, 100, 40, 100, 200];
        for (number, len) in lengths.into_iter().enumerate() {
            let mut packet = vec![number as u8; len];
            packet[2..4].copy_from_slice(&5000u16.to_be_bytes());
            let to = (LOOPBACK, grant.udp_port.unwrap());
            peer.send_to(&packet, to).unwrap();
        }
        let mut received = Vec::new();
        let mut buffer = vec![0; 70_000];
        while received.len() < lengths.len() {
            let (len, _) = recv(&pair, &mut buffer, RecvFlags::empty()).unwrap();
            let frame = LeaseFrame::decode(&buffer[..len]).unwrap();
            assert_eq!(
                (frame.local, frame.remote),
                (Some(LOOPBACK), peer.local_addr().unwrap())
            );
            let LeaseFrameKind::Packets { segment_size, .. } = frame.kind else {
                panic!("{frame:?}");
            };
            for packet in frame.bytes.chunks(segment_size as usize) {
                received.push((packet[0], packet.len()));
            }
        }
        let expected: Vec<_> = (0u8..).zip(lengths).collect();
        assert_eq!(received, expected);
    })
    .await;
}

/// RFC 9260, section 1.3: set-ups to two addresses of one peer over a leased port.
#[tokio::test]
async fn two_connects_over_a_lease_make_one_association() {
    let config = config("lease-two");
    let path = config.socket.clone();
    let (done, daemon) = crate::support::start(config);
    let addresses = [3, 4].map(|host| IpAddr::from([127, 0, 0, host]));
    let server = carrick::Config::udp(addresses).encapsulation_port(0);
    let server = carrick::Endpoint::bind(server).unwrap();
    // The lease is requested by calls that block, which the daemon's thread must answer.
    let leased = carrick::Config::udp([LOOPBACK]).daemon(path);
    let runtime = tokio::runtime::Handle::current();
    let client = tokio::task::spawn_blocking(move || {
        let _entered = runtime.enter();
        carrick::Endpoint::bind(leased).unwrap()
    });
    let client = client.await.unwrap();
    let options = carrick::ConnectOptions::new();
    let options = options.encapsulation_port(server.encapsulation_port().unwrap());
    let connect = |address: IpAddr| {
        let (client, options, port) = (client.clone(), options.clone(), server.port());
        async move { client.connect_with((&[address], port), options).await }
    };
    let (first, second) = tokio::join!(connect(addresses[0]), connect(addresses[1]));
    let (association, error) = match (first, second) {
        (Ok(association), Err(error)) | (Err(error), Ok(association)) => (association, error),
        (Ok(_), Ok(_)) => panic!("two associations with one peer"),
        (Err(first), Err(second)) => panic!("{first}; {second}"),
    };
    assert_eq!(error, carrick::ConnectError::AlreadyConnected);
    let mut accepted = server.accept().await.unwrap().accept();
    let options = carrick::SendOptions::on_stream(0);
    association.send("hello", options).await.unwrap();
    let message = accepted.recv().await.unwrap().unwrap();
    assert_eq!(&message.payload.into_bytes()[..], b"hello");
    drop((association, accepted));
    assert!(client.close().await.is_empty());
    assert!(server.close().await.is_empty());
    done.send(()).unwrap();
    daemon.await.unwrap();
}
