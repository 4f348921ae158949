//! `carrick capture`: packets of a daemon's associations as a file for Wireshark.

mod extcap;

use std::io::{self, BufWriter, Write, stdout};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use carrick_daemon::{Capture, CaptureFilter, CapturedPacket, default_socket};
use carrick_netsim::pcapng::PcapngWriter;
use carrick_netsim::{Packet, Time};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::capture_file::{self, cannot_write};
use crate::failure::Failure;
use crate::files::check_socket_path;
use crate::runtime;

/// Time after which packets are in the file at the latest.
const FLUSH: Duration = Duration::from_millis(200);
/// Attempts to continue with the successor of a daemon, and the time between them.
const ATTEMPTS: usize = 20;
const BETWEEN: Duration = Duration::from_millis(100);

/// Capture the packets of a daemon's associations in a pcapng file, until Ctrl-C.
///
/// Each packet has an IP header, and a UDP header if it is encapsulated, with the addresses and ports that it
/// has on the network. Only the daemon's user and the superuser can capture. At the end, the numbers of packets
/// are printed: captured, and missed because the file was written too slowly.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// File to write, `-` for standard output. A new file can be read by its owner alone.
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["fifo", "extcap_interfaces", "extcap_interface"])]
    write: Option<PathBuf>,
    /// Path of the daemon's control socket [default: that of `carrick daemon`].
    #[arg(long, alias = "socket", value_name = "PATH")]
    daemon: Option<PathBuf>,
    /// Capture one association only, by its number (`association` in `carrick ss --json`), on all of its paths.
    #[arg(short, long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(1..))]
    association: Option<i32>,
    /// Capture packets of one SCTP port only, on either side.
    #[arg(short, long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// End after this number of packets.
    #[arg(short, long, value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print the numbers at the end as a JSON object on standard output.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    extcap: extcap::WiresharkArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(text) = extcap::answer(&arguments.extcap) {
        stdout().write_all(text.as_bytes())?;
        return Ok(());
    }
    let fifo = arguments.extcap.fifo.as_deref();
    let Some(path) = arguments.write.as_deref().or(fifo) else {
        return Err(Failure::Usage(
            "no file to write the packets to: give one with --write".into(),
        ));
    };
    let to_output = path == Path::new("-");
    if to_output && arguments.json {
        return Err(Failure::Usage(
            "--json and --write - use standard output both: write to a file".into(),
        ));
    }
    runtime::run(async {
        let daemon = arguments.daemon.clone().unwrap_or_else(default_socket);
        check_socket_path(&daemon)?;
        // An existing file is emptied only by a capture that has begun.
        let packets = start(&daemon, filter(arguments))?;
        let out: Box<dyn Write> = if to_output {
            Box::new(stdout())
        } else {
            Box::new(capture_file::create(path)?)
        };
        capture(arguments, &daemon, packets, (path, BufWriter::new(out))).await
    })
}

/// Numbers at the end.
#[derive(Default)]
struct CaptureCounts {
    packets: u64,
    /// Packets missed before the daemon was replaced.
    missed_before: u64,
    missed: u64,
}

fn filter(arguments: &Arguments) -> CaptureFilter {
    CaptureFilter {
        association: arguments.association,
        port: arguments.port,
    }
}

fn start(daemon: &Path, filter: CaptureFilter) -> Result<Capture, Failure> {
    Capture::start(daemon, filter).map_err(|error| {
        Failure::Run(format!(
            "no capture from the daemon on {}: {error}; start one with carrick daemon",
            daemon.display()
        ))
    })
}

/// Writes packets until a signal, the end of the daemon, or the number of packets that is wanted.
async fn capture(
    arguments: &Arguments,
    daemon: &Path,
    mut packets: Capture,
    (path, out): (&Path, BufWriter<Box<dyn Write>>),
) -> Result<(), Failure> {
    let filter = filter(arguments);
    let failed = |error: io::Error| match error.kind() {
        // Wireshark, or the reader of a pipe, has ended.
        io::ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => cannot_write(path, &error),
    };
    let mut file = PcapngWriter::new(out, &["carrick"]).map_err(failed)?;
    let style = ProgressStyle::with_template("{pos} packets, {elapsed}");
    let progress = ProgressBar::new_spinner();
    progress.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    let mut flush = interval(FLUSH);
    flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut counts = CaptureCounts::default();
    let mut stop = std::pin::pin!(runtime::signal_received());
    while arguments.count.is_none_or(|most| counts.packets < most) {
        tokio::select! {
            biased;
            _ = &mut stop => break,
            _ = flush.tick() => {
                file.flush().map_err(failed)?;
                progress.set_position(counts.packets);
            }
            next = packets.next() => {
                let next = next.map_err(|error| Failure::Run(format!("the daemon: {error}")))?;
                if let Some(packet) = next {
                    counts.packets += 1;
                    counts.missed = packet.missed;
                    let direction = capture_file::direction(packet.is_sent);
                    let time = Time::from_nanos(packet.time);
                    file.write_packet(0, time, direction, &with_headers(&packet)).map_err(failed)?;
                } else if let Some(successor) = successor(daemon, filter).await {
                    counts.missed_before += std::mem::take(&mut counts.missed);
                    packets = successor;
                } else {
                    eprintln!("carrick: the daemon has ended");
                    break;
                }
            }
        }
    }
    file.flush().map_err(failed)?;
    progress.finish_and_clear();
    let (captured, missed) = (counts.packets, counts.missed_before + counts.missed);
    if arguments.json {
        let counts = json!({ "packets": captured, "missed": missed });
        writeln!(stdout(), "{counts}")?;
    } else if missed > 0 || arguments.extcap.fifo.is_none() {
        // Wireshark shows lines on standard error as a failure.
        eprintln!("carrick: {captured} packets captured, {missed} missed");
    }
    Ok(())
}

/// Waits for the successor of a daemon (`carrick daemon --take-over`); `None` if the daemon has ended.
async fn successor(daemon: &Path, filter: CaptureFilter) -> Option<Capture> {
    for _ in 0..ATTEMPTS {
        if let Ok(capture) = Capture::start(daemon, filter) {
            return Some(capture);
        }
        sleep(BETWEEN).await;
    }
    None
}

/// Returns a packet with the headers that it has on the network.
fn with_headers(packet: &CapturedPacket<'_>) -> Packet {
    let address = |own: Option<SocketAddr>, other: Option<SocketAddr>| {
        own.unwrap_or_else(|| {
            let is_v4 = other.is_none_or(|other| other.is_ipv4());
            let any: IpAddr = if is_v4 {
                Ipv4Addr::UNSPECIFIED.into()
            } else {
                Ipv6Addr::UNSPECIFIED.into()
            };
            SocketAddr::new(any, 0)
        })
    };
    let source = address(packet.source, packet.destination);
    let destination = address(packet.destination, packet.source);
    let ends = (source, destination);
    capture_file::with_headers(ends, packet.is_udp, packet.traffic_class, packet.packet)
}
