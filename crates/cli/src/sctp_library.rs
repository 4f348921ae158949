//! Search for `libsctp.so.1`, which programs are linked with or open by this name.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Name of lksctp-tools' library, and of Carrick's in its place.
const NAME: &str = "libsctp.so.1";

/// Environment variable with further directories of the dynamic linker.
pub(crate) const PATH_VARIABLE: &str = "LD_LIBRARY_PATH";

/// Index of the libraries that are installed.
const CACHE: &str = "/etc/ld.so.cache";

/// Directories that the dynamic linker searches without an index.
const DIRECTORIES: [&str; 5] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"];

/// Returns the value of [`PATH_VARIABLE`] with which programs find Carrick's library: that of this process and one of
/// `candidates`. `None` if one is installed, or no candidate has one.
pub(crate) fn library_path(candidates: &[PathBuf]) -> Option<OsString> {
    let path = std::env::var_os(PATH_VARIABLE).unwrap_or_default();
    let cache = std::fs::read(CACHE).unwrap_or_default();
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let directories = DIRECTORIES
        .into_iter()
        .flat_map(|directory| [directory.into(), Path::new(directory).join(&triplet)])
        .chain(std::env::split_paths(&path));
    if is_installed(&cache, directories) {
        return None;
    }
    let found = candidates
        .iter()
        .find(|directory| directory.join(NAME).exists())?;
    Some(appended(path, found))
}

/// Returns whether the index or a directory has the library.
fn is_installed(cache: &[u8], mut directories: impl Iterator<Item = PathBuf>) -> bool {
    let listed = cache.split(|byte| *byte == 0).any(|entry| {
        let start = entry.iter().position(|byte| *byte == b'/');
        let path = Path::new(std::ffi::OsStr::from_bytes(&entry[start.unwrap_or(0)..]));
        path.is_absolute() && path.ends_with(NAME) && path.exists()
    });
    listed || directories.any(|directory| directory.join(NAME).exists())
}

/// Returns a search path with another directory at its end. An empty entry would be the current directory.
fn appended(mut path: OsString, directory: &Path) -> OsString {
    if !path.is_empty() {
        path.push(":");
    }
    path.push(directory);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_lists_an_existing_library() {
        let directory =
            std::env::temp_dir().join(format!("carrick-libsctp-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let library = directory.join(NAME);
        let listed = |path: &Path| {
            let mut cache = b"glibc-ld.so.cache1.1\x01\x02libsctp.so.1\0".to_vec();
            cache.extend(path.as_os_str().as_bytes());
            cache.extend(b"\0/usr/lib/libz.so.1\0");
            cache
        };
        let none = || std::iter::empty();
        let absent = is_installed(&listed(&library), none());
        std::fs::write(&library, "").unwrap();
        let present = is_installed(&listed(&library), none());
        let other = is_installed(&listed(&directory.join("libsctp.so")), none());
        let found = is_installed(b"", [directory.clone()].into_iter());
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!((absent, present, other, found), (false, true, false, true));
    }

    #[test]
    fn a_directory_is_appended() {
        let directory = Path::new("/opt/carrick");
        assert_eq!(appended("".into(), directory), "/opt/carrick");
        assert_eq!(appended("/a:/b".into(), directory), "/a:/b:/opt/carrick");
    }
}
