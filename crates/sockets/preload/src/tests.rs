//! The functions that the library replaces, in the process of the tests: its calls of libc are those of the library.

// The functions return integers of several sizes.
#![allow(clippy::cast_lossless)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{null, null_mut};

use carrick_ipc::{FrameKind, HEADER, Header};
use rustix::net::{RecvFlags, SendFlags};

use crate::exec::extended;
use crate::fake_daemon;
use crate::hooks;

/// Returns the value of a call, or the error number.
macro_rules! call {
    ($function:path, $($argument:expr),*) => {{
        // SAFETY: the arguments are valid, or the kernel refuses them.
        let value = unsafe { $function($($argument),*) } as i64;
        // SAFETY: libc returns the location of the thread's `errno`.
        if value < 0 { Err(unsafe { *libc::__errno_location() }) } else { Ok(value) }
    }};
}

/// Returns a socket of SCTP with the daemon's end of its pair.
fn socket() -> (c_int, std::os::fd::OwnedFd) {
    fake_daemon::start();
    let (domain, kind) = (libc::AF_INET, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC);
    let fd = call!(libc::socket, domain, kind, libc::IPPROTO_SCTP).unwrap() as c_int;
    // SAFETY: the descriptor is that of the test, and open.
    let daemon = fake_daemon::created(unsafe { BorrowedFd::borrow_raw(fd) });
    (fd, daemon)
}

fn deliver(daemon: &std::os::fd::OwnedFd, payload: &[u8]) {
    let frame = [&Header::new(FrameKind::Message).encode()[..], payload].concat();
    let sent = rustix::net::send(daemon, &frame, SendFlags::NOSIGNAL);
    assert_eq!(sent, Ok(HEADER + payload.len()));
}

#[test]
fn calls_of_the_process_are_the_librarys() {
    let (fd, daemon) = socket();
    let mut buffer = [0_u8; 16];
    let start: *mut c_void = buffer.as_mut_ptr().cast();
    let mut part = libc::iovec {
        iov_base: start,
        iov_len: 16,
    };
    // SAFETY: null pointers and zeros are valid in each field.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    for _ in 0..7 {
        deliver(&daemon, b"message");
    }
    assert_eq!(call!(libc::read, fd, start, 16), Ok(7));
    assert_eq!(call!(libc::readv, fd, &raw const part, 1), Ok(7));
    assert_eq!(call!(libc::recv, fd, start, 16, 0), Ok(7));
    assert_eq!(
        call!(libc::recvfrom, fd, start, 16, 0, null_mut(), null_mut()),
        Ok(7)
    );
    assert_eq!(call!(libc::recvmsg, fd, &raw mut message, 0), Ok(7));
    assert_eq!(call!(libc::preadv2, fd, &raw const part, 1, -1, 0), Ok(7));
    assert_eq!(call!(hooks::__read, fd, start, 16), Ok(7));
    assert_eq!(&buffer[..7], b"message");
    assert_eq!(call!(libc::write, fd, start, 7), Ok(7));
    assert_eq!(call!(libc::sendto, fd, start, 5, 0, null(), 0), Ok(5));
    assert_eq!(
        call!(libc::splice, fd, null_mut(), fd, null_mut(), 1, 0),
        Err(libc::EINVAL)
    );
    assert_eq!(call!(libc::close, fd), Ok(0));
    let ended = rustix::net::recv(&daemon, &mut buffer[..], RecvFlags::empty());
    assert_eq!(ended.map(|(len, _)| len), Ok(0));
}

/// A descriptor that is not Carrick's is remembered until its number is closed or replaced by a function of libc.
#[test]
fn a_number_is_remembered_until_it_is_replaced() {
    let (fd, daemon) = socket();
    let (plain, peer) = std::os::unix::net::UnixStream::pair().unwrap();
    // No other test has these numbers.
    let (number, other) = (700, 701);
    let mut buffer = [0_u8; 16];
    let start: *mut c_void = buffer.as_mut_ptr().cast();
    for _ in 0..3 {
        assert_eq!(call!(libc::dup2, plain.as_raw_fd(), number), Ok(700));
        assert_eq!(
            call!(libc::write, number, b"plain".as_ptr().cast(), 5),
            Ok(5)
        );
        assert_eq!(rustix::io::read(&peer, &mut [0; 9]), Ok(5));
        assert_eq!(call!(libc::dup3, fd, number, libc::O_CLOEXEC), Ok(700));
        deliver(&daemon, b"message");
        assert_eq!(call!(libc::read, number, start, 16), Ok(7));
        assert_eq!(
            call!(libc::fcntl, plain.as_raw_fd(), libc::F_DUPFD, other),
            Ok(701)
        );
        assert_eq!(
            call!(libc::write, other, b"plain".as_ptr().cast(), 5),
            Ok(5)
        );
        assert_eq!(rustix::io::read(&peer, &mut [0; 9]), Ok(5));
        assert_eq!(
            call!(hooks::close_range, other as u32, other as u32, 0),
            Ok(0)
        );
        assert_eq!(call!(libc::fcntl, fd, libc::F_DUPFD, other), Ok(701));
        deliver(&daemon, b"message");
        assert_eq!(call!(libc::recv, other, start, 16, 0), Ok(7));
        assert_eq!(call!(libc::close, other), Ok(0));
    }
    assert_eq!(call!(libc::close, number), Ok(0));
    assert_eq!(call!(libc::close, fd), Ok(0));
}

#[test]
fn system_calls_by_number_are_the_librarys() {
    let (fd, daemon) = socket();
    deliver(&daemon, b"message");
    let mut buffer = [0_u8; 16];
    let start = buffer.as_mut_ptr();
    assert_eq!(call!(libc::syscall, libc::SYS_read, fd, start, 16), Ok(7));
    let pid = i64::from(std::process::id());
    assert_eq!(call!(libc::syscall, libc::SYS_getpid), Ok(pid));
    assert_eq!(call!(libc::syscall, libc::SYS_close, fd), Ok(0));
}

/// The functions of glibc with the size of the buffer.
#[test]
fn reads_beyond_their_buffer_end_the_program() {
    let (fd, daemon) = socket();
    let mut buffer = [0_u8; 8];
    let start: *mut c_void = buffer.as_mut_ptr().cast();
    for _ in 0..3 {
        deliver(&daemon, b"message");
    }
    assert_eq!(call!(hooks::__read_chk, fd, start, 8, 8), Ok(7));
    assert_eq!(call!(hooks::__recv_chk, fd, start, 8, 8, 0), Ok(7));
    let (from, len) = (null_mut(), null_mut());
    assert_eq!(
        call!(hooks::__recvfrom_chk, fd, start, 8, 8, 0, from, len),
        Ok(7)
    );
    // SAFETY: the child process makes one call, which ends it.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let _ = call!(hooks::__read_chk, fd, start, 9, 8);
        // SAFETY: the child process ends without the handlers of its parent.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    assert_eq!(
        call!(libc::waitpid, child, &raw mut status, 0),
        Ok(child.into())
    );
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT);
    assert_eq!(call!(libc::close, fd), Ok(0));
}

/// Returns the entries of the environment of a program that is started with these entries; `None` if it is unchanged.
fn passed_on(entries: &[&CStr]) -> Option<Vec<CString>> {
    let mut list: Vec<*const c_char> = entries.iter().map(|entry| entry.as_ptr()).collect();
    list.push(null());
    // SAFETY: the list has strings, and null at its end.
    let (_value, list) = unsafe { extended(list.as_ptr()) }?;
    assert_eq!(list.last(), Some(&null()));
    let entries = list.iter().take(list.len() - 1);
    // SAFETY: the entries are those of the list above, or the new value, which lives until here.
    Some(
        entries
            .map(|entry| unsafe { CStr::from_ptr(*entry) }.to_owned())
            .collect(),
    )
}

#[test]
fn the_library_is_passed_on_behind_others() {
    let own = std::env::args().next().unwrap();
    let changed =
        passed_on(&[c"A=1", c"LD_PRELOAD=/lib/withsctp.so", c"LD_PRELOAD=second"]).unwrap();
    let expected = CString::new(format!("LD_PRELOAD=/lib/withsctp.so:{own}")).unwrap();
    assert_eq!(
        changed,
        [
            c"A=1".to_owned(),
            expected.clone(),
            c"LD_PRELOAD=second".to_owned()
        ]
    );
    // It is there already.
    assert_eq!(passed_on(&[&expected]), None);
}

#[test]
fn other_environments_are_unchanged() {
    // SAFETY: null is no environment.
    assert!(unsafe { extended(null()) }.is_none());
    for entries in [
        &[][..],
        &[c"A=1"],
        &[c"LD_PRELOAD="],
        &[c"LD_PRELOADED=x", c"XLD_PRELOAD=y"],
    ] {
        assert_eq!(passed_on(entries), None, "{entries:?}");
    }
}
