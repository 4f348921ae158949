//! Calls on descriptors of other processes, for a supervisor that performs them in the place of those
//! processes, on a duplicate of the descriptor and with its own buffers.
//!
//! No call waits: it returns `EAGAIN` (or a set-up in progress) where that of the program waits, and
//! raises no signal. So the supervisor decides how long to wait, and when to stop.

use std::collections::HashMap;
use std::ffi::c_int;
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use carrick_ipc::{Description, Property, Request};
use carrick_sockets::ancillary::ControlMessage;
use carrick_sockets::linux::{IPPROTO_SCTP, SOCK_SEQPACKET, SOCK_STREAM, read_address};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, socket_cookie, socket_timeout};

use crate::calls::{self, SocketSelection};
use crate::functions::{self, ReceivedAttributes};
use crate::send::OutgoingMessage;
use crate::{client, receive, send, table};

/// Limit of remembered sockets. Beyond it, all are identified again.
const MAX_KNOWN: usize = 1 << 16;

/// Sockets that were identified, by their cookies (`SO_COOKIE`), which the kernel does not use twice. `None` for
/// those that are not Carrick's.
#[derive(Debug, Default)]
pub struct KnownSockets(Mutex<HashMap<u64, Option<Description>>>);

impl KnownSockets {
    /// Returns the socket of a descriptor.
    ///
    /// # Errors
    /// The descriptor itself, if it is not Carrick's.
    pub fn find(&self, fd: OwnedFd) -> Result<ProxySocket<'_>, OwnedFd> {
        let Ok(cookie) = socket_cookie(&fd) else {
            return Err(fd);
        };
        let known = self.with(|known| known.get(&cookie).copied());
        let number = fd.as_raw_fd();
        match known {
            Some(Some(description)) => table::restore(number, cookie, description),
            Some(None) => return Err(fd),
            None => {
                table::forget(number);
                let found = table::find(number);
                self.insert(cookie, found);
                if found.is_none() {
                    return Err(fd);
                }
            }
        }
        let loaded = table::stored(number).unwrap_or_default();
        Ok(ProxySocket {
            fd,
            cookie,
            known: self,
            loaded,
        })
    }

    fn add(&self, fd: &OwnedFd, description: Description) {
        if let Ok(cookie) = socket_cookie(fd) {
            self.insert(cookie, Some(description));
        }
    }

    fn insert(&self, cookie: u64, description: Option<Description>) {
        self.with(|known| {
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
            known.insert(cookie, description);
        });
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<u64, Option<Description>>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Creates a socket of the daemon, as `socket`.
    ///
    /// # Errors
    /// Those of `socket`; as in a kernel without SCTP if no daemon answers.
    pub fn socket(&self, domain: c_int, kind: c_int, protocol: c_int) -> Result<OwnedFd, Errno> {
        let (fd, description) = calls::new_socket(domain, kind | libc::SOCK_CLOEXEC, protocol)?;
        if kind & libc::SOCK_NONBLOCK != 0 {
            calls::set_nonblocking(fd.as_fd());
        }
        self.add(&fd, description);
        Ok(fd)
    }
}

/// Sets the path of the daemon's control socket for this process, once. Without it, the environment has it.
pub fn use_daemon(path: &Path) {
    client::use_daemon(path);
}

/// Returns whether the daemon creates the socket of these arguments, by `CARRICK_SOCKETS` of this process.
pub fn serves(domain: c_int, kind: c_int, protocol: c_int) -> bool {
    calls::is_sctp(domain, kind, protocol)
        && match calls::choice() {
            SocketSelection::Always => true,
            SocketSelection::Never => false,
            SocketSelection::Missing => !kernel_has(domain, kind),
        }
}

/// Returns whether the kernel has SCTP.
fn kernel_has(domain: c_int, kind: c_int) -> bool {
    let family = rustix::net::AddressFamily::from_raw(domain as u16);
    let style = match kind & 0xf {
        SOCK_STREAM => rustix::net::SocketType::STREAM,
        SOCK_SEQPACKET => rustix::net::SocketType::SEQPACKET,
        _ => return false,
    };
    rustix::net::socket(family, style, Some(rustix::net::ipproto::SCTP)).is_ok()
}

/// Set-up of an association, at its beginning.
#[derive(Debug)]
pub struct StartedSetup {
    /// Identifier of the association, which `sctp_connectx` returns.
    pub association: c_int,
    /// State of the set-up.
    pub state: SetupState,
    /// Pair that has to replace the one of the descriptor.
    pub replacement: Option<OwnedFd>,
}

/// State of a set-up.
#[derive(Debug)]
pub enum SetupState {
    /// The result of the call.
    Done(Result<(), Errno>),
    /// The only association of the socket: the result is that of [`ProxySocket::connected`] when the
    /// descriptor is writable.
    Only,
    /// One of many: the result is that of [`set_up`] when the descriptor is readable.
    OneOfMany(OwnedFd),
}

/// Returns the flags of `recv` and `send` of a transfer that has an offset (`preadv2`).
///
/// # Errors
/// `ESPIPE` for an offset other than -1, `EOPNOTSUPP` for flags without a meaning.
pub fn transfer_flags(offset: i64, flags: c_int) -> Result<c_int, Errno> {
    functions::transfer_flags(offset, flags)
}

/// Returns the result of a set-up of a one-to-many socket.
///
/// # Errors
/// That of the set-up; `EAGAIN` before it is known.
pub fn set_up(result: &OwnedFd) -> Result<(), Errno> {
    calls::set_up(result)
}

/// Received message, or part of one.
#[derive(Debug)]
pub struct Received {
    /// Number of bytes.
    pub len: usize,
    /// `msg_flags`
    pub flags: c_int,
    /// Ancillary data.
    pub control: Vec<ControlMessage>,
    /// Address of the peer, as `struct sockaddr`.
    pub address: Vec<u8>,
}

/// Socket of Carrick by a duplicate of another process's descriptor.
#[derive(Debug)]
pub struct ProxySocket<'a> {
    fd: OwnedFd,
    cookie: u64,
    known: &'a KnownSockets,
    /// Description that was known before the call.
    loaded: Description,
}

impl AsFd for ProxySocket<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for ProxySocket<'_> {
    fn drop(&mut self) {
        self.store();
        table::forget(self.fd.as_raw_fd());
    }
}

impl ProxySocket<'_> {
    /// Stores the description if a reply has changed it: calls of other threads may have changed it meanwhile.
    fn store(&self) {
        let description = self.description();
        if description != self.loaded {
            self.known.insert(self.cookie, Some(description));
        }
    }

    /// Takes over what other threads have changed, before a call that has waited is performed again.
    pub fn refresh(&mut self) {
        self.store();
        if let Some(Some(known)) = self.known.with(|known| known.get(&self.cookie).copied()) {
            table::restore(self.fd.as_raw_fd(), self.cookie, known);
        }
        self.loaded = self.description();
    }

    fn description(&self) -> Description {
        table::stored(self.fd.as_raw_fd()).unwrap_or_default()
    }

    /// Returns whether calls on the descriptor wait.
    pub fn blocks(&self) -> bool {
        !calls::is_nonblocking(self.fd.as_fd())
    }

    /// Returns the limit of the time that a call waits for messages (`SO_RCVTIMEO`).
    pub fn receive_timeout(&self) -> Option<Duration> {
        socket_timeout(&self.fd, Timeout::Recv).ok().flatten()
    }

    /// Returns the limit of the time that a call waits for room or a set-up (`SO_SNDTIMEO`).
    pub fn send_timeout(&self) -> Option<Duration> {
        socket_timeout(&self.fd, Timeout::Send).ok().flatten()
    }

    fn call(&self, request: &Request<'_>) -> Result<Vec<u8>, Errno> {
        calls::call(self.fd.as_fd(), request).map(|answer| answer.value)
    }

    /// `bind`
    ///
    /// # Errors
    /// Those of `bind`.
    pub fn bind(&self, address: &[u8]) -> Result<(), Errno> {
        self.call(&Request::Bind { address }).map(drop)
    }

    /// `listen`
    ///
    /// # Errors
    /// Those of `listen`.
    pub fn listen(&self, backlog: c_int) -> Result<(), Errno> {
        self.call(&Request::Listen { backlog }).map(drop)
    }

    /// `shutdown`
    ///
    /// # Errors
    /// Those of `shutdown`.
    pub fn shutdown(&self, how: c_int) -> Result<(), Errno> {
        self.call(&Request::Shutdown { how }).map(drop)
    }

    /// `getsockname`: returns the address as `struct sockaddr`.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub fn local_address(&self) -> Result<Vec<u8>, Errno> {
        self.call(&Request::LocalAddress)
    }

    /// `getpeername`: returns the address as `struct sockaddr`.
    ///
    /// # Errors
    /// Those of `getpeername`.
    pub fn peer_address(&self) -> Result<Vec<u8>, Errno> {
        self.call(&Request::PeerAddress)
    }

    /// `accept4`: returns the descriptor and the address of the peer. `O_CLOEXEC` is set. If there is an association to
    /// accept, `reserve` is called first, whose result is returned as well; with its error the association stays in
    /// the backlog.
    ///
    /// # Errors
    /// Those of `accept4` and of `reserve`; `EAGAIN` without an association to accept.
    pub fn accept<R>(
        &self,
        flags: c_int,
        reserve: impl FnOnce() -> Result<R, Errno>,
    ) -> Result<(R, OwnedFd, Option<SocketAddr>), Errno> {
        calls::check_accept(self.fd.as_fd(), self.description(), flags)?;
        if !receive::is_readable(self.fd.as_fd()) {
            return Err(Errno::AGAIN);
        }
        let reserved = reserve()?;
        let accepted = receive::accept(self.fd.as_fd(), true, false)?;
        if flags & libc::SOCK_NONBLOCK != 0 {
            calls::set_nonblocking(accepted.fd.as_fd());
        }
        self.known.add(&accepted.fd, accepted.description);
        Ok((reserved, accepted.fd, accepted.peer))
    }

    /// `connect`, to an address as `struct sockaddr`, which may have bytes behind it.
    ///
    /// # Errors
    /// No daemon answers.
    pub fn connect(&self, address: &[u8]) -> Result<StartedSetup, Errno> {
        let one = read_address(address);
        self.connect_list(one.map_or(address, |(_, used)| &address[..used]))
    }

    /// `sctp_connectx`, to a packed list of addresses.
    ///
    /// # Errors
    /// No daemon answers.
    pub fn connect_list(&self, addresses: &[u8]) -> Result<StartedSetup, Errno> {
        let answer = calls::start_connect(self.fd.as_fd(), addresses)?;
        let error = Errno::from_raw_os_error(answer.error);
        let is_starting = error == Errno::INPROGRESS && self.blocks();
        let mut replacement = answer.attached;
        let state = if is_starting && answer.description.has(Property::OneToMany) {
            let done = SetupState::Done(Err(error));
            replacement.take().map_or(done, SetupState::OneOfMany)
        } else if is_starting {
            SetupState::Only
        } else {
            let done = if answer.error == 0 {
                Ok(())
            } else {
                Err(error)
            };
            SetupState::Done(done)
        };
        if let Some(new) = &replacement {
            calls::copy_settings(self.fd.as_fd(), new)?;
            self.known.add(new, answer.description);
        }
        Ok(StartedSetup {
            association: answer.result,
            state,
            replacement,
        })
    }

    /// Returns the result of the set-up of the only association, when the descriptor is writable.
    ///
    /// # Errors
    /// That of the set-up.
    pub fn connected(&self) -> Result<(), Errno> {
        calls::connected(self.fd.as_fd())
    }

    /// `getsockopt` with a buffer of `size` bytes, of which `given` are the first, up to the end of the fields that the
    /// option reads; for options other than those of [`Self::connect_list`] and [`Self::branch_off`]. Returns the value.
    ///
    /// # Errors
    /// Those of `getsockopt`.
    pub fn option(
        &self,
        level: c_int,
        name: c_int,
        given: &[u8],
        size: usize,
    ) -> Result<Vec<u8>, Errno> {
        if level == IPPROTO_SCTP && calls::is_special(name) {
            return Err(Errno::NOPROTOOPT);
        }
        calls::get_option(self.fd.as_fd(), (level, name), given, size).map(|(value, _)| value)
    }

    /// `setsockopt`, for options other than those of [`Self::connect_list`]: returns the result.
    ///
    /// # Errors
    /// Those of `setsockopt`.
    pub fn set_option(&self, level: c_int, name: c_int, value: &[u8]) -> Result<c_int, Errno> {
        if level == IPPROTO_SCTP && calls::is_special(name) {
            return Err(Errno::NOPROTOOPT);
        }
        calls::set_option(self.fd.as_fd(), level, name, value)
    }

    /// `sctp_peeloff` by the value of its option: returns the descriptor, with `O_NONBLOCK` as the value
    /// has it, and whether `exec` closes it.
    ///
    /// # Errors
    /// Those of `sctp_peeloff`.
    pub fn branch_off(&self, name: c_int, value: &[u8]) -> Result<(OwnedFd, bool), Errno> {
        let (fd, flags) = calls::branch_off(self.fd.as_fd(), name, value)?;
        if flags & libc::SOCK_NONBLOCK != 0 {
            calls::set_nonblocking(fd.as_fd());
        }
        Ok((fd, flags & libc::SOCK_CLOEXEC != 0))
    }

    /// `FIONREAD`: returns the number of unread bytes of the next message.
    ///
    /// # Errors
    /// Those of `ioctl`.
    pub fn unread(&self) -> Result<usize, Errno> {
        if functions::is_listener(self.description()) {
            return Err(Errno::NOTCONN);
        }
        receive::unread(self.fd.as_fd())
    }

    /// Checks that a message can arrive, before a call waits for one.
    ///
    /// # Errors
    /// `ENOTCONN`, or the pending error.
    pub fn check_source(&self) -> Result<(), Errno> {
        calls::check_source(self.fd.as_fd(), self.description())
    }

    /// Reads a message, or a part of one; `has_attributes` is set for calls that return ancillary data.
    ///
    /// # Errors
    /// Those of `recvmsg`; `EAGAIN` without a message.
    pub fn receive(
        &self,
        parts: &mut [IoSliceMut<'_>],
        flags: c_int,
        has_attributes: bool,
    ) -> Result<Received, Errno> {
        let flags = flags | libc::MSG_DONTWAIT;
        let socket = self.description();
        let describes_next = has_attributes && socket.has(Property::NxtInfo);
        let received =
            functions::receive_checked(self.fd.as_raw_fd(), socket, parts, flags, describes_next)?;
        let ReceivedAttributes {
            flags,
            control,
            address,
        } = functions::attributes(socket, &received);
        Ok(Received {
            len: received.len,
            flags,
            control,
            address,
        })
    }

    /// Sends a message, and returns its size.
    ///
    /// # Errors
    /// Those of `sendmsg`; `EAGAIN` without room.
    pub fn send(
        &self,
        data: &[u8],
        address: &[u8],
        control: &[u8],
        flags: c_int,
    ) -> Result<usize, Errno> {
        let message = OutgoingMessage {
            parts: &[IoSlice::new(data)],
            flags: flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            address,
            control,
        };
        send::send(self.fd.as_fd(), self.description(), &message)
    }
}
