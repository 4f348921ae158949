//! Lock of a table, which belongs to one middlebox at a time.
//!
//! The lock is a Unix socket with an abstract name, to which nothing is sent. It is per network
//! namespace like tables, needs no common folder, and is released when its process ends.

use std::io::{Error, ErrorKind};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use nix::errno::Errno;

use crate::error::NftablesError;

/// Holds the lock of a table.
#[derive(Debug)]
pub(crate) struct TableLock {
    _socket: UnixDatagram,
}

impl TableLock {
    /// Locks the table in the thread's network namespace.
    pub(crate) fn take(table: &str) -> Result<Self, NftablesError> {
        let name = SocketAddr::from_abstract_name(format!("carrick-nftables-{table}"));
        let socket = name.and_then(|name| UnixDatagram::bind_addr(&name));
        let socket = socket.map_err(|error: Error| match error.kind() {
            ErrorKind::AddrInUse => NftablesError::Locked(table.to_owned()),
            _ => NftablesError::System {
                what: "lock the table",
                errno: Errno::from_raw(error.raw_os_error().unwrap_or_default()),
            },
        })?;
        Ok(Self { _socket: socket })
    }
}
