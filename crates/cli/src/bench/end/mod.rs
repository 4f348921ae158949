//! Measured programs of this executable, with the command line of peer programs (`interop/peers/README.md`).
//!
//! - `tcp`, `udp`: the kernel's TCP, and UDP without a protocol above it
//! - `sctp`: round trips of crate `carrick`; its bulk transfers are those of `carrick perf`
//! - `memory`: the protocol core in memory

pub(super) mod memory;
mod sctp;
mod tcp;
mod udp;

use std::ffi::OsString;
use std::io::{self, Read, Write, stdin, stdout};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use crate::failure::Failure;
use crate::units;
use memory::curves::Curve;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    stack: Stack,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stack {
    /// Recommended parameters.
    Carrick,
    /// Parameters of RFC 9260.
    CarrickRfc9260,
    Tcp,
    Udp,
    /// UDP with segmentation and receive offload.
    UdpOffload,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print the port as JSON, serve one client, and exit.
    Serve {
        /// Address to listen on, for TCP.
        #[arg(default_value_t = Ipv4Addr::LOCALHOST)]
        address: Ipv4Addr,
    },
    /// Send messages for a time; print delivered bytes and seconds.
    Send {
        address: SocketAddr,
        #[arg(value_parser = units::length)]
        size: usize,
        #[arg(value_parser = units::seconds)]
        time: Duration,
        /// Congestion control of TCP.
        #[arg(long)]
        congestion: Option<OsString>,
    },
    /// Measure round trips.
    Ping {
        address: SocketAddr,
        #[arg(value_parser = units::length)]
        size: usize,
        count: u32,
    },
    /// Pass messages between two ends in memory.
    Memory {
        #[arg(value_parser = units::length)]
        size: usize,
        #[arg(value_parser = units::seconds)]
        time: Duration,
    },
    /// Set associations up and abort them, in memory.
    SetUps {
        #[arg(value_parser = units::seconds)]
        time: Duration,
    },
    /// Measure the memory of idle associations.
    Idle { pairs: usize },
    /// Measure a point of a curve in memory.
    Curve {
        #[arg(value_parser = curve)]
        curve: Curve,
        value: usize,
        #[arg(value_parser = units::seconds)]
        time: Duration,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let stack = arguments.stack;
    let done = match (stack, &arguments.verb) {
        (Stack::Tcp, Verb::Serve { address }) => tcp::serve(*address),
        (
            Stack::Tcp,
            Verb::Send {
                address,
                size,
                time,
                congestion,
            },
        ) => tcp::send(*address, *size, *time, congestion.as_ref()),
        (
            Stack::Tcp,
            Verb::Ping {
                address,
                size,
                count,
            },
        ) => tcp::ping(*address, *size, *count),
        (Stack::Udp | Stack::UdpOffload, Verb::Serve { .. }) => {
            udp::serve(stack == Stack::UdpOffload)
        }
        (
            Stack::Udp | Stack::UdpOffload,
            Verb::Send {
                address,
                size,
                time,
                ..
            },
        ) => udp::send(*address, *size, *time, stack == Stack::UdpOffload),
        (
            Stack::Udp,
            Verb::Ping {
                address,
                size,
                count,
            },
        ) => udp::ping(*address, *size, *count),
        (Stack::Carrick, Verb::Serve { .. }) => return sctp::serve(),
        (
            Stack::Carrick,
            Verb::Ping {
                address,
                size,
                count,
            },
        ) => {
            return sctp::ping(*address, *size, *count);
        }
        (Stack::Carrick, Verb::Curve { curve, value, time }) => {
            memory::curve(*curve, *value, *time)
        }
        (Stack::Carrick | Stack::CarrickRfc9260, verb) => {
            let config = memory::config(stack == Stack::Carrick);
            match verb {
                Verb::Memory { size, time } => memory::transfer(&config, *size, *time),
                Verb::SetUps { time } => memory::set_ups(&config, *time),
                Verb::Idle { pairs } => memory::idle(&config, *pairs),
                _ => return Err(unable()),
            }
        }
        _ => return Err(unable()),
    };
    done.map_err(|error| Failure::Run(error.to_string()))
}

fn curve(name: &str) -> Result<Curve, String> {
    Curve::named(name).ok_or_else(|| "no such curve".into())
}

fn unable() -> Failure {
    Failure::Usage("this stack does not have this verb; see interop/peers/README.md".into())
}

/// Prints a line of JSON.
fn print(value: &impl Serialize) -> io::Result<()> {
    let mut out = stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Line of `serve`.
#[derive(Serialize)]
struct Listening {
    port: u16,
}

/// Line of `send`.
#[derive(Serialize)]
struct Delivered {
    bytes: u64,
    seconds: f64,
}

/// Ends the process at the end of its input, which `carrick bench` holds open.
fn end_with_input() {
    std::thread::spawn(|| {
        let mut input = stdin().lock();
        while matches!(input.read(&mut [0; 64]), Ok(1..)) {}
        std::process::exit(1);
    });
}

/// Calls `round_trip` `count` times and a tenth more before, and prints the median and the 99th percentile.
fn measure_round_trips(
    count: u32,
    mut round_trip: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let mut times = Vec::with_capacity(count as usize);
    for n in 0..count + count / 10 {
        let begin = Instant::now();
        round_trip()?;
        if n >= count / 10 {
            times.push(begin.elapsed());
        }
    }
    print_round_trips(times)
}

/// Prints the median and the 99th percentile of round-trip times.
fn print_round_trips(mut times: Vec<Duration>) -> io::Result<()> {
    #[derive(Serialize)]
    struct RoundTrips {
        p50_us: f64,
        p99_us: f64,
    }
    times.sort_unstable();
    let at = |percent: usize| {
        let time = times.get(times.len() * percent / 100).copied();
        time.unwrap_or_default().as_secs_f64() * 1e6
    };
    print(&RoundTrips {
        p50_us: at(50),
        p99_us: at(99),
    })
}
