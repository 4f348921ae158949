//! `carrick run`: runs an unmodified program with Carrick's SCTP.

use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io::{self, IsTerminal};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use carrick::{BindError, Transport};
use carrick_daemon::{Config, Daemon, DaemonError, DaemonWatch, answers, default_socket, service};
use carrick_seccomp::Supervised;
use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, mkdtemp};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::daemon::{NetworkArguments, not_started};
use crate::executable::{self, Linkage};
use crate::failure::Failure;
use crate::files::check_socket_path;
use crate::given_options::GivenOptions;
use crate::log::warn;
use crate::parameters::Parameters;
use crate::{runtime, sctp_library};

/// Name of the preload library.
const LIBRARY: &str = "libcarrick_preload.so";

/// Directory of the libraries of an installation, relative to that of the executable.
const INSTALLED: &str = "../lib/carrick";

/// Environment variable with the path of the preload library.
const LIBRARY_VARIABLE: &str = "CARRICK_PRELOAD";

/// Time between SIGTERM and SIGKILL of a program whose daemon has ended.
const GRACE: Duration = Duration::from_secs(5);

/// Time that associations have for their shutdown after the program has ended.
const LINGER: Duration = Duration::from_secs(5);

/// Run an unmodified program with Carrick's SCTP.
///
/// Sockets of the program with protocol SCTP are Carrick's; all others are the kernel's. Dynamically linked
/// programs get them by a preload library, and libsctp.so.1 where it is not installed; this command
/// supervises statically linked ones by seccomp, until their descendants have ended as well. If no daemon answers,
/// it serves the program itself, until the program has ended and its messages are delivered, or for 5 more
/// seconds. Options of the network, of the protocol and of the event log are for that case, and an error where a
/// daemon answers, which has its own configuration. If UDP port 9899 is in use, as by another
/// `carrick run`, the program has another one, and reaches peers at 9899. Exit code: that of the program, or 128 and the number of the signal that ended it; 1: the
/// program could not be run; 2: invalid command line.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    given: GivenOptions,
    /// Path of the daemon's control socket [default: that of `carrick daemon`, if one answers there].
    #[arg(long, alias = "socket", value_name = "PATH")]
    daemon: Option<PathBuf>,
    /// End the program when its daemon has ended: by SIGTERM, and after 5 more seconds by SIGKILL. A handover is not
    /// the end of a daemon.
    #[arg(long)]
    end_with_daemon: bool,
    /// Supervise a dynamically linked program as well: for one that starts static programs, or that makes
    /// system calls without libc.
    #[arg(long)]
    seccomp: bool,
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    parameters: Parameters,
    /// Program and its arguments.
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub(crate) program: Vec<OsString>,
}

/// Mechanism by which the program gets Carrick's sockets.
enum Mechanism {
    /// The preload library at this path.
    Preload(PathBuf),
    Seccomp,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let daemon = arguments.daemon.clone().unwrap_or_else(default_socket);
    check_socket_path(&daemon)?;
    let is_served = answers(&daemon);
    if arguments.daemon.is_some() || is_served {
        refuse_options_of_a_daemon(arguments, &daemon)?;
    }
    let mechanism = mechanism(arguments)?;
    if is_served
        && !arguments.end_with_daemon
        && let Mechanism::Preload(_) = mechanism
    {
        let mut command = command(arguments, &mechanism, &daemon);
        return Err(not_run(arguments, &command.exec()));
    }
    if let Some(path) = &arguments.daemon
        && !is_served
    {
        return Err(Failure::Run(format!(
            "no daemon answers on {}: start one with carrick daemon --socket {}",
            path.display(),
            path.display()
        )));
    }
    let mut ended = None;
    runtime::run(async {
        ended = Some(if is_served {
            let watch = arguments.end_with_daemon.then(|| watch(&daemon));
            let watch = watch.transpose()?;
            let program = start(arguments, &mechanism, &daemon)?;
            let id = program.id();
            let status = ProgramStatus::of(program)?;
            match watch {
                Some(watch) => ended_with_daemon(&status, id, &watch).await,
                None => status.ended().await,
            }
            status.get()?
        } else {
            serve(arguments, &mechanism).await?
        });
        Ok(())
    })?;
    let code = ended.map_or(1, |status| {
        let signal = status.signal().map(|signal| 128 + signal);
        status.code().or(signal).unwrap_or(1)
    });
    std::process::exit(code);
}

/// Refuses options that only concern a daemon that this command starts itself, where another one serves the program.
fn refuse_options_of_a_daemon(arguments: &Arguments, daemon: &Path) -> Result<(), Failure> {
    let network = arguments.given.of::<NetworkArguments>();
    let parameters = arguments.given.of::<Parameters>();
    let is_network = !network.is_empty();
    let Some(option) = network.into_iter().chain(parameters).next() else {
        return Ok(());
    };
    let key = match option.as_str() {
        "--event-log-chunks" => "option --event-log-chunks of that daemon".into(),
        "--event-log" => "its key event-log".into(),
        "--bind" => "its key network.addresses".into(),
        "--raw" | "--and-raw" => "its key network.transport".into(),
        own if is_network => format!("its key network.{}", own.trim_start_matches('-')),
        "--sack-delay" => "its key defaults.sack-timeout".into(),
        own => format!("its key defaults.{}", own.trim_start_matches('-')),
    };
    let without = if arguments.daemon.is_some() {
        "leave out --daemon"
    } else {
        "set CARRICK_DAEMON to a path where no daemon answers"
    };
    Err(Failure::Usage(format!(
        "{option} has no effect with the daemon on {}, which serves the program with its own configuration: set it in \
         the file of carrick daemon --config ({key}), or {without} for a daemon of this program alone",
        daemon.display()
    )))
}

fn mechanism(arguments: &Arguments) -> Result<Mechanism, Failure> {
    let program = &arguments.program[0];
    let linkage = executable::linkage(program).map_err(|refusal| {
        Failure::Run(format!(
            "cannot run {}: {refusal}",
            program.to_string_lossy()
        ))
    })?;
    if arguments.seccomp || linkage == Linkage::Static {
        Ok(Mechanism::Seccomp)
    } else {
        library().map(Mechanism::Preload)
    }
}

/// Returns the path of the preload library: that of the environment, beside the executable, or in
/// `../lib/carrick`.
fn library() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os(LIBRARY_VARIABLE).map(PathBuf::from) {
        // The dynamic linker would run the program without a library that it cannot load.
        return match executable::library_defect(&path) {
            None => Ok(path),
            Some(defect) => Err(Failure::Run(format!(
                "{LIBRARY_VARIABLE} names {}, {defect}: name {LIBRARY}, or remove the variable",
                path.display()
            ))),
        };
    }
    let candidates = beside_executable(&["", INSTALLED]);
    let mut files = candidates.into_iter().map(|path| path.join(LIBRARY));
    let Some(found) = files.find(|path| path.exists()) else {
        return Err(Failure::Run(format!(
            "{LIBRARY} is neither beside this program nor in ../lib/carrick: build it with cargo build -p \
             carrick-preload, or name it in {LIBRARY_VARIABLE}"
        )));
    };
    match executable::library_defect(&found) {
        None => Ok(found),
        Some(defect) => Err(Failure::Run(format!(
            "the preload library is {}, {defect}: name another copy in {LIBRARY_VARIABLE}",
            found.display()
        ))),
    }
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

fn command(arguments: &Arguments, mechanism: &Mechanism, daemon: &Path) -> Command {
    let mut command = Command::new(&arguments.program[0]);
    command
        .args(&arguments.program[1..])
        .env("CARRICK_DAEMON", daemon);
    let others = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    match mechanism {
        Mechanism::Preload(library) => {
            let mut preload = library.as_os_str().to_owned();
            if !others.is_empty() {
                preload.push(":");
                preload.push(others);
            }
            command.env("LD_PRELOAD", preload);
        }
        Mechanism::Seccomp if !others.is_empty() => {
            // Programs that the program executes are supervised, too: a call would be translated twice.
            command.env("LD_PRELOAD", without_library(&others));
        }
        Mechanism::Seccomp => {}
    }
    let candidates = beside_executable(&["lib", INSTALLED]);
    if let Some(path) = sctp_library::library_path(&candidates) {
        command.env(sctp_library::PATH_VARIABLE, path);
    }
    command
}

/// Returns a list of preload libraries without Carrick's.
fn without_library(libraries: &OsStr) -> OsString {
    use std::os::unix::ffi::OsStrExt;

    let parts = libraries
        .as_bytes()
        .split(|byte| matches!(byte, b':' | b' '))
        .filter(|part| !part.is_empty() && !part.ends_with(LIBRARY.as_bytes()));
    OsStr::from_bytes(&parts.collect::<Vec<_>>().join(&b':')).to_owned()
}

fn not_run(arguments: &Arguments, error: &io::Error) -> Failure {
    let program = arguments.program[0].to_string_lossy();
    if error.raw_os_error() == Some(nix::errno::Errno::EBUSY as i32) {
        return Failure::Run(format!(
            "cannot run {program}: another carrick run supervises this process already: start the program \
             without carrick run"
        ));
    }
    Failure::Run(format!("cannot run {program}: {error}"))
}

/// Program that was started.
enum StartedProgram {
    Preloaded(Child),
    Supervised(Supervised),
}

fn start(
    arguments: &Arguments,
    mechanism: &Mechanism,
    daemon: &Path,
) -> Result<StartedProgram, Failure> {
    let mut command = command(arguments, mechanism, daemon);
    let started = match mechanism {
        Mechanism::Preload(_) => command.spawn().map(StartedProgram::Preloaded),
        Mechanism::Seccomp => {
            carrick_seccomp::spawn(&mut command, daemon).map(StartedProgram::Supervised)
        }
    };
    started.map_err(|error| not_run(arguments, &error))
}

impl StartedProgram {
    fn id(&self) -> Pid {
        Pid::from_raw(match self {
            Self::Preloaded(child) => child.id() as i32,
            Self::Supervised(supervised) => supervised.id(),
        })
    }
}

fn watch(daemon: &Path) -> Result<DaemonWatch, Failure> {
    DaemonWatch::start(daemon).map_err(|error| {
        let path = daemon.display();
        Failure::Run(format!("cannot watch the daemon on {path}: {error}"))
    })
}

/// Waits until the program has ended, which gets SIGTERM and then SIGKILL after the end of its daemon.
async fn ended_with_daemon(status: &ProgramStatus, program: Pid, daemon: &DaemonWatch) {
    tokio::select! {
        () = status.ended() => return,
        () = daemon.ended() => {}
    }
    warn(
        "the daemon has ended, and with it all associations: the program is ended (--end-with-daemon)",
    );
    // The program may have ended.
    let _ = kill(program, Signal::SIGTERM);
    if tokio::time::timeout(GRACE, status.ended()).await.is_err() {
        let _ = kill(program, Signal::SIGKILL);
        status.ended().await;
    }
}

/// Status of a program that runs, and gets the signals of this process. The channel is closed when the supervised
/// descendants of the program have ended as well.
#[derive(Clone)]
struct ProgramStatus(watch::Receiver<Option<ExitStatus>>);

impl ProgramStatus {
    fn of(program: StartedProgram) -> Result<Self, Failure> {
        let (record, status) = watch::channel(None);
        forward_signals(program.id(), &status)?;
        std::thread::spawn(move || {
            // Without a status, the command reports that it could not wait.
            match program {
                StartedProgram::Preloaded(mut child) => {
                    let _ = record.send(child.wait().ok());
                }
                StartedProgram::Supervised(supervised) => {
                    let _ = supervised.wait(|status| {
                        let _ = record.send(Some(status));
                    });
                }
            }
        });
        Ok(Self(status))
    }

    /// Waits until the program and its supervised descendants have ended, or until the program has and this
    /// command is to end.
    async fn ended(&self) {
        let Self(mut program) = self.clone();
        let Self(mut descendants) = self.clone();
        let interrupted = async {
            // An error: the channel is closed, and the other branch is ready.
            let _ = program.wait_for(Option::is_some).await;
            runtime::signal_received().await;
        };
        tokio::select! {
            _ = descendants.wait_for(|_| false) => {}
            () = interrupted => {}
        }
    }

    fn get(&self) -> Result<ExitStatus, Failure> {
        let status = *self.0.borrow();
        status.ok_or_else(|| Failure::Run("cannot wait for the program".into()))
    }
}

/// Runs the program and serves its sockets.
async fn serve(arguments: &Arguments, mechanism: &Mechanism) -> Result<ExitStatus, Failure> {
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
        Ok(()) => serve_in(arguments, mechanism, &directory).await,
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
    mechanism: &Mechanism,
    directory: &Path,
) -> Result<ExitStatus, Failure> {
    let mut config = arguments.network.config(&arguments.parameters)?;
    config.socket = directory.join("socket");
    config.linger = LINGER;
    // One user alone.
    config.max_associations_per_user = Some(config.max_associations);
    config.receive_memory_per_user = Some(config.receive_memory);
    let daemon = bind(config, arguments)?;
    let program = start(arguments, mechanism, daemon.socket()).inspect_err(|_| {
        // Nothing else is in it.
        let _ = std::fs::remove_file(daemon.socket());
    })?;
    // After the start of the program, whose own limit stays as it is. Without it, the daemon serves fewer sockets.
    let _ = service::raise_descriptor_limit();
    let status = ProgramStatus::of(program)?;
    daemon.run(status.ended()).await;
    // The daemon may have ended before.
    status.ended().await;
    status.get()
}

/// Opens the sockets of the network. If another program has the UDP port and the command line names none, the packets
/// leave from another one: peers answer to the port that a packet came from (RFC 6951, section 5.4), so that only those
/// who connect to this program need its number.
fn bind(mut config: Config, arguments: &Arguments) -> Result<Daemon, Failure> {
    let taken = match Daemon::bind(config.clone()) {
        Err(DaemonError::Network(BindError::PortTaken { port, .. }))
            if !arguments.network.names_udp_port() =>
        {
            port
        }
        bound => return bound.map_err(|error| not_started(&error)),
    };
    let transport = match config.transport {
        Transport::Both { .. } => Transport::Both { port: 0 },
        _ => Transport::Udp { port: 0 },
    };
    config.transport = transport;
    let daemon = Daemon::bind(config);
    let daemon = daemon.map_err(|error| not_started(&error))?;
    if let Transport::Udp { port } | Transport::Both { port } = daemon.transport() {
        eprintln!(
            "carrick: another program of this host has UDP port {taken}: the SCTP of this one is on UDP port {port}. It \
             reaches peers at {taken} as before; peers reach its listening sockets with --peer-udp-port {port} only. \
             Several servers share one UDP port with carrick daemon"
        );
    }
    Ok(daemon)
}

/// Passes signals on to the program. It gets those of the terminal's keys itself.
fn forward_signals(
    program: Pid,
    status: &watch::Receiver<Option<ExitStatus>>,
) -> Result<(), Failure> {
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
        let status = status.clone();
        tokio::spawn(async move {
            while caught.recv().await.is_some() && status.borrow().is_none() {
                // The program may have ended.
                let _ = kill(program, which);
            }
        });
    }
    Ok(())
}
