//! SCTP through crate `carrick`: one message is one user message, stream i belongs to stream i.

use std::io;
use std::time::Duration;

use carrick::{
    Association, AssociationConfig, Endpoint, Message, Part, Ppid, RecvHalf, SendHalf, SendOptions,
    StreamId,
};

use super::{Link, MessageReader, MessageWriter, Packet, Pending, ReadEnd};
use crate::PPID;
use crate::message::MAX_MESSAGE;

/// Messages taken at a time, so that others get their turn.
const BATCH: usize = 256;

/// How long the graceful end of an association may take.
const LINGER: Duration = Duration::from_secs(5);

/// The shortest retransmission timeout: somebody waits for the answer.
const RTO_MIN: Duration = Duration::from_millis(200);

/// The longest one: a way that works again is soon used again.
const RTO_MAX: Duration = Duration::from_secs(10);

/// Parameters of associations with at most so many stream pairs: small messages leave at once, and
/// after the first loss that no acknowledgement reports they take another path, if there is one
/// (potentially failed, RFC 7829).
pub fn association(streams: u16) -> AssociationConfig {
    let modern = AssociationConfig::modern();
    AssociationConfig {
        outbound_streams: streams.max(1),
        max_inbound_streams: streams.max(1),
        nagle: false,
        rto_min: RTO_MIN,
        rto_max: RTO_MAX,
        potentially_failed_max_retrans: Some(0),
        ..modern
    }
}

/// The same for an endpoint: a message of SIMCO is put together whole.
pub fn endpoint(config: carrick::Config, streams: u16) -> carrick::Config {
    carrick::Config {
        assembly_limit: 2 * MAX_MESSAGE,
        receive_queue_messages: 4 * BATCH,
        linger: LINGER,
        association: association(streams),
        ..config
    }
}

/// The link over an association. `endpoint` stays open as long as the link, if the association is
/// its only one.
pub fn link(association: Association, endpoint: Option<Endpoint>) -> Link {
    let pairs = association
        .outbound_streams()
        .min(association.inbound_streams());
    let known = association.peer_addresses();
    // The first is where INIT came from, and our cookie came back from; of the others the peer says
    // that they are its own.
    let address = known.first().copied();
    let addresses: Vec<String> = known.iter().map(ToString::to_string).collect();
    let peer = format!("sctp {}:{}", addresses.join(","), association.peer_port());
    let (send, recv) = association.split();
    Link {
        reader: Box::new(Reader(recv)),
        writer: Box::new(Writer {
            half: send,
            _endpoint: endpoint,
        }),
        streams: pairs.max(1),
        secure: false,
        address,
        peer,
    }
}

struct Reader(RecvHalf);

impl Reader {
    async fn read_some(&mut self, into: &mut Vec<Packet>) -> Result<(), ReadEnd> {
        let broken = |error: carrick::RecvError| ReadEnd::Broken(error.to_string());
        let Some(first) = self.0.recv().await.map_err(broken)? else {
            return Err(ReadEnd::Closed);
        };
        into.push(packet(first)?);
        // An end that is found here is found again by the next read.
        for _ in 1..BATCH {
            let Ok(Some(message)) = self.0.try_recv() else {
                break;
            };
            into.push(packet(message)?);
        }
        Ok(())
    }
}

fn packet(message: Message) -> Result<Packet, ReadEnd> {
    let fits = message.payload.len() <= MAX_MESSAGE && message.part == Part::Whole;
    if !fits || message.ppid != Ppid(PPID) {
        return Err(ReadEnd::Foreign);
    }
    Ok(Packet {
        stream: message.stream.0,
        message: message.payload.into_bytes(),
    })
}

impl MessageReader for Reader {
    fn read<'a>(&'a mut self, into: &'a mut Vec<Packet>) -> Pending<'a, Result<(), ReadEnd>> {
        Box::pin(self.read_some(into))
    }
}

struct Writer {
    half: SendHalf,
    _endpoint: Option<Endpoint>,
}

impl MessageWriter for Writer {
    fn write<'a>(&'a mut self, batch: &'a mut Vec<Packet>) -> Pending<'a, io::Result<()>> {
        Box::pin(async move {
            for packet in batch.drain(..) {
                let options = SendOptions {
                    stream: StreamId(packet.stream),
                    ppid: Ppid(PPID),
                    ..SendOptions::default()
                };
                let sent = self.half.send(packet.message, options).await;
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

    fn close(&mut self) -> Pending<'_, ()> {
        Box::pin(async {
            let ended = tokio::time::timeout(LINGER, self.half.shutdown()).await;
            if ended.is_err() {
                self.half.abort(b"the session is over");
            }
        })
    }
}
