//! The functions of libc, or of a further library in their place. A static program, as the command linked for musl, has no
//! dynamic linker that finds the latter: there, the functions are those that it is linked with.

#[cfg(not(target_feature = "crt-static"))]
use std::ffi::CStr;
use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};
#[cfg(not(target_feature = "crt-static"))]
use std::mem::transmute;
#[cfg(not(target_feature = "crt-static"))]
use std::ptr::null_mut;
#[cfg(not(target_feature = "crt-static"))]
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};

/// Returns the next function of a name, which is looked up once.
#[cfg(not(target_feature = "crt-static"))]
fn find(found: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = found.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name ends with a zero byte, and the call has no other requirement.
    let function = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if function.is_null() {
        // Every libc has the functions that this crate calls.
        std::process::abort();
    }
    found.store(function, Ordering::Relaxed);
    function
}

macro_rules! next {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $result:ty;)*) => {$(
        /// # Safety
        /// As for the function of libc.
        #[cfg(not(target_feature = "crt-static"))]
        pub(crate) unsafe fn $name($($arg: $kind),*) -> $result {
            static FOUND: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
            const NAME: &str = concat!(stringify!($name), "\0");
            let name = CStr::from_bytes_with_nul(NAME.as_bytes()).unwrap_or_default();
            // SAFETY: libc's function of this name has this type, and the caller has met its
            // requirements.
            unsafe {
                let function: unsafe extern "C" fn($($kind),*) -> $result =
                    transmute(find(&FOUND, name));
                function($($arg),*)
            }
        }

        #[cfg(target_feature = "crt-static")]
        pub(crate) unsafe fn $name($($arg: $kind),*) -> $result {
            unsafe extern "C" {
                fn $name($($arg: $kind),*) -> $result;
            }
            // SAFETY: the caller has met the requirements of libc's function.
            unsafe { $name($($arg),*) }
        }
    )*};
}

next! {
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    listen(fd: c_int, backlog: c_int) -> c_int;
    accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    shutdown(fd: c_int, how: c_int) -> c_int;
    chroot(path: *const c_char) -> c_int;
    close(fd: c_int) -> c_int;
    dup(fd: c_int) -> c_int;
    dup2(fd: c_int, to: c_int) -> c_int;
    dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    read(fd: c_int, buffer: *mut c_void, size: size_t) -> ssize_t;
    readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    write(fd: c_int, buffer: *const c_void, size: size_t) -> ssize_t;
    writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    recv(fd: c_int, buffer: *mut c_void, size: size_t, flags: c_int) -> ssize_t;
    recvfrom(fd: c_int, buffer: *mut c_void, size: size_t, flags: c_int, address: *mut sockaddr, len: *mut socklen_t) -> ssize_t;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    send(fd: c_int, buffer: *const c_void, size: size_t, flags: c_int) -> ssize_t;
    sendto(fd: c_int, buffer: *const c_void, size: size_t, flags: c_int, address: *const sockaddr, len: socklen_t) -> ssize_t;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    sendfile(out: c_int, from: c_int, offset: *mut i64, count: size_t) -> ssize_t;
    splice(from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, len: size_t, flags: c_uint) -> ssize_t;
}

/// Declares `function`, which returns the next function of a name with variable arguments behind these.
macro_rules! variadic {
    ($name:ident($($kind:ty),*) -> $result:ty) => {
        #[cfg(not(target_feature = "crt-static"))]
        fn function() -> unsafe extern "C" fn($($kind),*, ...) -> $result {
            static FOUND: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
            const NAME: &str = concat!(stringify!($name), "\0");
            let name = CStr::from_bytes_with_nul(NAME.as_bytes()).unwrap_or_default();
            // SAFETY: libc's function of this name has this type.
            unsafe { transmute(find(&FOUND, name)) }
        }

        #[cfg(target_feature = "crt-static")]
        fn function() -> unsafe extern "C" fn($($kind),*, ...) -> $result {
            unsafe extern "C" {
                fn $name($(_: $kind),*, ...) -> $result;
            }
            $name
        }
    };
}

/// # Safety
/// As for `fcntl`.
pub(crate) unsafe fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    variadic!(fcntl(c_int, c_int) -> c_int);
    // SAFETY: as for the functions above; this one has a variable argument.
    unsafe { function()(fd, command, argument) }
}

/// # Safety
/// As for `ioctl`.
pub(crate) unsafe fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    variadic!(ioctl(c_int, c_ulong) -> c_int);
    // SAFETY: as for the functions above; this one has a variable argument.
    unsafe { function()(fd, request, argument) }
}

/// # Safety
/// As for `syscall`.
pub(crate) unsafe fn syscall(number: c_long, arguments: [c_long; 6]) -> c_long {
    variadic!(syscall(c_long) -> c_long);
    // SAFETY: as for the functions above; this one has variable arguments.
    unsafe {
        function()(
            number,
            arguments[0],
            arguments[1],
            arguments[2],
            arguments[3],
            arguments[4],
            arguments[5],
        )
    }
}

/// `close_range`, by its system call, since not every libc has it, such as glibc before 2.34.
///
/// # Safety
/// As for the function.
pub(crate) unsafe fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let arguments = [first.into(), last.into(), flags.into(), 0, 0, 0];
    // SAFETY: as the caller guarantees.
    unsafe { syscall(libc::SYS_close_range, arguments) as c_int }
}

/// `preadv2` or `pwritev2`, by their system call, since not every libc has them.
///
/// # Safety
/// As for the function.
pub(crate) unsafe fn offset_call(
    number: c_long,
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: i64,
    flags: c_int,
) -> ssize_t {
    // The system call has the offset in two halves, of which a 64-bit kernel reads the first one.
    let arguments = [
        fd.into(),
        parts.expose_provenance() as c_long,
        count.into(),
        offset,
        0,
        flags.into(),
    ];
    // SAFETY: as the caller guarantees.
    unsafe { syscall(number, arguments) as ssize_t }
}
