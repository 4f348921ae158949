//! Measured programs: those of this executable, and peer programs in a directory.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::process::Processes;
use crate::failure::Failure;

/// Time in which a peer program describes itself.
const LIMIT: Duration = Duration::from_secs(30);

/// Stacks that `interop/peers/build.sh` builds, with the packages that they come from.
pub(super) const KNOWN: &[(&str, &str)] = &[
    ("quinn", "crate quinn (QUIC with TLS)"),
    ("rtc-sctp", "crate rtc-sctp"),
    ("sctp-proto", "crate sctp-proto"),
    ("dcsctp", "crate dcsctp"),
    ("pion", "Go module github.com/pion/sctp"),
    ("webrtc-sctp", "crate webrtc-sctp"),
    ("usrsctp", "Debian package libusrsctp-dev"),
];

/// Directory of peer programs.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    /// The user has named it, so that it has to exist.
    is_given: bool,
}

/// Returns the directory of the user, or `peers` beside that of this executable: `target/peers` of a build.
pub(super) fn directory(given: Option<&Path>) -> Directory {
    let default = || {
        let executable = std::env::current_exe().unwrap_or_default();
        let target = executable.parent().and_then(Path::parent);
        target.unwrap_or(Path::new(".")).join("peers")
    };
    Directory {
        path: given.map_or_else(default, Path::to_owned),
        is_given: given.is_some(),
    }
}

/// Program that is measured: a name, and the command that `serve`, `send` and the other verbs are appended to.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) command: Vec<OsString>,
    /// Program that runs the command elsewhere, with its arguments.
    prefix: Vec<OsString>,
    /// Origin with version, for peer programs.
    pub(super) about: Option<String>,
    /// Verbs of the program.
    verbs: Vec<String>,
}

impl Program {
    /// Returns a program of this executable (`end`).
    pub(super) fn own(name: &str) -> Self {
        let executable = std::env::current_exe().unwrap_or_else(|_| "carrick".into());
        Self {
            name: name.into(),
            command: vec![executable.into(), "bench-end".into(), name.into()],
            prefix: Vec::new(),
            about: None,
            verbs: Vec::new(),
        }
    }

    /// Returns this program, run by another one with these arguments.
    pub(super) fn behind(&self, prefix: Vec<OsString>) -> Self {
        Self {
            prefix,
            ..self.clone()
        }
    }

    /// Returns whether a peer program has a verb.
    pub(super) fn is_able(&self, verb: &str) -> bool {
        self.verbs.iter().any(|able| able == verb)
    }

    /// Returns the command with more arguments.
    pub(super) fn with<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Vec<OsString> {
        let arguments = arguments.into_iter().map(|a| a.as_ref().to_owned());
        let command = self.prefix.iter().chain(&self.command).cloned();
        command.chain(arguments).collect()
    }
}

/// Returns the peer programs of a directory in the order of their names; none if the default one does not exist.
pub(super) fn peers(processes: &Processes, directory: &Directory) -> Result<Vec<Program>, Failure> {
    let path = &directory.path;
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(_) if !directory.is_given => return Ok(Vec::new()),
        Err(error) => {
            return Err(Failure::Usage(format!(
                "cannot read the directory of peers {}: {error}",
                path.display()
            )));
        }
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            let metadata = path.metadata();
            metadata.is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
        })
        .collect();
    files.sort();
    let described = files.into_iter().map(|file| {
        describe(processes, &file)
            .map_err(|reason| Failure::Run(format!("peer {}: about: {reason}", file.display())))
    });
    described.collect()
}

/// Runs a peer program's verb `about`.
fn describe(processes: &Processes, file: &Path) -> Result<Program, String> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let file = std::path::absolute(file).map_err(|e| e.to_string())?;
    let command = vec![file.into_os_string()];
    let mut program = Program {
        name: name.into_owned(),
        command,
        prefix: Vec::new(),
        about: None,
        verbs: Vec::new(),
    };
    let finished = processes.start(&program.with(["about"]), LIMIT)?.finish()?;
    let about = finished.lines.first().ok_or("it printed nothing")?;
    program.about = about["about"].as_str().map(str::to_owned);
    let verbs = about["verbs"].as_array().ok_or("no array \"verbs\"")?;
    let verbs = verbs.iter().filter_map(Value::as_str);
    program.verbs = verbs.map(str::to_owned).collect();
    Ok(program)
}
