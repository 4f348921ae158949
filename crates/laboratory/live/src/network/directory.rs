//! Directory in which other processes find the hosts of a live network: a symbolic link for each host in
//! `/run/carrick-lab/NETWORK/`.
//!
//! The links point into `/proc` of the process that runs the network. When this process has ended, they
//! dangle, and the next network that starts removes them.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use nix::sched::{CloneFlags, setns};

use super::host::Host;
use crate::error::Error;

const ROOT: &str = "/run/carrick-lab";

/// Directory with the links of one network; dropping it removes the directory.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    pub(crate) fn publish(name: &str, hosts: &[Host]) -> Result<Self, Error> {
        let root = Path::new(ROOT);
        remove_stale(root);
        let path = root.join(name);
        // Other processes remove a directory without links as the remains of a crash.
        let unfinished = Self {
            path: root.join(format!(".{}.{name}", std::process::id())),
        };
        let creating = || {
            let path = path.display();
            format!("creating {path} (is a network '{name}' running already?)")
        };
        let created = fs::create_dir_all(root).and_then(|()| fs::create_dir(&unfinished.path));
        created.map_err(Error::system(creating()))?;
        for host in hosts {
            let link = unfinished.path.join(host.name());
            let linked = symlink(host.namespace().path(), &link);
            linked.map_err(Error::system(format!("creating {}", link.display())))?;
        }
        fs::rename(&unfinished.path, &path).map_err(Error::system(creating()))?;
        Ok(Self { path })
    }

    /// Path of the directory, with one link per host.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The next network removes what can't be removed now.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the directories of networks whose processes have ended.
fn remove_stale(root: &Path) {
    for network in entries(root) {
        let alive = match building_process(&network) {
            Some(process) => Path::new("/proc").join(process).exists(),
            None => entries(&network).iter().any(|link| link.exists()),
        };
        if !alive {
            let _ = fs::remove_dir_all(&network);
        }
    }
}

/// Process that is building a directory, from its name `.PID.NETWORK`; `None` if the directory is complete.
fn building_process(network: &Path) -> Option<&str> {
    let name = network.file_name()?.to_str()?.strip_prefix('.')?;
    Some(name.split('.').next().unwrap_or(name))
}

fn entries(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn names(path: &Path) -> Vec<String> {
    let name = |path: PathBuf| Some(path.file_name()?.to_str()?.to_owned());
    entries(path).into_iter().filter_map(name).collect()
}

/// Live networks that are running on this machine, each with the names of its hosts.
pub fn running_networks() -> Vec<(String, Vec<String>)> {
    let root = Path::new(ROOT);
    remove_stale(root);
    let complete = |name: &String| building_process(Path::new(name)).is_none();
    names(root)
        .into_iter()
        .filter(complete)
        .map(|name| {
            let hosts = names(&root.join(&name));
            (name, hosts)
        })
        .collect()
}

/// Runs a program on a host of a network that another process runs, with this process's terminal, and
/// waits for its end.
///
/// The calling thread remains in the namespace of the host.
///
/// # Errors
/// If the network or the host does not exist, or the program can't be started.
pub fn run_on_host(network: &str, host: &str, command: &mut Command) -> Result<ExitStatus, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = spawn_on_host(network, host, command)?;
    child
        .wait()
        .map_err(Error::system(format!("waiting for '{program}'")))
}

/// Starts a program as [`run_on_host`] does, without waiting for its end.
///
/// # Errors
/// As [`run_on_host`].
pub fn spawn_on_host(network: &str, host: &str, command: &mut Command) -> Result<Child, Error> {
    let running = running_networks();
    let Some((_, hosts)) = running.iter().find(|(name, _)| name == network) else {
        let names: Vec<&str> = running.iter().map(|(name, _)| name.as_str()).collect();
        return Err(Error::NotRunning {
            name: network.to_owned(),
            running: match names.len() {
                0 => "none is running".to_owned(),
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
    let what = || format!("entering host {host} of network {network}");
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
    fn only_directories_of_ended_processes_are_removed() {
        let root = std::env::temp_dir().join(format!("carrick-lab-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let own = std::process::id();
        let mut kept = vec![format!(".{own}.unfinished"), "runs".to_owned()];
        // Larger than any process ID (pid_max is at most 4194304).
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
