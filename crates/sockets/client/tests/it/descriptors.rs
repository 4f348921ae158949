//! Descriptors: duplicates, numbers beyond the table, numbers that are used again, child processes, and closing.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use carrick_ipc::{Description, FrameKind, Property, Request};
use rustix::net::SendFlags;

use crate::fake_daemon::{self, Answer, plain};
use crate::support::{KernelSocket, TestSocket, call, with};

/// First number without an entry in the table.
const BEYOND: c_int = 1 << 16;

fn write(fd: c_int, bytes: &[u8]) -> Result<i64, i32> {
    call!(carrick write(fd, bytes.as_ptr().cast(), bytes.len()))
}

fn payload(socket: &TestSocket) -> Option<Vec<u8>> {
    let (header, _, payload) = socket.sent_frame()?;
    assert_eq!(header.kind, FrameKind::Send);
    Some(payload)
}

/// Returns a number that no descriptor of another test has.
fn own_number() -> c_int {
    static LAST: AtomicI32 = AtomicI32::new(600);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// Returns the number of a descriptor that a call has returned.
fn number(result: Result<i64, i32>) -> c_int {
    result.unwrap() as c_int
}

#[test]
fn duplicates_are_the_same_socket() {
    let socket = TestSocket::established(&[]);
    let fd = socket.fd();
    assert_eq!(write(fd, b"first"), Ok(5));
    let low = number(call!(carrick dup(fd)));
    assert_eq!(write(low, b"again"), Ok(5));
    assert_eq!(call!(carrick close(low)), Ok(0));
    let duplicates = [
        number(call!(carrick dup2(fd, own_number()))),
        number(call!(carrick fcntl(fd, libc::F_DUPFD, own_number() as u64))),
        number(call!(carrick fcntl(fd, libc::F_DUPFD_CLOEXEC, own_number() as u64))),
    ];
    for duplicate in duplicates {
        assert_eq!(write(duplicate, b"again"), Ok(5));
        assert_eq!(call!(carrick close(duplicate)), Ok(0));
        assert_eq!(write(duplicate, b"closed"), Err(libc::EBADF));
    }
    // No duplicate had to be identified.
    assert_eq!(*socket.requests.lock().unwrap(), ["Describe"]);
    assert_eq!(std::iter::from_fn(|| payload(&socket)).count(), 5);
}

#[test]
fn a_number_is_that_of_its_file() {
    let (socket, other) = (TestSocket::established(&[]), KernelSocket::new());
    let fd = number(call!(carrick dup2(socket.fd(), own_number())));
    assert_eq!(write(fd, b"socket"), Ok(6));
    assert_eq!(payload(&socket).as_deref(), Some(&b"socket"[..]));
    // The program replaces the descriptor by a system call that the crate does not see, and then by one that it sees.
    assert_eq!(call!(libc dup2(other.fd(), fd)), Ok(fd.into()));
    assert_eq!(write(fd, b"other"), Ok(5));
    assert_eq!(other.sent_message().as_deref(), Some(&b"other"[..]));
    assert_eq!(
        call!(carrick dup3(socket.fd(), fd, libc::O_CLOEXEC)),
        Ok(fd.into())
    );
    assert_eq!(write(fd, b"socket"), Ok(6));
    assert_eq!(payload(&socket).as_deref(), Some(&b"socket"[..]));
    assert_eq!(call!(carrick dup2(other.fd(), fd)), Ok(fd.into()));
    assert_eq!(write(fd, b"other"), Ok(5));
    assert_eq!(other.sent_message().as_deref(), Some(&b"other"[..]));
    assert_eq!(call!(carrick close_range(fd as u32, fd as u32, 0)), Ok(0));
    assert_eq!(write(fd, b"none"), Err(libc::EBADF));
}

#[test]
fn numbers_beyond_the_table_are_identified() {
    let socket = TestSocket::established(&[]);
    // The limit of a machine may be below.
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let far = BEYOND + 7;
    let raised = rustix::process::Rlimit {
        current: limits.maximum,
        ..limits
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let is_possible = limits.maximum.is_none_or(|maximum| maximum > far as u64);
    let expected = if is_possible {
        Ok(far.into())
    } else {
        Err(libc::EBADF)
    };
    assert_eq!(call!(carrick dup2(socket.fd(), far)), expected);
    for _ in 0..2 {
        let written = if is_possible { Ok(3) } else { Err(libc::EBADF) };
        assert_eq!(write(far, b"far"), written);
        assert_eq!(payload(&socket).is_some(), is_possible);
    }
    assert_eq!(call!(carrick close(far)).is_ok(), is_possible);
}

/// Returns whether a child process ends with success.
fn in_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child process makes calls of this crate and system calls only, which have to work in it, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let status = if work() { 7 } else { 8 };
        // SAFETY: the child process ends without the handlers of its parent.
        unsafe { libc::_exit(status) };
    }
    assert!(child > 0);
    let mut status = 0;
    assert_eq!(
        call!(libc waitpid(child, &raw mut status, 0)),
        Ok(child.into())
    );
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7
}

/// Asks the daemon for the local address.
fn is_answered(fd: c_int) -> bool {
    let (mut name, mut len) = ([0_u8; 128], 128);
    call!(carrick getsockname(fd, name.as_mut_ptr().cast(), &raw mut len)) == Ok(0)
}

#[test]
fn a_child_process_has_the_socket_as_well() {
    let socket = TestSocket::established(&[]);
    let fd = socket.fd();
    assert_eq!(write(fd, b"parent"), Ok(6));
    assert!(in_child(|| write(fd, b"child") == Ok(5) && is_answered(fd)));
    assert_eq!(payload(&socket).as_deref(), Some(&b"parent"[..]));
    assert_eq!(payload(&socket).as_deref(), Some(&b"child"[..]));
    assert_eq!(write(fd, b"after"), Ok(5));
    assert!(
        socket
            .requests
            .lock()
            .unwrap()
            .contains(&"LocalAddress".to_owned())
    );
}

#[test]
fn the_program_may_close_the_connection() {
    let socket = TestSocket::established(&[]);
    let fd = socket.fd();
    // The numbers of the child process are other than those of the tests that run beside this one.
    assert!(in_child(|| {
        (0..3).all(|_| is_answered(fd) && call!(libc close_range(500, u32::MAX, 0)) == Ok(0))
    }));
    assert!(is_answered(fd));
}

#[test]
fn closing_waits_where_the_socket_lingers() {
    let description = with(
        Description::new(1, 100),
        &[Property::Established, Property::Lingers],
    );
    let socket = TestSocket::answering(move |request| plain(description, request));
    let fd = number(call!(carrick dup2(socket.fd(), own_number())));
    assert_eq!(write(fd, b"known"), Ok(5));
    // The daemon of the test has no association with this cookie, so that nothing is waited for.
    assert_eq!(call!(carrick close(fd)), Ok(0));
    assert_eq!(write(fd, b"closed"), Err(libc::EBADF));
}

#[test]
fn passed_descriptors_are_identified_again() {
    let (socket, kernel) = (TestSocket::established(&[]), KernelSocket::new());
    let (ours, theirs) = fake_daemon::pair();
    let first = number(call!(carrick dup(socket.fd())));
    assert_eq!(write(first, b"one"), Ok(3));
    assert_eq!(call!(libc close(first)), Ok(0));
    // The number of the socket may be that of the passed descriptor.
    pass(&ours, kernel.fd());
    let mut bytes = [0_u8; 8];
    let mut control = [0_u64; 8];
    let mut list = crate::support::parts(&mut bytes, &[8]);
    let mut header = crate::support::message(&mut list);
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = 64;
    assert_eq!(
        call!(carrick recvmsg(theirs.as_raw_fd(), &raw mut header, 0)),
        Ok(1)
    );
    let received = (control[2] & 0xffff_ffff) as c_int;
    // SAFETY: the descriptor is that of the message, and nothing else has it.
    let received = unsafe { OwnedFd::from_raw_fd(received) };
    assert_eq!(write(received.as_raw_fd(), b"passed"), Ok(6));
    assert_eq!(kernel.sent_message().as_deref(), Some(&b"passed"[..]));
}

/// Passes a descriptor on a local socket.
fn pass(on: &OwnedFd, number: c_int) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
    // SAFETY: the test has the descriptor open.
    let passed = [unsafe { BorrowedFd::borrow_raw(number) }];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&passed)));
    let parts = [std::io::IoSlice::new(b"x")];
    assert_eq!(sendmsg(on, &parts, &mut control, SendFlags::empty()), Ok(1));
}

#[test]
fn a_socket_without_a_daemon_is_not_carricks() {
    // The daemon does not know this pair.
    fake_daemon::start();
    let (ours, theirs) = fake_daemon::pair();
    assert_eq!(write(ours.as_raw_fd(), b"plain"), Ok(5));
    let mut bytes = [0; 9];
    let (len, _) =
        rustix::net::recv(&theirs, &mut bytes[..], rustix::net::RecvFlags::empty()).unwrap();
    assert_eq!(&bytes[..len], b"plain");
    let refused = TestSocket::answering(|request| match request {
        Request::Describe => Answer {
            error: libc::ENOTSOCK,
            ..Answer::default()
        },
        request => plain(Description::default(), request),
    });
    assert_eq!(write(refused.fd(), b"plain"), Ok(5));
}
