//! Helpers of the scenarios: two endpoints with the extension, numbered messages, and checks of
//! their order.

use std::collections::BTreeMap;

use carrick_proto::{
    AssociationConfig, AssociationId, Event, Extensions, ReconfigOutcome, StreamDirection, StreamId,
};
use carrick_wire::{
    Chunk, ChunkType, NextTsns, Parameter, ParameterWriter, ReconfigResponse, ReconfigResult,
    ReconfigSerial,
};

use crate::common::*;

pub(crate) const OFFERED: Extensions = Extensions {
    reconfiguration: true,
    ..Extensions::NONE
};

/// Two endpoints that offer the extension, each with one address, connected.
pub(crate) fn connected() -> (World, [AssociationId; 2]) {
    connected_with(|_, _| {})
}

pub(crate) fn connected_with(
    change: impl Fn(usize, &mut AssociationConfig),
) -> (World, [AssociationId; 2]) {
    let configs = [0, 1].map(|end| {
        let mut config = AssociationConfig::rfc9260().with(|c| c.extensions = OFFERED);
        change(end, &mut config);
        config
    });
    let (w, a, b) = World::pair(configs).connected();
    (w, [a, b])
}

pub(crate) fn ids(streams: &[u16]) -> Vec<StreamId> {
    streams.iter().map(|s| StreamId(*s)).collect()
}

pub(crate) fn reset(w: &mut World, end: usize, direction: StreamDirection, streams: &[u16]) {
    let id = w.association(end);
    w.change(end, id)
        .reset_streams(direction, &ids(streams))
        .expect("reset");
}

/// Numbered messages by sender and stream, against which received messages are checked.
#[derive(Default)]
pub(crate) struct Ledger {
    sent: [BTreeMap<u16, u32>; 2],
    received: [BTreeMap<u16, u32>; 2],
    /// SSNs of the received messages, by receiver and stream.
    pub(crate) ssns: [BTreeMap<u16, Vec<u16>>; 2],
}

impl Ledger {
    /// Sends this many messages on a stream.
    pub(crate) fn send(&mut self, w: &mut World, end: usize, stream: u16, count: usize) {
        let id = w.association(end);
        for _ in 0..count {
            let number = self.sent[end].entry(stream).or_default();
            let mut bytes = number.to_be_bytes().to_vec();
            // Some take more than a packet.
            bytes.resize(4 + (*number as usize * 997) % 2500, 7);
            *number += 1;
            w.send(end, id, stream, bytes);
        }
    }

    /// Reads all messages and checks that each arrived once and in order.
    pub(crate) fn receive(&mut self, w: &mut World) {
        for end in [0, 1] {
            let Some(id) = w.ends[end].associations().next() else {
                continue;
            };
            for message in w.receive(end, id) {
                let bytes = message.payload.clone().into_bytes();
                let number = u32::from_be_bytes(bytes[..4].try_into().expect("four bytes"));
                let next = self.received[end].entry(message.stream.0).or_default();
                assert_eq!(number, *next, "end {end}, stream {}", message.stream.0);
                assert_eq!(bytes.len(), 4 + (number as usize * 997) % 2500);
                *next += 1;
                let ssn = message.ssn.expect("ordered").value();
                let ssns = self.ssns[end].entry(message.stream.0).or_default();
                ssns.push(ssn);
            }
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.sent[0] == self.received[1] && self.sent[1] == self.received[0]
    }

    /// Runs until all has arrived.
    pub(crate) fn finish(&mut self, w: &mut World) {
        let done = w.run_until(secs(600), |w| {
            self.receive(w);
            self.is_complete()
        });
        assert!(done, "{:?} of {:?}", self.received, self.sent);
    }
}

/// The outcomes of resets of this direction in these events, with their streams.
pub(crate) fn resets(
    events: &[Event],
    wanted: StreamDirection,
) -> Vec<(Vec<u16>, ReconfigOutcome)> {
    let each = events.iter().filter_map(|e| match e {
        Event::StreamsReset {
            direction,
            streams,
            outcome,
        } if *direction == wanted => Some((streams.iter().map(|s| s.0).collect(), *outcome)),
        _ => None,
    });
    each.collect()
}

/// Streams out and in, and the outcome.
pub(crate) fn changes(events: &[Event]) -> Vec<(u16, u16, ReconfigOutcome)> {
    let each = events.iter().filter_map(|e| match e {
        Event::StreamsChanged {
            outbound_streams,
            inbound_streams,
            outcome,
        } => Some((*outbound_streams, *inbound_streams, *outcome)),
        _ => None,
    });
    each.collect()
}

pub(crate) fn renumberings(events: &[Event]) -> Vec<ReconfigOutcome> {
    let each = events.iter().filter_map(|e| match e {
        Event::AssociationReset { outcome, .. } => Some(*outcome),
        _ => None,
    });
    each.collect()
}

/// Parameters of the RE-CONFIG chunks in a packet, as text.
pub(crate) fn words(seen: &SentPacket) -> Vec<String> {
    let mut words = Vec::new();
    for chunk in seen.chunks() {
        let Chunk::ReConfig(chunk) = chunk else {
            continue;
        };
        let mut all = Vec::new();
        for raw in chunk.parameters() {
            let list = |s: carrick_wire::StreamIds<'_>| s.map(|s| s.0).collect::<Vec<_>>();
            let parameter = Parameter::parse(raw.expect("a complete parameter"));
            all.push(match parameter.expect("a valid parameter") {
                Parameter::OutgoingSsnReset(r) => format!("out {:?}", list(r.streams)),
                Parameter::IncomingSsnReset(r) => format!("in {:?}", list(r.streams)),
                Parameter::SsnTsnReset(_) => "tsn".into(),
                Parameter::ReconfigResponse(r) => format!("response {}", r.result),
                Parameter::AddOutgoingStreams(a) => format!("add out {}", a.count),
                Parameter::AddIncomingStreams(a) => format!("add in {}", a.count),
                other => panic!("{other:?}"),
            });
        }
        words.push(all.join(", "));
    }
    words
}

/// All RE-CONFIG chunks of the log, with their senders.
pub(crate) fn talk(w: &World) -> Vec<(usize, String)> {
    let packets = w.log.iter().filter(|p| p.has(ChunkType::RE_CONFIG));
    packets
        .flat_map(|p| words(p).into_iter().map(|word| (p.from, word)))
        .collect()
}

/// A puppet that has the extension, with the number of its next request.
pub(crate) struct Partner {
    pub(crate) puppet: Puppet,
    pub(crate) id: AssociationId,
    /// First serial number of its requests.
    pub(crate) number: ReconfigSerial,
    /// First serial number of the endpoint's requests.
    pub(crate) theirs: ReconfigSerial,
}

impl Partner {
    pub(crate) fn connect(w: &mut World) -> Self {
        let mut puppet = Puppet::new();
        let answers = puppet.init(w, |p| p.supported_extensions(&[ChunkType::RE_CONFIG]));
        puppet.record_init(&answers[0]);
        let cookie = Puppet::cookie(&answers[0]);
        puppet.send(w, |p| p.cookie_echo(&cookie));
        w.events(0);
        Self {
            number: ReconfigSerial::new(puppet.tsn.value()),
            theirs: ReconfigSerial::new(puppet.peer_tsn.value()),
            id: w.association(0),
            puppet,
        }
    }

    /// Sends RE-CONFIG; returns the RE-CONFIG and ERROR chunks of the answers.
    pub(crate) fn send(
        &self,
        w: &mut World,
        parameters: impl FnOnce(&mut ParameterWriter<'_>),
    ) -> Vec<String> {
        let answers = self.puppet.send(w, |p| p.re_config(parameters));
        answers.iter().flat_map(words).collect()
    }

    pub(crate) fn answer(
        &self,
        w: &mut World,
        number: ReconfigSerial,
        result: ReconfigResult,
        next_tsns: Option<NextTsns>,
    ) -> Vec<String> {
        self.send(w, |p| {
            p.reconfig_response(ReconfigResponse {
                response: number,
                result,
                next_tsns,
            });
        })
    }

    /// RE-CONFIG chunks sent to the puppet since the last call.
    pub(crate) fn receive(&self, w: &mut World) -> Vec<String> {
        self.puppet.receive(w).iter().flat_map(words).collect()
    }
}

/// An endpoint and a puppet that both offer the extension.
pub(crate) fn with_partner(change: impl Fn(&mut AssociationConfig)) -> (World, Partner) {
    let mut w = World::single(|config| {
        config.extensions = OFFERED;
        config.paths.heartbeat = false;
        change(config);
    });
    let partner = Partner::connect(&mut w);
    (w, partner)
}
