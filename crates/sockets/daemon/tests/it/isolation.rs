//! One user cannot stop another: files whose closing blocks, and what a user has for itself.

use std::io::{ErrorKind, IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use carrick_ipc::{FrameKind, Header, MAX_ATTACHED, Request, address_bytes};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair, sockopt,
};
use rustix::process::geteuid;
use rustix::thread::set_thread_res_uid;

use crate::support::{STREAM, ask, client, config, exchange, serve};

/// A user other than that of the daemon.
const OTHER_USER: u32 = 65_534;

/// TCP socket whose closing waits an hour for its peer, which the second one is.
fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let peer = listener.accept().unwrap().0;
    socket.set_nonblocking(true).unwrap();
    let full = loop {
        if let Err(error) = socket.write(&[7; 1 << 14]) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    sockopt::set_socket_linger(&socket, Some(Duration::from_secs(3600))).unwrap();
    (socket.into(), peer)
}

/// Sends a message with files, and closes them here.
fn pass(socket: &OwnedFd, bytes: &[u8], files: Vec<OwnedFd>) -> Result<usize, Errno> {
    let borrowed: Vec<BorrowedFd<'_>> = files.iter().map(|file| file.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_ATTACHED))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&borrowed)));
    let flags = SendFlags::NOSIGNAL;
    let passed = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags);
    if passed.is_err() {
        // They are closed here, without waiting.
        for file in &files {
            let _ = sockopt::set_socket_linger(file, None);
        }
    }
    // If the daemon has closed its own already, to close the last one waits.
    std::thread::spawn(move || drop(files));
    passed
}

/// A connection whose calls fail after a time that a daemon needs under no load.
fn impatient(path: &Path) -> OwnedFd {
    let client = client(path);
    let limit = Some(Duration::from_secs(60));
    sockopt::set_socket_timeout(&client, sockopt::Timeout::Recv, limit).unwrap();
    client
}

/// Checks that the daemon answers.
fn assert_served(path: &Path) {
    assert_eq!(ask(&impatient(path), &STREAM, None).0, 0);
}

/// Makes the connections of this thread those of a user. Returns false without the privilege.
fn become_user(uid: u32) -> bool {
    let uid = rustix::process::Uid::from_raw(uid);
    let saved = Some(rustix::process::Uid::ROOT);
    geteuid().is_root() && set_thread_res_uid(Some(uid), Some(uid), saved).is_ok()
}

/// `SO_LINGER` of a TCP socket whose last reference the daemon has.
#[tokio::test]
async fn closing_a_file_of_a_request_may_block() {
    serve(config("blocking-request"), |path| {
        let client = impatient(&path);
        let (first, _peer) = lingering();
        let request = Request::Describe.encode().0;
        pass(&client, &request, vec![first]).unwrap();
        assert_served(&path);
        // More than a request needs, and one that the connection leaves behind.
        let (second, _peer) = lingering();
        let mut files = vec![second];
        files.extend((1..30).map(|_| client.try_clone().unwrap()));
        pass(&client, &request, files).unwrap();
        let (unread, _peer) = lingering();
        pass(&client, b"no request", Vec::new()).unwrap();
        let _ = pass(&client, &request, vec![unread]);
        drop(client);
        assert_served(&path);
    })
    .await;
}

/// A Unix socket that is closed closes the files in its messages.
#[tokio::test]
async fn closing_a_file_in_a_file_may_block() {
    serve(config("blocking-nested"), |path| {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (outer, other) = socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        let (inner, _peer) = lingering();
        pass(&other, b"inner", vec![inner]).unwrap();
        let client = impatient(&path);
        pass(&client, &Request::Describe.encode().0, vec![outer]).unwrap();
        drop(other);
        assert_served(&path);
    })
    .await;
}

/// Linux before 6.16 cannot refuse them.
#[tokio::test]
async fn files_do_not_pass_pairs() {
    serve(config("blocking-pair"), |path| {
        let client = impatient(&path);
        let frame = Header::new(FrameKind::Send).encode();
        let pair = ask(&client, &STREAM, None).1.unwrap();
        let addresses = address_bytes(Some(([127, 0, 0, 1], 0).into()))[..16].to_vec();
        let lease = Request::Lease {
            addresses: &addresses,
        };
        let lease = exchange(&client, &lease, &[]).2.unwrap();
        for pair in [pair, lease] {
            let (file, _peer) = lingering();
            let passed = pass(&pair, &frame, vec![file]);
            assert!(matches!(passed, Ok(_) | Err(Errno::PERM)), "{passed:?}");
            assert_served(&path);
            drop(pair);
            assert_served(&path);
        }
    })
    .await;
}

/// Its own requests wait, and its further connections are refused, with a bound of files for all of it.
#[tokio::test]
async fn a_user_with_blocked_files_delays_itself() {
    if !geteuid().is_root() {
        return;
    }
    serve(config("blocking-many"), |path| {
        let honest = impatient(&path);
        let blocked = std::thread::scope(|scope| {
            let attack = scope.spawn(|| {
                assert!(become_user(OTHER_USER));
                let mut peers = Vec::new();
                let mut connections = Vec::new();
                for _ in 0..200 {
                    let connection = client(&path);
                    let (file, peer) = lingering();
                    let mut files = vec![file];
                    files.extend((1..8).map(|_| connection.try_clone().unwrap()));
                    // Refused at last.
                    let _ = pass(&connection, &Request::Describe.encode().0, files);
                    peers.push(peer);
                    connections.push(connection);
                }
                // Each leaves what it has sent to the daemon.
                drop(connections);
                peers
            });
            let mut answers = 0;
            while !attack.is_finished() {
                assert_eq!(ask(&honest, &STREAM, None).0, 0);
                answers += 1;
            }
            assert!(answers > 0);
            attack.join().unwrap()
        });
        assert_served(&path);
        // The files can be closed: the user is served again.
        drop(blocked);
        std::thread::spawn(move || {
            assert!(become_user(OTHER_USER));
            while std::panic::catch_unwind(|| ask(&client(&path), &STREAM, None).0).unwrap_or(1)
                != 0
            {
                std::thread::sleep(Duration::from_millis(10));
            }
        })
        .join()
        .unwrap();
    })
    .await;
}
