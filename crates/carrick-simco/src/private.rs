//! Files that hold keys, rules and events: other users may not read them.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

/// Returns options that create a file only its owner may read and write, whatever the umask. Files
/// that exist keep their mode.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a folder, and the folders above it that are missing, that only its owner may enter.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Checks that other users can neither read nor write a file with a key. Its group may: a service
/// reads a key that belongs to root (0640), and credentials of systemd are 0440.
///
/// # Errors
/// What is wrong, and the command that cures it.
#[cfg(feature = "net")]
pub(crate) fn check(path: &Path) -> Result<(), String> {
    #[cfg(unix)]
    if let Ok(metadata) = std::fs::metadata(path) {
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o7777;
        if mode & 0o006 != 0 {
            return Err(format!(
                "every user of this host can read or change this key (mode {mode:04o}): run chmod o= '{}', and make a new key if others may have read this one",
                path.display()
            ));
        }
    }
    // A file that is not there is reported by those who open it.
    Ok(())
}

#[cfg(all(test, unix, feature = "net"))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_open_to_other_users_are_refused() {
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
