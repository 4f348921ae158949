//! The control socket: its path in the file system, and who may connect.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, getsockname, listen, socket_with,
};

use crate::closing::BACKLOG;
use crate::error::DaemonError;

/// Returns the path of a socket.
pub(crate) fn path_of(socket: &OwnedFd) -> Option<PathBuf> {
    let address = SocketAddrUnix::try_from(getsockname(socket).ok()?).ok()?;
    let path = address.path_bytes()?;
    Some(std::ffi::OsStr::from_bytes(path).into())
}

/// Opens the control socket. A socket whose daemon does not answer is replaced. With the privileges of the
/// superuser every user may connect.
pub(crate) fn open_control(path: &Path) -> Result<OwnedFd, DaemonError> {
    let failed = |source| DaemonError::Control {
        path: path.to_owned(),
        source,
    };
    // A path without a directory is in the current one.
    let directory = path.parent().filter(|own| !own.as_os_str().is_empty());
    if let Some(directory) = directory.filter(|directory| !directory.exists()) {
        if !has_own_directory(path) {
            let reason = format!(
                "directory {} does not exist: create it, or choose another path with --socket",
                directory.display()
            );
            return Err(failed(io::Error::new(io::ErrorKind::NotFound, reason)));
        }
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    if !remove_socket(path).map_err(failed)? {
        return Err(DaemonError::NotASocket(path.to_owned()));
    }
    listen_at(path).map_err(failed)
}

/// Returns whether the directory of a socket is Carrick's own, as that of a default path is.
fn has_own_directory(path: &Path) -> bool {
    let runtime = std::env::var("XDG_RUNTIME_DIR").unwrap_or_default();
    path == Path::new(carrick_ipc::SYSTEM_SOCKET)
        || !runtime.is_empty() && path == Path::new(&carrick_ipc::user_socket(&runtime))
}

/// Removes a socket. Returns false for another file, which remains; a symbolic link is one.
pub(crate) fn remove_socket(path: &Path) -> io::Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => Ok(false),
        Ok(_) => std::fs::remove_file(path).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    let mode = if rustix::process::geteuid().is_root() {
        0o666
    } else {
        0o600
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}
