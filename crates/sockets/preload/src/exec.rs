//! Programs that set `LD_PRELOAD` to libraries of their own, such as the script `withsctp` of lksctp-tools, which makes
//! SCTP sockets of the TCP sockets of a program.
#![allow(clippy::missing_safety_doc, unreachable_pub)]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;

use libc::{sockaddr, socklen_t};

const VARIABLE: &[u8] = b"LD_PRELOAD=";

/// Passes the library on to a program whose environment has other libraries in `LD_PRELOAD`, behind those. A program that
/// is started without `LD_PRELOAD` does not get it.
// SAFETY: the type is that of libc's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    type Function =
        unsafe extern "C" fn(*const c_char, *const *const c_char, *const *const c_char) -> c_int;
    // SAFETY: libc has this function, and the arguments are the program's: the environment is null or a list of strings that
    // ends with null. Both outlive the call.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, c"execve".as_ptr());
        let next: Function = transmute(next);
        match extended(environment) {
            Some((_value, list)) => next(path, arguments, list.as_ptr()),
            None => next(path, arguments, environment),
        }
    }
}

/// Returns an environment with the library, and its new entry; `None` if it needs none.
///
/// # Safety
/// The environment is null or a list of strings that ends with null.
pub(crate) unsafe fn extended(
    environment: *const *const c_char,
) -> Option<(CString, Vec<*const c_char>)> {
    if environment.is_null() {
        return None;
    }
    let mut len = 0;
    let mut found = None;
    // SAFETY: as above.
    unsafe {
        while !(*environment.add(len)).is_null() {
            let entry = CStr::from_ptr(*environment.add(len)).to_bytes();
            if found.is_none() && entry.starts_with(VARIABLE) {
                found = Some((len, entry));
            }
            len += 1;
        }
    }
    let (at, entry) = found.filter(|(_, entry)| entry.len() > VARIABLE.len())?;
    let own = own_path()?;
    let name = Path::new(OsStr::from_bytes(own)).file_name()?.as_bytes();
    if entry.windows(name.len()).any(|part| part == name) {
        return None;
    }
    let value = CString::new([entry, b":", own].concat()).ok()?;
    // SAFETY: as above, with the null at the end.
    let mut list = unsafe { std::slice::from_raw_parts(environment, len + 1) }.to_vec();
    list[at] = value.as_ptr();
    Some((value, list))
}

/// Returns the path that this library was loaded from.
fn own_path() -> Option<&'static [u8]> {
    let mut info = libc::Dl_info {
        dli_fname: null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let here: fn() -> Option<&'static [u8]> = own_path;
    // SAFETY: the address is that of a function; the path remains as long as the library is loaded.
    unsafe {
        if libc::dladdr(here as *const c_void, &raw mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        Some(CStr::from_ptr(info.dli_fname).to_bytes())
    }
}

/// Gives the library of `withsctp`, if it precedes this one, the functions that it calls: it takes them from libc's handle,
/// past all other libraries, and stores them in variables that it exports.
pub(crate) fn serve_withsctp() {
    let symbol = |from, name: &CStr| {
        // SAFETY: the name ends with a zero byte, and the call has no other requirement.
        unsafe { libc::dlsym(from, name.as_ptr()) }
    };
    let load = symbol(libc::RTLD_DEFAULT, c"_sctp_load_libs");
    // Behind this library it would be called by it, and call it again.
    let is_behind = !symbol(libc::RTLD_NEXT, c"_sctp_load_libs").is_null();
    let variables = [c"real_socket", c"real_bind", c"real_setsockopt"]
        .map(|name| symbol(libc::RTLD_DEFAULT, name).cast::<*const c_void>());
    if load.is_null() || is_behind || variables.iter().any(|variable| variable.is_null()) {
        return;
    }
    // SAFETY: the function is that of libwithsctp, without arguments, and the variables are its pointers to functions of these
    // types. The program has not started yet.
    unsafe {
        let load: extern "C" fn() = transmute(load);
        load();
        let [socket, bind, setsockopt] = variables;
        *socket = carrick_socket as *const c_void;
        *bind = carrick_bind as *const c_void;
        *setsockopt = carrick_setsockopt as *const c_void;
    }
}

// The exported functions have names of the program's whole process, where those of libwithsctp precede.

unsafe extern "C" fn carrick_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: the arguments are the program's.
    unsafe { carrick_client::socket(domain, kind, protocol) }
}

unsafe extern "C" fn carrick_bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the arguments are the program's.
    unsafe { carrick_client::bind(fd, address, len) }
}

unsafe extern "C" fn carrick_setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: the arguments are the program's.
    unsafe { carrick_client::setsockopt(fd, level, name, value, len) }
}
