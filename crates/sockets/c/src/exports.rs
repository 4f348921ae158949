//! The C functions of RFC 6458, section 9, once above each implementation of the sockets API.

/// Defines the functions with a prefix of their names, above an implementation of
/// [`SocketCalls`](crate::functions::SocketCalls).
macro_rules! export_functions {
    ($calls:ty, $prefix:literal) => {
        #[unsafe(export_name = concat!($prefix, "bindx"))]
        pub unsafe extern "C" fn bindx(
            fd: c_int,
            addresses: *mut sockaddr,
            count: c_int,
            flags: c_int,
        ) -> c_int {
            // SAFETY: the arguments are the program's.
            unsafe { functions::bindx::<$calls>(fd, addresses, count, flags) }
        }

        #[unsafe(export_name = concat!($prefix, "getpaddrs"))]
        pub unsafe extern "C" fn getpaddrs(
            fd: c_int,
            association: i32,
            addresses: *mut *mut sockaddr,
        ) -> c_int {
            let option = SCTP_GET_PEER_ADDRS;
            // SAFETY: the arguments are the program's.
            unsafe { functions::get_addresses::<$calls>(fd, association, option, addresses) }
        }

        #[unsafe(export_name = concat!($prefix, "freepaddrs"))]
        pub unsafe extern "C" fn freepaddrs(addresses: *mut sockaddr) -> c_int {
            // SAFETY: the argument is the program's.
            unsafe { functions::free_addresses(addresses) }
        }

        #[unsafe(export_name = concat!($prefix, "getladdrs"))]
        pub unsafe extern "C" fn getladdrs(
            fd: c_int,
            association: i32,
            addresses: *mut *mut sockaddr,
        ) -> c_int {
            let option = SCTP_GET_LOCAL_ADDRS;
            // SAFETY: the arguments are the program's.
            unsafe { functions::get_addresses::<$calls>(fd, association, option, addresses) }
        }

        #[unsafe(export_name = concat!($prefix, "freeladdrs"))]
        pub unsafe extern "C" fn freeladdrs(addresses: *mut sockaddr) -> c_int {
            // SAFETY: the argument is the program's.
            unsafe { functions::free_addresses(addresses) }
        }

        #[unsafe(export_name = concat!($prefix, "getaddrlen"))]
        pub extern "C" fn getaddrlen(family: libc::sa_family_t) -> c_int {
            functions::getaddrlen(family)
        }

        #[unsafe(export_name = concat!($prefix, "opt_info"))]
        pub unsafe extern "C" fn opt_info(
            fd: c_int,
            association: i32,
            option: c_int,
            value: *mut c_void,
            len: *mut socklen_t,
        ) -> c_int {
            // SAFETY: the arguments are the program's.
            unsafe { functions::opt_info::<$calls>(fd, association, option, value, len) }
        }

        #[unsafe(export_name = concat!($prefix, "peeloff"))]
        pub extern "C" fn peeloff(fd: c_int, association: i32) -> c_int {
            functions::peeloff::<$calls>(fd, association)
        }

        #[unsafe(export_name = concat!($prefix, "peeloff_flags"))]
        pub extern "C" fn peeloff_flags(fd: c_int, association: i32, flags: c_uint) -> c_int {
            functions::peeloff_flags::<$calls>(fd, association, flags)
        }

        #[unsafe(export_name = concat!($prefix, "sendmsg"))]
        pub unsafe extern "C" fn sendmsg(
            fd: c_int,
            message: *const c_void,
            len: usize,
            to: *mut sockaddr,
            to_len: socklen_t,
            ppid: u32,
            flags: u32,
            stream: u16,
            time_to_live: u32,
            context: u32,
        ) -> c_int {
            let info = SndRcvInfo {
                stream,
                // Higher bits have no field in the struct.
                flags: flags as u16,
                ppid,
                context,
                time_to_live,
                ..SndRcvInfo::default()
            };
            // SAFETY: the arguments are the program's.
            unsafe { functions::sendmsg::<$calls>(fd, (message, len), (to, to_len), &info) }
        }

        #[unsafe(export_name = concat!($prefix, "send"))]
        pub unsafe extern "C" fn send(
            fd: c_int,
            message: *const c_void,
            len: usize,
            info: *const c_void,
            flags: c_int,
        ) -> c_int {
            // SAFETY: the arguments are the program's.
            unsafe { functions::send::<$calls>(fd, (message, len), info, flags) }
        }

        #[unsafe(export_name = concat!($prefix, "recvmsg"))]
        pub unsafe extern "C" fn recvmsg(
            fd: c_int,
            buffer: *mut c_void,
            len: usize,
            from: *mut sockaddr,
            from_len: *mut socklen_t,
            info: *mut c_void,
            flags: *mut c_int,
        ) -> c_int {
            // SAFETY: the arguments are the program's.
            unsafe {
                functions::recvmsg::<$calls>(fd, (buffer, len), (from, from_len), info, flags)
            }
        }

        #[unsafe(export_name = concat!($prefix, "sendv"))]
        pub unsafe extern "C" fn sendv(
            fd: c_int,
            parts: *const iovec,
            count: c_int,
            addresses: *mut sockaddr,
            address_count: c_int,
            info: *mut c_void,
            info_len: socklen_t,
            info_kind: c_uint,
            flags: c_int,
        ) -> c_int {
            let to = (addresses.cast_const(), address_count);
            let info = (info.cast_const(), info_len, info_kind);
            // SAFETY: the arguments are the program's.
            unsafe { functions::sendv::<$calls>(fd, (parts, count), to, info, flags) }
        }

        #[unsafe(export_name = concat!($prefix, "recvv"))]
        pub unsafe extern "C" fn recvv(
            fd: c_int,
            parts: *const iovec,
            count: c_int,
            from: *mut sockaddr,
            from_len: *mut socklen_t,
            info: *mut c_void,
            info_len: *mut socklen_t,
            info_kind: *mut c_uint,
            flags: *mut c_int,
        ) -> c_int {
            let info = (info, info_len, info_kind);
            // SAFETY: the arguments are the program's.
            unsafe { functions::recvv::<$calls>(fd, (parts, count), (from, from_len), info, flags) }
        }
    };
}

pub(crate) use export_functions;
