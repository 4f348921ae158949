//! Connections to the control socket of a running daemon.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use carrick_ipc::{MAX_REPLY, Reply, Request};
use carrick_sockets::Errno;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::io::Errno as SystemErrno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send,
    socket_with,
};
use rustix::process::geteuid;
use serde_json::Value;
use tokio::net::UnixDatagram;

use crate::pair::receive_with_files;

/// Limit of the time in which the other side answers.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Reply to a request, with what is attached.
#[derive(Debug)]
pub(crate) struct ReceivedReply {
    pub(crate) error: i32,
    pub(crate) result: i32,
    pub(crate) value: Vec<u8>,
    pub(crate) attached: Vec<OwnedFd>,
}

/// Returns a connection to the control socket of a daemon.
pub(crate) fn connection(path: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    connect(&socket, &address)?;
    Ok(socket)
}

/// Receives a reply.
pub(crate) fn receive(connection: &OwnedFd) -> io::Result<ReceivedReply> {
    let (mut buffer, mut attached) = (vec![0; MAX_REPLY], Vec::new());
    let len = rustix::io::retry_on_intr(|| {
        let parts = &mut [IoSliceMut::new(&mut buffer)];
        receive_with_files(connection, parts, &mut attached, RecvFlags::empty())
    });
    let len = match len {
        Err(SystemErrno::AGAIN) => {
            let seconds = PATIENCE.as_secs();
            return Err(io::Error::other(format!("no answer for {seconds} s")));
        }
        Ok(0) => return Err(io::Error::other("the other side closed the connection")),
        len => len?,
    };
    let reply = Reply::decode(&buffer[..len]).map_err(io::Error::other)?;
    Ok(ReceivedReply {
        error: reply.error,
        result: reply.result,
        value: reply.value.to_vec(),
        attached,
    })
}

/// Sends a request, and waits for its reply.
pub(crate) fn ask(connection: &OwnedFd, request: &Request<'_>) -> io::Result<ReceivedReply> {
    send(connection, &request.encode().0, SendFlags::NOSIGNAL)?;
    receive(connection)
}

/// Returns user and process at the other end of a connection: process 0 if it is in a process namespace that this
/// one does not see, and the overflow user if it is in another user namespace.
pub(crate) fn peer_of(connection: &OwnedFd) -> Result<(u32, i32), SystemErrno> {
    // Not rustix's function: process ids are never 0 there.
    let peer = getsockopt(connection, PeerCredentials)
        .map_err(|error| SystemErrno::from_raw_os_error(error as i32))?;
    Ok((peer.uid(), peer.pid()))
}

/// Returns whether a process of this user may have or give all descriptors: one of the same user, or the superuser.
pub(crate) fn may_share(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

/// Returns whether a daemon answers on a control socket.
pub fn answers(path: &Path) -> bool {
    connection(path).is_ok()
}

/// Passes the sockets and associations of a daemon to `row`, each as a JSON object. Rows of sockets have the
/// members `socket`, `user`, `process` (of the process that opened it), `inode`, `local`, `bound` (as `local`, but the
/// wildcard address if the socket has all addresses of the host), `style`, `backlog`, `waiting` and `associations`;
/// those of associations, which have an `association` other than 0, `socket`, `user`, `process`, `inode`, `local`,
/// `bound`, `peer`, `state`, `stats`, `settings` and `paths`. Stops when `row` returns an error, and returns it.
///
/// # Errors
/// No daemon answers, or it sends something else; or that of `row`.
pub fn list(path: &Path, mut row: impl FnMut(Value) -> io::Result<()>) -> io::Result<()> {
    let connection = connection(path)?;
    let (mut socket, mut association) = (-1, 0);
    loop {
        let request = Request::List {
            socket,
            association,
        };
        let reply = ask(&connection, &request)?;
        let before = (socket, association);
        for line in reply
            .value
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let value: Value = serde_json::from_slice(line)?;
            socket = value["socket"].as_i64().unwrap_or(i64::MAX);
            association = value["association"].as_i64().unwrap_or(0) as i32;
            row(value)?;
        }
        if reply.result == 0 {
            return Ok(());
        }
        if (socket, association) <= before {
            return Err(io::Error::other("the daemon repeats itself"));
        }
    }
}

/// Returns the counters of a daemon as a JSON object: `established` is the current number of established
/// associations (`sctpCurrEstab` of RFC 3873); `endpoints` has the members of
/// [`carrick_proto::EndpointStats`], and `associations` those of [`carrick_proto::AssociationCounters`].
///
/// # Errors
/// No daemon answers, or it sends something else.
pub fn counters(path: &Path) -> io::Result<Value> {
    let reply = ask(&connection(path)?, &Request::Statistics)?;
    Ok(serde_json::from_slice(&reply.value)?)
}

/// Aborts an association of a daemon, which its peer and its program learn of. Returns the members `association`,
/// `port` (local SCTP port), `peer` and `unacknowledged` (bytes that the peer has not acknowledged) as a JSON object.
///
/// # Errors
/// `InvalidInput`: the daemon has no such association. `PermissionDenied`: it is another user's. No daemon answers.
pub fn kill(path: &Path, association: i32) -> io::Result<Value> {
    let reply = ask(&connection(path)?, &Request::Kill { association })?;
    match reply.error {
        0 => Ok(serde_json::from_slice(&reply.value)?),
        error if error == Errno::ENOENT.number() => Err(io::ErrorKind::InvalidInput.into()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Watches a running daemon. A handover is not its end: the successor continues the connection.
#[derive(Debug)]
pub struct DaemonWatch(UnixDatagram);

impl DaemonWatch {
    /// Connects to the daemon on a control socket. Must be called in a runtime with I/O.
    ///
    /// # Errors
    /// No daemon answers, or it has too many connections of this user.
    pub fn start(path: &Path) -> io::Result<Self> {
        let connection = connection(path)?;
        // The reply shows that the connection was accepted.
        let reply = ask(&connection, &Request::Describe)?;
        if reply.error == Errno::EMFILE.number() {
            return Err(io::Error::from_raw_os_error(reply.error));
        }
        rustix::io::ioctl_fionbio(&connection, true)?;
        Ok(Self(UnixDatagram::from_std(connection.into())?))
    }

    /// Waits for the end of the daemon.
    pub async fn ended(&self) {
        // The daemon sends nothing without a request.
        while self.0.recv(&mut [0]).await.is_ok_and(|len| len > 0) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_of_other_users_are_not_shared() {
        assert!(may_share(geteuid().as_raw()));
        assert!(may_share(0));
        assert!(!may_share(geteuid().as_raw() + 1));
    }
}
