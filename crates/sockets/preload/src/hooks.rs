//! Functions of libc that the library replaces. The pointers are those of the program: as with libc, it guarantees
//! that they and the sizes beside them are valid.
#![allow(clippy::missing_safety_doc, unreachable_pub)]

use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};

use libc::{iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};

/// Library constructor; from now on close, dup and fcntl calls are intercepted.
#[used]
// SAFETY: the section has pointers to functions without arguments, as this one.
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    carrick_client::remember_other_descriptors();
    crate::exec::serve_withsctp();
}

/// Defines functions with the names of those of libc.
macro_rules! replace {
    ($($name:ident = $by:ident($($arg:ident: $kind:ty),* $(,)?) -> $result:ty;)*) => {$(
        // SAFETY: the type is that of libc's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> $result {
            // SAFETY: the arguments are the program's.
            unsafe { carrick_client::$by($($arg),*) }
        }
    )*};
}

replace! {
    socket = socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    bind = bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    listen = listen(fd: c_int, backlog: c_int) -> c_int;
    accept = accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    accept4 = accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    connect = connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    getsockname = getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getpeername = getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getsockopt = getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    setsockopt = setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    shutdown = shutdown(fd: c_int, how: c_int) -> c_int;
    chroot = chroot(path: *const c_char) -> c_int;
    close = close(fd: c_int) -> c_int;
    close_range = close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    dup = dup(fd: c_int) -> c_int;
    dup2 = dup2(fd: c_int, to: c_int) -> c_int;
    dup3 = dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    fcntl = fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    fcntl64 = fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    ioctl = ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int;
    read = read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t;
    readv = readv(fd: c_int, list: *const iovec, count: c_int) -> ssize_t;
    recv = recv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    recvfrom = recvfrom(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int, address: *mut sockaddr, address_len: *mut socklen_t) -> ssize_t;
    recvmsg = recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    recvmmsg = recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    write = write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t;
    writev = writev(fd: c_int, list: *const iovec, count: c_int) -> ssize_t;
    send = send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    sendto = sendto(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int, address: *const sockaddr, address_len: socklen_t) -> ssize_t;
    sendmsg = sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    sendmmsg = sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    sendfile = sendfile(out: c_int, from: c_int, offset: *mut i64, count: size_t) -> ssize_t;
    sendfile64 = sendfile(out: c_int, from: c_int, offset: *mut i64, count: size_t) -> ssize_t;
    preadv2 = preadv2(fd: c_int, list: *const iovec, count: c_int, offset: i64, flags: c_int) -> ssize_t;
    preadv64v2 = preadv2(fd: c_int, list: *const iovec, count: c_int, offset: i64, flags: c_int) -> ssize_t;
    pwritev2 = pwritev2(fd: c_int, list: *const iovec, count: c_int, offset: i64, flags: c_int) -> ssize_t;
    pwritev64v2 = pwritev2(fd: c_int, list: *const iovec, count: c_int, offset: i64, flags: c_int) -> ssize_t;
    splice = splice(from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, len: size_t, flags: c_uint) -> ssize_t;
}

// Names that glibc exports besides.
replace! {
    __close = close(fd: c_int) -> c_int;
    __connect = connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    __dup2 = dup2(fd: c_int, to: c_int) -> c_int;
    __fcntl = fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    __read = read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t;
    __send = send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    __write = write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t;
}

// The sixth argument of the call is on the stack, also where the program has passed fewer.
replace! {
    syscall = syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long;
}

/// Aborts if `len` exceeds the size of the buffer, as the `_chk` functions of libc do.
fn check_space(len: size_t, space: size_t) {
    if len > space {
        std::process::abort();
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read_chk(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    space: size_t,
) -> ssize_t {
    check_space(len, space);
    // SAFETY: the arguments are the program's.
    unsafe { carrick_client::read(fd, buffer, len) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recv_chk(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    space: size_t,
    flags: c_int,
) -> ssize_t {
    check_space(len, space);
    // SAFETY: the arguments are the program's.
    unsafe { carrick_client::recv(fd, buffer, len, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    space: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> ssize_t {
    check_space(len, space);
    // SAFETY: the arguments are the program's.
    unsafe { carrick_client::recvfrom(fd, buffer, len, flags, address, address_len) }
}
