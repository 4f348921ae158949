//! Descriptors that programs close, their ports, and the end of a daemon.

use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use carrick_ipc::{FrameKind, Header, Request};
use carrick_sockets::linux::{
    IPPROTO_SCTP, Layout, Linger, SCTP_SOCKOPT_BINDX_ADD, SO_LINGER, SOL_SOCKET,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::support::{
    STREAM, accepted_from, ask, client, connected, connected_to_itself, loopback, serve,
};

/// RFC 6458, section 8.1.4: the last descriptor waits for the end of the association.
#[tokio::test]
async fn closing_the_last_descriptor_lingers() {
    serve(connected_to_itself("linger"), |path| {
        let client = client(&path);
        let (listener, socket) = connected(&client, 5000);
        let linger = Linger { on: 1, seconds: 30 }.encode();
        let option = Request::SetOption {
            level: SOL_SOCKET,
            name: SO_LINGER,
            value: &linger,
        };
        assert_eq!(ask(&client, &option, Some(socket.as_fd())).0, 0);
        // More than the peer, which does not read, has room for.
        let mut frame = Header::new(FrameKind::Send).encode().to_vec();
        frame.resize(65_000, 7);
        for _ in 0..32 {
            send(&socket, &frame, SendFlags::NOSIGNAL).unwrap();
        }
        let cookie = rustix::net::sockopt::socket_cookie(&socket).unwrap();
        let wait = Request::Linger { cookie };
        let duplicate = socket.try_clone().unwrap();
        drop(socket);
        assert!(ask(&client, &wait, None).1.is_none(), "another descriptor");
        drop(duplicate);
        let (error, ended) = ask(&client, &wait, None);
        assert_eq!(error, 0);
        let ended = ended.unwrap();
        assert!(!conditions(&ended).contains(PollFlags::HUP));
        // The unread messages end the association.
        drop(listener);
        poll(&mut [PollFd::new(&ended, PollFlags::IN)], None).unwrap();
        let unknown = Request::Linger { cookie: 1 };
        assert!(ask(&client, &unknown, None).1.is_none());
    })
    .await;
}

/// Also where the association of the socket has ended before.
#[tokio::test]
async fn the_port_of_a_closed_socket_is_free_at_once() {
    serve(connected_to_itself("ports"), |path| {
        let client = client(&path);
        let requested = |request: Request<'_>| {
            let socket = ask(&client, &STREAM, None).1.unwrap();
            let (error, _) = ask(&client, &request, Some(socket.as_fd()));
            (error, socket)
        };
        let bound = |port: u16| {
            let address = &loopback(port);
            requested(Request::Bind { address })
        };
        // sctp_bindx
        let bound_by_option = |port: u16| {
            requested(Request::SetOption {
                level: IPPROTO_SCTP,
                name: SCTP_SOCKOPT_BINDX_ADD,
                value: &loopback(port),
            })
        };
        let first = bound(5000);
        assert_eq!(first.0, 0);
        assert_eq!(bound(5000).0, 98, "EADDRINUSE");
        drop(first);
        for _ in 0..100 {
            let (error, socket) = bound(5000);
            assert_eq!(error, 0);
            let listen = Request::Listen { backlog: 5 };
            assert_eq!(ask(&client, &listen, Some(socket.as_fd())).0, 0);
        }
        for round in 0..4 {
            let (error, socket) = if round % 2 == 0 {
                bound(5001)
            } else {
                bound_by_option(5001)
            };
            assert_eq!(error, 0);
            let addresses = loopback(5002);
            let connect = Request::Connect {
                addresses: &addresses,
            };
            let (error, _) = ask(&client, &connect, Some(socket.as_fd()));
            assert_eq!(error, 115, "EINPROGRESS");
            let mut wait = [PollFd::new(&socket, PollFlags::empty())];
            poll(&mut wait, None).unwrap();
            assert!(wait[0].revents().contains(PollFlags::HUP));
            assert_eq!(bound(5001).0, 98, "EADDRINUSE");
        }
    })
    .await;
}

/// Returns the conditions of a descriptor that are in place.
fn conditions(fd: impl AsFd) -> PollFlags {
    let asked = PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP;
    let mut wait = [PollFd::new(&fd, asked)];
    let at_once = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut wait, Some(&at_once)).unwrap();
    wait[0].revents()
}

/// `end.while-shut-down` of interop/sockets/linux-6.1.txt: neither calls that wait for room nor the peer wait for the
/// messages that were sent before.
#[tokio::test]
async fn a_full_socket_is_shut_down_at_once() {
    serve(connected_to_itself("full"), |path| {
        let client = client(&path);
        let (listener, socket) = connected(&client, 5000);
        let mut buffer = vec![0; 1 << 17];
        let peer = accepted_from(&listener, &mut buffer);
        let mut frame = Header::new(FrameKind::Send).encode().to_vec();
        frame.resize(10_000, 7);
        let mut sent = 0;
        // Until the daemon does not read any more.
        while has_condition(&socket, PollFlags::OUT, 500) {
            send(&socket, &frame, SendFlags::NOSIGNAL).unwrap();
            sent += 1;
        }
        let both = Request::Shutdown { how: 2 };
        assert_eq!(ask(&client, &both, Some(socket.as_fd())).0, 0);
        let refused = send(&socket, &frame, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        assert_eq!(refused, Err(Errno::PIPE));
        assert!(has_condition(&socket, PollFlags::OUT, 60_000));
        let end = recv(&socket, &mut buffer[..], RecvFlags::empty());
        assert_eq!(end.unwrap().0, 0, "a call that waits for messages returns");
        send(&peer, &frame, SendFlags::NOSIGNAL).unwrap();
        let mut received = 0;
        while recv(&peer, &mut buffer[..], RecvFlags::empty()).unwrap().0 > 0 {
            received += 1;
        }
        assert_eq!(received, sent);
    })
    .await;
}

/// Returns whether a descriptor has a condition within a number of milliseconds.
fn has_condition(fd: impl AsFd, condition: PollFlags, limit: u64) -> bool {
    let limit = Duration::from_millis(limit);
    let limit = rustix::event::Timespec::try_from(limit).unwrap();
    poll(&mut [PollFd::new(&fd, condition)], Some(&limit)).unwrap() > 0
}

/// `ready.states` of interop/sockets/linux-6.1.txt
#[tokio::test]
async fn one_to_one_sockets_are_writable_when_connected() {
    serve(connected_to_itself("writable"), |path| {
        let client = client(&path);
        let call =
            |socket: &OwnedFd, request: &Request<'_>| ask(&client, request, Some(socket.as_fd())).0;
        let [one, listener] = [(); 2].map(|()| ask(&client, &STREAM, None).1.unwrap());
        assert_eq!(conditions(&one), PollFlags::empty());
        let address = loopback(5000);
        assert_eq!(call(&listener, &Request::Bind { address: &address }), 0);
        assert_eq!(call(&listener, &Request::Listen { backlog: 5 }), 0);
        assert_eq!(conditions(&listener), PollFlags::empty());
        let shutdown = Request::Shutdown { how: 1 };
        assert_eq!(call(&listener, &shutdown), 0);
        assert_eq!(call(&one, &shutdown), 107, "ENOTCONN");
        let connect = Request::Connect {
            addresses: &address,
        };
        assert_eq!(call(&one, &connect), 115, "EINPROGRESS");
        poll(&mut [PollFd::new(&one, PollFlags::OUT)], None).unwrap();
        poll(&mut [PollFd::new(&listener, PollFlags::IN)], None).unwrap();
        assert_eq!(conditions(&one), PollFlags::OUT);
        assert_eq!(conditions(&listener), PollFlags::IN);
    })
    .await;
}

/// The port is free, as that of every closed socket.
#[tokio::test]
async fn closing_a_descriptor_ends_its_set_up() {
    let mut config = connected_to_itself("cancelled");
    let silent = std::net::UdpSocket::bind(("127.0.0.2", 0)).unwrap();
    config.peer_port = Some(silent.local_addr().unwrap().port());
    serve(config, move |path| {
        let client = client(&path);
        let address = loopback(5001);
        let peer = loopback(5000);
        for _ in 0..2 {
            let socket = ask(&client, &STREAM, None).1.unwrap();
            let call = |request: &Request<'_>| ask(&client, request, Some(socket.as_fd())).0;
            assert_eq!(call(&Request::Bind { address: &address }), 0);
            let connect = Request::Connect { addresses: &peer };
            assert_eq!(call(&connect), 115, "EINPROGRESS");
        }
        drop(silent);
    })
    .await;
}

/// Programs that close descriptors after the peer has ended their associations get others at once.
#[tokio::test]
async fn closed_descriptors_of_ended_associations_are_free() {
    let mut config = connected_to_itself("short");
    config.limits.descriptors = 6;
    serve(config, |path| {
        let client = client(&path);
        for port in 5000..5050 {
            let (listener, socket) = connected(&client, port);
            let mut buffer = vec![0; 1024];
            let accepted = accepted_from(&listener, &mut buffer);
            drop(accepted);
            // The peer's shutdown is over, and the pair has hung up.
            let mut ended = [PollFd::new(&socket, PollFlags::empty())];
            poll(&mut ended, None).unwrap();
            drop(socket);
        }
    })
    .await;
}

/// RFC 9260, section 9.2
#[tokio::test(flavor = "multi_thread")]
async fn associations_are_shut_down_at_the_end() {
    let mut config = connected_to_itself("stop");
    config.linger = Duration::from_secs(60);
    let port = config.peer_port.unwrap();
    let path = config.socket.clone();
    let (done, daemon) = crate::support::start(config);
    let listener = tokio::task::spawn_blocking(move || {
        let client = client(&path);
        let socket = ask(&client, &STREAM, None).1.unwrap();
        let address = loopback(5000);
        let bind = Request::Bind { address: &address };
        assert_eq!(ask(&client, &bind, Some(socket.as_fd())).0, 0);
        let listen = Request::Listen { backlog: 5 };
        assert_eq!(ask(&client, &listen, Some(socket.as_fd())).0, 0);
        (client, socket)
    });
    let programs = listener.await.unwrap();
    let (here, there) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
    let peer = carrick::Config::udp([here]).encapsulation_port(0);
    let peer = carrick::Endpoint::bind(peer).unwrap();
    let options = carrick::ConnectOptions::new().encapsulation_port(port);
    let peers: &[IpAddr] = &[there];
    let mut association = peer.connect_with((peers, 5000), options).await.unwrap();
    let begun = Instant::now();
    done.send(()).unwrap();
    assert!(matches!(association.recv().await, Ok(None)), "no ABORT");
    daemon.await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(30));
    drop(programs);
}

/// Lines of the log of one daemon.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[tokio::test]
async fn the_log_has_what_the_end_of_the_daemon_loses() {
    let mut config = connected_to_itself("lost");
    config.log = |line| {
        let mut lines = LOG.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(line.to_owned());
    };
    serve(config, |path| {
        let client = client(&path);
        let programs = connected(&client, 5000);
        // More than the peer, which does not read, has room for.
        let mut frame = Header::new(FrameKind::Send).encode().to_vec();
        frame.resize(65_000, 7);
        for _ in 0..32 {
            send(&programs.1, &frame, SendFlags::NOSIGNAL).unwrap();
        }
        // They are open while the daemon ends.
        std::mem::forget((client, programs));
    })
    .await;
    let lines = LOG.lock().unwrap();
    let all = "the daemon ends: 2 associations aborted, ";
    assert!(lines[0].starts_with(all), "{lines:?}");
    let [lost] = &lines[1..] else {
        panic!("{lines:?}");
    };
    let (peer, bytes) = lost.split_once(" aborted: ").unwrap();
    assert!(peer.ends_with(" with 127.0.0.2 port 5000"), "{lost}");
    let bytes = bytes.strip_suffix(" bytes not acknowledged").unwrap();
    assert!(bytes.parse::<usize>().unwrap() > 65_000, "{lost}");
}
