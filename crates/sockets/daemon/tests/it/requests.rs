//! Requests of programs, those included that do not follow the protocol.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use carrick::Transport;

use carrick_ipc::{FrameKind, Header, Request};
use carrick_sockets::linux::{SO_ERROR, SOL_SOCKET};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::support::{
    STREAM, accepted_from, ask, ask_value, client, config, connected, connected_to_itself,
    exchange, loopback, send_frame, serve,
};

#[tokio::test]
async fn invalid_requests_end_their_client_alone() {
    serve(config("invalid"), |path| {
        let good = client(&path);
        let bad = client(&path);
        send(&bad, b"GET / HTTP/1.1", SendFlags::NOSIGNAL).unwrap();
        let mut byte = [0];
        assert_eq!(recv(&bad, &mut byte, RecvFlags::empty()).unwrap().0, 0);
        let (error, socket) = ask(&good, &STREAM, None);
        assert_eq!(error, 0);
        assert!(socket.is_some());
    })
    .await;
}

/// `ENOTSOCK`
#[tokio::test]
async fn requests_need_a_descriptor_of_the_daemon() {
    serve(config("foreign"), |path| {
        let client = client(&path);
        let listen = Request::Listen { backlog: 5 };
        assert_eq!(ask(&client, &listen, None).0, 88);
        let other = client.as_fd();
        assert_eq!(ask(&client, &listen, Some(other)).0, 88);
        let (_, socket) = ask(&client, &STREAM, None);
        let socket = socket.unwrap();
        assert_eq!(ask(&client, &listen, Some(socket.as_fd())).0, 0);
        let unknown = Request::Socket {
            domain: 1,
            kind: 1,
            protocol: 0,
        };
        assert_eq!(ask(&client, &unknown, None).0, 97, "EAFNOSUPPORT");
    })
    .await;
}

/// A process may have an outdated description of the socket. Each request follows the messages before it.
#[tokio::test]
async fn a_refused_message_sets_so_error() {
    serve(connected_to_itself("refused"), |path| {
        let client = client(&path);
        let (listener, socket) = connected(&client, 5000);
        let error = || {
            let request = Request::GetOption {
                level: SOL_SOCKET,
                name: SO_ERROR,
                buffer: &[0; 4],
            };
            let (error, value) = ask_value(&client, &request, &socket);
            assert_eq!(error, 0);
            i32::from_ne_bytes(value.try_into().unwrap())
        };
        for _ in 0..500 {
            assert_eq!(error(), 0);
            send_frame(&socket, 60_000);
            assert_eq!(error(), 22, "EINVAL");
        }
        send_frame(&socket, 0);
        assert_eq!(error(), 0);
        drop(listener);
    })
    .await;
}

/// Large messages of requests come in files, which must not block the daemon or change.
#[tokio::test]
async fn only_sealed_files_are_messages() {
    serve(connected_to_itself("files"), |path| {
        let client = client(&path);
        let (listener, socket) = connected(&client, 5000);
        let request = Request::Send {
            flags: 0,
            address: &[],
            control: &[],
            data: &[],
        };
        let send_file =
            |file: BorrowedFd<'_>| exchange(&client, &request, &[socket.as_fd(), file]).0;
        let (reader, _writer) = std::io::pipe().unwrap();
        assert_eq!(send_file(reader.as_fd()), 22, "EINVAL");
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        for (size, expected) in [(100_000, 0), (2 << 20, 90), (0, 22)] {
            let file = memfd_create("message", flags).unwrap();
            rustix::fs::ftruncate(&file, size).unwrap();
            assert_eq!(send_file(file.as_fd()), 22, "EINVAL");
            fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::WRITE).unwrap();
            assert_eq!(send_file(file.as_fd()), expected);
        }
        drop(listener);
    })
    .await;
}

/// The parts that have arrived are no message.
#[tokio::test]
async fn a_message_whose_end_is_missing_is_dropped() {
    serve(connected_to_itself("cut"), |path| {
        let client = client(&path);
        let (listener, socket) = connected(&client, 5000);
        let mut buffer = vec![0; 1 << 16];
        let accepted = accepted_from(&listener, &mut buffer);
        send_frame(&socket, 0);
        let part = Header {
            is_end: false,
            ..Header::new(FrameKind::Send)
        };
        let frame = [&part.encode()[..], b"the first part"].concat();
        send(&socket, &frame, SendFlags::NOSIGNAL).unwrap();
        drop(socket);
        let (len, _) = recv(&accepted, &mut buffer[..], RecvFlags::empty()).unwrap();
        assert!(buffer[..len].ends_with(b"message"));
        let end = recv(&accepted, &mut buffer[..], RecvFlags::empty());
        assert_eq!(end.unwrap().0, 0, "a shutdown");
    })
    .await;
}

#[tokio::test]
async fn a_client_that_reads_no_replies_is_ended() {
    serve(config("flood"), |path| {
        let good = client(&path);
        let flood = client(&path);
        let (request, _) = STREAM.encode();
        let mut sent = 0;
        while send(&flood, &request, SendFlags::NOSIGNAL).is_ok() {
            sent += 1;
            assert!(sent < 1_000_000);
        }
        let (error, socket) = ask(&good, &Request::Describe, None);
        assert_eq!((error, socket.is_none()), (88, true));
    })
    .await;
}

/// `struct sockaddr_in` of 127.0.0.`last`.
fn loopback_of(last: u8, port: u16) -> [u8; 16] {
    let mut address = loopback(port);
    address[7] = last;
    address
}

fn bind_to(client: &OwnedFd, address: &[u8]) -> (i32, OwnedFd) {
    let socket = ask(client, &STREAM, None).1.unwrap();
    let bound = ask(client, &Request::Bind { address }, Some(socket.as_fd()));
    (bound.0, socket)
}

/// RFC 1122, section 3.2.1.3: a listener at all addresses replies from the one that was addressed, which no interface
/// has.
#[tokio::test]
async fn every_loopback_address_is_served() {
    let mut config = connected_to_itself("loopback");
    config.addresses = vec![Ipv4Addr::UNSPECIFIED.into()];
    let Transport::Udp { port: udp_port } = config.transport else {
        unreachable!("it is encapsulated");
    };
    serve(config, move |path| {
        let client = client(&path);
        let mut any = loopback(5000);
        any[4..8].fill(0);
        let (error, listener) = bind_to(&client, &any);
        assert_eq!(error, 0);
        let listen = Request::Listen { backlog: 5 };
        assert_eq!(ask(&client, &listen, Some(listener.as_fd())).0, 0);
        let own = loopback_of(78, 0);
        let (error, socket) = bind_to(&client, &own);
        assert_eq!(error, 0);
        let address = loopback_of(77, 5000);
        let connect = Request::Connect {
            addresses: &address,
        };
        assert_eq!(ask(&client, &connect, Some(socket.as_fd())).0, 115);
        poll(&mut [PollFd::new(&socket, PollFlags::OUT)], None).unwrap();
        let (_, peer) = ask_value(&client, &Request::PeerAddress, &socket);
        assert_eq!(peer, address);
        let mut buffer = [0; 200];
        let accepted = accepted_from(&listener, &mut buffer);
        let (_, local) = ask_value(&client, &Request::LocalAddress, &accepted);
        assert_eq!(local, address, "the address that was addressed");
        let (error, _) = bind_to(&client, &loopback_of(255, 0));
        assert_eq!(error, 0, "127.0.0.255 is no broadcast address");
        // Other processes may have the address again when nothing uses it.
        let is_free = || UdpSocket::bind((IpAddr::from([127, 0, 0, 77]), udp_port)).is_ok();
        assert!(!is_free());
        drop((socket, accepted));
        while !is_free() {
            std::thread::sleep(Duration::from_millis(50));
        }
    })
    .await;
}

/// `EADDRNOTAVAIL`
#[tokio::test]
async fn a_daemon_with_one_address_serves_no_other() {
    serve(config("one-address"), |path| {
        let (error, _) = bind_to(&client(&path), &loopback_of(5, 0));
        assert_eq!(error, 99);
    })
    .await;
}
