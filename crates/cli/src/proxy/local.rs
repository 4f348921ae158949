//! The side of a proxied connection that is not SCTP: a byte stream with a framing, or datagrams.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket, UnixStream, tcp, unix};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::framing::{FrameDecoder, Framing, FramingError};

/// Number of bytes that are read from a byte stream at once.
const READ: usize = 64 << 10;

/// Time in which a peer may close a byte stream after this side has; what it sends meanwhile is discarded.
const CLOSING: Duration = Duration::from_secs(2);

/// Reason for which a side fails.
#[derive(Debug)]
pub(super) enum LocalError {
    /// The connection failed.
    Io(io::Error),
    /// The peer of the byte stream sent something else than the framing.
    Received(FramingError),
    /// A message from SCTP does not fit the framing.
    Unsendable(FramingError),
}

impl fmt::Display for LocalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the connection failed: {error}"),
            Self::Received(error) => write!(f, "it sent {error}"),
            Self::Unsendable(error) => write!(f, "the SCTP peer sent {error}"),
        }
    }
}

impl From<io::Error> for LocalError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Time of the last message of a connection, in either direction.
#[derive(Clone, Debug)]
pub(super) struct LastMessage(Arc<Mutex<Instant>>);

impl LastMessage {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn set(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn get(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads messages.
#[derive(Debug)]
pub(super) enum LocalReader {
    Tcp(tcp::OwnedReadHalf, FrameDecoder),
    Unix(unix::OwnedReadHalf, FrameDecoder),
    Seqpacket(unix::OwnedReadHalf, Vec<u8>),
    /// Socket that is connected with its peer.
    Udp(Arc<UdpSocket>, Vec<u8>),
    /// Datagrams of one source, until none was exchanged for the time.
    Source(mpsc::Receiver<Bytes>, LastMessage, Duration),
}

/// Writes messages.
#[derive(Debug)]
pub(super) enum LocalWriter {
    Tcp(tcp::OwnedWriteHalf, Framing),
    Unix(unix::OwnedWriteHalf, Framing),
    Seqpacket(unix::OwnedWriteHalf),
    Udp(Arc<UdpSocket>),
    Source(Arc<UdpSocket>, SocketAddr, LastMessage),
}

/// Connection of the side that is not SCTP.
#[derive(Debug)]
pub(super) struct LocalConnection {
    pub(super) reader: LocalReader,
    pub(super) writer: LocalWriter,
    /// The peer, for the log.
    pub(super) name: String,
    /// Standard output was written.
    pub(super) flushed: Option<oneshot::Receiver<()>>,
}

/// Delimitation of messages, and their limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageLimits {
    pub(super) framing: Framing,
    pub(super) max_message: usize,
}

impl MessageLimits {
    fn decoder(self) -> FrameDecoder {
        FrameDecoder::new(self.framing, self.max_message)
    }
}

impl LocalConnection {
    pub(super) fn tcp(stream: TcpStream, name: String, limits: MessageLimits) -> Self {
        // Messages are complete when they are written.
        let _ = stream.set_nodelay(true);
        let (reader, writer) = stream.into_split();
        Self {
            reader: LocalReader::Tcp(reader, limits.decoder()),
            writer: LocalWriter::Tcp(writer, limits.framing),
            name,
            flushed: None,
        }
    }

    pub(super) fn unix(stream: UnixStream, name: String, limits: MessageLimits) -> Self {
        let (reader, writer) = stream.into_split();
        Self {
            reader: LocalReader::Unix(reader, limits.decoder()),
            writer: LocalWriter::Unix(writer, limits.framing),
            name,
            flushed: None,
        }
    }

    pub(super) fn seqpacket(stream: UnixStream, name: String, limits: MessageLimits) -> Self {
        let (reader, writer) = stream.into_split();
        Self {
            reader: LocalReader::Seqpacket(reader, datagram_buffer(limits)),
            writer: LocalWriter::Seqpacket(writer),
            name,
            flushed: None,
        }
    }

    /// Takes a UDP socket that is connected with its peer.
    pub(super) fn udp(socket: UdpSocket, name: String, limits: MessageLimits) -> Self {
        let socket = Arc::new(socket);
        Self {
            reader: LocalReader::Udp(Arc::clone(&socket), datagram_buffer(limits)),
            writer: LocalWriter::Udp(socket),
            name,
            flushed: None,
        }
    }

    /// Connects standard input and output, which threads copy.
    pub(super) fn stdio(limits: MessageLimits) -> io::Result<Self> {
        let (own, copied) = StdUnixStream::pair()?;
        own.set_nonblocking(true)?;
        let (mut input, mut output) = (copied.try_clone()?, copied);
        let (done, flushed) = oneshot::channel();
        thread::Builder::new().name("stdin".into()).spawn(move || {
            // The end of the input and an error of it end the connection.
            let _ = io::copy(&mut io::stdin().lock(), &mut input);
            let _ = input.shutdown(std::net::Shutdown::Write);
        })?;
        thread::Builder::new()
            .name("stdout".into())
            .spawn(move || {
                // A reader that has closed the output ends the connection.
                let _ = io::copy(&mut output, &mut io::stdout());
                let _ = output.shutdown(std::net::Shutdown::Read);
                let _ = done.send(());
            })?;
        let mut connection = Self::unix(UnixStream::from_std(own)?, "stdio".into(), limits);
        connection.flushed = Some(flushed);
        Ok(connection)
    }
}

/// Returns a buffer in which a datagram that exceeds the limit shows.
fn datagram_buffer(limits: MessageLimits) -> Vec<u8> {
    vec![0; limits.max_message.saturating_add(1).min(1 << 20)]
}

impl LocalReader {
    /// Returns the next message; `None` at the end. Not cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, LocalError> {
        match self {
            Self::Tcp(from, decoder) => next_frame(from, decoder).await,
            Self::Unix(from, decoder) => next_frame(from, decoder).await,
            Self::Seqpacket(from, buffer) => match from.read(buffer).await? {
                0 => Ok(None),
                length => datagram(buffer, length).map(Some),
            },
            Self::Udp(socket, buffer) => loop {
                // SCTP has no empty messages.
                match socket.recv(buffer).await? {
                    0 => {}
                    length => return datagram(buffer, length).map(Some),
                }
            },
            Self::Source(queue, last, idle) => loop {
                let until = last.get() + *idle;
                match timeout_at(until, queue.recv()).await {
                    Ok(datagram) => {
                        last.set();
                        return Ok(datagram);
                    }
                    Err(_) if last.get() + *idle <= Instant::now() => return Ok(None),
                    Err(_) => {}
                }
            },
        }
    }

    /// Discards what the peer of a byte stream sends until it closes the stream: unread bytes would reset a TCP connection,
    /// and the peer would lose what was written last.
    pub(super) async fn discard(&mut self) {
        let mut buffer = BytesMut::with_capacity(READ);
        let reading = async {
            loop {
                buffer.clear();
                let read = match self {
                    Self::Tcp(from, _) => from.read_buf(&mut buffer).await,
                    Self::Unix(from, _) => from.read_buf(&mut buffer).await,
                    _ => return,
                };
                if read.unwrap_or(0) == 0 {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(CLOSING, reading).await;
    }
}

fn datagram(buffer: &[u8], length: usize) -> Result<Bytes, LocalError> {
    if length == buffer.len() {
        let limit = buffer.len() - 1;
        let error = FramingError::TooLong { length, limit };
        return Err(LocalError::Received(error));
    }
    Ok(Bytes::copy_from_slice(&buffer[..length]))
}

async fn next_frame(
    from: &mut (impl AsyncReadExt + Unpin),
    decoder: &mut FrameDecoder,
) -> Result<Option<Bytes>, LocalError> {
    loop {
        if let Some(message) = decoder.next_message().map_err(LocalError::Received)? {
            return Ok(Some(message));
        }
        let buffer = decoder.buffer();
        buffer.reserve(READ);
        if from.read_buf(buffer).await? == 0 {
            return decoder.last_message().map_err(LocalError::Received);
        }
    }
}

impl LocalWriter {
    /// Writes a message; waits while the peer does not read.
    pub(super) async fn write(&mut self, message: &[u8], max: usize) -> Result<(), LocalError> {
        if message.len() > max {
            return Err(LocalError::Unsendable(FramingError::TooLong {
                length: message.len(),
                limit: max,
            }));
        }
        match self {
            Self::Tcp(to, framing) => to.write_all(&framed(*framing, message, max)?).await?,
            Self::Unix(to, framing) => to.write_all(&framed(*framing, message, max)?).await?,
            Self::Seqpacket(to) => {
                to.write_all(message).await?;
            }
            Self::Udp(socket) => {
                socket.send(message).await?;
            }
            Self::Source(socket, peer, last) => {
                socket.send_to(message, *peer).await?;
                last.set();
            }
        }
        Ok(())
    }

    /// Ends the byte stream: the peer reads its end behind what was written.
    pub(super) async fn finish(&mut self) -> Result<(), LocalError> {
        match self {
            Self::Tcp(to, _) => to.shutdown().await?,
            Self::Unix(to, _) | Self::Seqpacket(to) => to.shutdown().await?,
            Self::Udp(_) | Self::Source(..) => {}
        }
        Ok(())
    }

    /// Makes TCP send a RST instead of a FIN when the reader is dropped.
    pub(super) fn reset(self) {
        if let Self::Tcp(to, _) = self {
            // If this fails, the peer reads an end.
            let _ = SockRef::from(to.as_ref()).set_linger(Some(Duration::ZERO));
            to.forget();
        }
    }
}

fn framed(framing: Framing, message: &[u8], max: usize) -> Result<BytesMut, LocalError> {
    let mut bytes = BytesMut::with_capacity(message.len() + 4);
    let encoded = framing.encode(message, max, &mut bytes);
    encoded.map_err(LocalError::Unsendable)?;
    Ok(bytes)
}
