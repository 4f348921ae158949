//! Bytes over one stream of an association, for code that expects a connection: `AsyncRead` and `AsyncWrite`.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use carrick_proto::{CloseReason, Payload, SendOptions, StreamId};
use futures_sink::Sink;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Association, MessageSink, RecvHalf};
use crate::error::{RecvError, SendError};

/// Length of the largest message that a write becomes, in bytes: below it a packet has no room for another
/// message, and above it a message waits for longer than its place in the send queue is worth.
const LARGEST_MESSAGE: usize = 1 << 16;

/// Byte stream over one stream of an association, made by [`Association::into_byte_stream`].
///
/// Each write of at most 64 KiB becomes a message, longer ones several. Reading returns the bytes of the
/// messages, whatever their bounds are, and the end of the stream after a graceful shutdown of the association. Flushing waits until the
/// last bytes are in the send queue, as [`SendHalf::send`](crate::SendHalf::send) does; shutting down ends the association, as
/// [`SendHalf::shutdown`](crate::SendHalf::shutdown) does, which delivers queued messages first and has no half-closed state (RFC 9260,
/// section 9.2): afterwards the peer can write nothing more.
///
/// # Errors
/// - `InvalidData`: a message arrived on another stream.
/// - `ConnectionReset`: the association has ended, not gracefully, or the peer has restarted.
/// - `BrokenPipe`: a write after the shutdown of either side.
/// - `NotConnected`: the endpoint is closed.
/// - `InvalidInput`: the association has no such stream.
pub struct ByteStream {
    messages: RecvHalf,
    sink: MessageSink,
    stream: StreamId,
    /// Bytes of the last message that are not read.
    unread: Payload,
}

impl Association {
    /// Turns the association into a byte stream over one of its streams; `options` are those of all its messages.
    /// For several of them, or messages beside, use the association itself.
    pub fn into_byte_stream(self, options: SendOptions) -> ByteStream {
        let (sender, messages) = self.split();
        ByteStream {
            messages,
            sink: sender.sink(options),
            stream: options.stream,
            unread: Payload::default(),
        }
    }
}

impl ByteStream {
    /// Returns the receiver of notifications, such as failures of paths; `None` after the first call.
    pub fn take_events(&mut self) -> Option<super::Events> {
        self.messages.take_events()
    }

    /// Waits for bytes that are not read; there are none at the end of the stream.
    fn poll_unread(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unread.has_remaining() {
            let received = self.messages.poll_recv(cx);
            if self.messages.has_restarted() {
                return Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::ConnectionReset,
                    "the peer has restarted",
                )));
            }
            let Some(message) = ready!(received).map_err(not_received)? else {
                break;
            };
            if message.stream != self.stream {
                return Poll::Ready(Err(other_stream(message.stream)));
            }
            self.unread = message.payload;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for ByteStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        ready!(this.poll_unread(cx))?;
        while buffer.remaining() > 0 && this.unread.has_remaining() {
            let chunk = this.unread.chunk();
            let len = chunk.len().min(buffer.remaining());
            buffer.put_slice(&chunk[..len]);
            this.unread.advance(len);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ByteStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut sink = Pin::new(&mut self.get_mut().sink);
        ready!(sink.as_mut().poll_ready(cx)).map_err(not_sent)?;
        let message = &bytes[..bytes.len().min(LARGEST_MESSAGE)];
        if !message.is_empty() {
            let message = Bytes::copy_from_slice(message);
            sink.start_send(message).map_err(not_sent)?;
        }
        Poll::Ready(Ok(message.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sink = Pin::new(&mut self.get_mut().sink);
        sink.poll_flush(cx).map_err(not_sent)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sink = Pin::new(&mut self.get_mut().sink);
        sink.poll_close(cx).map_err(not_sent)
    }
}

fn other_stream(stream: StreamId) -> io::Error {
    let what = format!(
        "a message arrived on stream {}, which is another one",
        stream.0
    );
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn not_received(error: RecvError) -> io::Error {
    let kind = match error {
        RecvError::Ended(_) => io::ErrorKind::ConnectionReset,
        RecvError::EndpointClosed => io::ErrorKind::NotConnected,
    };
    io::Error::new(kind, error)
}

fn not_sent(error: SendError) -> io::Error {
    let kind = match error {
        SendError::ShuttingDown | SendError::Ended(CloseReason::Shutdown) => {
            io::ErrorKind::BrokenPipe
        }
        SendError::Ended(_) => io::ErrorKind::ConnectionReset,
        SendError::EndpointClosed => io::ErrorKind::NotConnected,
        SendError::Empty
        | SendError::InvalidStream { .. }
        | SendError::UnknownPath
        | SendError::KeyManagement(_)
        | SendError::TooLarge { .. } => io::ErrorKind::InvalidInput,
    };
    io::Error::new(kind, error)
}

impl fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteStream")
            .field("stream", &self.stream)
            .field("messages", &self.messages)
            .finish_non_exhaustive()
    }
}
