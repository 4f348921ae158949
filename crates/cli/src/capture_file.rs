//! Capture files of packets, for Wireshark: option `--capture` of commands with endpoints, and `carrick capture`.

use std::fs::File;
use std::io::{self, BufWriter};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use carrick::{ObservedPacket, PacketObserver};
use carrick_netsim::pcapng::{PacketDirection, PcapngWriter};
use carrick_netsim::{Ecn, Packet, Protocol, Time};

use crate::failure::Failure;

/// Time after which packets are in the file at the latest, if others follow.
const FLUSH: Duration = Duration::from_millis(200);

/// Limit of the packets in a file in bytes.
const LIMIT: usize = 1 << 30;

/// Opens a new capture file, or empties an existing one. Packets contain messages: only the owner may read a new one.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn create(path: &Path) -> Result<File, Failure> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
        .open(path)
        .map_err(|error| cannot_write(path, &error))
}

pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Run(format!("cannot write {}: {error}", path.display()))
}

/// Returns a packet with the headers that it has on the network.
pub(crate) fn with_headers(
    (source, destination): (SocketAddr, SocketAddr),
    is_udp: bool,
    traffic_class: u8,
    bytes: &[u8],
) -> Packet {
    let protocol = if is_udp {
        Protocol::UdpEncapsulated {
            source_port: source.port(),
            destination_port: destination.port(),
        }
    } else {
        Protocol::Sctp
    };
    Packet::new(source.ip(), destination.ip(), protocol, bytes.to_vec())
        .with_ecn(Ecn::from_bits(traffic_class))
        .with_dscp(traffic_class >> 2)
}

/// Direction of a packet, seen from the endpoint.
pub(crate) fn direction(is_sent: bool) -> PacketDirection {
    if is_sent {
        PacketDirection::Outbound
    } else {
        PacketDirection::Inbound
    }
}

/// Value of the option `--capture`. Its clones share the file, which all endpoints of a command write.
#[derive(Clone, Debug)]
pub(crate) struct CaptureOption {
    path: PathBuf,
    file: Arc<OnceLock<Arc<CaptureFile>>>,
}

impl CaptureOption {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: Arc::default(),
        }
    }

    /// Returns the observer that writes the file, which the first call opens.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn observer(&self) -> Result<Arc<dyn PacketObserver>, Failure> {
        if let Some(file) = self.file.get() {
            return Ok(Arc::clone(file) as Arc<dyn PacketObserver>);
        }
        let file = Arc::new(CaptureFile::create(&self.path)?);
        // Endpoints are opened one after the other.
        let file = self.file.get_or_init(|| file);
        Ok(Arc::clone(file) as Arc<dyn PacketObserver>)
    }
}

/// Capture file of the endpoints of a command.
#[derive(Debug)]
struct CaptureFile {
    path: PathBuf,
    state: Mutex<CaptureState>,
}

impl CaptureFile {
    fn create(path: &Path) -> Result<Self, Failure> {
        let out = BufWriter::new(create(path)?);
        let writer = PcapngWriter::new(out, &["carrick"]);
        Ok(Self {
            path: path.to_owned(),
            state: Mutex::new(CaptureState::Open {
                writer: writer.map_err(|error| cannot_write(path, &error))?,
                left: LIMIT,
                flushed: Instant::now(),
            }),
        })
    }
}

#[derive(Debug)]
enum CaptureState {
    Open {
        writer: PcapngWriter<BufWriter<File>>,
        /// Bytes until the limit.
        left: usize,
        flushed: Instant,
    },
    /// The file is full, or could not be written, which was reported.
    Ended,
}

impl PacketObserver for CaptureFile {
    fn packet(&self, packet: &ObservedPacket<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let CaptureState::Open {
            writer,
            left,
            flushed,
        } = &mut *state
        else {
            return;
        };
        let end = match left.checked_sub(packet.bytes.len()) {
            None => format!("{} is full, at 1 GiB of packets", self.path.display()),
            Some(rest) => {
                *left = rest;
                match write(writer, flushed, packet) {
                    Ok(()) => return,
                    Err(error) => format!("cannot write {}: {error}", self.path.display()),
                }
            }
        };
        eprintln!("carrick: the capture has ended: {end}");
        // Dropping the writer writes what waits in its buffer.
        *state = CaptureState::Ended;
    }
}

fn write(
    writer: &mut PcapngWriter<BufWriter<File>>,
    flushed: &mut Instant,
    packet: &ObservedPacket<'_>,
) -> io::Result<()> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let time = Time::from_nanos(since.map_or(0, |time| time.as_nanos() as u64));
    let ends = (packet.source, packet.destination);
    let whole = with_headers(ends, packet.is_udp, packet.traffic_class, packet.bytes);
    writer.write_packet(0, time, direction(packet.is_sent), &whole)?;
    if flushed.elapsed() > FLUSH {
        *flushed = Instant::now();
        writer.flush()?;
    }
    Ok(())
}
