//! Listening Unix sockets, and their files.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

use crate::failure::Failure;

/// Number of connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// File of a listening socket; removed when dropped, if it is still the same.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            // Nothing can be done about a file that stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Opens a socket that is not bound or connected.
pub(super) fn socket(kind: Type) -> io::Result<Socket> {
    Socket::new(Domain::UNIX, kind, None)
}

/// Listens on a path. The file of a socket that no process has any more is replaced; the umask determines who may connect.
///
/// # Errors
/// A process listens there, the file is no socket, or the folder does not admit one.
pub(super) fn listen(path: &Path, kind: Type) -> Result<(UnixListener, SocketFile), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Run(format!("cannot listen on {}: {error}", path.display()))
    };
    let address = SockAddr::unix(path).map_err(|e| failed(&e))?;
    let socket = socket(kind).map_err(|e| failed(&e))?;
    match socket.bind(&address) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            remove_stale(path, &address, kind).map_err(|why| failed(&why))?;
            socket.bind(&address).map_err(|e| failed(&e))?;
        }
        bound => bound.map_err(|e| failed(&e))?,
    }
    let file = SocketFile {
        path: path.to_owned(),
        identity: identity(path),
    };
    socket.listen(BACKLOG).map_err(|e| failed(&e))?;
    socket.set_nonblocking(true).map_err(|e| failed(&e))?;
    Ok((OwnedFd::from(socket).into(), file))
}

/// Removes the file of a socket to which nothing listens.
fn remove_stale(path: &Path, address: &SockAddr, kind: Type) -> Result<(), String> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if !is_socket {
        return Err(
            "a file that is no socket has this path: remove it or give another path".into(),
        );
    }
    let connected = socket(kind).and_then(|probe| probe.connect(address));
    match connected {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)
            .map_err(|e| format!("the file of a dead socket cannot be removed: {e}")),
        _ => Err("a process listens there: end it or give another path".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_dead_sockets_alone_are_replaced() {
        let folder = std::env::temp_dir().join(format!("carrick-socket-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        let refusal = |path: &Path| match listen(path, Type::STREAM) {
            Err(Failure::Run(line)) => line,
            other => panic!("{other:?}"),
        };
        let (listener, file) = listen(&path, Type::STREAM).unwrap();
        assert!(refusal(&path).contains("a process listens there"));
        drop(listener);
        // As after SIGKILL.
        std::mem::forget(file);
        assert!(path.exists());
        drop(listen(&path, Type::STREAM).unwrap());
        assert!(!path.exists());
        fs::write(&path, "text").unwrap();
        assert!(refusal(&path).contains("no socket"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        fs::remove_dir_all(&folder).unwrap();
    }
}
