//! Real-time priorities (`SCHED_FIFO`), set with the program `chrt` of util-linux. A thread with such a
//! priority preempts all ordinary threads.

use std::process::{Command, Stdio};

use nix::unistd::gettid;

/// Priority of threads that measure, below that of the emulator that they measure.
pub(crate) const PROBE: u8 = 10;
/// Priority of the programs that change the hosts' addresses; the emulator does not wait for them.
pub(crate) const ADDRESS_SYNC: u8 = 15;
/// Priority of the thread that forwards packets.
pub(crate) const EMULATOR: u8 = 20;
/// Priority of the threads that detect stalls of the machine.
pub(crate) const STALL_MONITOR: u8 = 30;

/// Gives the calling thread a real-time priority, which its children do not inherit. Returns the reason if
/// it is refused; the thread then keeps its ordinary priority.
pub(crate) fn set_real_time(priority: u8) -> Result<(), String> {
    chrt(&["--reset-on-fork", "--fifo", "--pid"], priority)
}

/// Gives the calling thread, and the threads and programs that it starts later, a real-time priority.
pub(crate) fn set_inherited_real_time(priority: u8) -> Result<(), String> {
    chrt(&["--fifo", "--pid"], priority)
}

fn chrt(options: &[&str], priority: u8) -> Result<(), String> {
    let mut command = Command::new("chrt");
    command
        .args(options)
        .args([priority.to_string(), gettid().to_string()])
        .stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("chrt: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(if message.is_empty() {
        format!("chrt failed: {}", output.status)
    } else {
        message
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_priority_gives_the_reason() {
        let result = std::thread::spawn(|| set_real_time(200)).join().unwrap();
        assert!(
            result.is_err_and(|reason| !reason.is_empty()),
            "the highest priority is 99"
        );
    }
}
