//! Network namespace without a name.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, setns, unshare};

use crate::error::Error;

/// Network namespace that exists as long as this value, its clones, and the threads and programs in it.
#[derive(Clone, Debug)]
pub struct Namespace {
    file: Arc<File>,
}

impl Namespace {
    /// Creates a namespace whose only interface is a loopback interface that is up.
    ///
    /// # Errors
    /// If a system call fails; most often root is missing.
    pub fn new() -> Result<Self, Error> {
        // A namespace belongs to a thread. This thread ends, and the open file keeps the namespace.
        let created = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        let file = created
            .join()
            .map_err(|_| Error::Panicked("namespace"))?
            .map_err(Error::system("creating a network namespace"))?;
        let namespace = Self {
            file: Arc::new(file),
        };
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Path of the namespace for other processes while this one runs: `/proc/PID/fd/N`.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// Runs `work` on a new thread in the namespace.
    ///
    /// # Errors
    /// If the thread cannot be started; the handle returns the error of entering the namespace.
    pub fn spawn<R: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<JoinHandle<io::Result<R>>, Error> {
        let file = self.file.clone();
        let thread = thread::Builder::new().name(name.to_owned());
        let started = thread.spawn(move || {
            setns(&*file, CloneFlags::CLONE_NEWNET)?;
            Ok(work())
        });
        started.map_err(Error::system(format!("starting the thread {name}")))
    }

    /// Runs `work` on a thread in the namespace and waits for its result.
    ///
    /// # Errors
    /// As [`Self::spawn`], and if `work` panics.
    pub fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Error> {
        self.spawn("host", work)?
            .join()
            .map_err(|_| Error::Panicked("host"))?
            .map_err(Error::system("entering a network namespace"))
    }

    /// Runs a program in the namespace and waits for its end.
    ///
    /// # Errors
    /// If the program can't be started. Its exit status is part of the output, not an error.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Result<Output, Error> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        let line = format!("{program} {}", arguments.join(" "));
        self.run(move || command.output())?
            .map_err(Error::system(line))
    }

    /// Runs `ip` in the namespace; a failure of `ip` is an error.
    pub(crate) fn ip(&self, arguments: &[&str]) -> Result<(), Error> {
        let output = self.command("ip", arguments)?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::Command {
            command: format!("ip {}", arguments.join(" ")),
            output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }

    /// Runs `ip -batch` in the namespace with one command per line; a failure of any is an error.
    pub(crate) fn ip_batch(&self, lines: &[String]) -> Result<(), Error> {
        if lines.is_empty() {
            return Ok(());
        }
        let text = lines.join("\n") + "\n";
        let work = move || {
            let mut child = Command::new("ip")
                .args(["-batch", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()?;
            let written = child
                .stdin
                .take()
                .map(|mut to| to.write_all(text.as_bytes()));
            let output = child.wait_with_output()?;
            if output.status.success() {
                written.transpose()?;
            }
            Ok(output)
        };
        let output = self.run(work)?.map_err(Error::system("ip -batch"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::Command {
            command: format!("ip -batch of {}", lines.join("; ")),
            output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }
}
