//! Daemon of the test process: it answers each request by a function of the descriptor that comes with it.

use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use carrick_client::proxy;
use carrick_ipc::{Description, MAX_REQUEST, Reply, Request};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg,
    socket_with, sockopt,
};

/// Answer to a request.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) error: i32,
    pub(crate) result: i32,
    pub(crate) description: Description,
    pub(crate) value: Vec<u8>,
    pub(crate) attached: Option<OwnedFd>,
}

type Answers = Box<dyn FnMut(&Request<'_>) -> Answer + Send>;

/// Answers of each socket, by the cookie of the program's end of its pair.
static SOCKETS: Mutex<BTreeMap<u64, Answers>> = Mutex::new(BTreeMap::new());
/// Daemon's ends of the sockets that were created by requests, by the cookies of the program's ends.
static CREATED: Mutex<BTreeMap<u64, OwnedFd>> = Mutex::new(BTreeMap::new());

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the daemon, once in a process.
pub(crate) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        std::fs::create_dir_all(directory()).unwrap();
        // SAFETY: the function has the type of a handler.
        assert_eq!(unsafe { libc::atexit(remove_directory) }, 0);
        let path = directory().join("socket");
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let listener = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 16).unwrap();
        proxy::use_daemon(&path);
        thread::spawn(move || {
            while let Ok(connection) = rustix::net::accept(&listener) {
                thread::spawn(move || serve(&connection));
            }
        });
    });
}

/// Directory of the daemon's control socket.
fn directory() -> PathBuf {
    std::env::temp_dir().join(format!("carrick-client-{}", std::process::id()))
}

/// Removes the directory when the process ends.
extern "C" fn remove_directory() {
    let _ = std::fs::remove_dir_all(directory());
}

/// Returns the pair of a socket: the program's end and the daemon's.
pub(crate) fn pair() -> (OwnedFd, OwnedFd) {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap()
}

/// Answers the requests of a socket from now on.
pub(crate) fn serve_socket(
    program: impl AsFd,
    answers: impl FnMut(&Request<'_>) -> Answer + Send + 'static,
) {
    let cookie = sockopt::socket_cookie(program).unwrap();
    lock(&SOCKETS).insert(cookie, Box::new(answers));
}

/// Returns the daemon's end of a socket that was created by a request.
pub(crate) fn created(program: impl AsFd) -> OwnedFd {
    let cookie = sockopt::socket_cookie(program).unwrap();
    lock(&CREATED).remove(&cookie).unwrap()
}

/// Returns the answer of a socket that has this description, and no other state.
pub(crate) fn plain(description: Description, request: &Request<'_>) -> Answer {
    let (result, value) = match request {
        Request::GetOption { .. } => (0, vec![0; 4]),
        Request::Send { data, .. } => (data.len() as i32, Vec::new()),
        _ => (0, Vec::new()),
    };
    Answer {
        result,
        description,
        value,
        ..Answer::default()
    }
}

fn answer(request: &Request<'_>, attached: Option<&OwnedFd>) -> Answer {
    if let Request::Socket { kind, .. } = request {
        let description = Description::new(0, 0);
        let (program, daemon) = pair();
        serve_socket(&program, move |request| plain(description, request));
        lock(&CREATED).insert(sockopt::socket_cookie(&program).unwrap(), daemon);
        return Answer {
            result: *kind,
            attached: Some(program),
            ..Answer::default()
        };
    }
    let cookie = attached.and_then(|fd| sockopt::socket_cookie(fd).ok());
    let answers =
        cookie.and_then(|cookie| lock(&SOCKETS).remove(&cookie).map(|found| (cookie, found)));
    let Some((cookie, mut answers)) = answers else {
        let error = libc::ENOTSOCK;
        return Answer {
            error,
            ..Answer::default()
        };
    };
    let answer = answers(request);
    lock(&SOCKETS).entry(cookie).or_insert(answers);
    answer
}

fn serve(connection: &OwnedFd) {
    let mut bytes = vec![0; MAX_REQUEST];
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let Ok(received) = recvmsg(
            connection,
            &mut parts,
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        ) else {
            return;
        };
        let Ok(request) = Request::decode(&bytes[..received.bytes]) else {
            return;
        };
        let attached: Vec<OwnedFd> = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten()
            .collect();
        let answer = answer(&request, attached.first());
        let reply = Reply {
            error: answer.error,
            result: answer.result,
            description: answer.description,
            value: &answer.value,
        };
        let reply = reply.encode();
        let descriptors: Vec<_> = answer.attached.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let parts = [IoSlice::new(&reply)];
        if sendmsg(connection, &parts, &mut control, SendFlags::NOSIGNAL).is_err() {
            return;
        }
    }
}
