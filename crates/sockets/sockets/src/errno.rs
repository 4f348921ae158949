//! Error numbers of Linux.

use std::fmt;

use carrick_proto::export::{ExportReader, ExportWriter, ImportError, Portable};

macro_rules! errors {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        /// Error of an operation on a socket; the value is Linux's `errno`.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        #[repr(i32)]
        pub enum Errno {
            $(#[doc = $text] $name = $number,)*
        }

        impl Errno {
            /// All errors that operations of this crate return.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the name of the constant in `errno.h`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }

        impl fmt::Display for Errno {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$name => $text,)*
                })
            }
        }
    };
}

errors! {
    EPERM = 1, "Operation not permitted.";
    ENOENT = 2, "The association has no such path.";
    EBADF = 9, "No such socket.";
    EAGAIN = 11, "The operation would block.";
    ENOMEM = 12, "A limit of memory or of a table is reached.";
    EACCES = 13, "The port needs privileges.";
    EFAULT = 14, "The socket is bound already.";
    EBUSY = 16, "The last address cannot be removed.";
    EINVAL = 22, "Invalid argument.";
    EMFILE = 24, "The limit of sockets is reached.";
    EPIPE = 32, "The association has ended or does not exist.";
    EDOM = 33, "The value is out of its range.";
    EMSGSIZE = 90, "The message is too large.";
    ENOPROTOOPT = 92, "The option is not supported.";
    EPROTONOSUPPORT = 93, "The protocol is not supported.";
    ESOCKTNOSUPPORT = 94, "The socket type is not supported.";
    EOPNOTSUPP = 95, "The operation is not supported by the style of the socket.";
    EAFNOSUPPORT = 97, "The address family is not supported.";
    EADDRINUSE = 98, "The address and port are in use.";
    EADDRNOTAVAIL = 99, "The address is no local address, or no port is free.";
    ENETUNREACH = 101, "No local address can reach the peer.";
    ECONNABORTED = 103, "The association ended before it was accepted.";
    ECONNRESET = 104, "The peer aborted the association.";
    EISCONN = 106, "The socket is connected.";
    ENOTCONN = 107, "The socket is not connected.";
    ESHUTDOWN = 108, "The association is shutting down.";
    ETIMEDOUT = 110, "The peer did not respond.";
    ECONNREFUSED = 111, "The peer refused the association.";
    EHOSTUNREACH = 113, "The peer cannot be reached.";
    EALREADY = 114, "The set-up of the association is in progress.";
    EINPROGRESS = 115, "The set-up of the association has started.";
}

impl Errno {
    /// Returns the number, which is positive.
    pub const fn number(self) -> i32 {
        self as i32
    }
}

impl std::error::Error for Errno {}

impl Portable for Errno {
    fn write(&self, out: &mut ExportWriter) {
        (self.number() as u16).write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let number = i32::from(u16::read(input)?);
        let mut all = Self::ALL.iter().copied();
        let found = all.find(|error| error.number() == number);
        found.ok_or(ImportError::Malformed("error number"))
    }
}
