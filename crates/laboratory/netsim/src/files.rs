//! Files that replace others only when they are complete.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Writes a file with `write`. An existing file is replaced by the finished one, and kept with its content
/// if an error occurs; it keeps its mode. Links are followed; devices and pipes are written directly.
///
/// # Errors
/// Those of the system and of `write`.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let (mut file, replacement) = Replacement::begin(path)?;
    write(&mut file)?;
    replacement.finish()
}

/// File that is being written and then replaces an existing one, as [`replace`] does it. Dropping it without
/// [`Self::finish`] removes it.
#[derive(Debug)]
pub struct Replacement {
    /// The unfinished file and the one that it replaces; `None` for a device or a pipe.
    paths: Option<(PathBuf, PathBuf)>,
}

impl Replacement {
    /// Opens the file to be written in place of `path`.
    ///
    /// # Errors
    /// Those of the system.
    pub fn begin(path: &Path) -> io::Result<(File, Self)> {
        let existing = match fs::metadata(path) {
            Ok(existing) => Some(existing),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if existing
            .as_ref()
            .is_some_and(|existing| !existing.is_file())
        {
            let file = File::options().write(true).open(path)?;
            return Ok((file, Self { paths: None }));
        }
        let target = match &existing {
            Some(_) => path.canonicalize()?,
            None => path.to_owned(),
        };
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let temporary = target.with_file_name(format!(".{name}.{}.new", std::process::id()));
        let file = File::create(&temporary)?;
        let own = Self {
            paths: Some((temporary, target)),
        };
        if let Some(existing) = existing {
            file.set_permissions(existing.permissions())?;
        }
        Ok((file, own))
    }

    /// Replaces the existing file.
    ///
    /// # Errors
    /// Those of the system; the existing file stays.
    pub fn finish(mut self) -> io::Result<()> {
        let Some((temporary, target)) = &self.paths else {
            return Ok(());
        };
        File::open(temporary)?.sync_all()?;
        fs::rename(temporary, target)?;
        self.paths = None;
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.paths {
            // The error of writing is the one to report.
            let _ = fs::remove_file(temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn an_unfinished_file_replaces_none() {
        let directory =
            std::env::temp_dir().join(format!("carrick-replace-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("report");
        let put = |text: &'static str| move |file: &mut File| file.write_all(text.as_bytes());
        replace(&path, put("first")).unwrap();
        let full = |file: &mut File| {
            put("half of the second")(file)?;
            Err(io::ErrorKind::StorageFull.into())
        };
        let error = replace(&path, full).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        replace(&path, put("third")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "third");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        replace(Path::new("/dev/null"), put("no file")).unwrap();
        fs::remove_dir_all(directory).unwrap();
    }
}
