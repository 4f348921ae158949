//! Runs the programs of `examples/`. In a separate binary: cargo builds the examples only when it builds all
//! tests.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

fn program(name: &str) -> Command {
    // Test binaries are in `deps` of the directory that contains `examples`.
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    Command::new(path.join("examples").join(name))
}

fn output(name: &str, arguments: &[&str]) -> String {
    let done = program(name).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{name}: {errors}");
    String::from_utf8(done.stdout).unwrap()
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn echo() {
    let mut server = program("echo_server");
    let server = server.arg("0").stdout(Stdio::piped()).spawn().unwrap();
    let mut server = Server(server);
    let mut line = String::new();
    let mut lines = BufReader::new(server.0.stdout.take().unwrap());
    lines.read_line(&mut line).unwrap();
    let udp_port: String = line.chars().filter(char::is_ascii_digit).collect();
    let replies = output("echo_client", &[&udp_port]);
    for stream in 0..3 {
        let reply = format!("stream {stream}: hello on stream {stream}\n");
        assert!(replies.contains(&reply), "{replies}");
    }
}

#[test]
fn multi_homing() {
    let printed = output("multi_homing", &[]);
    assert!(
        printed.contains("received 200 of 200 messages"),
        "{printed}"
    );
}

#[test]
fn partial_reliability() {
    let printed = output("partial_reliability", &[]);
    let received = printed
        .split(' ')
        .nth(1)
        .and_then(|n| n.parse::<u32>().ok());
    assert!(received.is_some_and(|samples| samples < 100), "{printed}");
}

#[test]
fn events() {
    let printed = output("events", &[]);
    assert!(printed.contains("received 5 bytes"), "{printed}");
    assert!(printed.contains("PeerShutdown"), "{printed}");
    assert!(printed.contains("Closed(Shutdown)"), "{printed}");
}

#[cfg(target_os = "linux")]
#[test]
fn restart() {
    let printed = output("restart", &[]);
    assert_eq!(printed.matches(", restarting").count(), 4, "{printed}");
    let all = "5000 messages, sum 12497500\n";
    assert!(
        printed.contains(&format!("client: sent {all}")),
        "{printed}"
    );
    assert!(printed.ends_with(&format!("received {all}")), "{printed}");
}

#[cfg(feature = "dtls")]
#[test]
fn dtls() {
    let printed = output("dtls", &[]);
    assert!(printed.contains("received 6 bytes"), "{printed}");
}
