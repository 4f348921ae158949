//! Command line and output of the peer programs (README.md), and a driver for stacks without sockets.

mod driver;
mod dtls;
mod interop;
mod stacks;

// Command line, content and output of the tests, shared with Carrick's program for them.
#[path = "../../peer/extension_options.rs"]
#[allow(dead_code)]
mod extension_options;
#[path = "../../peer/messages.rs"]
mod messages;
#[path = "../../peer/options.rs"]
#[allow(dead_code)]
mod options;
#[path = "../../peer/output.rs"]
mod output;
#[path = "../../peer/summary.rs"]
mod summary;

pub use driver::{Config, Stack, run};

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Largest payload of a UDP datagram in a packet of 1500 bytes on IPv4.
pub const MTU: usize = 1472;

/// Size of receive and send buffers.
pub const BUFFER: usize = 4 << 20;

/// Number of bytes that a stack takes for sending before it has to wait.
pub const SEND_LIMIT: usize = 1 << 20;

/// Longest message.
pub const MAX_MESSAGE: usize = 256 << 10;

/// Runs the program of crate `dcsctp`.
pub fn dcsctp() -> ExitCode {
    measure_or_test::<stacks::dcsctp::Dcsctp>("dcsctp")
}

/// Runs the program of crate `rtc-sctp`.
pub fn rtc_sctp() -> ExitCode {
    measure_or_test::<stacks::rtc_sctp::RtcSctp>("rtc-sctp")
}

/// Runs the program of crate `webrtc-sctp`, which is not measured in memory: its timers run on the wall clock.
pub fn webrtc_sctp() -> ExitCode {
    let measure = stacks::webrtc_sctp_bench::run;
    test_or::<stacks::webrtc_sctp::WebrtcSctp>("webrtc-sctp", measure)
}

fn measure_or_test<S: interop::InteropStack>(name: &'static str) -> ExitCode {
    test_or::<S>(name, run::<S>)
}

/// Runs a test of a stack, or else its measurement.
fn test_or<S: interop::InteropStack>(
    name: &'static str,
    measure: impl FnOnce(&str) -> Result<(), Failure>,
) -> ExitCode {
    let verb = std::env::args().nth(1).unwrap_or_default();
    if matches!(verb.as_str(), "listen" | "connect") {
        return interop::run::<S>(name);
    }
    match measure(name) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measurement, or one side of it.
pub enum Verb {
    About,
    Serve,
    Send {
        address: SocketAddr,
        size: usize,
        time: Duration,
    },
    Ping {
        address: SocketAddr,
        size: usize,
        count: usize,
    },
    Memory {
        size: usize,
        time: Duration,
    },
    SetUps {
        time: Duration,
    },
    Idle {
        pairs: usize,
    },
}

/// Parses the command line.
pub fn verb() -> Result<Verb, Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let seconds = |text: &str| -> Result<Duration, Failure> {
        Ok(Duration::try_from_secs_f64(text.parse()?)?)
    };
    Ok(match words[..] {
        ["about"] => Verb::About,
        ["serve"] => Verb::Serve,
        ["send", address, size, time] => Verb::Send {
            address: address.parse()?,
            size: size.parse()?,
            time: seconds(time)?,
        },
        ["ping", address, size, count] => Verb::Ping {
            address: address.parse()?,
            size: size.parse()?,
            count: count.parse()?,
        },
        ["memory", size, time] => Verb::Memory {
            size: size.parse()?,
            time: seconds(time)?,
        },
        ["set-ups", time] => Verb::SetUps {
            time: seconds(time)?,
        },
        ["idle", pairs] => Verb::Idle {
            pairs: pairs.parse()?,
        },
        _ => return Err("arguments: see interop/peers/README.md".into()),
    })
}

/// Prints the crate with its version, and what the program is able to do.
pub fn print_about(name: &str, verbs: &[&str]) {
    let package = format!("name = \"{name}\"\nversion = \"");
    let locked = include_str!("../Cargo.lock").split_once(&package);
    let version = locked
        .and_then(|(_, rest)| rest.split('"').next())
        .unwrap_or("");
    let verbs: Vec<String> = verbs.iter().map(|verb| format!("\"{verb}\"")).collect();
    println!(
        "{{\"about\":\"crate {name} {version}\",\"verbs\":[{}]}}",
        verbs.join(",")
    );
}

pub fn print_port(port: u16) {
    println!("{{\"port\":{port}}}");
}

pub fn print_delivered(bytes: u64, time: Duration) {
    println!("{{\"bytes\":{bytes},\"seconds\":{}}}", time.as_secs_f64());
}

/// Prints the median and the 99th percentile.
pub fn print_round_trips(mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e6;
    println!("{{\"p50_us\":{},\"p99_us\":{}}}", at(50), at(99));
}

/// Ends the process at the end of its input, so that no server is left when `carrick bench` is killed.
pub fn end_with_input() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
}
