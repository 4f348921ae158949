//! SIMCO over SCTP with crate `carrick`: a message is one user message, and stream pairs have equal
//! numbers.

use std::io;
use std::time::Duration;

use carrick::{
    Association, AssociationConfig, Endpoint, Message, MessagePart, Ppid, RecvHalf, SendHalf,
    SendOptions, StreamId,
};

use super::{BoxFuture, MessageLink, MessageReader, MessageWriter, ReadEnd, StreamMessage};
use carrick_simco::PPID;
use carrick_simco::message::MAX_MESSAGE;

/// Maximum number of messages taken at once, for fairness.
const BATCH: usize = 256;

/// Time limit for the graceful end of an association: five times RTO.Max, the duration of T5-shutdown-guard (RFC 9260,
/// section 9.2). Outstanding messages can move to another path meanwhile; a session or connection that waits for
/// less time drops its handle, and the association ends in the background.
const LINGER: Duration = Duration::from_secs(50);

/// Returns association parameters for this number of stream pairs, with which small messages are sent at
/// once. All other parameters are those of `base`.
pub fn association(base: AssociationConfig, streams: u16) -> AssociationConfig {
    base.with(|c| {
        c.streams.outbound_streams = streams.max(1);
        c.streams.max_inbound_streams = streams.max(1);
        c.transmission.nagle = false;
    })
}

/// Applies these parameters to an endpoint, with its other ones as `base`.
pub fn endpoint(config: carrick::Config, streams: u16) -> carrick::Config {
    let association = association(config.association.clone(), streams);
    let mut config = config.linger(LINGER).association(association);
    config.receive_queue_messages = 4 * BATCH;
    config
}

/// Returns the link over an association. `endpoint` is kept open with the link if this is its only
/// association.
pub fn link(association: Association, endpoint: Option<Endpoint>) -> MessageLink {
    let pairs = association
        .control()
        .outbound_streams()
        .min(association.control().inbound_streams());
    let known = association.control().peer_addresses();
    // The source of the INIT, confirmed by the cookie. The other addresses are only claimed by the
    // peer.
    let address = known.first().copied();
    let addresses: Vec<String> = known.iter().map(ToString::to_string).collect();
    let peer = format!(
        "sctp {}:{}",
        addresses.join(","),
        association.control().peer_port()
    );
    let (send, recv) = association.split();
    MessageLink {
        reader: Box::new(SctpReader(recv)),
        writer: Box::new(SctpWriter {
            half: send,
            _endpoint: endpoint,
        }),
        streams: pairs.max(1),
        secure: false,
        address,
        peer,
    }
}

struct SctpReader(RecvHalf);

impl SctpReader {
    async fn read_some(&mut self, into: &mut Vec<StreamMessage>) -> Result<(), ReadEnd> {
        let broken = |error: carrick::RecvError| ReadEnd::Broken(error.to_string());
        let Some(first) = self.0.recv().await.map_err(broken)? else {
            return Err(ReadEnd::Closed);
        };
        into.push(stream_message(first)?);
        // A read error found here recurs at the next read.
        for _ in 1..BATCH {
            let Ok(message) = self.0.try_recv() else {
                break;
            };
            into.push(stream_message(message)?);
        }
        Ok(())
    }
}

fn stream_message(message: Message) -> Result<StreamMessage, ReadEnd> {
    let fits = message.payload.len() <= MAX_MESSAGE && message.part == MessagePart::Whole;
    if !fits || message.ppid != Ppid(PPID) {
        return Err(ReadEnd::NotSimco);
    }
    Ok(StreamMessage {
        stream: message.stream.0,
        message: message.payload.into_bytes(),
    })
}

impl MessageReader for SctpReader {
    fn read<'a>(
        &'a mut self,
        into: &'a mut Vec<StreamMessage>,
    ) -> BoxFuture<'a, Result<(), ReadEnd>> {
        Box::pin(self.read_some(into))
    }
}

struct SctpWriter {
    half: SendHalf,
    _endpoint: Option<Endpoint>,
}

impl MessageWriter for SctpWriter {
    fn write<'a>(&'a mut self, batch: &'a mut Vec<StreamMessage>) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            for message in batch.drain(..) {
                let options = SendOptions {
                    stream: StreamId(message.stream),
                    ppid: Ppid(PPID),
                    ..SendOptions::default()
                };
                let sent = self.half.send(message.message, options).await;
                sent.map_err(|error| io::Error::new(io::ErrorKind::BrokenPipe, error))?;
            }
            Ok(())
        })
    }

    fn lingers(&self) -> bool {
        true
    }

    fn abort(&mut self) {
        self.half.abort(b"too many connections");
    }

    fn close(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let ended = tokio::time::timeout(LINGER, self.half.shutdown()).await;
            if ended.is_err() {
                self.half.abort(b"the session is over");
            }
        })
    }
}
