//! A daemon and clients that do not follow the protocol.
#![cfg(target_os = "linux")]

mod lease;
mod traffic_class;

use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::num::NonZero;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use carrick::Transport;
use carrick_daemon::{
    Capture, CaptureFilter, Config, Daemon, DaemonEnd, DaemonError, Limits, answers, counters, list,
};
use carrick_ipc::{FrameKind, Header, MAX_REPLY, Reply, Request};
use carrick_sockets::ancillary::{ControlMessage, write_control};
use carrick_sockets::linux::{
    Layout, Linger, SCTP_SNDINFO, SO_ERROR, SO_LINGER, SOL_SOCKET, SndInfo,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    recvmsg, send, sendmsg, socket_with,
};
use serde_json::Value;
use tokio::sync::oneshot;

const STREAM: Request<'_> = Request::Socket {
    domain: 2,
    kind: 1,
    protocol: 132,
};

fn config(name: &str) -> Config {
    let mut config = Config::new(Transport::Udp { port: 0 });
    config.addresses = vec![[127, 0, 0, 1].into()];
    config.socket = std::env::temp_dir().join(format!("carrick-{name}-{}", std::process::id()));
    config
}

/// Runs a daemon, and `clients` in another thread.
async fn serve(config: Config, clients: impl FnOnce(PathBuf) + Send + 'static) {
    let path = config.socket.clone();
    let daemon = Daemon::bind(config).unwrap();
    let (done, is_done) = oneshot::channel();
    let clients = std::thread::spawn(move || {
        clients(path);
        done.send(()).unwrap();
    });
    // A failed thread drops its end.
    daemon.run(async { drop(is_done.await) }).await;
    clients.join().unwrap();
}

fn client(path: &Path) -> OwnedFd {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    );
    let socket = socket.unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

/// Sends a request; returns the error number and the descriptor of the reply.
fn ask(
    client: &OwnedFd,
    request: &Request<'_>,
    attached: Option<BorrowedFd<'_>>,
) -> (i32, Option<OwnedFd>) {
    let (error, _, attached) = exchange(client, request, attached.as_slice());
    (error, attached)
}

/// Sends a request about a descriptor; returns the error number and the value of the reply.
fn ask_value(client: &OwnedFd, request: &Request<'_>, socket: &OwnedFd) -> (i32, Vec<u8>) {
    let (error, value, _) = exchange(client, request, &[socket.as_fd()]);
    (error, value)
}

fn exchange(
    client: &OwnedFd,
    request: &Request<'_>,
    attached: &[BorrowedFd<'_>],
) -> (i32, Vec<u8>, Option<OwnedFd>) {
    let (bytes, data) = request.encode();
    let parts = [IoSlice::new(&bytes), IoSlice::new(data)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !attached.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(attached));
    }
    sendmsg(client, &parts, &mut control, SendFlags::NOSIGNAL).unwrap();
    let mut buffer = vec![0; MAX_REPLY];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let len = recvmsg(client, &mut parts, &mut control, RecvFlags::empty()).unwrap();
    let attached = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let reply = Reply::decode(&buffer[..len.bytes]).unwrap();
    (reply.error, reply.value.to_vec(), attached)
}

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

/// `struct sockaddr_in` of a loopback address.
fn loopback(port: u16) -> [u8; 16] {
    let mut address = [0; 16];
    address[..2].copy_from_slice(&2u16.to_ne_bytes());
    address[2..4].copy_from_slice(&port.to_be_bytes());
    address[4..8].copy_from_slice(&[127, 0, 0, 2]);
    address
}

/// Configuration of a daemon whose peers have the same UDP port as itself, so that its programs can connect
/// to each other.
fn connected_to_itself(name: &str) -> Config {
    let mut config = config(name);
    config.addresses = vec![[127, 0, 0, 2].into()];
    let free = std::net::UdpSocket::bind(("127.0.0.2", 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    config.transport = Transport::Udp { port };
    config.peer_port = Some(port);
    config
}

/// Returns a listening descriptor at a port of 127.0.0.2, and one that is connected to it.
fn connected(client: &OwnedFd, port: u16) -> (OwnedFd, OwnedFd) {
    let [listener, socket] = [(); 2].map(|()| ask(client, &STREAM, None).1.unwrap());
    let address = loopback(port);
    let bind = Request::Bind { address: &address };
    assert_eq!(ask(client, &bind, Some(listener.as_fd())).0, 0);
    let listen = Request::Listen { backlog: 5 };
    assert_eq!(ask(client, &listen, Some(listener.as_fd())).0, 0);
    let connect = Request::Connect {
        addresses: &address,
    };
    let started = ask(client, &connect, Some(socket.as_fd()));
    assert_eq!(started.0, 115, "EINPROGRESS");
    poll(&mut [PollFd::new(&socket, PollFlags::OUT)], None).unwrap();
    (listener, socket)
}

/// Sends a message in a frame, with a stream as `SCTP_SNDINFO`.
fn send_frame(socket: &OwnedFd, stream: u16) {
    let info = SndInfo {
        sid: stream,
        ..SndInfo::default()
    };
    let info = ControlMessage::sctp(SCTP_SNDINFO, info.encode());
    let (control, _) = write_control(&[info], 64);
    let header = Header {
        control: control.len() as u16,
        ..Header::new(FrameKind::Send)
    };
    let frame = [&header.encode()[..], &control, b"message"].concat();
    send(socket, &frame, SendFlags::NOSIGNAL).unwrap();
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

/// More than fit into one reply.
#[tokio::test]
async fn sockets_and_associations_are_listed() {
    serve(connected_to_itself("list"), |path| {
        let client = client(&path);
        let open = || ask(&client, &STREAM, None).1.unwrap();
        let rows = || {
            let mut rows = Vec::new();
            list(&path, |row| {
                rows.push(row);
                Ok(())
            })
            .unwrap();
            rows
        };
        assert!(rows().is_empty());
        let listener = open();
        let address = loopback(5000);
        let bind = Request::Bind { address: &address };
        assert_eq!(ask(&client, &bind, Some(listener.as_fd())).0, 0);
        let listen = Request::Listen { backlog: 7 };
        assert_eq!(ask(&client, &listen, Some(listener.as_fd())).0, 0);
        let sockets: Vec<OwnedFd> = (0..500).map(|_| open()).collect();
        let addresses = loopback(5000);
        let connect = Request::Connect {
            addresses: &addresses,
        };
        let last = sockets[499].as_fd();
        assert_eq!(ask(&client, &connect, Some(last)).0, 115, "EINPROGRESS");
        let mut wait = [PollFd::new(&last, PollFlags::OUT)];
        poll(&mut wait, None).unwrap();
        let listed = rows();
        // Those above, and the one in the accept queue.
        let of_sockets = |row: &&Value| row["association"] == 0;
        assert_eq!(listed.iter().filter(of_sockets).count(), 502);
        assert_eq!(listed[0]["backlog"], 7);
        assert_eq!(listed[0]["local"][0], "127.0.0.2:5000");
        let associations: Vec<&Value> = listed.iter().filter(|row| !of_sockets(row)).collect();
        assert_eq!(associations.len(), 2);
        for association in associations {
            assert_eq!(association["state"], "Established");
            assert_eq!(association["paths"][0]["remote"], "127.0.0.2");
        }
        let keys = listed.iter().map(|row| {
            let number = |name: &str| row[name].as_i64().unwrap();
            (number("socket"), number("association"))
        });
        assert!(keys.is_sorted_by(|a, b| a < b));
        drop((sockets, listener));
    })
    .await;
}

/// Returns the metrics of a daemon by name, read over HTTP.
/// Returns the next packets of a capture: whether each was sent, and the type of its first chunk.
fn captured(
    runtime: &tokio::runtime::Runtime,
    capture: &mut Capture,
    count: usize,
) -> Vec<(bool, u8)> {
    let mut next = || {
        let packet = runtime.block_on(capture.next()).unwrap().unwrap();
        assert_eq!(packet.missed, 0);
        assert!(packet.is_udp);
        let ip: IpAddr = [127, 0, 0, 2].into();
        for address in [packet.source, packet.destination] {
            assert_eq!(address.map(|address| address.ip()), Some(ip));
        }
        (packet.is_sent, packet.packet[12])
    };
    (0..count).map(|_| next()).collect()
}

#[tokio::test]
async fn captures_have_the_packets_of_their_associations() {
    serve(connected_to_itself("capture"), |path| {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let _guard = runtime.enter();
        let start = |filter| Capture::start(&path, filter).unwrap();
        let mut all = start(CaptureFilter::default());
        let of_port = |port| {
            start(CaptureFilter {
                port: Some(port),
                ..CaptureFilter::default()
            })
        };
        let (mut this_port, mut other_port) = (of_port(5000), of_port(6000));
        let client = client(&path);
        let (_listener, socket) = connected(&client, 5000);
        // INIT, INIT ACK, COOKIE ECHO, COOKIE ACK: each is sent by one end and received by the other.
        let set_up = [1, 2, 10, 11].map(|kind| [(true, kind), (false, kind)]);
        assert_eq!(captured(&runtime, &mut all, 8), set_up.concat());
        assert_eq!(captured(&runtime, &mut this_port, 8), set_up.concat());

        let mut associations = Vec::new();
        list(&path, |row| {
            associations.push(row["association"].as_i64().unwrap() as i32);
            Ok(())
        })
        .unwrap();
        associations.retain(|id| *id != 0);
        let first = associations[0];
        let mut own = start(CaptureFilter {
            association: Some(first),
            ..CaptureFilter::default()
        });
        let mut none = start(CaptureFilter {
            association: Some(first + 100),
            ..CaptureFilter::default()
        });
        send_frame(&socket, 0);
        // DATA and its SACK.
        let kinds = captured(&runtime, &mut all, 4);
        assert_eq!(kinds[0], (true, 0));
        assert_eq!(captured(&runtime, &mut own, 1).len(), 1);
        for silent in [&mut other_port, &mut none] {
            let within = Duration::from_millis(1);
            let next = async { tokio::time::timeout(within, silent.next()).await.is_ok() };
            assert!(!runtime.block_on(next));
        }
    })
    .await;
}

#[tokio::test]
async fn captures_are_limited_and_end_with_their_reader() {
    serve(config("captures"), |path| {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let _guard = runtime.enter();
        let start = || Capture::start(&path, CaptureFilter::default());
        let all: Vec<Capture> = (0..8).map(|_| start().unwrap()).collect();
        let error = start().unwrap_err();
        assert!(error.to_string().contains("8 captures"), "{error}");
        drop(all);
        assert!(start().is_ok());
    })
    .await;
}

fn metrics(address: SocketAddr) -> BTreeMap<String, u64> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("application/openmetrics-text"), "{answer}");
    let samples = answer.lines().filter(|l| l.starts_with("carrick_sctp_"));
    let samples = samples.filter_map(|line| line.rsplit_once(' '));
    samples
        .map(|(name, value)| (name["carrick_sctp_".len()..].into(), value.parse().unwrap()))
        .collect()
}

/// RFC 3873, section 3.2: the counters are of the host.
#[tokio::test]
async fn metrics_outlast_their_associations() {
    let mut config = connected_to_itself("metrics");
    config.metrics = Some(([127, 0, 0, 1], 0).into());
    let path = config.socket.clone();
    let daemon = Daemon::bind(config).unwrap();
    let address = daemon.metrics().unwrap();
    let (done, is_done) = oneshot::channel::<()>();
    let clients = std::thread::spawn(move || {
        let client = client(&path);
        let open = || ask(&client, &STREAM, None).1.unwrap();
        let listener = open();
        let own = loopback(5000);
        let bind = Request::Bind { address: &own };
        assert_eq!(ask(&client, &bind, Some(listener.as_fd())).0, 0);
        let listen = Request::Listen { backlog: 7 };
        assert_eq!(ask(&client, &listen, Some(listener.as_fd())).0, 0);
        let socket = open();
        let connect = Request::Connect { addresses: &own };
        assert_eq!(ask(&client, &connect, Some(socket.as_fd())).0, 115);
        poll(&mut [PollFd::new(&socket, PollFlags::OUT)], None).unwrap();
        // IP_TTL
        let (level, name, value) = (0, 2, &[64, 0, 0, 0]);
        let unsupported = Request::SetOption { level, name, value };
        assert_eq!(ask(&client, &unsupported, Some(socket.as_fd())).0, 92);
        let before = metrics(address);
        for (name, value) in [
            ("refused_options_total", 1),
            ("curr_estab", 2),
            ("active_estabs_total", 1),
            ("passive_estabs_total", 1),
            ("associations{state=\"established\"}", 2),
            ("paths{state=\"active\"}", 2),
            ("descriptors", 3),
            ("clients", 1),
            ("users_at_limit{resource=\"descriptors\"}", 0),
            ("receive_memory_limit_bytes", 64 << 20),
            ("max_assocs", 8192),
        ] {
            assert_eq!(before[name], value, "{name}");
        }
        drop((socket, listener));
        let ended = |all: &BTreeMap<String, u64>| all["shutdowns_total"] + all["aborteds_total"];
        let mut after = metrics(address);
        for _ in 0..1000 {
            if ended(&after) == 2 && after["sockets"] == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            after = metrics(address);
        }
        for (name, value) in before.iter().filter(|(name, _)| name.ends_with("_total")) {
            assert!(after[name] >= *value, "{name} has decreased");
        }
        assert_eq!(after["curr_estab"], 0);
        assert_eq!(ended(&after), 2);
        let counted = counters(&path).unwrap();
        assert_eq!(counted["endpoints"]["established"], 2);
        assert_eq!(counted["established"], 0);
        done.send(()).unwrap();
    });
    daemon.run(async { drop(is_done.await) }).await;
    clients.join().unwrap();
    assert!(TcpStream::connect(address).is_err());
}

#[tokio::test]
async fn a_taken_address_of_the_metrics_is_an_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = config("taken");
    config.metrics = Some(taken.local_addr().unwrap());
    let refused = Daemon::bind(config.clone());
    assert!(
        matches!(refused, Err(DaemonError::Metrics { .. })),
        "{refused:?}"
    );
    assert!(!config.socket.exists());
}

/// Also where the association of the socket has ended before.
#[tokio::test]
async fn the_port_of_a_closed_socket_is_free_at_once() {
    serve(connected_to_itself("ports"), |path| {
        let client = client(&path);
        let bound = |port: u16| {
            let socket = ask(&client, &STREAM, None).1.unwrap();
            let address = loopback(port);
            let bind = Request::Bind { address: &address };
            let (error, _) = ask(&client, &bind, Some(socket.as_fd()));
            (error, socket)
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
        for _ in 0..3 {
            let (error, socket) = bound(5001);
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

#[tokio::test]
async fn the_descriptors_of_a_user_are_limited() {
    let mut config = config("limits");
    config.limits = Limits {
        clients: 2,
        descriptors: 3,
    };
    serve(config, |path| {
        let first = client(&path);
        let mut open: Vec<OwnedFd> = Vec::new();
        for _ in 0..3 {
            open.push(ask(&first, &STREAM, None).1.unwrap());
        }
        assert_eq!(ask(&first, &STREAM, None).0, 24, "EMFILE");
        open.clear();
        // The daemon sees the end of the descriptors with its next turn.
        let mut again = ask(&first, &STREAM, None);
        for _ in 0..100 {
            if again.0 == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            again = ask(&first, &STREAM, None);
        }
        assert_eq!(again.0, 0);

        let _second = client(&path);
        let third = client(&path);
        assert_eq!(ask(&third, &STREAM, None).0, 24, "EMFILE");
        let mut byte = [0];
        assert_eq!(recv(&third, &mut byte, RecvFlags::empty()), Ok((0, 0)));
        // The answer needs no room among the clients, but is limited as well.
        let idle: Vec<OwnedFd> = (0..16).map(|_| client(&path)).collect();
        let late = client(&path);
        let ended = recv(&late, &mut byte, RecvFlags::empty());
        assert!(
            matches!(ended, Ok((0, _)) | Err(Errno::CONNRESET)),
            "{ended:?}"
        );
        drop(idle);
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

/// Accepted associations and branches are descriptors as well.
#[tokio::test]
async fn associations_wait_for_descriptors_in_the_backlog() {
    let mut config = connected_to_itself("waiting");
    config.limits.descriptors = 4;
    serve(config, |path| {
        let client = client(&path);
        let (listener, first) = connected(&client, 5000);
        let connect = Request::Connect {
            addresses: &loopback(5000),
        };
        // The third descriptor is that of the first association, and waits to be accepted.
        let second = ask(&client, &STREAM, None).1.unwrap();
        assert_eq!(ask(&client, &STREAM, None).0, 24, "EMFILE");
        assert_eq!(ask(&client, &connect, Some(second.as_fd())).0, 115);
        poll(&mut [PollFd::new(&second, PollFlags::OUT)], None).unwrap();
        let waiting = || {
            let mut waiting = 0;
            list(&path, |row| {
                waiting += row["waiting"].as_i64().unwrap_or(0);
                Ok(())
            })
            .unwrap();
            waiting
        };
        assert_eq!(waiting(), 1);
        let mut buffer = vec![0; 1024];
        let accepted = accepted_from(&listener, &mut buffer);
        drop((first, accepted));
        let second = accepted_from(&listener, &mut buffer);
        assert_eq!(waiting(), 0);
        drop(second);
    })
    .await;
}

/// Receives the descriptor of an association to accept.
fn accepted_from(listener: &OwnedFd, buffer: &mut [u8]) -> OwnedFd {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(buffer)];
    recvmsg(listener, &mut parts, &mut control, RecvFlags::empty()).unwrap();
    let attached = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    attached.expect("a descriptor")
}

#[tokio::test]
async fn the_associations_of_a_user_are_limited() {
    let mut config = connected_to_itself("share");
    config.max_associations_per_user = Some(2);
    serve(config, |path| {
        let client = client(&path);
        // Two ends.
        let (_listener, _socket) = connected(&client, 5000);
        let third = ask(&client, &STREAM, None).1.unwrap();
        let connect = Request::Connect {
            addresses: &loopback(5000),
        };
        let refused = ask(&client, &connect, Some(third.as_fd())).0;
        assert_eq!(refused, 12, "ENOMEM");
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

/// A program that does not read holds its own association up alone.
#[tokio::test]
async fn a_client_that_never_reads_harms_no_other() {
    serve(connected_to_itself("unread"), |path| {
        let [lazy, other] = [(); 2].map(|()| client(&path));
        let (_listener, full) = connected(&lazy, 5000);
        let info = Header::new(FrameKind::Send).encode();
        let frame = [&info[..], &[0; 10_000]].concat();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let mut sent = 0;
        // Until nothing has been taken for a while.
        loop {
            while send(&full, &frame, flags).is_ok() {
                sent += 1;
            }
            let mut writable = [PollFd::new(&full, PollFlags::OUT)];
            let pause = rustix::event::Timespec {
                tv_sec: 0,
                tv_nsec: 500_000_000,
            };
            if poll(&mut writable, Some(&pause)).unwrap() == 0 {
                break;
            }
        }
        assert!(sent < 10_000, "{sent}");
        let (listener, socket) = connected(&other, 6000);
        let mut buffer = vec![0; 1 << 16];
        let accepted = accepted_from(&listener, &mut buffer);
        for _ in 0..100 {
            send_frame(&socket, 0);
            let (len, _) = recv(&accepted, &mut buffer[..], RecvFlags::empty()).unwrap();
            assert!(buffer[..len].ends_with(b"message"));
        }
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
    let daemon = Daemon::bind(config).unwrap();
    let (done, is_done) = oneshot::channel::<()>();
    let daemon = tokio::spawn(daemon.run(async { drop(is_done.await) }));
    let listener = tokio::task::spawn_blocking(move || {
        let client = client(&path);
        let socket = ask(&client, &STREAM, None).1.unwrap();
        let mut address = loopback(5000);
        address[4..8].copy_from_slice(&[127, 71, high, low]);
        let bind = Request::Bind { address: &address };
        assert_eq!(ask(&client, &bind, Some(socket.as_fd())).0, 0);
        let listen = Request::Listen { backlog: 5 };
        assert_eq!(ask(&client, &listen, Some(socket.as_fd())).0, 0);
        (client, socket)
    });
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

/// RFC 9260, section 9.2
#[tokio::test(flavor = "multi_thread")]
async fn associations_are_shut_down_at_the_end() {
    let mut config = connected_to_itself("stop");
    config.linger = Duration::from_secs(60);
    let port = config.peer_port.unwrap();
    let path = config.socket.clone();
    let daemon = Daemon::bind(config).unwrap();
    let (done, is_done) = oneshot::channel::<()>();
    let daemon = tokio::spawn(daemon.run(async { drop(is_done.await) }));
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
