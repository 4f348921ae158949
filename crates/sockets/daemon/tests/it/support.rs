//! A daemon, and the requests of a program.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use carrick::Transport;
use carrick_daemon::{Config, Daemon, DaemonEnd};
use carrick_ipc::{FrameKind, Header, MAX_REPLY, Reply, Request};
use carrick_sockets::ancillary::{ControlMessage, write_control};
use carrick_sockets::linux::{Layout, SCTP_SNDINFO, SndInfo};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg,
    send, sendmsg, socket_with,
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const STREAM: Request<'_> = Request::Socket {
    domain: 2,
    kind: 1,
    protocol: 132,
};

pub(crate) fn config(name: &str) -> Config {
    let mut config = Config::new(Transport::Udp { port: 0 });
    config.addresses = vec![[127, 0, 0, 1].into()];
    config.socket = std::env::temp_dir().join(format!("carrick-{name}-{}", std::process::id()));
    config
}

/// Starts a daemon, which ends with the sender.
pub(crate) fn start(config: Config) -> (oneshot::Sender<()>, JoinHandle<DaemonEnd>) {
    let daemon = Daemon::bind(config).unwrap();
    let (done, is_done) = oneshot::channel();
    let stop = async { drop(is_done.await) };
    (done, tokio::spawn(daemon.run(stop)))
}

/// Runs a daemon, and `clients` in another thread.
pub(crate) async fn serve(config: Config, clients: impl FnOnce(PathBuf) + Send + 'static) {
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

pub(crate) fn client(path: &Path) -> OwnedFd {
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
pub(crate) fn ask(
    client: &OwnedFd,
    request: &Request<'_>,
    attached: Option<BorrowedFd<'_>>,
) -> (i32, Option<OwnedFd>) {
    let (error, _, attached) = exchange(client, request, attached.as_slice());
    (error, attached)
}

/// Sends a request about a descriptor; returns the error number and the value of the reply.
pub(crate) fn ask_value(
    client: &OwnedFd,
    request: &Request<'_>,
    socket: &OwnedFd,
) -> (i32, Vec<u8>) {
    let (error, value, _) = exchange(client, request, &[socket.as_fd()]);
    (error, value)
}

pub(crate) fn exchange(
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

/// `struct sockaddr_in` of a loopback address.
pub(crate) fn loopback(port: u16) -> [u8; 16] {
    let mut address = [0; 16];
    address[..2].copy_from_slice(&2u16.to_ne_bytes());
    address[2..4].copy_from_slice(&port.to_be_bytes());
    address[4..8].copy_from_slice(&[127, 0, 0, 2]);
    address
}

/// Configuration of a daemon whose peers have the same UDP port as itself, so that its programs can connect
/// to each other.
pub(crate) fn connected_to_itself(name: &str) -> Config {
    let mut config = config(name);
    config.addresses = vec![[127, 0, 0, 2].into()];
    let free = std::net::UdpSocket::bind(("127.0.0.2", 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    config.transport = Transport::Udp { port };
    config.peer_port = Some(port);
    config
}

/// Returns a listening descriptor at a port of 127.0.0.2, and one that is connected to it.
pub(crate) fn connected(client: &OwnedFd, port: u16) -> (OwnedFd, OwnedFd) {
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
pub(crate) fn send_frame(socket: &OwnedFd, stream: u16) {
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

/// Receives the descriptor of an association to accept.
pub(crate) fn accepted_from(listener: &OwnedFd, buffer: &mut [u8]) -> OwnedFd {
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
