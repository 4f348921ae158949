//! Where other processes find the hosts of a live network: a link for each host in
//! `/run/carrick-lab/NETWORK/`.
//!
//! The links lead into `/proc` of the process that runs the network. When that is gone they lead
//! nowhere, and the next network that starts removes them.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use nix::sched::{CloneFlags, setns};

use crate::error::Error;
use crate::host::Host;

const ROOT: &str = "/run/carrick-lab";

/// The links of one network; they are removed with this value.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    pub(crate) fn publish(name: &str, hosts: &[Host]) -> Result<Self, Error> {
        let root = Path::new(ROOT);
        remove_stale(root);
        let path = root.join(name);
        // Others take a directory without links for one that a crash has left.
        let unfinished = Self {
            path: root.join(format!(".{}.{name}", std::process::id())),
        };
        let taken = || format!("{} (does a network '{name}' run already?)", path.display());
        let made = fs::create_dir_all(root).and_then(|()| fs::create_dir(&unfinished.path));
        made.map_err(Error::system(taken()))?;
        for host in hosts {
            let link = unfinished.path.join(host.name());
            let made = symlink(host.namespace().path(), &link);
            made.map_err(Error::system(link.display().to_string()))?;
        }
        fs::rename(&unfinished.path, &path).map_err(Error::system(taken()))?;
        Ok(Self { path })
    }

    /// The folder with one link a host.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What can't be removed now is stale, and the next network removes it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes networks whose processes are gone.
fn remove_stale(root: &Path) {
    for network in folders(root) {
        let alive = match builder(&network) {
            Some(process) => Path::new("/proc").join(process).exists(),
            None => folders(&network).iter().any(|link| link.exists()),
        };
        if !alive {
            let _ = fs::remove_dir_all(&network);
        }
    }
}

/// The process that builds a directory, if it is not finished: `.PID.NETWORK`.
fn builder(network: &Path) -> Option<&str> {
    let name = network.file_name()?.to_str()?.strip_prefix('.')?;
    Some(name.split('.').next().unwrap_or(name))
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn names(path: &Path) -> Vec<String> {
    let name = |path: PathBuf| Some(path.file_name()?.to_str()?.to_owned());
    folders(path).into_iter().filter_map(name).collect()
}

/// The live networks that run on this machine, each with its hosts.
pub fn running() -> Vec<(String, Vec<String>)> {
    let root = Path::new(ROOT);
    remove_stale(root);
    let finished = |name: &String| builder(Path::new(name)).is_none();
    names(root)
        .into_iter()
        .filter(finished)
        .map(|name| {
            let hosts = names(&root.join(&name));
            (name, hosts)
        })
        .collect()
}

/// Runs a program on a host of a network that another process runs, with this process's terminal, and
/// waits for its end.
///
/// The thread that calls this stays in the namespace of the host.
///
/// # Errors
/// If no such network or host runs, or the program can't be started.
pub fn enter(network: &str, host: &str, command: &mut Command) -> Result<ExitStatus, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = start(network, host, command)?;
    child.wait().map_err(Error::system(program))
}

/// The same without waiting.
///
/// # Errors
/// As [`enter`].
pub fn start(network: &str, host: &str, command: &mut Command) -> Result<Child, Error> {
    let running = running();
    let Some((_, hosts)) = running.iter().find(|(name, _)| name == network) else {
        let names: Vec<&str> = running.iter().map(|(name, _)| name.as_str()).collect();
        return Err(Error::NotRunning {
            name: network.to_owned(),
            running: match names.len() {
                0 => "none does at all".to_owned(),
                _ => format!("running: {}", names.join(", ")),
            },
        });
    };
    if !hosts.iter().any(|name| name == host) {
        return Err(Error::UnknownHost {
            name: host.to_owned(),
            known: hosts.join(", "),
        });
    }
    let link = Path::new(ROOT).join(network).join(host);
    let what = || format!("host {host} of network {network}");
    let namespace = fs::File::open(link).map_err(Error::system(what()))?;
    setns(namespace, CloneFlags::CLONE_NEWNET)
        .map_err(io::Error::from)
        .map_err(Error::system(what()))?;
    let program = command.get_program().to_string_lossy().into_owned();
    let started = command.spawn();
    started.map_err(|source| Error::Program { program, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_still_builds_stays_and_what_nobody_has_goes() {
        let root = std::env::temp_dir().join(format!("carrick-lab-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let own = std::process::id();
        let mut kept = vec![format!(".{own}.unfinished"), "runs".to_owned()];
        // Process numbers are smaller.
        let gone = [".4194305.unfinished", "crashed", "empty"];
        for name in kept.iter().map(String::as_str).chain(gone) {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        symlink("/proc/self/ns/net", root.join("runs/host")).unwrap();
        symlink("/proc/4194305/fd/3", root.join("crashed/host")).unwrap();
        remove_stale(&root);
        let mut left = names(&root);
        left.sort();
        kept.sort();
        assert_eq!(left, kept);
        fs::remove_dir_all(&root).unwrap();
    }
}
