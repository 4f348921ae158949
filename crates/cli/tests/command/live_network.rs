//! `carrick lab up` and `shell`: programs in networks with scheduled changes. They need root.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::live::{networks, wait_for_host};
use crate::support::{Finished, Running, run, start, start_with};

/// Sends an echo request every 100 ms from one address to another for some seconds. Prints `true` with the
/// first reply, and at the end the number of requests, the numbers of the replies, and their times.
const PING: &str = r#"
import json, os, socket, struct, sys, time
source, target, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
def total(data):
    words = sum(struct.unpack(f"!{len(data) // 2}H", data))
    words = (words >> 16) + (words & 0xFFFF)
    return ~(words + (words >> 16)) & 0xFFFF
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
raw.bind((source, 0))
begin, number, answered, times, own = time.monotonic(), 0, [], [], os.getpid() & 0xFFFF
while number < seconds * 10:
    request = struct.pack("!BBHHH", 8, 0, 0, own, number)
    request = struct.pack("!BBHHH", 8, 0, total(request), own, number)
    raw.sendto(request, (target, 0))
    number += 1
    while (left := begin + number / 10 - time.monotonic()) > 0:
        raw.settimeout(left)
        try:
            packet = raw.recv(1000)[20:]
        except TimeoutError:
            break
        kind, _, _, whose, which = struct.unpack("!BBHHH", packet[:8])
        if kind == 0 and whose == own:
            if not answered:
                print("true", flush=True)
            answered.append(which)
            times.append(time.monotonic())
print(json.dumps({"sent": number, "answered": answered, "times": times}))
"#;

/// Returns the last line that the program above printed in a successful `carrick lab shell`.
fn answered(finished: &Finished) -> Value {
    assert_eq!(finished.code, Some(0), "{finished:?}");
    finished.json().pop().unwrap()
}

fn numbers(line: &Value) -> Vec<u64> {
    let numbers = line["answered"].as_array().unwrap().iter();
    numbers.map(|number| number.as_u64().unwrap()).collect()
}

/// Time of the last reply in seconds.
fn last_answer(line: &Value) -> f64 {
    let times = line["times"].as_array().unwrap();
    times.last().unwrap().as_f64().unwrap()
}

fn ping(network: &[&str], addresses: [&str; 2], seconds: &str) -> Running {
    let program = [
        "--",
        "python3",
        "-c",
        PING,
        addresses[0],
        addresses[1],
        seconds,
    ];
    start(&[&["lab", "shell"], network, &program].concat())
}

fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    path
}

/// Returns the number of packets of a capture, which must be complete.
pub(crate) fn captured(path: &Path) -> usize {
    const ENHANCED_PACKET: u32 = 6;
    let bytes = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut packets) = (0, 0);
    while at < bytes.len() {
        let length = word(at + 4) as usize;
        assert_eq!(word(at + length - 4) as usize, length, "{}", path.display());
        packets += usize::from(word(at) == ENHANCED_PACKET);
        at += length;
    }
    packets
}

#[test]
#[ignore = "needs root"]
fn live_programs_lose_the_primary_path_of_lab_up() {
    let capture = directory("live-up");
    let into = capture.to_str().unwrap();
    let mut up = start(&[
        "lab",
        "up",
        "failover",
        "--wait",
        "--json",
        "--capture",
        into,
    ]);
    let hosts = [up.json_line(), up.json_line()].map(|line| line["host"].clone());
    assert_eq!(hosts, ["source", "destination"]);
    let host = ["failover", "source"];
    let mut primary = ping(&host, ["10.1.0.1", "10.1.1.1"], "14");
    let mut other = ping(&host, ["10.2.0.1", "10.2.1.1"], "14");
    for ping in [&mut primary, &mut other] {
        assert_eq!(ping.json_line(), true, "the ping is answered");
    }
    // The path fails 8 s after this line.
    up.feed(b"\n".to_vec());
    let [primary, other] = [primary, other].map(|ping| answered(&ping.finish()));
    let (last, later) = (last_answer(&primary), last_answer(&other));
    assert!(
        last + 2.0 < later,
        "only the primary path has failed: {last}, {later}"
    );
    let [primary, other] = [primary, other].map(|line| numbers(&line));
    assert!(primary.len() > 10, "{primary:?}");
    for direction in ["forward", "backward"] {
        let change: Value = up.json_line();
        let what = change["change"].as_str().unwrap();
        assert!(
            what.contains("loses all") && what.ends_with(direction),
            "{change}"
        );
        assert!(
            (8.0..8.1).contains(&change["after"].as_f64().unwrap()),
            "{change}"
        );
    }
    up.interrupt();
    let ended = up.finish();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(networks("failover"), 0);
    let packets = |interface: &str| captured(&capture.join(format!("{interface}.pcapng")));
    // Requests and replies on the primary path; beyond the failure requests are missing, and one reply may
    // be in flight.
    assert!(packets("source-0") >= 140 + primary.len());
    let beyond = packets("destination-0");
    let through = 2 * primary.len()..=2 * primary.len() + 2;
    assert!(through.contains(&beyond), "{beyond}, {through:?}");
    assert!(packets("source-1") >= 2 * other.len());
}

#[test]
#[ignore = "needs root"]
fn live_shell_starts_a_network_with_a_moving_node() {
    let moved = ping(
        &["mobile-ip", "correspondent"],
        ["10.0.1.1", "10.0.0.7"],
        "24",
    );
    let finished = moved.finish();
    assert!(finished.errors.contains("goes down") && finished.errors.contains("comes up"));
    let answered = numbers(&answered(&finished));
    assert!(
        answered[0] < 30,
        "it was reachable in the first network: {answered:?}"
    );
    // The link to the first one stays down.
    assert!(
        *answered.last().unwrap() >= 225,
        "and in the second: {answered:?}"
    );
    assert_eq!(networks("mobile-ip"), 0);
}

#[test]
#[ignore = "needs root"]
fn live_shell_returns_the_exit_code_of_the_program() {
    let mut up = start(&["lab", "up", "satellite", "--json"]);
    up.json_line();
    let host = wait_for_host("satellite", "sender");
    up.kill();
    assert!(
        host.symlink_metadata().is_ok(),
        "the links of a killed process remain"
    );
    let seven = run(&[
        "lab",
        "shell",
        "satellite",
        "sender",
        "--",
        "sh",
        "-c",
        "exit 7",
    ]);
    assert_eq!(seven.code, Some(7), "{seven:?}");
    let killed = run(&[
        "lab",
        "shell",
        "satellite",
        "sender",
        "--",
        "sh",
        "-c",
        "kill $$",
    ]);
    assert_eq!(killed.code, Some(128 + 15), "{killed:?}");
    let none = run(&[
        "lab",
        "shell",
        "satellite",
        "sender",
        "--",
        "no-such-program",
    ]);
    none.assert_failed(127, "cannot run 'no-such-program': No such file");
    assert!(!none.errors.contains("iproute2"), "{none:?}");
    assert_eq!(networks("satellite"), 0);
    let missing = run(&["lab", "shell", "satellite", "absent", "--", "true"]);
    missing.assert_failed(2, "receiver, sender");
    let cell = run(&[
        "lab",
        "shell",
        "mobile-ip",
        "correspondent",
        "--cell",
        "config9",
        "--",
        "true",
    ]);
    cell.assert_failed(2, "there is no cell 'config9'; there are config1.0, ");
    assert_eq!(networks("mobile-ip.config9"), 0);
}

#[test]
#[ignore = "needs root"]
fn live_shell_joins_a_running_experiment() {
    let out = directory("live-join");
    let arguments = ["reproduce", "--live", "--reps", "1", "failover", "--out"];
    let reproduce = start(&[&arguments[..], &[out.to_str().unwrap()]].concat());
    let network = format!("failover-{}.pmr3.failover.raw.0", reproduce.id());
    wait_for_host(&network, "destination");
    let shell = [
        "lab",
        "shell",
        "failover",
        "destination",
        "--cell",
        "pmr3.failover.raw",
        "--",
    ];
    let devices = run(&[&shell[..], &["cat", "/proc/net/dev"]].concat());
    assert_eq!(devices.code, Some(0), "{devices:?}");
    let devices = String::from_utf8(devices.out).unwrap();
    assert!(
        devices.contains("link0") && devices.contains("link1"),
        "{devices}"
    );
    assert!(Path::new("/run/carrick-lab").join(&network).exists());
    // A program without an end is ended by a signal to its shell.
    let program = ["sh", "-c", "echo true; exec sleep 1000"];
    let mut forever = start(&[&shell[..], &program].concat());
    assert_eq!(forever.json_line(), true, "it runs");
    forever.terminate();
    assert_eq!(forever.finish().code, Some(128 + 15));
    reproduce.interrupt();
    reproduce.finish();
    assert_eq!(networks(&network), 0);
}

/// Runs a program on a pseudo-terminal. For each pair of arguments, waits until the first one is printed
/// and then types the second one; prints the exit code and the content of the screen.
const TERMINAL: &str = r#"
import json, os, pty, select, signal, sys, time
count = int(sys.argv[1])
steps, program = sys.argv[2:2 + 2 * count], sys.argv[2 + 2 * count:]
child, terminal = pty.fork()
if child == 0:
    os.environ["PS1"] = "ready> "
    os.environ.pop("ENV", None)
    # Background jobs of scripts ignore it, and programs inherit that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execv(program[0], program)
screen, at, deadline = "", 0, time.monotonic() + 60
while time.monotonic() < deadline:
    if select.select([terminal], [], [], 0.1)[0]:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            piece = b""
        if not piece:
            break
        screen += piece.decode(errors="replace")
    if steps and (found := screen.find(steps[0], at)) >= 0:
        at = found + len(steps[0])
        time.sleep(0.3)
        os.write(terminal, steps[1].encode())
        steps = steps[2:]
else:
    os.kill(child, signal.SIGKILL)
print(json.dumps({"code": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), "left": steps, "screen": screen}))
"#;

/// Runs `carrick` with the program above; returns its exit code and the screen.
fn on_a_terminal(steps: &[(&str, &str)], arguments: &[&str]) -> (i64, String) {
    let count = steps.len().to_string();
    let typed = steps.iter().flat_map(|(seen, typed)| [*seen, *typed]);
    let script = ["-c", TERMINAL, &count].into_iter().chain(typed);
    let carrick = [env!("CARGO_BIN_EXE_carrick")].into_iter();
    let all: Vec<&str> = script
        .chain(carrick)
        .chain(arguments.iter().copied())
        .collect();
    let finished = start_with("python3", &all).finish();
    let report = &finished.json()[0];
    let screen = report["screen"].as_str().unwrap().to_owned();
    assert!(report["left"].as_array().unwrap().is_empty(), "{screen}");
    (report["code"].as_i64().unwrap(), screen)
}

/// Returns the namespaces of all threads of this host.
pub(crate) fn namespaces() -> BTreeSet<u64> {
    let tasks = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .flat_map(|process| {
            let tasks = fs::read_dir(process.path().join("task"));
            tasks.into_iter().flatten().flatten()
        });
    let of = |task: fs::DirEntry| fs::metadata(task.path().join("ns/net")).ok();
    tasks.filter_map(of).map(|found| found.ino()).collect()
}

const CTRL_C: &str = "\x03";

#[test]
#[ignore = "needs root"]
fn live_ctrl_c_ends_the_program_and_the_network() {
    let sleeping = "echo in-$(stat -Lc %i /proc/self/ns/net); exec sleep 1000";
    let shell = [
        "lab",
        "shell",
        "overhead",
        "sender-0",
        "--cell",
        "counted.100",
    ];
    let shell = [&shell[..], &["--", "sh", "-c", sleeping]].concat();
    let (code, screen) = on_a_terminal(&[("in-4", CTRL_C)], &shell);
    assert_eq!(code, 128 + 2, "{screen}");
    assert_eq!(networks("overhead.counted.100"), 0);
    let inside = screen.split("in-").nth(1).unwrap();
    let inside: String = inside.chars().take_while(char::is_ascii_digit).collect();
    assert!(!namespaces().contains(&inside.parse().unwrap()), "{screen}");
}

#[test]
#[ignore = "needs root"]
fn live_ctrl_c_in_a_shell_keeps_the_network() {
    // The user types into the shell; Ctrl-C ends the program that the shell runs.
    let steps = [
        ("ready> ", "sleep 1000\n"),
        ("sleep 1000", CTRL_C),
        ("ready> ", "ls /run/carrick-lab; exit 5\n"),
    ];
    let shell = [
        "lab",
        "shell",
        "overhead",
        "receiver-0",
        "--cell",
        "best.1000",
        "--",
        "sh",
        "-i",
    ];
    let (code, screen) = on_a_terminal(&steps, &shell);
    assert_eq!(code, 5, "{screen}");
    let listed = screen.rsplit("ready> ").next().unwrap();
    assert!(
        listed.contains("overhead.best.1000"),
        "it existed until the end: {screen}"
    );
    assert_eq!(networks("overhead.best.1000"), 0);
}

#[test]
#[ignore = "needs root"]
fn live_ctrl_c_during_set_up_leaves_no_network() {
    for command in ["shell", "up"] {
        let marker = directory("live-early");
        fs::create_dir_all(&marker).unwrap();
        let ran = marker.join("ran");
        let (cell, program) = (
            ["--cell", "extra250.100"],
            ["--", "touch", ran.to_str().unwrap()],
        );
        let arguments = match command {
            "shell" => [
                &["lab", "shell", "overhead", "sender-0"][..],
                &cell,
                &program,
            ]
            .concat(),
            _ => [&["lab", "up", "overhead"][..], &cell].concat(),
        };
        let early = start(&arguments);
        // The program catches the signal before it builds the network, which takes much longer.
        wait_for_signals(early.id());
        early.interrupt();
        let ended = early.finish();
        let expected = if command == "shell" { 128 + 2 } else { 0 };
        assert_eq!(ended.code, Some(expected), "{command}: {ended:?}");
        assert!(!ran.exists(), "{ended:?}");
        assert_eq!(networks("overhead.extra250.100"), 0);
    }
}

/// Waits until a process blocks or catches SIGINT.
fn wait_for_signals(process: u32) {
    const SIGINT: u64 = 1 << 1;
    let begin = Instant::now();
    loop {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let mask = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
        };
        if (mask("SigBlk:") | mask("SigCgt:")) & SIGINT != 0 {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60));
        thread::yield_now();
    }
}
