//! Checks of files and folders that a command will write, before it does: an error names the path and the remedy.

use std::path::Path;

use nix::unistd::{AccessFlags, access};

/// Checks that a file can be opened for appending: it is one and writable, or its folder is.
///
/// # Errors
/// The obstacle and the remedy, without the path of the file.
pub(crate) fn check_appended(path: &Path) -> Result<(), String> {
    if path.is_dir() {
        return Err("is a folder; give the path of a file".into());
    }
    if path.exists() {
        return match access(path, AccessFlags::W_OK) {
            Ok(()) => Ok(()),
            Err(_) => Err("is not writable by this user".into()),
        };
    }
    check_folder(folder_of(path))
}

/// Checks that a folder exists or can be created, with its parents, and that files can be created in it.
///
/// # Errors
/// The obstacle and the remedy.
#[cfg(feature = "simco")]
pub(crate) fn check_created_folder(path: &Path) -> Result<(), String> {
    let existing = path.ancestors().find(|own| own.exists());
    match existing.filter(|own| !own.as_os_str().is_empty()) {
        Some(own) => check_folder(own),
        None => check_folder(Path::new(".")),
    }
}

/// Checks that files can be created in a folder.
///
/// # Errors
/// The obstacle and the remedy.
fn check_folder(folder: &Path) -> Result<(), String> {
    let shown = folder.display();
    if !folder.exists() {
        return Err(format!("folder {shown} does not exist: create it"));
    }
    if !folder.is_dir() {
        return Err(format!("{shown} is no folder"));
    }
    match access(folder, AccessFlags::W_OK | AccessFlags::X_OK) {
        Ok(()) => Ok(()),
        Err(_) => Err(format!("folder {shown} is not writable by this user")),
    }
}

/// Returns the folder of a file; the current one for a name alone.
fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|own| !own.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Control sockets of daemons.
#[cfg(target_os = "linux")]
mod sockets {
    use std::os::unix::ffi::OsStrExt;

    use super::{Path, check_folder, folder_of};
    use crate::failure::Failure;

    /// Longest path of a socket in bytes: `sun_path` of unix(7) without the zero at its end.
    const MAX_SOCKET_PATH: usize = 107;

    /// Control socket of the host's daemon, whose folder the daemon or its service manager creates.
    const SYSTEM: &str = "/run/carrick/socket";

    /// Checks the length of the path of a control socket.
    ///
    /// # Errors
    /// The path with its length and the limit.
    pub(crate) fn check_socket_path(path: &Path) -> Result<(), Failure> {
        let len = path.as_os_str().as_bytes().len();
        if len <= MAX_SOCKET_PATH {
            return Ok(());
        }
        Err(Failure::Run(format!(
            "the path of the control socket has {len} bytes, and the limit is {MAX_SOCKET_PATH}: choose a shorter one \
             than {}",
            path.display()
        )))
    }

    /// Checks that a control socket can be created: the length of its path, and its folder, unless the daemon creates
    /// that itself.
    ///
    /// # Errors
    /// The obstacle and the remedy.
    pub(crate) fn check_control_socket(path: &Path) -> Result<(), Failure> {
        check_socket_path(path)?;
        let is_default = path == carrick_daemon::default_socket() || path == Path::new(SYSTEM);
        let folder = folder_of(path);
        if is_default && !folder.exists() {
            return Ok(());
        }
        check_folder(folder)
            .map_err(|why| Failure::Run(format!("control socket {}: {why}", path.display())))
    }
}

#[cfg(target_os = "linux")]
pub(crate) use sockets::{check_control_socket, check_socket_path};

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::failure::Failure;

    fn folder(name: &str) -> PathBuf {
        let name = format!("carrick-files-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_log_needs_a_folder_that_exists() {
        let folder = folder("log");
        let file = folder.join("events.jsonl");
        assert_eq!(check_appended(&file), Ok(()));
        std::fs::write(&file, "").unwrap();
        assert_eq!(check_appended(&file), Ok(()));
        assert_eq!(check_appended(Path::new("events.jsonl")), Ok(()));
        assert!(check_appended(&folder).unwrap_err().contains("is a folder"));
        let missing = folder.join("none");
        let why = check_appended(&missing.join("events.jsonl")).unwrap_err();
        assert_eq!(
            why,
            format!("folder {} does not exist: create it", missing.display())
        );
        let why = check_appended(&file.join("events.jsonl")).unwrap_err();
        assert_eq!(why, format!("{} is no folder", file.display()));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_long_path_of_a_socket_is_refused() {
        let words = |path: &str| match check_control_socket(Path::new(path)) {
            Ok(()) => String::new(),
            Err(Failure::Run(why)) => why,
            Err(other) => panic!("{other:?}"),
        };
        let longest = format!("/tmp/{}", "s".repeat(102));
        assert_eq!(words(&longest), "");
        let why = words(&format!("{longest}s"));
        assert!(why.contains("has 108 bytes, and the limit is 107"), "{why}");
        let why = words("/nonexistent/socket");
        assert_eq!(
            why,
            "control socket /nonexistent/socket: folder /nonexistent does not exist: create it"
        );
    }

    #[test]
    #[cfg(feature = "simco")]
    fn folders_are_created_below_an_existing_one() {
        let folder = folder("state");
        let file = folder.join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(check_created_folder(&folder.join("a/b")), Ok(()));
        assert_eq!(check_created_folder(Path::new("a/b")), Ok(()));
        let why = check_created_folder(&file.join("a")).unwrap_err();
        assert_eq!(why, format!("{} is no folder", file.display()));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
