//! `carrick run`: runs an unmodified program with Carrick's SCTP.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use carrick_daemon::{Daemon, answers, default_socket, service};
use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, mkdtemp};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::daemon::{NetworkArguments, ProtocolArguments, not_started};
use crate::failure::Failure;
use crate::{runtime, sctp_library};

/// Name of the preload library.
const LIBRARY: &str = "libcarrick_preload.so";

/// Directory of the libraries of an installation, relative to that of the executable.
const INSTALLED: &str = "../lib/carrick";

/// Environment variable with the path of the preload library.
const LIBRARY_VARIABLE: &str = "CARRICK_PRELOAD";

/// Time that associations have for their shutdown after the program has ended.
const LINGER: Duration = Duration::from_secs(5);

/// Run an unmodified program with Carrick's SCTP.
///
/// Sockets of the program with protocol SCTP are Carrick's; all others are the kernel's. The program has to
/// be dynamically linked. Where libsctp.so.1 is not installed, it gets Carrick's. If no daemon answers, this
/// command serves the program itself, until the program has ended and its messages are delivered, or for 5
/// more seconds; options of the network and of extensions apply then. Exit code: that of the program, or 128 and the number of the signal that ended it; 1: the
/// program could not be run; 2: invalid command line.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Path of the daemon's control socket [default: that of `carrick daemon`, if one answers there].
    #[arg(long, value_name = "PATH")]
    daemon: Option<PathBuf>,
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    protocol: ProtocolArguments,
    /// Program and its arguments.
    #[arg(
        value_name = "PROGRAM",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    program: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let library = library()?;
    let daemon = arguments.daemon.clone().unwrap_or_else(default_socket);
    if answers(&daemon) {
        let mut command = command(arguments, &library, &daemon);
        return Err(not_run(arguments, &command.exec()));
    }
    if let Some(path) = &arguments.daemon {
        return Err(Failure::Run(format!(
            "no daemon answers on {}: start one with carrick daemon --socket {}",
            path.display(),
            path.display()
        )));
    }
    let mut ended = None;
    runtime::run(async {
        ended = Some(serve(arguments, &library).await?);
        Ok(())
    })?;
    let code = ended.map_or(1, |status| {
        let signal = status.signal().map(|signal| 128 + signal);
        status.code().or(signal).unwrap_or(1)
    });
    std::process::exit(code);
}

/// Returns the path of the preload library: that of the environment, beside the executable, or in
/// `../lib/carrick`.
fn library() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os(LIBRARY_VARIABLE) {
        return Ok(path.into());
    }
    let candidates = beside_executable(&["", INSTALLED]);
    let mut files = candidates.into_iter().map(|path| path.join(LIBRARY));
    let found = files.find(|path| path.exists());
    found.ok_or_else(|| {
        Failure::Run(format!(
            "{LIBRARY} is neither beside this program nor in ../lib/carrick: build it with cargo build -p \
             carrick-preload, or name it in {LIBRARY_VARIABLE}"
        ))
    })
}

/// Returns directories relative to that of the executable.
fn beside_executable(directories: &[&str]) -> Vec<PathBuf> {
    let executable = std::env::current_exe().and_then(std::fs::canonicalize);
    let Ok(executable) = executable else {
        return Vec::new();
    };
    let parent = executable.parent().unwrap_or(Path::new("/"));
    directories.iter().map(|one| parent.join(one)).collect()
}

fn command(arguments: &Arguments, library: &Path, daemon: &Path) -> Command {
    let mut preload = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let mut command = Command::new(&arguments.program[0]);
    command
        .args(&arguments.program[1..])
        .env("LD_PRELOAD", preload)
        .env("CARRICK_DAEMON", daemon);
    let candidates = beside_executable(&["lib", INSTALLED]);
    if let Some(path) = sctp_library::library_path(&candidates) {
        command.env(sctp_library::PATH_VARIABLE, path);
    }
    command
}

fn not_run(arguments: &Arguments, error: &std::io::Error) -> Failure {
    Failure::Run(format!(
        "cannot run {}: {error}",
        arguments.program[0].to_string_lossy()
    ))
}

/// Runs the program and serves its sockets.
async fn serve(arguments: &Arguments, library: &Path) -> Result<ExitStatus, Failure> {
    // A name that no process had before: in a container this command has the same number at each start.
    let directory = mkdtemp(&std::env::temp_dir().join("carrick-XXXXXX")).map_err(|error| {
        let parent = std::env::temp_dir();
        Failure::Run(format!(
            "cannot create a directory in {}: {error}; name another one in TMPDIR",
            parent.display()
        ))
    })?;
    // The control socket has the permissions: that of the superuser also serves a program that drops its privileges.
    let mode = Permissions::from_mode(0o711);
    let opened = std::fs::set_permissions(&directory, mode);
    let done = match opened {
        Ok(()) => serve_in(arguments, library, &directory).await,
        Err(error) => Err(Failure::Run(format!(
            "cannot set the permissions of {}: {error}",
            directory.display()
        ))),
    };
    // The directory is empty, unless the program has put something there.
    let _ = std::fs::remove_dir(&directory);
    done
}

async fn serve_in(
    arguments: &Arguments,
    library: &Path,
    directory: &Path,
) -> Result<ExitStatus, Failure> {
    let mut config = arguments.network.config(&arguments.protocol)?;
    config.socket = directory.join("socket");
    config.linger = LINGER;
    // One user alone.
    config.max_associations_per_user = Some(config.max_associations);
    config.receive_memory_per_user = Some(config.receive_memory);
    let daemon = Daemon::bind(config).map_err(|error| not_started(&error))?;
    let mut command = command(arguments, library, daemon.socket());
    let mut child = command.spawn().map_err(|error| {
        // Nothing else is in it.
        let _ = std::fs::remove_file(daemon.socket());
        not_run(arguments, &error)
    })?;
    // After the start of the program, whose own limit stays as it is. Without it, the daemon serves fewer sockets.
    let _ = service::raise_descriptor_limit();
    let id = Pid::from_raw(child.id() as i32);
    forward_signals(id)?;
    let (ended, has_ended) = oneshot::channel();
    let waiting = std::thread::spawn(move || {
        let status = child.wait();
        // The daemon may have ended.
        let _ = ended.send(());
        status
    });
    daemon
        .run(async {
            // The thread has sent, or has panicked.
            let _ = has_ended.await;
        })
        .await;
    match waiting.join() {
        Ok(Ok(status)) => Ok(status),
        Ok(Err(error)) => Err(Failure::Run(format!(
            "cannot wait for the program: {error}"
        ))),
        Err(_) => Err(Failure::Run("cannot wait for the program".into())),
    }
}

/// Passes signals on to the program. It gets those of the terminal's keys itself.
fn forward_signals(program: Pid) -> Result<(), Failure> {
    let mut signals = vec![
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
    ];
    if !std::io::stdin().is_terminal() {
        signals.extend([Signal::SIGINT, Signal::SIGQUIT]);
    }
    for which in signals {
        let caught = signal(SignalKind::from_raw(which as i32));
        let mut caught =
            caught.map_err(|error| Failure::Run(format!("cannot wait for signals: {error}")))?;
        tokio::spawn(async move {
            while caught.recv().await.is_some() {
                // The program may have ended.
                let _ = kill(program, which);
            }
        });
    }
    Ok(())
}
