//! `--exec` and `--sh-exec`: a process for each association, whose output is sent, and whose input is what is received.

use std::ffi::OsStr;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use carrick::AssociationControl;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::arguments::ProcessArguments;
use super::input;
use super::output::MessageWriter;
use super::session::Session;
use crate::endpoint;
use crate::executable;
use crate::failure::Failure;

/// Time for a process to end by itself after the end of its association and of its input.
const END_OF_INPUT: Duration = Duration::from_secs(2);

/// Time for a process to end after SIGTERM; then it gets SIGKILL.
const TERMINATION: Duration = Duration::from_secs(1);

/// Command of the processes.
#[derive(Clone, Debug)]
pub(super) struct ProcessCommand {
    program: String,
    arguments: Vec<String>,
}

/// Tasks that wait for the ends of processes. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Processes(Arc<Mutex<Vec<JoinHandle<()>>>>);

impl Processes {
    fn add(&self, task: JoinHandle<()>) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    /// Waits until all processes have ended; their associations have.
    pub(super) async fn finish(&self) {
        let tasks = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            // The task does not panic.
            let _ = task.await;
        }
    }
}

impl ProcessCommand {
    /// Returns the command of the options; `None` if they have none.
    pub(super) fn of(arguments: &ProcessArguments) -> Option<Self> {
        if let Some(line) = &arguments.sh_exec {
            return Some(Self {
                program: "/bin/sh".into(),
                arguments: vec!["-c".into(), line.clone()],
            });
        }
        let mut words = arguments.exec.as_ref()?.split_whitespace();
        Some(Self {
            program: words.next().unwrap_or_default().into(),
            arguments: words.map(str::to_owned).collect(),
        })
    }

    /// Checks that there is such a program.
    ///
    /// # Errors
    /// Names the program.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let missing = || {
            Failure::Usage(format!(
                "--exec: {:?} is not an executable file, or in no directory of PATH",
                self.program
            ))
        };
        executable::find(OsStr::new(&self.program))
            .map(drop)
            .ok_or_else(missing)
    }

    fn start(&self, peer: &AssociationControl) -> Result<Child, Failure> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env(
                "CARRICK_PEER_ADDRESSES",
                endpoint::list(peer.peer_addresses()),
            )
            .env("CARRICK_PEER_PORT", peer.peer_port().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A signal reaches the commands of a pipeline as well.
            .process_group(0);
        let started = command.spawn();
        started.map_err(|error| Failure::Run(format!("cannot run {:?}: {error}", self.program)))
    }
}

/// Runs a process for an association until both have ended.
pub(super) async fn talk(
    command: &ProcessCommand,
    session: Session,
    processes: &Processes,
) -> Result<(), Failure> {
    let mut child = match command.start(session.sender.control()) {
        Ok(child) => child,
        Err(failure) => {
            session
                .sender
                .abort(b"the program of this side cannot be run");
            return Err(failure);
        }
    };
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Failure::Run("the process has no pipes".into()));
    };
    let (ending, ended) = oneshot::channel();
    processes.add(tokio::spawn(supervise(child, ended)));
    let arguments = &session.arguments;
    let output = MessageWriter::start_task(stdin, arguments.process_format());
    let input = input::start_task(stdout, arguments.input_format(), arguments.options());
    let done = session.talk(Some(input), output).await;
    // Dropped without this if the program ends.
    let _ = ending.send(());
    done
}

/// Waits for the end of a process. After that of its association it has some time to end by itself; a process that outlasts
/// it, or the program, gets SIGTERM.
async fn supervise(child: Child, association_ended: oneshot::Receiver<()>) {
    let watcher = child.id().and_then(watch_group);
    end_process(child, association_ended).await;
    if let Some(mut watcher) = watcher {
        // It may have ended already.
        let _ = watcher.kill().await;
    }
}

/// Starts a shell that ends a process group when this program has ended without doing so itself, as after SIGKILL: then the
/// shell reads the end of its input. Without a shell there is none.
fn watch_group(group: u32) -> Option<Child> {
    const SCRIPT: &str = "read -r _; kill -s TERM -- \"-$1\"; sleep 1; kill -s KILL -- \"-$1\"";
    Command::new("/bin/sh")
        .args(["-c", SCRIPT, "sh", &group.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Signals to the group of this program do not end it.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .ok()
}

async fn end_process(mut child: Child, association_ended: oneshot::Receiver<()>) {
    let patience = async {
        if association_ended.await.is_ok() {
            tokio::time::sleep(END_OF_INPUT).await;
        }
    };
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    tokio::select! {
        _ = child.wait() => return,
        () = patience => {}
    }
    // The process is not reaped, so that its number is not used again.
    let signal = |signal| group.map(|group| killpg(Pid::from_raw(group), signal));
    signal(Signal::SIGTERM);
    if tokio::time::timeout(TERMINATION, child.wait())
        .await
        .is_err()
    {
        signal(Signal::SIGKILL);
        let _ = child.wait().await;
    }
}
