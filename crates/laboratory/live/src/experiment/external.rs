//! External programs that send and receive the messages of a flow themselves.
//!
//! | end | command line |
//! |---|---|
//! | sender | `PROGRAM send --local A[,B] --peer A[,B] --port P --size BYTES --interval-us N --count N --streams N` |
//! | receiver | `PROGRAM receive --local A[,B] --port P --count N` |
//!
//! The receiver prints a line for each message, `{"n": NUMBER, "t": SECONDS}`, with the time since its first message, and
//! `{"end": "REASON"}` when the association ends. Both end at SIGTERM.

use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use carrick_lab::live::{ExternalFlow, Stack};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::participant::{MAX_WAIT, Participant, ParticipantError, ParticipantResult, RunState};

/// Environment variable with the directory of the programs.
const DIRECTORY: &str = "CARRICK_STACKS";
/// Time that a program has to end after SIGTERM: it may have to stop a guest.
const MAX_END: Duration = Duration::from_secs(20);
/// Lines of a program that wait to be read.
const LINES: usize = 1024;
/// Maximum number of bytes of a line, and of the messages of a program that failed.
const MAX_LINE: u64 = 1 << 12;

/// Line of a receiver.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Message { n: u64, t: f64 },
    End { end: String },
}

pub(crate) async fn run(
    participant: Participant,
    state: &RunState,
) -> Result<ParticipantResult, ParticipantError> {
    let Stack::Program(flow) = participant.stack.clone() else {
        return Err(ParticipantError::Failed("the stack is no program".into()));
    };
    let path = find(flow.program)?;
    let mut external = Vec::new();
    let ended = if participant.number.is_multiple_of(2) {
        send(&participant, state, &path, &flow).await
    } else {
        receive(&participant, state, &path, &flow, &mut external).await
    };
    participant.accept_loss(state, ended)?;
    participant.finish(state).await?;
    Ok(ParticipantResult {
        external,
        ..ParticipantResult::new(participant.program)
    })
}

/// Returns the path of a program.
fn find(name: &str) -> Result<PathBuf, ParticipantError> {
    let directory = std::env::var_os(DIRECTORY).map(PathBuf::from);
    let path = directory.map(|directory| directory.join(name));
    path.filter(|path| path.exists()).ok_or_else(|| {
        ParticipantError::Missing(format!(
            "there is no program {name} in the directory {DIRECTORY}"
        ))
    })
}

/// Program that is running; SIGTERM ends it at the latest when it is dropped.
struct RunningProgram {
    name: &'static str,
    child: Child,
    lines: mpsc::Receiver<String>,
    errors: Option<thread::JoinHandle<String>>,
}

impl RunningProgram {
    /// Starts a program in the namespace of this thread, with which it ends.
    fn start(
        path: &PathBuf,
        flow: &ExternalFlow,
        arguments: Vec<String>,
    ) -> Result<Self, ParticipantError> {
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "--"])
            .arg(path)
            .args(arguments)
            .args(&flow.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (sender, lines) = mpsc::channel(LINES);
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                let mut output = BufReader::new(output);
                let mut line = String::new();
                while output
                    .by_ref()
                    .take(MAX_LINE)
                    .read_line(&mut line)
                    .is_ok_and(|n| n > 0)
                {
                    if sender.blocking_send(std::mem::take(&mut line)).is_err() {
                        return;
                    }
                }
            });
        }
        let errors = child.stderr.take().map(|output| {
            thread::spawn(move || {
                let mut output = BufReader::new(output);
                let mut text = String::new();
                // What is not text, or beyond the limit, is no message.
                let _ = output.by_ref().take(MAX_LINE).read_to_string(&mut text);
                let _ = std::io::copy(&mut output, &mut std::io::sink());
                text.trim().to_owned()
            })
        });
        Ok(Self {
            name: flow.program,
            child,
            lines,
            errors,
        })
    }

    /// Returns an error if the program has ended without success.
    fn check(&mut self) -> Result<(), ParticipantError> {
        match self.child.try_wait()? {
            Some(status) if !status.success() => {
                let errors = self.errors.take().and_then(|thread| thread.join().ok());
                let (name, errors) = (self.name, errors.unwrap_or_default());
                Err(ParticipantError::Failed(format!(
                    "{name}: {status} {errors}"
                )))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        if ended(&mut self.child) {
            return;
        }
        // It may end at the same time.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let latest = Instant::now() + MAX_END;
        while !ended(&mut self.child) {
            if Instant::now() > latest {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
            thread::sleep(MAX_WAIT);
        }
    }
}

fn list(addresses: &[IpAddr]) -> String {
    let all: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    all.join(",")
}

/// Returns the words of a command line.
fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(ToOwned::to_owned).into()
}

/// Runs the sender until the receiver has all messages.
async fn send(
    participant: &Participant,
    state: &RunState,
    path: &PathBuf,
    flow: &ExternalFlow,
) -> Result<(), ParticipantError> {
    participant.wait_for_server(state).await?;
    let numbers = [
        u64::from(flow.port),
        flow.size as u64,
        flow.interval.as_micros() as u64,
        flow.count,
        u64::from(flow.streams),
    ];
    let [port, size, interval, count, streams] = numbers.map(|number| number.to_string());
    let (local, peer) = (list(&participant.addresses), list(&participant.peers));
    let arguments = words([
        "send",
        "--local",
        &local,
        "--peer",
        &peer,
        "--port",
        &port,
        "--size",
        &size,
        "--interval-us",
        &interval,
        "--count",
        &count,
        "--streams",
        &streams,
    ]);
    let mut program = RunningProgram::start(path, flow, arguments)?;
    while !state.are_all_done()? {
        program.check()?;
        tokio::time::sleep(MAX_WAIT).await;
    }
    Ok(())
}

/// Runs the receiver until it has all messages; the run starts with the first one.
async fn receive(
    participant: &Participant,
    state: &RunState,
    path: &PathBuf,
    flow: &ExternalFlow,
    received: &mut Vec<(u64, Duration)>,
) -> Result<(), ParticipantError> {
    let (port, count) = (flow.port.to_string(), flow.count.to_string());
    let local = list(&participant.addresses);
    let arguments = words([
        "receive", "--local", &local, "--port", &port, "--count", &count,
    ]);
    let mut program = RunningProgram::start(path, flow, arguments)?;
    participant.set_listening(state);
    // Time of the first message on the clock of the program.
    let mut first = None;
    loop {
        match tokio::time::timeout(MAX_WAIT, program.lines.recv()).await {
            Err(_) => {
                program.check()?;
                state.are_all_done()?;
                continue;
            }
            Ok(None) => {
                program.check()?;
                return Err(ParticipantError::Lost(format!("{} ended", flow.program)));
            }
            Ok(Some(line)) => match serde_json::from_str(&line) {
                Ok(Line::Message { n, t }) => {
                    if first.is_none() {
                        participant.set_started(state);
                    }
                    let since = t - *first.get_or_insert(t);
                    let since = Duration::try_from_secs_f64(since).unwrap_or_default();
                    received.push((n, since));
                }
                Ok(Line::End { end }) => return Err(ParticipantError::Lost(end)),
                Err(error) => {
                    let name = flow.program;
                    return Err(ParticipantError::Failed(format!(
                        "{name} printed {line:?}: {error}"
                    )));
                }
            },
        }
        if received.len() as u64 >= flow.count {
            participant.set_flow_done(state);
            return Ok(());
        }
    }
}
