//! Interface of service managers: notifications of readiness (`sd_notify(3)`) and a control socket that the
//! manager has opened (`sd_listen_fds(3)`).

use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::{
    PidfdFlags, PidfdGetfdFlags, Resource, Rlimit, getpid, getrlimit, pidfd_getfd, pidfd_open,
    setrlimit,
};

/// First descriptor that a service manager passes (`SD_LISTEN_FDS_START`).
const FIRST: i32 = 3;

/// Notifies the service manager of a state, such as `READY=1` or `STOPPING=1`. Without the environment variable
/// `NOTIFY_SOCKET` nothing happens.
///
/// # Errors
/// The manager's socket could not be reached.
pub fn notify(state: &str) -> io::Result<()> {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let bytes = path.as_encoded_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&path)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

/// Raises this process's limit of open files to the highest one that it may set (`RLIMIT_NOFILE`), since each
/// descriptor of a program takes one of the daemon's. Processes that are started afterwards inherit it.
///
/// # Errors
/// The system refuses it.
pub fn raise_descriptor_limit() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    )?;
    Ok(())
}

/// Returns the control socket that the service manager has opened, by the environment variables `LISTEN_PID` and
/// `LISTEN_FDS`; `None` if they are not set, or are those of another process.
///
/// # Errors
/// There are several sockets, or it is not a listening `AF_UNIX` socket of type `SOCK_SEQPACKET`.
pub fn control_socket() -> io::Result<Option<OwnedFd>> {
    let number = |name| std::env::var(name).ok()?.parse::<i32>().ok();
    let own = getpid().as_raw_nonzero().get();
    if number("LISTEN_PID") != Some(own) {
        return Ok(None);
    }
    match number("LISTEN_FDS") {
        None | Some(0) => return Ok(None),
        Some(1) => {}
        Some(count) => {
            return Err(io::Error::other(format!(
                "{count} sockets were passed (LISTEN_FDS): give the unit one ListenSequentialPacket="
            )));
        }
    }
    // A descriptor of this process, found by its number without unsafe code.
    let process = pidfd_open(getpid(), PidfdFlags::empty())?;
    let socket = pidfd_getfd(process, FIRST, PidfdGetfdFlags::empty())?;
    let is_control = sockopt::socket_domain(&socket)? == AddressFamily::UNIX
        && sockopt::socket_type(&socket)? == SocketType::SEQPACKET
        && sockopt::socket_acceptconn(&socket)?;
    if !is_control {
        return Err(io::Error::other(
            "the socket passed in LISTEN_FDS is not a SOCK_SEQPACKET listener: set ListenSequentialPacket= in the .socket unit",
        ));
    }
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(Some(socket))
}
