//! Executable files: how a program gets Carrick's sockets, and which programs cannot have them.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

/// Scripts whose interpreters are scripts, one for the other; the kernel starts no more.
const MAX_INTERPRETERS: usize = 5;
/// Size of the header of a 64-bit ELF file in bytes.
const HEADER: usize = 64;
/// Type of a program header with the path of the dynamic linker (`PT_INTERP`).
const INTERPRETER: u32 = 3;
/// Access rights of the file that are those of the set user or group.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2010;

/// Architecture of this command in ELF headers (`EM_X86_64`).
#[cfg(target_arch = "x86_64")]
const MACHINE: Option<u16> = Some(62);
/// Architecture of this command in ELF headers (`EM_AARCH64`).
#[cfg(target_arch = "aarch64")]
const MACHINE: Option<u16> = Some(183);
/// Not checked on other architectures.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MACHINE: Option<u16> = None;

/// How a program is linked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Linkage {
    /// The dynamic linker loads the preload library.
    Dynamic,
    Static,
}

/// Reason why a program cannot have Carrick's sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The program gets other privileges.
    Privileges,
    /// The program is for another architecture.
    Architecture,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Privileges => {
                "it is setuid, setgid or has file capabilities, and its calls belong to that user alone: run it as that user (sudo carrick run), or use a copy without these rights"
            }
            Self::Architecture => {
                "it is for another architecture than this command: use a build of it for this one"
            }
        })
    }
}

/// Returns how a program is linked; for a script, that of its interpreter. A file that cannot be read counts as
/// dynamic: its execution reports the error.
pub(crate) fn linkage(program: &OsStr) -> Result<Linkage, Refusal> {
    let Some(mut path) = find(program) else {
        return Ok(Linkage::Dynamic);
    };
    for _ in 0..MAX_INTERPRETERS {
        let Ok(file) = File::open(&path) else {
            break;
        };
        if let Some(interpreter) = interpreter(&file) {
            path = interpreter;
            continue;
        }
        let Ok(metadata) = file.metadata() else {
            break;
        };
        if gains_privileges(&path, &metadata) {
            return Err(Refusal::Privileges);
        }
        return linkage_of_file(&file);
    }
    Ok(Linkage::Dynamic)
}

/// Returns the file that is executed for a name, as `execvp` searches it; `None` if there is none.
pub(crate) fn find(program: &OsStr) -> Option<PathBuf> {
    let is_executable = |file: &PathBuf| {
        let metadata = file.metadata();
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o111 != 0)
    };
    if program.as_bytes().contains(&b'/') {
        return Some(program.into()).filter(is_executable);
    }
    let directories = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&directories).map(|directory| directory.join(program));
    files.find(is_executable)
}

/// Returns the interpreter of a script.
fn interpreter(file: &File) -> Option<PathBuf> {
    let mut begin = Vec::new();
    file.take(256).read_to_end(&mut begin).ok()?;
    let line = begin
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t'));
    let path = words.find(|word| !word.is_empty())?;
    Some(OsStr::from_bytes(path).into())
}

/// Returns whether the program runs with other privileges than this process.
fn gains_privileges(path: &Path, metadata: &Metadata) -> bool {
    let user = geteuid().as_raw();
    let sets_user = metadata.mode() & SET_USER != 0 && metadata.uid() != user;
    let sets_group =
        metadata.mode() & SET_GROUP == SET_GROUP && metadata.gid() != getegid().as_raw();
    let mut space = [0; 64];
    let capabilities = rustix::fs::getxattr(path, c"security.capability", &mut space[..]);
    sets_user || sets_group || user != 0 && capabilities.is_ok()
}

/// Returns why the dynamic linker cannot load a library, if so.
pub(crate) fn library_defect(path: &Path) -> Option<String> {
    let separators = [b' ', b':'];
    let bytes = path.as_os_str().as_bytes();
    if separators.iter().any(|separator| bytes.contains(separator)) {
        return Some("at whose space or colon the dynamic linker ends its path".into());
    }
    let mut header = [0; HEADER];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut header, 0));
    match read {
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
            return Some(format!("which cannot be read ({error})"));
        }
        Ok(()) if header.starts_with(b"\x7fELF") => {}
        _ => return Some("which is no library".into()),
    }
    let is_foreign = MACHINE.is_some_and(|machine| !is_for(&header, machine));
    is_foreign.then(|| "which is for another architecture than this command".into())
}

/// Returns whether the header of an ELF file is one for this machine, of 64 bits and in the order of octets of this
/// command.
fn is_for(header: &[u8; HEADER], machine: u16) -> bool {
    let own_order = if cfg!(target_endian = "little") { 1 } else { 2 };
    header[4] == 2
        && header[5] == own_order
        && u16::from_ne_bytes([header[18], header[19]]) == machine
}

fn linkage_of_file(file: &File) -> Result<Linkage, Refusal> {
    let mut header = [0; HEADER];
    if file.read_exact_at(&mut header, 0).is_err() || !header.starts_with(b"\x7fELF") {
        return Ok(Linkage::Dynamic);
    }
    let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    if let Some(machine) = MACHINE
        && !is_for(&header, machine)
    {
        return Err(Refusal::Architecture);
    }
    let offset = header[32..40]
        .first_chunk()
        .map_or(0, |at| u64::from_ne_bytes(*at));
    let (size, count) = (u64::from(half(54)), u64::from(half(56)));
    let is_interpreter = |at: u64| {
        let mut kind = [0; 4];
        let position = offset.saturating_add(at * size);
        file.read_exact_at(&mut kind, position).is_ok() && u32::from_ne_bytes(kind) == INTERPRETER
    };
    if (0..count).any(is_interpreter) {
        Ok(Linkage::Dynamic)
    } else {
        Ok(Linkage::Static)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a file, and returns how it is linked.
    fn of(name: &str, content: &[u8], mode: u32) -> Result<Linkage, Refusal> {
        use std::os::unix::fs::PermissionsExt;

        let path = std::env::temp_dir().join(format!("carrick-{name}-{}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let found = linkage(path.as_os_str());
        std::fs::remove_file(&path).unwrap();
        found
    }

    /// Returns an ELF file with one program header.
    fn elf(class: u8, machine: u16, kind: u32) -> Vec<u8> {
        let mut file = vec![0; HEADER + 56];
        file[..4].copy_from_slice(b"\x7fELF");
        file[4] = class;
        file[5] = 1;
        file[18..20].copy_from_slice(&machine.to_le_bytes());
        file[32] = HEADER as u8;
        file[54] = 56;
        file[56] = 1;
        file[HEADER..HEADER + 4].copy_from_slice(&kind.to_le_bytes());
        file
    }

    #[test]
    fn the_interpreter_of_the_file_decides() {
        let Some(machine) = MACHINE else {
            return;
        };
        assert_eq!(
            of("dynamic", &elf(2, machine, 3), 0o755),
            Ok(Linkage::Dynamic)
        );
        assert_eq!(
            of("static", &elf(2, machine, 1), 0o755),
            Ok(Linkage::Static)
        );
        assert_eq!(of("text", b"echo", 0o755), Ok(Linkage::Dynamic));
        assert_eq!(of("short", b"\x7fELF", 0o755), Ok(Linkage::Dynamic));
        assert_eq!(linkage(OsStr::new("/nonexistent")), Ok(Linkage::Dynamic));
        assert_eq!(linkage(OsStr::new("sh")), Ok(Linkage::Dynamic));
    }

    #[test]
    fn a_script_is_linked_as_its_interpreter() {
        let Some(machine) = MACHINE else {
            return;
        };
        let name = format!("carrick-interpreter-{}", std::process::id());
        let interpreter = std::env::temp_dir().join(name);
        std::fs::write(&interpreter, elf(2, machine, 1)).unwrap();
        let script = format!("#! {} -x\necho", interpreter.display());
        assert_eq!(of("script", script.as_bytes(), 0o755), Ok(Linkage::Static));
        std::fs::remove_file(&interpreter).unwrap();
        assert_eq!(of("shell", b"#!/bin/sh\n", 0o755), Ok(Linkage::Dynamic));
    }

    #[test]
    fn other_architectures_are_refused() {
        if MACHINE.is_none() {
            return;
        }
        assert_eq!(of("mips", &elf(2, 8, 3), 0o755), Err(Refusal::Architecture));
        assert_eq!(
            of("small", &elf(1, 3, 1), 0o755),
            Err(Refusal::Architecture)
        );
    }

    #[test]
    fn libraries_that_cannot_be_loaded_are_found() {
        let Some(machine) = MACHINE else {
            return;
        };
        let path = std::env::temp_dir().join(format!("carrick-library-{}", std::process::id()));
        let split = library_defect(Path::new("/opt/my programs/libcarrick_preload.so")).unwrap();
        assert!(split.starts_with("at whose space"), "{split}");
        let missing = library_defect(&path).unwrap();
        assert!(missing.contains("cannot be read"), "{missing}");
        for (content, defect) in [
            (elf(2, machine, 2), None),
            (elf(2, 8, 2), Some("which is for another architecture")),
            (b"INPUT(libcarrick_preload.so)".to_vec(), Some("no library")),
        ] {
            std::fs::write(&path, content).unwrap();
            let found = library_defect(&path);
            assert_eq!(found.is_some(), defect.is_some(), "{found:?}");
            let text = found.unwrap_or_default();
            assert!(text.contains(defect.unwrap_or_default()), "{text}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn programs_that_gain_privileges_are_refused() {
        let path = std::env::temp_dir().join(format!("carrick-setuid-{}", std::process::id()));
        std::fs::write(&path, b"").unwrap();
        let (own, other) = (geteuid().as_raw(), geteuid().as_raw() + 1);
        let metadata = path.metadata().unwrap();
        assert!(!gains_privileges(&path, &metadata));
        if own == 0 {
            use std::os::unix::fs::{PermissionsExt, chown};
            chown(&path, Some(other), None).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o4755)).unwrap();
            assert_eq!(linkage(path.as_os_str()), Err(Refusal::Privileges));
            chown(&path, Some(own), None).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o4755)).unwrap();
            assert_eq!(linkage(path.as_os_str()), Ok(Linkage::Dynamic));
        }
        std::fs::remove_file(&path).unwrap();
    }
}
