//! Accepting and opening connections of the side that is not SCTP.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use socket2::{SockAddr, Type};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::address::{ProxyAddress, ProxyProtocol};
use super::local::{LastMessage, LocalConnection, LocalReader, LocalWriter, MessageLimits};
use super::log::ProxyLog;
use super::socket_file::{self, SocketFile};
use crate::failure::Failure;

/// Number of datagrams of a source that wait for the association; further ones are lost, as in UDP.
const QUEUED_DATAGRAMS: usize = 64;

/// Time between two lines about discarded datagrams.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Longest datagram of UDP.
const MAX_DATAGRAM: usize = 65_535;

/// Listening side.
#[derive(Debug)]
pub(super) enum LocalListener {
    Tcp(TcpListener),
    Unix(FileListener),
    Seqpacket(FileListener),
    Udp(UdpSources),
}

/// Listening Unix socket, whose file is removed when it is dropped.
#[derive(Debug)]
pub(super) struct FileListener {
    listener: UnixListener,
    _file: SocketFile,
}

impl FileListener {
    fn open(path: &Path, kind: Type) -> Result<Self, Failure> {
        let (listener, file) = socket_file::listen(path, kind)?;
        let listener = UnixListener::from_std(listener);
        Ok(Self {
            listener: listener.map_err(|e| Failure::Run(e.to_string()))?,
            _file: file,
        })
    }
}

/// Sources of datagrams to one UDP socket.
#[derive(Debug)]
pub(super) struct UdpSources {
    socket: Arc<UdpSocket>,
    queues: HashMap<SocketAddr, mpsc::Sender<Bytes>>,
    buffer: Vec<u8>,
    idle: Duration,
    discarded: Discarded,
}

/// Datagrams that were discarded, and have not been reported.
#[derive(Debug)]
struct Discarded {
    log: ProxyLog,
    count: u64,
    reported: Option<Instant>,
    /// Source of the last datagram, and the reason.
    last: Option<(SocketAddr, &'static str)>,
}

impl Discarded {
    /// Counts a datagram. Reports the number, and the reason of the last one, at once or after [`REPORT_INTERVAL`].
    fn add(&mut self, source: SocketAddr, why: &'static str) {
        self.count += 1;
        self.last = Some((source, why));
        if self
            .reported
            .is_none_or(|at| at.elapsed() >= REPORT_INTERVAL)
        {
            self.report();
        }
    }

    /// Reports the datagrams since the last report, if there are any.
    fn report(&mut self) {
        if let Some((source, why)) = self.last.take() {
            self.log.discarded(self.count, source, why);
            self.count = 0;
            self.reported = Some(Instant::now());
        }
    }
}

impl LocalListener {
    /// Opens the listening side. `idle`: time without a datagram after which a source has left.
    ///
    /// # Errors
    /// The address cannot be used.
    pub(super) async fn open(
        address: &ProxyAddress,
        idle: Duration,
        log: ProxyLog,
    ) -> Result<Self, Failure> {
        let failed = |e: io::Error| Failure::Run(format!("cannot listen on {address}: {e}"));
        Ok(match &address.protocol {
            ProxyProtocol::Tcp(host, port) => {
                let listener = TcpListener::bind((host.as_str(), *port)).await;
                Self::Tcp(listener.map_err(failed)?)
            }
            ProxyProtocol::Udp(host, port) => {
                let socket = UdpSocket::bind((host.as_str(), *port)).await;
                Self::Udp(UdpSources {
                    socket: Arc::new(socket.map_err(failed)?),
                    queues: HashMap::new(),
                    buffer: vec![0; MAX_DATAGRAM],
                    idle,
                    discarded: Discarded {
                        log,
                        count: 0,
                        reported: None,
                        last: None,
                    },
                })
            }
            ProxyProtocol::Unix(path) => Self::Unix(FileListener::open(path, Type::STREAM)?),
            ProxyProtocol::UnixSeqpacket(path) => {
                Self::Seqpacket(FileListener::open(path, Type::SEQPACKET)?)
            }
            ProxyProtocol::Sctp(..) | ProxyProtocol::Stdio => {
                return Err(Failure::Usage(format!(
                    "{address} cannot be listened on here"
                )));
            }
        })
    }

    /// Returns whether [`Self::accept`] also receives for connections that exist.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Udp(_))
    }

    /// Ends listening, and reports the datagrams that were discarded last.
    pub(super) fn close(self) {
        if let Self::Udp(mut sources) = self {
            sources.discarded.report();
        }
    }

    /// Returns the address, for the log.
    pub(super) fn address(&self, typed: &ProxyAddress) -> String {
        match self {
            Self::Tcp(listener) => named("tcp", listener.local_addr()),
            Self::Udp(sources) => named("udp", sources.socket.local_addr()),
            Self::Unix(_) | Self::Seqpacket(_) => typed.to_string(),
        }
    }

    /// Waits for a connection. `has_room`: otherwise datagrams of new sources are discarded. Cancel-safe.
    pub(super) async fn accept(
        &mut self,
        limits: MessageLimits,
        has_room: bool,
    ) -> io::Result<LocalConnection> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok(LocalConnection::tcp(stream, format!("tcp {peer}"), limits))
            }
            Self::Unix(own) => {
                let (stream, _) = own.listener.accept().await?;
                let name = process_name("unix", &stream);
                Ok(LocalConnection::unix(stream, name, limits))
            }
            Self::Seqpacket(own) => {
                let (stream, _) = own.listener.accept().await?;
                let name = process_name("unix-seqpacket", &stream);
                Ok(LocalConnection::seqpacket(stream, name, limits))
            }
            Self::Udp(sources) => sources.accept(limits, has_room).await,
        }
    }
}

fn named(protocol: &str, address: io::Result<SocketAddr>) -> String {
    address.map_or_else(
        |_| protocol.to_owned(),
        |address| format!("{protocol} {address}"),
    )
}

/// Names a peer, which has no address, by its process.
fn process_name(protocol: &str, stream: &UnixStream) -> String {
    let process = stream.peer_cred().ok().and_then(|peer| peer.pid());
    process.map_or_else(
        || protocol.to_owned(),
        |id| format!("{protocol} process {id}"),
    )
}

impl UdpSources {
    /// Receives datagrams until there is a new source.
    async fn accept(
        &mut self,
        limits: MessageLimits,
        has_room: bool,
    ) -> io::Result<LocalConnection> {
        loop {
            let (length, source) = match self.socket.recv_from(&mut self.buffer).await {
                // ICMP messages about an earlier source.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                received => received?,
            };
            if length == 0 {
                self.discarded.add(source, "SCTP has no empty messages");
                continue;
            }
            if length > limits.max_message {
                self.discarded.add(source, "longer than --max-message");
                continue;
            }
            let datagram = Bytes::copy_from_slice(&self.buffer[..length]);
            let datagram = match self
                .queues
                .get(&source)
                .map(|q| q.try_send(datagram.clone()))
            {
                Some(Ok(())) => continue,
                Some(Err(TrySendError::Full(_))) => {
                    self.discarded
                        .add(source, "the association takes them too slowly");
                    continue;
                }
                _ => datagram,
            };
            self.queues.retain(|_, queue| !queue.is_closed());
            if has_room {
                return Ok(self.begin(source, datagram));
            }
            self.discarded.add(source, "--max-connections is reached");
        }
    }

    fn begin(&mut self, source: SocketAddr, first: Bytes) -> LocalConnection {
        let (queue, datagrams) = mpsc::channel(QUEUED_DATAGRAMS);
        // An empty queue has room.
        let _ = queue.try_send(first);
        self.queues.insert(source, queue);
        let last = LastMessage::new();
        LocalConnection {
            reader: LocalReader::Source(datagrams, last.clone(), self.idle),
            writer: LocalWriter::Source(Arc::clone(&self.socket), source, last),
            name: format!("udp {source}"),
            flushed: None,
        }
    }
}

/// Opens a connection to the target.
///
/// # Errors
/// The target does not answer.
pub(super) async fn connect(
    address: &ProxyAddress,
    limits: MessageLimits,
    timeout: Duration,
) -> Result<LocalConnection, Failure> {
    let connecting = async {
        match &address.protocol {
            ProxyProtocol::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                let name = named("tcp", stream.peer_addr());
                Ok(LocalConnection::tcp(stream, name, limits))
            }
            ProxyProtocol::Udp(host, port) => {
                let socket = udp_towards(host, *port).await?;
                let name = named("udp", socket.peer_addr());
                Ok(LocalConnection::udp(socket, name, limits))
            }
            ProxyProtocol::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                Ok(LocalConnection::unix(stream, address.to_string(), limits))
            }
            ProxyProtocol::UnixSeqpacket(path) => {
                let stream = seqpacket_to(path)?;
                Ok(LocalConnection::seqpacket(
                    stream,
                    address.to_string(),
                    limits,
                ))
            }
            ProxyProtocol::Stdio => LocalConnection::stdio(limits),
            ProxyProtocol::Sctp(..) => Err(io::ErrorKind::Unsupported.into()),
        }
    };
    let failed =
        |e: &dyn std::fmt::Display| Failure::Run(format!("cannot connect to {address}: {e}"));
    match tokio::time::timeout(timeout, connecting).await {
        Ok(connected) => connected.map_err(|error| failed(&error)),
        Err(_) => Err(failed(&format_args!("it does not answer in {timeout:?}"))),
    }
}

async fn udp_towards(host: &str, port: u16) -> io::Result<UdpSocket> {
    let mut last = io::ErrorKind::NotFound.into();
    for address in tokio::net::lookup_host((host, port)).await? {
        let any = if address.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        };
        let socket = UdpSocket::bind(any).await?;
        match socket.connect(address).await {
            Ok(()) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn seqpacket_to(path: &Path) -> io::Result<UnixStream> {
    let socket = socket_file::socket(Type::SEQPACKET)?;
    socket.set_nonblocking(true)?;
    // Succeeds or fails at once.
    socket.connect(&SockAddr::unix(path)?)?;
    UnixStream::from_std(OwnedFd::from(socket).into())
}
