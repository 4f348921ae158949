//! Real-time priorities (`SCHED_FIFO`), by the program `chrt` of util-linux: a thread that has one runs as
//! soon as it wants to, whatever else wants the core.

use std::process::{Command, Stdio};

use nix::unistd::gettid;

/// Of threads that only measure, below the emulator that they measure.
pub(crate) const INSTRUMENT: u8 = 10;
/// Of the programs that change the hosts' addresses, which the emulator doesn't wait for.
pub(crate) const FOLLOWER: u8 = 15;
/// Of the thread that forwards.
pub(crate) const EMULATOR: u8 = 20;
/// Of those that watch whether the machine stands still.
pub(crate) const WATCH: u8 = 30;

/// Gives the calling thread a real-time priority, which threads and programs that it starts don't
/// inherit; otherwise says why it has none and goes on without.
pub(crate) fn real_time(priority: u8) -> Result<(), String> {
    change(&["--reset-on-fork", "--fifo", "--pid"], priority)
}

/// The same with the threads and programs that it starts from then on.
pub(crate) fn real_time_with_children(priority: u8) -> Result<(), String> {
    change(&["--fifo", "--pid"], priority)
}

fn change(how: &[&str], priority: u8) -> Result<(), String> {
    let mut command = Command::new("chrt");
    command
        .args(how)
        .args([priority.to_string(), gettid().to_string()])
        .stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("chrt: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(if said.is_empty() {
        format!("chrt ended with {}", output.status)
    } else {
        said
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_that_is_refused_is_said() {
        let told = std::thread::spawn(|| real_time(200)).join().unwrap();
        assert!(told.is_err_and(|why| !why.is_empty()), "99 is the highest");
    }
}
