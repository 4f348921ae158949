//! Runs the program with a time limit.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Far longer than any test takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Running program; killed if a test fails before it ends.
pub(crate) struct Running {
    child: Child,
    out: Option<BufReader<ChildStdout>>,
    errors: Option<BufReader<ChildStderr>>,
    reading: Option<JoinHandle<Vec<u8>>>,
}

/// Exit code and output of a program.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) errors: String,
}

/// Starts the program.
pub(crate) fn start(arguments: &[&str]) -> Running {
    start_with(env!("CARGO_BIN_EXE_carrick"), arguments)
}

/// Starts another program, which starts this one.
pub(crate) fn start_with(program: &str, arguments: &[&str]) -> Running {
    start_in(Stdio::piped(), &[], program, arguments)
}

/// Starts a program with this input and these environment variables.
pub(crate) fn start_in(
    input: Stdio,
    variables: &[(&str, &str)],
    program: &str,
    arguments: &[&str],
) -> Running {
    // The tests may run with these signals ignored, as under `nohup` and in background jobs of scripts.
    let mut child = Command::new("env")
        .args(["--default-signal=HUP,INT", program])
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let out = child.stdout.take().map(BufReader::new);
    let errors = child.stderr.take().map(BufReader::new);
    Running {
        child,
        out,
        errors,
        reading: None,
    }
}

/// Runs the program to its end, without input.
pub(crate) fn run(arguments: &[&str]) -> Finished {
    let mut running = start(arguments);
    running.close_input();
    running.finish()
}

impl Running {
    pub(crate) fn close_input(&mut self) {
        self.child.stdin = None;
    }

    /// Reads the output up to a line with these words.
    #[cfg(target_os = "linux")]
    pub(crate) fn wait_for_output(&mut self, words: &str) {
        loop {
            let line = next_line(self.out.as_mut().unwrap());
            assert!(!line.is_empty(), "the output ended before {words:?}");
            if line.contains(words) {
                return;
            }
        }
    }

    /// Returns whether the program has ended.
    #[cfg(target_os = "linux")]
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Returns the input, which the caller closes.
    #[cfg(target_os = "linux")]
    pub(crate) fn input(&mut self) -> std::process::ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// Writes the input from another thread, and closes it.
    pub(crate) fn feed(&mut self, input: Vec<u8>) {
        let mut stdin = self.child.stdin.take().unwrap();
        // If the program ends before it has read all input, its output shows that.
        thread::spawn(move || drop(stdin.write_all(&input)));
    }

    /// Reads the next line of the output as JSON.
    pub(crate) fn json_line(&mut self) -> Value {
        let line = next_line(self.out.as_mut().unwrap());
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"))
    }

    /// Reads the next line of the error output.
    pub(crate) fn error_line(&mut self) -> String {
        next_line(self.errors.as_mut().unwrap())
    }

    /// Reads the error output up to a line with these words, and returns the line.
    #[cfg(target_os = "linux")]
    pub(crate) fn error_line_with(&mut self, words: &str) -> String {
        loop {
            let line = self.error_line();
            assert!(!line.is_empty(), "the output ended before {words}");
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Stops reading the output.
    #[cfg(target_os = "linux")]
    pub(crate) fn close_output(&mut self) {
        self.out = None;
    }

    /// Reads the rest of the output from now on; without this call, from [`Self::finish`] on.
    pub(crate) fn read_on(&mut self) {
        let out = self.out.take();
        self.reading = self.reading.take().or_else(|| out.map(read_all));
    }

    /// Sends a signal to the program.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(id, signal).unwrap();
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        self.signal(Signal::SIGINT);
    }

    /// Sends SIGTERM, as an operator does.
    #[cfg(target_os = "linux")]
    pub(crate) fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Sends SIGHUP, as a closing terminal does, and an operator after a change of the configuration.
    pub(crate) fn hang_up(&self) {
        self.signal(Signal::SIGHUP);
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the program, and waits for its end.
    #[cfg(target_os = "linux")]
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end without reading the output.
    pub(crate) fn finish_unread(mut self) -> Finished {
        let out = self.out.take();
        let errors = read_all(self.errors.take().unwrap());
        let status = self.wait();
        drop(out);
        Finished {
            code: status.code(),
            out: Vec::new(),
            errors: String::from_utf8(errors.join().unwrap()).unwrap(),
        }
    }

    /// Waits for the end.
    pub(crate) fn finish(mut self) -> Finished {
        self.read_on();
        let out = self.reading.take();
        let errors = read_all(self.errors.take().unwrap());
        let status = self.wait();
        Finished {
            code: status.code(),
            out: out.map(|out| out.join().unwrap()).unwrap_or_default(),
            errors: String::from_utf8(errors.join().unwrap()).unwrap(),
        }
    }

    fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the program does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Reads the next line; an empty one at the end. A test that waits for a line that never comes fails, and does not wait for
/// ever.
fn next_line(from: &mut BufReader<impl Read + AsFd>) -> String {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        if from.buffer().is_empty() {
            let mut waiting = [PollFd::new(from.get_ref().as_fd(), PollFlags::POLLIN)];
            let limit = PollTimeout::try_from(PATIENCE).unwrap();
            let ready = poll(&mut waiting, limit);
            assert_ne!(ready, Ok(0), "no further line in {PATIENCE:?}");
        }
        let bytes = from.fill_buf().unwrap();
        if bytes.is_empty() {
            break;
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(bytes.len(), |end| end + 1);
        line.extend_from_slice(&bytes[..count]);
        from.consume(count);
    }
    String::from_utf8(line).unwrap()
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        // The program has ended already unless a test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Finished {
    /// Returns the output as JSON lines.
    pub(crate) fn json(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.out).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line:?}: {e}")))
            .collect()
    }

    /// Asserts that the program failed with this code and one line of error that contains `words`, beside the
    /// lines of `-v`.
    pub(crate) fn assert_failed(&self, code: i32, words: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.errors.contains(words), "{self:?}");
        let lines: Vec<&str> = self
            .errors
            .lines()
            .filter(|line| !line.contains("waiting for") && !line.starts_with("carrick: ended: "))
            .collect();
        assert_eq!(lines.len(), 1, "{self:?}");
        assert!(lines[0].starts_with("carrick: "), "{self:?}");
    }
}

/// Returns a free UDP port.
pub(crate) fn free_udp_port() -> String {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port().to_string()
}
