//! Arguments that the kernel refuses or limits: results and error numbers are those of libc on a local socket.

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr::{null, null_mut, without_provenance_mut};

use libc::{iovec, mmsghdr, msghdr};

use crate::support::{GuardedPage, KernelSocket, TestSocket, Unaligned, call, message, parts};

/// Performs a call on a socket of Carrick and on one of the kernel, and checks that both have this result.
macro_rules! both {
    ($ours:expr, $kernels:expr, $expected:expr, $name:ident($($argument:expr),*)) => {
        let kernels = call!(libc $name($kernels $(, $argument)*));
        assert_eq!(kernels, $expected, "libc: {}", stringify!($name($($argument),*)));
        let ours = call!(carrick $name($ours $(, $argument)*));
        assert_eq!(ours, $expected, "carrick: {}", stringify!($name($($argument),*)));
    };
}

const FAULT: Result<i64, i32> = Err(libc::EFAULT);
const INVALID: Result<i64, i32> = Err(libc::EINVAL);

fn sockets() -> (TestSocket, KernelSocket) {
    (TestSocket::established(&[]), KernelSocket::new())
}

/// Returns an address that no process has.
fn bad<T>() -> *mut T {
    without_provenance_mut(8)
}

#[test]
fn reads_without_room_return_at_once() {
    let (ours, kernel) = sockets();
    let (fd, kernels) = (ours.fd(), kernel.fd());
    let empty = [parts(&mut [], &[0])[0]; 3];
    both!(fd, kernels, Ok(0), read(null_mut(), 0));
    both!(fd, kernels, Ok(0), readv(null(), 0));
    both!(fd, kernels, Ok(0), readv(empty.as_ptr(), 3));
    both!(fd, kernels, Ok(0), preadv2(empty.as_ptr(), 3, -1, 0));
    both!(
        fd,
        kernels,
        Err(libc::EAGAIN),
        recv(null_mut(), 0, libc::MSG_DONTWAIT)
    );
}

#[test]
fn writes_of_empty_parts_send_nothing() {
    let (ours, kernel) = sockets();
    let (fd, kernels) = (ours.fd(), kernel.fd());
    let empty = [parts(&mut [], &[0])[0]; 3];
    both!(fd, kernels, Ok(0), writev(null(), 0));
    both!(fd, kernels, Ok(0), writev(empty.as_ptr(), 3));
    both!(fd, kernels, Ok(0), pwritev2(empty.as_ptr(), 3, -1, 0));
    assert!(ours.sent_frame().is_none() && kernel.sent_message().is_none());
}

#[test]
fn bad_buffers_are_refused() {
    let (ours, kernel) = sockets();
    ours.deliver_message(b"message");
    kernel.deliver_message(b"message");
    let (fd, kernels) = (ours.fd(), kernel.fd());
    both!(fd, kernels, FAULT, write(bad::<c_void>(), 5));
    both!(fd, kernels, FAULT, write(null(), 5));
    both!(fd, kernels, FAULT, send(bad::<c_void>(), 5, 0));
    both!(fd, kernels, FAULT, writev(bad::<iovec>(), 1));
    both!(fd, kernels, FAULT, sendmsg(bad::<msghdr>(), 0));
    both!(fd, kernels, FAULT, sendmmsg(bad::<mmsghdr>(), 1, 0));
    both!(fd, kernels, FAULT, readv(bad::<iovec>(), 1));
    both!(fd, kernels, FAULT, recvmsg(bad::<msghdr>(), 0));
    assert!(ours.sent_frame().is_none() && kernel.sent_message().is_none());
    both!(fd, kernels, FAULT, read(null_mut(), 5));
}

#[test]
fn lists_of_parts_are_limited() {
    let (ours, kernel) = sockets();
    let (fd, kernels) = (ours.fd(), kernel.fd());
    let mut byte = [0; 1];
    let list = vec![parts(&mut byte, &[1])[0]; 1025];
    both!(fd, kernels, INVALID, readv(list.as_ptr(), 1025));
    both!(fd, kernels, INVALID, writev(list.as_ptr(), 1025));
    both!(fd, kernels, INVALID, readv(list.as_ptr(), -1));
    both!(fd, kernels, INVALID, writev(list.as_ptr(), -1));
    let mut long = list.clone();
    let header = message(&mut long);
    both!(
        fd,
        kernels,
        Err(libc::EMSGSIZE),
        sendmsg(&raw const header, 0)
    );
    let mut header = header;
    both!(
        fd,
        kernels,
        Err(libc::EMSGSIZE),
        recvmsg(&raw mut header, 0)
    );
}

#[test]
fn parts_with_negative_sizes_are_refused() {
    let (ours, kernel) = sockets();
    ours.deliver_message(b"message");
    kernel.deliver_message(b"message");
    let (fd, kernels) = (ours.fd(), kernel.fd());
    let mut bytes = [0; 16];
    let mut list = parts(&mut bytes, &[8, 8]);
    list[1].iov_len = usize::MAX;
    both!(fd, kernels, INVALID, readv(list.as_ptr(), 2));
    both!(fd, kernels, INVALID, writev(list.as_ptr(), 2));
    let mut header = message(&mut list);
    both!(fd, kernels, INVALID, sendmsg(&raw const header, 0));
    both!(fd, kernels, INVALID, recvmsg(&raw mut header, 0));
    // The message is still there.
    both!(fd, kernels, Ok(7), read(bytes.as_mut_ptr().cast(), 16));
}

#[test]
fn sizes_beyond_memory_are_cut_or_refused() {
    let (ours, kernel) = sockets();
    let (fd, kernels) = (ours.fd(), kernel.fd());
    let mut bytes = [0; 16];
    let buffer: *mut c_void = bytes.as_mut_ptr().cast();
    both!(fd, kernels, FAULT, read(buffer, usize::MAX));
    both!(fd, kernels, FAULT, write(buffer, usize::MAX));
    for len in [usize::MAX, isize::MAX as usize, 1 << 40] {
        ours.deliver_message(b"message");
        kernel.deliver_message(b"message");
        both!(fd, kernels, Ok(7), recv(buffer, len, 0));
    }
    let mut list = parts(&mut bytes, &[4, 12]);
    list[1].iov_len = isize::MAX as usize;
    both!(fd, kernels, FAULT, readv(list.as_ptr(), 2));
    list[1].iov_len = 1 << 31;
    ours.deliver_message(b"message");
    assert_eq!(call!(carrick readv(fd, list.as_ptr(), 2)), Ok(7));
    assert_eq!(&bytes[..7], b"message");
}

#[test]
fn a_negative_name_size_costs_no_message() {
    let (ours, kernel) = sockets();
    ours.deliver_message(b"message");
    kernel.deliver_message(b"message");
    let (fd, kernels) = (ours.fd(), kernel.fd());
    let (mut bytes, mut name) = ([0; 16], [0_u8; 128]);
    let mut list = parts(&mut bytes, &[16]);
    let mut header = message(&mut list);
    header.msg_name = name.as_mut_ptr().cast();
    header.msg_namelen = u32::MAX;
    both!(fd, kernels, INVALID, recvmsg(&raw mut header, 0));
    both!(fd, kernels, INVALID, sendmsg(&raw const header, 0));
    both!(fd, kernels, Ok(7), read(bytes.as_mut_ptr().cast(), 16));
}

#[test]
fn offsets_and_flags_of_transfers_are_checked() {
    let (ours, kernel) = sockets();
    let (fd, kernels) = (ours.fd(), kernel.fd());
    let mut bytes = [0; 16];
    let list = parts(&mut bytes, &[16]);
    both!(
        fd,
        kernels,
        Err(libc::ESPIPE),
        preadv2(list.as_ptr(), 1, 0, 0)
    );
    both!(
        fd,
        kernels,
        Err(libc::ESPIPE),
        pwritev2(list.as_ptr(), 1, 7, 0)
    );
    both!(
        fd,
        kernels,
        Err(libc::EOPNOTSUPP),
        preadv2(list.as_ptr(), 1, -1, 1 << 20)
    );
    both!(
        fd,
        kernels,
        Err(libc::EAGAIN),
        preadv2(list.as_ptr(), 1, -1, libc::RWF_NOWAIT)
    );
}

#[test]
fn addresses_are_checked() {
    let (ours, kernel) = sockets();
    let (fd, kernels) = (ours.fd(), kernel.fd());
    let address = [0_u8; 200];
    let address: *const libc::sockaddr = address.as_ptr().cast();
    both!(fd, kernels, INVALID, bind(address, 200));
    both!(fd, kernels, INVALID, connect(address, u32::MAX));
    both!(fd, kernels, FAULT, bind(bad(), 16));
    both!(fd, kernels, FAULT, connect(bad(), 16));
    both!(
        fd,
        kernels,
        FAULT,
        sendto(b"x".as_ptr().cast(), 1, 0, bad::<libc::sockaddr>(), 16)
    );
    both!(
        fd,
        kernels,
        INVALID,
        sendto(b"x".as_ptr().cast(), 1, 0, address, 129)
    );
}

#[test]
fn sizes_of_returned_values_are_checked() {
    let (ours, kernel) = sockets();
    let (fd, kernels) = (ours.fd(), kernel.fd());
    let mut address = [0_u8; 128];
    let address: *mut libc::sockaddr = address.as_mut_ptr().cast();
    let mut negative = u32::MAX;
    both!(
        fd,
        kernels,
        INVALID,
        getsockname(address, &raw mut negative)
    );
    both!(fd, kernels, FAULT, getsockname(address, null_mut()));
    both!(
        fd,
        kernels,
        INVALID,
        getpeername(address, &raw mut negative)
    );
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ERROR);
    both!(
        fd,
        kernels,
        INVALID,
        getsockopt(level, name, address.cast(), &raw mut negative)
    );
    both!(
        fd,
        kernels,
        FAULT,
        getsockopt(level, name, address.cast(), null_mut())
    );
    let mut four = 4;
    both!(
        fd,
        kernels,
        FAULT,
        getsockopt(level, name, bad(), &raw mut four)
    );
    both!(
        fd,
        kernels,
        INVALID,
        setsockopt(level, libc::SO_SNDBUF, address.cast(), u32::MAX)
    );
    both!(
        fd,
        kernels,
        FAULT,
        setsockopt(level, libc::SO_SNDBUF, bad::<c_void>(), 4)
    );
}

#[test]
fn commands_check_their_pointers() {
    let (ours, kernel) = sockets();
    let (fd, kernels) = (ours.fd(), kernel.fd());
    both!(fd, kernels, FAULT, ioctl(libc::FIONREAD, bad::<c_void>()));
    let mut unread = Unaligned::new(&[-1_i32]);
    both!(
        fd,
        kernels,
        Ok(0),
        ioctl(libc::FIONREAD, unread.pointer().cast::<c_void>())
    );
    assert_eq!(unread.get(0), 0);
}

#[test]
fn structures_may_have_any_address() {
    let (ours, kernel) = sockets();
    let (fd, kernels) = (ours.fd(), kernel.fd());
    let mut bytes = [7; 16];
    let mut list = Unaligned::new(&parts(&mut bytes, &[4, 12]));
    both!(fd, kernels, Ok(16), writev(list.pointer(), 2));
    let mut header = message(&mut []);
    header.msg_iov = list.pointer();
    header.msg_iovlen = 2;
    let mut unaligned = Unaligned::new(&[header]);
    both!(fd, kernels, Ok(16), sendmsg(unaligned.pointer(), 0));
    let mut several = Unaligned::new(
        &[mmsghdr {
            msg_hdr: header,
            msg_len: 0,
        }; 3],
    );
    both!(fd, kernels, Ok(3), sendmmsg(several.pointer(), 3, 0));
    assert_eq!(several.get(2).msg_len, 16);
    for _ in 0..3 {
        ours.deliver_message(b"message");
        kernel.deliver_message(b"message");
    }
    both!(fd, kernels, Ok(7), recvmsg(unaligned.pointer(), 0));
    both!(
        fd,
        kernels,
        Ok(2),
        recvmmsg(several.pointer(), 3, libc::MSG_DONTWAIT, null_mut())
    );
    assert_eq!(several.get(1).msg_len, 7);
}

#[test]
fn calls_on_other_descriptors_are_those_of_libc() {
    let page = GuardedPage::new();
    for calls in [KernelSocket::new(), KernelSocket::new()] {
        let fd = calls.fd();
        assert_eq!(call!(carrick write(fd, b"data".as_ptr().cast(), 4)), Ok(4));
        assert_eq!(calls.sent_message().as_deref(), Some(&b"data"[..]));
        calls.deliver_message(b"answer");
        assert_eq!(call!(carrick read(fd, page.before_end(6), 6)), Ok(6));
        assert_eq!(
            call!(carrick read(fd, page.before_end(0), usize::MAX)),
            FAULT
        );
        assert_eq!(call!(carrick listen(fd, 1)), call!(libc listen(fd, 1)));
        assert_eq!(call!(carrick shutdown(fd, 7)), INVALID);
    }
    for fd in [-1, i32::MIN, 1 << 20] {
        assert_eq!(
            call!(carrick read(fd, null_mut(), 0)),
            Err(libc::EBADF),
            "{fd}"
        );
        assert_eq!(
            call!(carrick send(fd, null(), 0, 0)),
            Err(libc::EBADF),
            "{fd}"
        );
        assert_eq!(call!(carrick dup(fd)), Err(libc::EBADF), "{fd}");
        assert_eq!(call!(carrick close(fd)), Err(libc::EBADF), "{fd}");
    }
}

#[test]
fn structures_have_the_size_of_the_kernel() {
    assert_eq!(size_of::<iovec>(), 16);
    assert_eq!(size_of::<msghdr>(), 56);
    assert_eq!(size_of::<mmsghdr>(), 64);
}
