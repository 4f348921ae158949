//! A network namespace without a name.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, setns, unshare};

use crate::error::Error;

/// A network namespace that lives as long as this value, its clones, and the threads and programs in it.
#[derive(Clone, Debug)]
pub struct Namespace {
    file: Arc<File>,
}

impl Namespace {
    /// A new one, with nothing but a loopback interface that is up.
    ///
    /// # Errors
    /// What the system says, mostly that this needs root.
    pub fn new() -> Result<Self, Error> {
        // A namespace belongs to a thread; this one ends and leaves it behind in the file.
        let made = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        let file = made
            .join()
            .map_err(|_| Error::Panicked("namespace"))?
            .map_err(Error::system("a network namespace"))?;
        let namespace = Self {
            file: Arc::new(file),
        };
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Where another process finds it while this one runs: `/proc/PID/fd/N`.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// Runs `work` on a new thread inside.
    ///
    /// # Errors
    /// If the system has no thread or refuses to let it in.
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
        started.map_err(Error::system(format!("thread {name}")))
    }

    /// Runs `work` on a thread inside and waits for it.
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

    /// Runs a program inside and waits for its end.
    ///
    /// # Errors
    /// If it can't be started; a program that fails is no error here.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Result<Output, Error> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        let line = format!("{program} {}", arguments.join(" "));
        self.run(move || command.output())?
            .map_err(Error::system(line))
    }

    /// Runs `ip` inside, which must succeed.
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

    /// Runs `ip` inside with a command a line, all of which must succeed.
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
