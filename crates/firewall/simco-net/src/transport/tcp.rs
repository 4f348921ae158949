//! SIMCO over byte streams such as TCP.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{BoxFuture, Clock, MessageLink, MessageReader, MessageWriter, ReadEnd, StreamMessage};
use carrick_simco::message::StreamReader;

/// Maximum number of octets read at once.
const CHUNK: usize = 32 << 10;

/// Returns the link over a TCP connection.
///
/// # Errors
/// When the connection has ended already.
pub fn link(stream: TcpStream) -> io::Result<MessageLink> {
    // Replies must not wait for acknowledgements of earlier ones.
    stream.set_nodelay(true)?;
    let peer = stream.peer_addr()?;
    let (reader, writer) = stream.into_split();
    Ok(MessageLink {
        address: Some(peer.ip()),
        ..over(reader, writer, false, format!("tcp {peer}"))
    })
}

/// Returns the link over two halves of any byte stream.
pub fn over<R, W>(reader: R, writer: W, secure: bool, peer: String) -> MessageLink
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    MessageLink {
        reader: Box::new(ByteReader {
            stream: reader,
            clock: Clock::start(),
            messages: StreamReader::default(),
            chunk: BytesMut::with_capacity(CHUNK),
        }),
        writer: Box::new(ByteWriter {
            stream: writer,
            buffer: BytesMut::new(),
        }),
        streams: 1,
        secure,
        address: None,
        peer,
    }
}

struct ByteReader<R> {
    stream: R,
    clock: Clock,
    messages: StreamReader,
    /// Received octets not passed to `messages` yet; empty between reads.
    chunk: BytesMut,
}

impl<R: AsyncRead + Send + Unpin> ByteReader<R> {
    /// Splits received octets into messages.
    fn split(&mut self, into: &mut Vec<StreamMessage>) {
        while !self.chunk.is_empty() {
            let taken = self.messages.push(self.clock.now(), &self.chunk);
            let _ = self.chunk.split_to(taken);
            while let Some(message) = self.messages.next_message() {
                into.push(StreamMessage { stream: 0, message });
            }
            if taken == 0 {
                // There is room except when a whole message is buffered, which was just removed.
                break;
            }
        }
        self.chunk.clear();
    }

    async fn read_some(&mut self, into: &mut Vec<StreamMessage>) -> Result<(), ReadEnd> {
        let before = into.len();
        while into.len() == before {
            self.chunk.reserve(CHUNK);
            let deadline = self.messages.deadline();
            let read = tokio::select! {
                biased;
                came = self.stream.read_buf(&mut self.chunk) => came,
                () = self.clock.sleep_until(deadline) => {
                    self.messages.check(self.clock.now())?;
                    continue;
                }
            };
            match read {
                Ok(0) => {
                    self.messages.finish()?;
                    return Err(ReadEnd::Closed);
                }
                Ok(_) => self.split(into),
                Err(error) => return Err(ReadEnd::Broken(error.to_string())),
            }
        }
        Ok(())
    }
}

impl<R: AsyncRead + Send + Unpin> MessageReader for ByteReader<R> {
    fn read<'a>(
        &'a mut self,
        into: &'a mut Vec<StreamMessage>,
    ) -> BoxFuture<'a, Result<(), ReadEnd>> {
        Box::pin(self.read_some(into))
    }
}

struct ByteWriter<W> {
    stream: W,
    buffer: BytesMut,
}

impl<W: AsyncWrite + Send + Unpin> MessageWriter for ByteWriter<W> {
    fn write<'a>(&'a mut self, batch: &'a mut Vec<StreamMessage>) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            self.buffer.clear();
            for message in batch.drain(..) {
                self.buffer.extend_from_slice(&message.message);
            }
            self.stream.write_all(&self.buffer).await?;
            self.stream.flush().await
        })
    }

    fn close(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            // The peer may have closed it first.
            let _ = self.stream.shutdown().await;
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use carrick_simco::message::{FramingError, Lifetime, PolicyRuleId, Request, TransactionId};

    fn message(number: u32) -> bytes::Bytes {
        let request = Request::ChangeLifetime {
            rule: PolicyRuleId(number),
            lifetime: Lifetime(9),
        };
        request.to_bytes(TransactionId(number))
    }

    fn pair() -> (tokio::io::DuplexStream, MessageLink) {
        let (near, far) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(far);
        (near, over(reader, writer, false, "test".into()))
    }

    #[tokio::test]
    async fn messages_are_read_from_any_pieces() {
        let (mut near, mut link) = pair();
        let octets = [message(1), message(2), message(3)].concat();
        let sender = async {
            for octet in &octets {
                near.write_all(&[*octet]).await.unwrap();
                tokio::task::yield_now().await;
            }
            near.write_all(&octets).await.unwrap();
        };
        let mut got = Vec::new();
        let receiver = async {
            while got.len() < 6 {
                link.reader.read(&mut got).await.unwrap();
            }
        };
        tokio::join!(sender, receiver);
        let got: Vec<_> = got.into_iter().map(|p| p.message).collect();
        let sent = [1, 2, 3, 1, 2, 3].map(message);
        assert_eq!(got, sent);
    }

    /// RFC 4540, section 6
    #[tokio::test(start_paused = true)]
    async fn rest_of_a_message_times_out_after_60_s() {
        let (mut near, mut link) = pair();
        near.write_all(&message(1)[..9]).await.unwrap();
        let begun = tokio::time::Instant::now();
        let end = link.reader.read(&mut Vec::new()).await.unwrap_err();
        assert!(
            matches!(end, ReadEnd::Framing(FramingError::Timeout)),
            "{end}"
        );
        assert!(end.is_badly_formed());
        assert_eq!(begun.elapsed().as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_read_loses_no_message() {
        let (mut near, mut link) = pair();
        let mut got = Vec::new();
        for octet in message(7) {
            near.write_all(&[octet]).await.unwrap();
            let wait = Duration::from_millis(1);
            let _ = tokio::time::timeout(wait, link.reader.read(&mut got)).await;
        }
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].message, message(7));
        drop(near);
        let end = link.reader.read(&mut got).await.unwrap_err();
        assert!(matches!(end, ReadEnd::Closed), "{end}");
    }

    #[tokio::test]
    async fn end_within_a_message_is_an_error() {
        let (mut near, mut link) = pair();
        near.write_all(&message(1)[..5]).await.unwrap();
        drop(near);
        let end = link.reader.read(&mut Vec::new()).await.unwrap_err();
        assert!(
            matches!(end, ReadEnd::Framing(FramingError::Truncated)),
            "{end}"
        );
    }
}
