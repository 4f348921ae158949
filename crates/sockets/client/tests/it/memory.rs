//! Buffers that end in front of memory without access.

use std::ffi::c_void;

use libc::{iovec, msghdr};

use crate::support::{GuardedPage, PAGE, TestSocket, call, message, parts};

#[test]
fn buffers_may_end_with_their_page() {
    let socket = TestSocket::established(&[]);
    let page = GuardedPage::new();
    for (at, len) in [1, 100, PAGE].into_iter().enumerate() {
        socket.deliver_message(&vec![at as u8 + 1; len]);
        let end = page.before_end(len);
        assert_eq!(call!(carrick read(socket.fd(), end, len)), Ok(len as i64));
        assert_eq!(call!(carrick write(socket.fd(), end, len)), Ok(len as i64));
        let (_, _, payload) = socket.sent_frame().unwrap();
        assert_eq!(payload, vec![at as u8 + 1; len]);
    }
}

#[test]
fn structures_may_end_with_their_page() {
    let socket = TestSocket::established(&[]);
    let page = GuardedPage::new();
    let mut bytes = [0; 16];
    let mut list = parts(&mut bytes, &[16]);
    let header: *mut msghdr = page.before_end(size_of::<msghdr>()).cast();
    // SAFETY: the page has room for the structure in front of its end.
    unsafe { header.write(message(&mut list)) };
    socket.deliver_message(b"message");
    assert_eq!(call!(carrick recvmsg(socket.fd(), header, 0)), Ok(7));
    let beyond: *mut msghdr = header.wrapping_byte_add(1);
    assert_eq!(
        call!(carrick recvmsg(socket.fd(), beyond, 0)),
        Err(libc::EFAULT)
    );
    let list: *const iovec = page.before_end(size_of::<iovec>()).cast();
    assert_eq!(
        call!(carrick writev(socket.fd(), list, 2)),
        Err(libc::EFAULT)
    );
    assert!(socket.sent_frame().is_none());
}

/// The first frames of a message would stay in front of the next message.
#[test]
fn a_large_message_with_a_bad_part_sends_nothing() {
    let socket = TestSocket::established(&[]);
    let page = GuardedPage::new();
    let mut large = vec![1; 150_000];
    let mut list = parts(&mut large, &[150_000]);
    list.push(iovec {
        iov_base: page.before_end(10),
        iov_len: 11,
    });
    assert_eq!(
        call!(carrick writev(socket.fd(), list.as_ptr(), 2)),
        Err(libc::EFAULT)
    );
    assert!(socket.sent_frame().is_none());
    assert_eq!(
        call!(carrick write(socket.fd(), b"next".as_ptr().cast(), 4)),
        Ok(4)
    );
    let (header, _, payload) = socket.sent_frame().unwrap();
    assert!(header.is_end);
    assert_eq!(payload, b"next");
}

#[test]
fn constant_memory_is_refused_for_results() {
    let socket = TestSocket::established(&[]);
    let page = GuardedPage::new();
    let header: *mut msghdr = page.before_end(PAGE).cast();
    let mut bytes = [0; 16];
    let mut list = parts(&mut bytes, &[16]);
    // SAFETY: the page has room for the structure.
    unsafe { header.write(message(&mut list)) };
    page.protect();
    socket.deliver_message(b"message");
    assert_eq!(
        call!(carrick recvmsg(socket.fd(), header, 0)),
        Err(libc::EFAULT)
    );
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ERROR);
    let (value, mut len): (*mut c_void, u32) = (header.cast(), 4);
    let read = call!(carrick getsockopt(socket.fd(), level, name, value, &raw mut len));
    assert_eq!(read, Err(libc::EFAULT));
    let unread = call!(carrick ioctl(socket.fd(), libc::FIONREAD, value));
    assert_eq!(unread, Err(libc::EFAULT));
    // None of the calls took the message.
    assert_eq!(
        call!(carrick read(socket.fd(), bytes.as_mut_ptr().cast(), 16)),
        Ok(7)
    );
}
