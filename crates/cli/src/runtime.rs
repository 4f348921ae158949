//! The runtime of a subcommand, and the signals that end it.
//!
//! SIGINT, SIGTERM and SIGHUP have the same effect in every subcommand: its work is dropped or ends early,
//! and peers get an ABORT or a SHUTDOWN.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

#[cfg(all(feature = "lab", target_os = "linux"))]
use nix::sys::signal::SigSet;
use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::failure::Failure;

/// Number of file descriptors that the runtime opens at its start: epoll twice, its waker, and three ends
/// of the socket pair of its signals.
const DESCRIPTORS: usize = 6;

/// First ending signal received.
static ENDED_BY: OnceLock<watch::Receiver<Option<Signal>>> = OnceLock::new();

/// Effect of SIGHUP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HangUp {
    /// Ends the program, unless it is ignored (`nohup`).
    Ends,
    /// The subcommand handles it.
    #[cfg_attr(
        not(any(target_os = "linux", feature = "simco")),
        expect(dead_code, reason = "neither program that reloads is here")
    )]
    Handled,
}

/// Runs a subcommand that each of the three signals ends; [`signal_received`] waits for them.
pub(crate) fn run(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    run_with(HangUp::Ends, work)
}

/// Runs a subcommand on one thread, because an association is driven by one task.
pub(crate) fn run_with(
    hang_up: HangUp,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    run_on(tokio::runtime::Builder::new_current_thread(), hang_up, work)
}

/// Runs a subcommand on this number of threads, as [`run_with`], because the protocol is not its only work, or
/// runs in several tasks.
pub(crate) fn run_on_threads(
    threads: usize,
    hang_up: HangUp,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads);
    run_on(builder, hang_up, work)
}

fn run_on(
    builder: tokio::runtime::Builder,
    hang_up: HangUp,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let runtime = build(builder)?;
    let done = runtime.block_on(async {
        catch_signals(hang_up)?;
        work.await
    });
    // Does not wait for a name that is being resolved.
    runtime.shutdown_background();
    done
}

fn build(mut builder: tokio::runtime::Builder) -> Result<tokio::runtime::Runtime, Failure> {
    let failed = |e: io::Error| {
        Failure::Run(format!(
            "cannot start: {e}: allow more open files (ulimit -n)"
        ))
    };
    // Without free descriptors, the runtime's signal handling panics.
    let pairs = (0..DESCRIPTORS.div_ceil(2)).map(|_| UnixStream::pair());
    drop(pairs.collect::<io::Result<Vec<_>>>().map_err(failed)?);
    builder.enable_all().build().map_err(failed)
}

/// Records the first of the signals from now on.
fn catch_signals(hang_up: HangUp) -> Result<(), Failure> {
    let mut ending = ending_signals();
    ending.retain(|ending| *ending != Signal::SIGHUP || hang_up == HangUp::Ends);
    let (record, ended_by) = watch::channel(None);
    for which in ending {
        let kind = SignalKind::from_raw(which as i32);
        let mut signals =
            signal(kind).map_err(|e| Failure::Run(format!("cannot wait for signals: {e}")))?;
        let record = record.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                record.send_if_modified(|first| {
                    let is_first = first.is_none();
                    first.get_or_insert(which);
                    is_first
                });
            }
        });
    }
    // A process runs one subcommand.
    let _ = ENDED_BY.set(ended_by);
    Ok(())
}

/// Returns the signals that end a program; without SIGHUP if it is ignored (`nohup`).
pub(crate) fn ending_signals() -> Vec<Signal> {
    let mut ending = vec![Signal::SIGINT, Signal::SIGTERM];
    if !is_ignored(Signal::SIGHUP) {
        ending.push(Signal::SIGHUP);
    }
    ending
}

/// Blocks the ending signals in this thread and those that it starts, so that a thread can wait for them.
#[cfg(all(feature = "lab", target_os = "linux"))]
pub(crate) fn block_ending_signals() -> Result<SigSet, Failure> {
    let signals: SigSet = ending_signals().into_iter().collect();
    let blocked = signals.thread_block();
    blocked.map_err(|error| Failure::Run(format!("cannot wait for signals: {error}")))?;
    Ok(signals)
}

/// Returns true if the process ignores a signal; false if the system does not report it (only Linux does).
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (signal as i32 - 1) != 0)
}

/// Waits for the first ending signal; returns at once after it.
pub(crate) async fn signal_received() -> Signal {
    if let Some(mut ended_by) = ENDED_BY.get().cloned()
        && let Ok(first) = ended_by.wait_for(Option::is_some).await
        && let Some(signal) = *first
    {
        return signal;
    }
    std::future::pending().await
}

/// Runs `work` until a signal arrives, which drops it.
pub(crate) async fn until_signal<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        // Work that waits for the signal itself reports what it has.
        biased;
        done = work => done,
        signal = signal_received() => Err(interrupted(signal)),
    }
}

/// Returns the failure of work that a signal ended.
pub(crate) fn interrupted(signal: Signal) -> Failure {
    Failure::Run(format!("interrupted by {signal}"))
}
