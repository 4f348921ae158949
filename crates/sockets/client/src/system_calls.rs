//! `syscall`: the system calls that this crate replaces, by their numbers.

use std::ffi::{c_int, c_long, c_uint};
use std::ptr::with_exposed_provenance_mut;

use libc::{size_t, socklen_t};

use crate::{functions, next};

/// Arguments of a system call, each with the type that the call has for it.
struct Arguments([c_long; 6]);

impl Arguments {
    fn int(&self, at: usize) -> c_int {
        self.0[at] as c_int
    }

    fn uint(&self, at: usize) -> c_uint {
        self.0[at] as c_uint
    }

    fn size(&self, at: usize) -> size_t {
        self.0[at] as size_t
    }

    fn len(&self, at: usize) -> socklen_t {
        self.0[at] as socklen_t
    }

    fn pointer<T>(&self, at: usize) -> *mut T {
        with_exposed_provenance_mut(self.0[at] as usize)
    }
}

/// Performs a system call. Those of the functions of this crate act on Carrick's descriptors as the functions do; all others
/// pass on unchanged.
///
/// # Safety
/// As for `syscall` of libc.
pub unsafe fn syscall(
    number: c_long,
    first: c_long,
    second: c_long,
    third: c_long,
    fourth: c_long,
    fifth: c_long,
    sixth: c_long,
) -> c_long {
    let given = Arguments([first, second, third, fourth, fifth, sixth]);
    let (int, uint, size, len) = (
        |at| given.int(at),
        |at| given.uint(at),
        |at| given.size(at),
        |at| given.len(at),
    );
    let fd = int(0);
    // SAFETY: the arguments are the program's, and each call has those of the function of its name.
    unsafe {
        match number {
            libc::SYS_socket => functions::socket(fd, int(1), int(2)).into(),
            libc::SYS_bind => functions::bind(fd, given.pointer(1), len(2)).into(),
            libc::SYS_listen => functions::listen(fd, int(1)).into(),
            libc::SYS_accept => functions::accept(fd, given.pointer(1), given.pointer(2)).into(),
            libc::SYS_accept4 => {
                functions::accept4(fd, given.pointer(1), given.pointer(2), int(3)).into()
            }
            libc::SYS_connect => functions::connect(fd, given.pointer(1), len(2)).into(),
            libc::SYS_getsockname => {
                functions::getsockname(fd, given.pointer(1), given.pointer(2)).into()
            }
            libc::SYS_getpeername => {
                functions::getpeername(fd, given.pointer(1), given.pointer(2)).into()
            }
            libc::SYS_getsockopt => {
                let (value, len) = (given.pointer(3), given.pointer(4));
                functions::getsockopt(fd, int(1), int(2), value, len).into()
            }
            libc::SYS_setsockopt => {
                functions::setsockopt(fd, int(1), int(2), given.pointer(3), len(4)).into()
            }
            libc::SYS_shutdown => functions::shutdown(fd, int(1)).into(),
            libc::SYS_chroot => functions::chroot(given.pointer(0)).into(),
            libc::SYS_close => functions::close(fd).into(),
            libc::SYS_close_range => functions::close_range(uint(0), uint(1), uint(2) as _).into(),
            libc::SYS_dup => functions::dup(fd).into(),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => functions::dup2(fd, int(1)).into(),
            libc::SYS_dup3 => functions::dup3(fd, int(1), int(2)).into(),
            libc::SYS_fcntl => functions::fcntl(fd, int(1), third as _).into(),
            libc::SYS_ioctl => functions::ioctl(fd, second as _, given.pointer(2)).into(),
            libc::SYS_read => functions::read(fd, given.pointer(1), size(2)) as c_long,
            libc::SYS_readv => functions::readv(fd, given.pointer(1), int(2)) as c_long,
            libc::SYS_preadv2 => {
                functions::preadv2(fd, given.pointer(1), int(2), fourth, int(5)) as c_long
            }
            libc::SYS_recvfrom => {
                let (address, len) = (given.pointer(4), given.pointer(5));
                functions::recvfrom(fd, given.pointer(1), size(2), int(3), address, len) as c_long
            }
            libc::SYS_recvmsg => functions::recvmsg(fd, given.pointer(1), int(2)) as c_long,
            libc::SYS_recvmmsg => {
                functions::recvmmsg(fd, given.pointer(1), uint(2), int(3), given.pointer(4)).into()
            }
            libc::SYS_write => functions::write(fd, given.pointer(1), size(2)) as c_long,
            libc::SYS_writev => functions::writev(fd, given.pointer(1), int(2)) as c_long,
            libc::SYS_pwritev2 => {
                functions::pwritev2(fd, given.pointer(1), int(2), fourth, int(5)) as c_long
            }
            libc::SYS_sendto => {
                let (address, len) = (given.pointer(4), len(5));
                functions::sendto(fd, given.pointer(1), size(2), int(3), address, len) as c_long
            }
            libc::SYS_sendmsg => functions::sendmsg(fd, given.pointer(1), int(2)) as c_long,
            libc::SYS_sendmmsg => functions::sendmmsg(fd, given.pointer(1), uint(2), int(3)).into(),
            libc::SYS_sendfile => {
                functions::sendfile(fd, int(1), given.pointer(2), size(3)) as c_long
            }
            libc::SYS_splice => {
                let (from, to) = (given.pointer(1), given.pointer(3));
                functions::splice(fd, from, int(2), to, size(4), sixth as c_uint) as c_long
            }
            _ => next::syscall(number, given.0),
        }
    }
}
