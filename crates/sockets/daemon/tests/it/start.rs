//! Control sockets, other SCTP implementations on the host, and successors.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use carrick::Transport;
use carrick_daemon::{Daemon, DaemonEnd, DaemonError, answers};
use carrick_ipc::Request;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use tokio::sync::oneshot;

use crate::support::{
    STREAM, ask, client, config, connected, connected_to_itself, exchange, loopback,
};

#[tokio::test]
async fn a_file_that_is_no_socket_is_not_replaced() {
    let config = config("file");
    let path = config.socket.clone();
    std::fs::write(&path, "keys").unwrap();
    let error = Daemon::bind(config.clone()).unwrap_err();
    assert!(matches!(&error, DaemonError::NotASocket(at) if *at == path));
    assert!(error.to_string().contains("--socket"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"keys");
    std::fs::remove_file(&path).unwrap();
    // A socket that a daemon has left is replaced.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let daemon = Daemon::bind(config).unwrap();
    // At the end, too, only a socket is removed.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "keys").unwrap();
    daemon.run(async {}).await;
    assert_eq!(std::fs::read(&path).unwrap(), b"keys");
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn a_second_daemon_does_not_take_the_path() {
    let config = config("second");
    let daemon = Daemon::bind(config.clone()).unwrap();
    let second = Daemon::bind(config);
    assert!(matches!(second, Err(DaemonError::Running(_))), "{second:?}");
    let path = daemon.socket().to_path_buf();
    assert!(answers(&path));
    daemon.run(async {}).await;
    assert!(!answers(&path) && !path.exists());
}

/// A raw socket of another SCTP implementation, if this process has the privilege.
fn raw_socket(address: IpAddr) -> Option<OwnedFd> {
    let sctp = rustix::net::Protocol::from_raw(NonZero::new(132).unwrap());
    let flags = SocketFlags::CLOEXEC;
    match socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(sctp)) {
        Ok(socket) => {
            rustix::net::bind(&socket, &SocketAddr::new(address, 0)).unwrap();
            Some(socket)
        }
        Err(Errno::PERM) => None,
        Err(error) => panic!("{error}"),
    }
}

/// RFC 9260, section 8.4: a port without a socket is answered on plain IP unless another SCTP
/// implementation of the host may have it.
#[tokio::test(flavor = "multi_thread")]
async fn ports_of_other_implementations_are_left_alone() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let [here, there] = [70, 71].map(|n| IpAddr::from([127, n, high, low]));
    let Some(other) = raw_socket(there) else {
        return;
    };
    if Path::new("/proc/net/sctp").exists() {
        return;
    }
    let mut config = config("others");
    config.transport = Transport::Raw;
    config.addresses = vec![there];
    let path = config.socket.clone();
    let (done, daemon) = crate::support::start(config);
    let listener = tokio::task::spawn_blocking(move || listen_at(&path, [127, 71, high, low]));
    let listener = listener.await.unwrap();
    let peer = carrick::Endpoint::bind(carrick::Config::raw([here])).unwrap();
    let connect = |port| {
        let peer = peer.clone();
        tokio::spawn(async move { peer.connect((&[there], port)).await.map(drop) })
    };
    let unused = connect(5001);
    tokio::task::yield_now().await;
    connect(5000).await.unwrap().unwrap();
    assert!(!unused.is_finished(), "the other one may have the port");
    drop(other);
    let error = unused.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("nothing listens"), "{error}");
    drop(listener);
    done.send(()).unwrap();
    daemon.await.unwrap();
}

/// Listens at port 5000 of this address in a daemon.
fn listen_at(path: &Path, at: [u8; 4]) -> (OwnedFd, OwnedFd) {
    let client = client(path);
    let socket = ask(&client, &STREAM, None).1.unwrap();
    let mut address = loopback(5000);
    address[4..8].copy_from_slice(&at);
    let bind = Request::Bind { address: &address };
    assert_eq!(ask(&client, &bind, Some(socket.as_fd())).0, 0);
    let listen = Request::Listen { backlog: 5 };
    assert_eq!(ask(&client, &listen, Some(socket.as_fd())).0, 0);
    (client, socket)
}

/// RFC 9260, section 8.4, rule 8: a packet of an association with a daemon that was killed, at the daemon that was
/// started again on plain IP. Nothing is sent while another SCTP implementation of the host may have the port.
#[tokio::test(flavor = "multi_thread")]
async fn packets_of_a_killed_daemon_are_out_of_the_blue() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let [here, there] = [72, 73].map(|n| [127, n, high, low]);
    if raw_socket(there.into()).is_none() || Path::new("/proc/net/sctp").exists() {
        return;
    }
    let mut config = config("killed");
    config.transport = Transport::Raw;
    config.addresses = vec![there.into()];
    let (path, later) = (config.socket.clone(), config.clone());
    // Without a shutdown, as with SIGKILL: no packet leaves.
    let first = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.unwrap();
        let daemon = runtime.block_on(async { Daemon::bind(config).unwrap() });
        runtime.spawn(daemon.run(std::future::pending()));
        runtime
    });
    let first = first.join().unwrap();
    let listener = tokio::task::spawn_blocking({
        let path = path.clone();
        move || listen_at(&path, there)
    });
    let listener = listener.await.unwrap();
    let peer = carrick::Endpoint::bind(carrick::Config::raw([IpAddr::from(here)])).unwrap();
    let mut association = peer.connect((&[IpAddr::from(there)], 5000)).await.unwrap();
    tokio::task::spawn_blocking(move || first.shutdown_timeout(std::time::Duration::from_secs(60)))
        .await
        .unwrap();
    drop(listener);
    let other = raw_socket(there.into()).unwrap();
    let (done, daemon) = crate::support::start(later);
    let options = carrick::SendOptions::on_stream(0);
    association.send("is anyone there?", options).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let stats = association.control().stats().await.unwrap();
    assert_eq!(stats.state, carrick::StateName::Established);
    drop(other);
    let ended = association.recv().await.unwrap_err();
    assert!(ended.to_string().contains("the peer aborted it"), "{ended}");
    done.send(()).unwrap();
    daemon.await.unwrap();
}

/// More descriptors than a message can have attached, after a process that asked for a handover and ended.
#[tokio::test]
async fn a_successor_continues_all_descriptors() {
    let config = connected_to_itself("handover");
    let path = config.socket.clone();
    let first = Daemon::bind(config.clone()).unwrap();
    let (done, is_done) = oneshot::channel::<()>();
    let programs = std::thread::spawn(move || {
        let _done = done;
        let own = client(&path);
        let pair = connected(&own, 6000);
        let mut sockets: Vec<OwnedFd> = (0..260)
            .map(|_| ask(&own, &STREAM, None).1.unwrap())
            .collect();
        sockets.extend([pair.0, pair.1]);
        let describe =
            |own: &OwnedFd, socket: &OwnedFd| ask(own, &Request::Describe, Some(socket.as_fd())).0;
        let (error, _, state) = exchange(&client(&path), &Request::TakeOver, &[]);
        assert_eq!((error, state.is_some()), (0, true));
        assert_eq!(describe(&own, &sockets[0]), 0);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let second = Daemon::take_over(config).unwrap();
            assert_eq!(second.association_count(), 2);
            let calls = tokio::task::spawn_blocking(move || {
                for socket in &sockets {
                    assert_eq!(describe(&own, socket), 0);
                }
                assert_eq!(ask(&own, &STREAM, None).0, 0);
            });
            let end = second.run(async { calls.await.unwrap() }).await;
            assert_eq!(end, DaemonEnd::Stopped);
        });
        assert!(!path.exists());
    });
    // A failed thread drops its end.
    let end = first.run(async { drop(is_done.await) }).await;
    let process = std::process::id();
    assert_eq!(end, DaemonEnd::HandedOver { process });
    programs.join().unwrap();
}
