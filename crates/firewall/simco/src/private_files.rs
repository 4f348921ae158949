//! Files that hold keys, rules and events, which other users may not read.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

/// Returns options that create a file readable and writable by its owner only, whatever the umask.
/// Existing files keep their mode.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a folder and missing parents, accessible by the owner only.
///
/// # Errors
/// Those of the system.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Checks that other users can neither read nor write a key file. Its group may: a service may read a
/// key of root (0640), and credentials of systemd are 0440.
///
/// # Errors
/// The problem and the command that fixes it.
pub fn check(path: &Path) -> Result<(), String> {
    #[cfg(unix)]
    if let Ok(metadata) = std::fs::metadata(path) {
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o7777;
        if mode & 0o006 != 0 {
            return Err(format!(
                "readable or writable by every user of this host (mode {mode:04o}): run chmod o= '{}' and replace the key if others may have read it",
                path.display()
            ));
        }
    }
    // A missing file is reported when it is opened.
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_readable_by_other_users_are_refused() {
        let name = format!("carrick-private-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "key").unwrap();
        let checked = |mode| {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            check(&path)
        };
        for mode in [0o400, 0o600, 0o440, 0o640] {
            assert_eq!(checked(mode), Ok(()), "{mode:o}");
        }
        for mode in [0o644, 0o604, 0o602, 0o666] {
            let why = checked(mode).unwrap_err();
            assert!(why.contains("chmod o="), "{why}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(check(&path), Ok(()));
    }
}
