//! Measured programs as child processes, with their CPU time.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Take};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use serde_json::Value;

use crate::cpu::CpuTime;

/// Maximum length of a program's output in bytes.
const MAX_OUTPUT: u64 = 1 << 20;
/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// Length of the end of the standard error in bytes that is part of a failure's reason.
const MAX_REASON: usize = 500;

/// Programs that run, so that signals and time limits end them.
#[derive(Default)]
pub(super) struct Processes {
    table: Mutex<ProcessTable>,
}

#[derive(Default)]
struct ProcessTable {
    /// No program may start any more.
    ended: bool,
    /// Programs that have not been waited for, with the time at which each is killed.
    running: Vec<(u32, Instant)>,
}

impl Processes {
    fn table(&self) -> MutexGuard<'_, ProcessTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all programs, and lets none start afterwards. Those that still run after a while are killed by
    /// [`Self::kill_overdue`].
    pub(super) fn end_all(&self) {
        let mut table = self.table();
        table.ended = true;
        for (id, limit) in &mut table.running {
            end(*id, limit);
        }
    }

    /// Kills the programs over their time limit.
    pub(super) fn kill_overdue(&self) {
        let now = Instant::now();
        for (id, _) in self
            .table()
            .running
            .iter()
            .filter(|(_, limit)| *limit <= now)
        {
            signal(*id, Signal::SIGKILL);
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        self.table().ended
    }

    /// Starts a program that is killed after `limit`, in a process group with the programs that it starts. Its standard
    /// input stays open until it is waited for.
    pub(super) fn start(
        &self,
        command: &[OsString],
        limit: Duration,
    ) -> Result<Process<'_>, String> {
        let (program, arguments) = command.split_first().ok_or("no program")?;
        let mut table = self.table();
        if table.ended {
            return Err("interrupted".into());
        }
        let mut child = Command::new(program)
            .args(arguments)
            // Ctrl-C reaches this process alone, which then kills the program.
            .process_group(0)
            // Packets do not pass through a daemon.
            .env("CARRICK_DAEMON", "/nonexistent")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", program.to_string_lossy()))?;
        table.running.push((child.id(), Instant::now() + limit));
        let out = child.stdout.take().ok_or("no output")?;
        let errors = child.stderr.take().ok_or("no standard error")?;
        Ok(Process {
            processes: self,
            child,
            errors: Some(thread::spawn(move || end_of(errors))),
            out: BufReader::new(out.take(MAX_OUTPUT)),
            limit,
        })
    }
}

/// Sends a signal to a process that has not been waited for, and to those that it started.
fn signal(id: u32, signal: Signal) {
    // A process that has ended already needs no signal.
    let _ = killpg(Pid::from_raw(id as i32), signal);
}

/// Ends a process, which has some time for it.
fn end(id: u32, limit: &mut Instant) {
    *limit = (*limit).min(Instant::now() + GRACE);
    signal(id, Signal::SIGTERM);
}

/// Reads everything, and returns the end as one line.
fn end_of(mut errors: impl Read) -> String {
    let (mut end, mut buffer) = (Vec::new(), [0; MAX_REASON]);
    while let Ok(read @ 1..) = errors.read(&mut buffer) {
        end.extend_from_slice(&buffer[..read]);
        end.drain(..end.len().saturating_sub(MAX_REASON));
    }
    let text = String::from_utf8_lossy(&end);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Program that runs; it ends when it is dropped.
pub(super) struct Process<'a> {
    processes: &'a Processes,
    child: Child,
    out: BufReader<Take<ChildStdout>>,
    errors: Option<JoinHandle<String>>,
    limit: Duration,
}

/// Output of a program that has ended.
#[derive(Debug)]
pub(super) struct Finished {
    /// Lines that are JSON objects, in the order in which they were printed.
    pub(super) lines: Vec<Value>,
    /// CPU seconds of the process and those that it waited for, user and system.
    pub(super) cpu_seconds: f64,
}

impl Process<'_> {
    /// Reads the next line of the output as JSON.
    pub(super) fn line(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        let read = self.out.read_line(&mut line);
        match read.map_err(|e| e.to_string())? {
            0 => Err(match self.wait() {
                Ok(_) => "it ended too early".into(),
                Err(reason) => reason,
            }),
            _ => serde_json::from_str(&line).map_err(|_| format!("it printed {line:?}, not JSON")),
        }
    }

    /// Waits for the end.
    pub(super) fn finish(mut self) -> Result<Finished, String> {
        let mut text = String::new();
        self.out
            .read_to_string(&mut text)
            .map_err(|e| format!("its output is no text: {e}"))?;
        let cpu_seconds = self.wait()?;
        let lines = text.lines().map(|line| {
            serde_json::from_str(line).map_err(|_| format!("it printed {line:?}, not JSON"))
        });
        Ok(Finished {
            lines: lines.collect::<Result<_, _>>()?,
            cpu_seconds,
        })
    }

    /// Ends the program, and returns its CPU seconds.
    pub(super) fn stop(mut self) -> Result<f64, String> {
        self.end();
        let (_, cpu, _) = self.reap()?;
        Ok(cpu)
    }

    /// Sends SIGTERM, unless the program was waited for.
    fn end(&self) -> bool {
        let id = self.child.id();
        let mut table = self.processes.table();
        let mut running = table.running.iter_mut();
        let limit = running.find(|(running, _)| *running == id);
        limit.is_some_and(|(_, limit)| {
            end(id, limit);
            true
        })
    }

    /// Waits for the end of a program that does not fail, and returns the CPU seconds.
    fn wait(&mut self) -> Result<f64, String> {
        let errors = self.errors.take();
        match self.reap()? {
            (status, cpu, _) if status.success() => Ok(cpu),
            (_, _, true) => Err(format!("it did not end within {:?}", self.limit)),
            (status, ..) => {
                let errors = errors.and_then(|errors| errors.join().ok());
                let errors = errors.unwrap_or_default();
                Err(format!("it failed ({status}): {errors}"))
            }
        }
    }

    /// Waits for the end. Returns the status, the CPU seconds, and whether the time limit has passed.
    fn reap(&mut self) -> Result<(ExitStatus, f64, bool), String> {
        let id = self.child.id();
        // The process keeps its number until the wait below, so that nothing else is killed in its place.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let pid = rustix::process::Pid::from_child(&self.child);
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
        // Programs that it started and did not wait for.
        signal(id, Signal::SIGKILL);
        let mut table = self.processes.table();
        let before = CpuTime::of_children();
        let status = self.child.wait();
        let cpu = CpuTime::of_children().since(before).total();
        let mut running = table.running.iter();
        let limit = running.find(|(running, _)| *running == id);
        let is_overdue = limit.is_some_and(|(_, limit)| *limit <= Instant::now());
        table.running.retain(|(running, _)| *running != id);
        let status = status.map_err(|error| format!("cannot wait for it: {error}"))?;
        Ok((status, cpu, is_overdue))
    }
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        if self.end() {
            let _ = self.reap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Vec<OsString> {
        ["sh", "-c", script].map(OsString::from).into()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_process_reports_lines_and_failures() {
        let processes = Processes::default();
        let script = shell("echo '{\"port\":7}'; echo '{\"n\":1}'; echo '{\"n\":2}'");
        let mut process = processes.start(&script, LONG).unwrap();
        assert_eq!(process.line().unwrap()["port"], 7);
        let finished = process.finish().unwrap();
        let numbers: Vec<i64> = finished
            .lines
            .iter()
            .filter_map(|l| l["n"].as_i64())
            .collect();
        assert_eq!(numbers, [1, 2]);
        assert!(finished.cpu_seconds >= 0.0);
        let failed = |script: &str| processes.start(&shell(script), LONG).unwrap().finish();
        let reason = failed("echo no peer >&2; exit 3").unwrap_err();
        assert!(
            reason.contains('3') && reason.ends_with("no peer"),
            "{reason}"
        );
        assert!(failed("echo text").unwrap_err().contains("\"text\""));
        assert!(processes.start(&["/nonexistent".into()], LONG).is_err());
        assert!(processes.table().running.is_empty());
    }

    #[test]
    fn processes_end_by_limit_drop_and_signal() {
        let processes = Processes::default();
        let limited = processes.start(&shell("exec sleep 60"), Duration::ZERO);
        let limited = limited.unwrap();
        processes.kill_overdue();
        assert!(limited.finish().unwrap_err().contains("did not end"));
        drop(processes.start(&shell("exec sleep 60"), LONG).unwrap());
        let stopped = processes.start(&shell("exec sleep 60"), LONG).unwrap();
        assert!(stopped.stop().unwrap() >= 0.0);
        assert!(processes.table().running.is_empty());
        let ended = processes.start(&shell("exec sleep 60"), LONG).unwrap();
        processes.end_all();
        assert!(ended.finish().is_err());
        assert!(processes.start(&shell("true"), LONG).is_err());
    }
}
