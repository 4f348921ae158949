//! Reassembly of partial deliveries (RFC 9260 section 6.9), up to a limit.

use std::collections::BTreeMap;

use carrick_proto::{Message, MessagePart, Payload};

use crate::unread_memory::SourceMemory;

/// Cost of a part besides its bytes.
const PART_COST: usize = 128;

/// Cost of a message besides its parts.
const MESSAGE_COST: usize = 384;

/// Messages of which only the beginning has arrived: several with interleaving (RFC 8260), otherwise one.
///
/// The parts are copied: a part that the protocol delivers keeps the packets that arrived into the same
/// allocation, and their memory is not counted here.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    held: usize,
    /// Received parts of messages, by the TSN that all parts of a message share. Messages without memory
    /// are delivered in parts and are not listed here.
    open: BTreeMap<u32, Box<OpenMessage>>,
}

#[derive(Debug)]
struct OpenMessage {
    message: Message,
    cost: usize,
}

impl Assembly {
    /// Adds a message or a part of one, within this memory. Returns the message or part that is delivered
    /// now.
    pub(crate) fn take(&mut self, message: Message, memory: &SourceMemory<'_>) -> Option<Message> {
        match message.part {
            MessagePart::Whole => Some(message),
            MessagePart::First => self.begin(message, memory),
            MessagePart::Middle => self.go_on(message, memory),
            MessagePart::Last => Some(self.finish(message, memory)),
            MessagePart::Aborted => self.abort(message, memory),
        }
    }

    /// Discards all parts after a restart of the peer, which will not complete them.
    pub(crate) fn clear(&mut self, memory: &SourceMemory<'_>) {
        memory.give_back(std::mem::take(&mut self.held));
        self.open.clear();
    }

    /// Returns the parts of all messages, which are stored no longer, each as the first part of its message.
    #[cfg(target_os = "linux")]
    pub(crate) fn take_open(&mut self, memory: &SourceMemory<'_>) -> Vec<Message> {
        let open = std::mem::take(&mut self.open).into_values();
        let messages = open.map(|open| open.message).collect();
        self.clear(memory);
        messages
    }

    /// Stores the first part of a message, or returns it if there is no memory.
    fn begin(&mut self, mut message: Message, memory: &SourceMemory<'_>) -> Option<Message> {
        let cost = MESSAGE_COST + part_cost(&message);
        if !memory.take(cost) {
            return Some(message);
        }
        self.held += cost;
        message.payload = copied(&message.payload);
        let tsn = message.tsn.value();
        self.open
            .insert(tsn, Box::new(OpenMessage { message, cost }));
        None
    }

    /// Stores another part. Without memory for it, returns all parts of its message as the first one.
    fn go_on(&mut self, part: Message, memory: &SourceMemory<'_>) -> Option<Message> {
        let Some(open) = self.open.get_mut(&part.tsn.value()) else {
            return Some(part);
        };
        let cost = part_cost(&part);
        if !memory.take(cost) {
            return Some(self.finished(part, memory));
        }
        self.held += cost;
        open.cost += cost;
        open.message.payload.append(copied(&part.payload));
        None
    }

    fn finish(&mut self, part: Message, memory: &SourceMemory<'_>) -> Message {
        let is_open = self.open.contains_key(&part.tsn.value());
        let mut message = self.finished(part, memory);
        if is_open {
            message.part = MessagePart::Whole;
        }
        message
    }

    /// Returns the part behind the stored parts of its message, which are stored no longer.
    fn finished(&mut self, part: Message, memory: &SourceMemory<'_>) -> Message {
        let Some(open) = self.remove(&part, memory) else {
            return part;
        };
        let mut message = open.message;
        message.payload.append(part.payload);
        message
    }

    /// Drops a message that the peer abandoned. The user is notified if it has received the first part.
    fn abort(&mut self, part: Message, memory: &SourceMemory<'_>) -> Option<Message> {
        self.remove(&part, memory).is_none().then_some(part)
    }

    fn remove(&mut self, part: &Message, memory: &SourceMemory<'_>) -> Option<Box<OpenMessage>> {
        let open = self.open.remove(&part.tsn.value())?;
        self.held -= open.cost;
        memory.give_back(open.cost);
        Some(open)
    }
}

/// Returns the memory that a stored part takes.
fn part_cost(part: &Message) -> usize {
    part.payload.len() + PART_COST
}

fn copied(payload: &Payload) -> Payload {
    let mut copy = Vec::with_capacity(payload.len());
    payload
        .pieces()
        .for_each(|piece| copy.extend_from_slice(piece));
    Payload::from(bytes::Bytes::from(copy))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use carrick_proto::{
        AssociationConfig, AssociationId, Endpoint, EndpointConfig, Extensions, Route, SendOptions,
        SourceKey, StreamScheduler, Time,
    };

    use super::*;
    use crate::shared::ReceiveQueue;
    use crate::unread_memory::UnreadMemory;

    /// Calls the function with an assembly that has this memory.
    fn with_memory<R>(bytes: usize, test: impl FnOnce(&mut Assembly, &SourceMemory<'_>) -> R) -> R {
        // A single source gets half of the limit.
        let memory = UnreadMemory::new(2 * bytes);
        let account = memory.of(SourceKey::of([10, 0, 0, 1].into()));
        let mut assembly = Assembly::default();
        let result = test(&mut assembly, &account);
        assembly.clear(&account);
        assert!(account.take(bytes) && !account.take(1), "all was returned");
        result
    }

    /// Endpoints that interleave, with a small receive buffer.
    fn ends() -> [Endpoint; 2] {
        let association = AssociationConfig::rfc9260().with(|c| {
            c.buffers.receive_buffer = 20_000;
            c.streams.scheduler = StreamScheduler::RoundRobin;
            c.extensions = Extensions {
                interleaving: true,
                ..Extensions::default()
            };
        });
        [1, 2].map(|i| {
            let address = [10, 0, 0, i].into();
            let mut config = EndpointConfig::new(5000 + u16::from(i), vec![address], [i; 32]);
            config.association = association.clone();
            Endpoint::new(config).unwrap()
        })
    }

    fn exchange(now: Time, ends: &mut [Endpoint; 2]) -> Option<AssociationId> {
        let mut id = None;
        let mut any = true;
        while std::mem::take(&mut any) {
            for from in 0..2 {
                let mut buf = Vec::new();
                while let Some(transmit) = ends[from].poll_transmit(now, &mut buf) {
                    any = true;
                    let route = Route {
                        local: Some(transmit.route.remote),
                        remote: transmit.route.local.unwrap(),
                        ..transmit.route
                    };
                    let packets = std::mem::take(&mut buf);
                    let size = transmit.segment_size.unwrap_or(packets.len());
                    for packet in packets.chunks(size) {
                        ends[1 - from].handle_datagram(now, &route, packet.to_vec().into());
                    }
                }
            }
        }
        while let Some((known, _)) = ends[1].poll_event() {
            id = Some(known);
        }
        id
    }

    /// Sends four interleaved messages of 40 KB; returns the result of an assembly with this limit: streams,
    /// parts and lengths.
    fn assembled(limit: usize) -> Vec<(u16, MessagePart, usize)> {
        with_memory(limit, |assembly, memory| {
            assembled_in(limit, assembly, memory)
        })
    }

    fn assembled_in(
        limit: usize,
        assembly: &mut Assembly,
        memory: &SourceMemory<'_>,
    ) -> Vec<(u16, MessagePart, usize)> {
        let mut ends = ends();
        let mut now = Time::from_millis(1);
        let config = ends[0].default_config();
        let a = ends[0]
            .connect(now, &[[10, 0, 0, 2].into()], 5002, None, config)
            .unwrap();
        let b = exchange(now, &mut ends).unwrap();
        for stream in 0..4 {
            let options = SendOptions::on_stream(stream);
            let data = vec![stream as u8; 40_000];
            ends[0].send(now, a, options, data.into()).unwrap();
        }
        let mut all = Vec::new();
        for _ in 0..2000 {
            exchange(now, &mut ends);
            while let Some(part) = ends[1].receive(b) {
                all.extend(assembly.take(part, memory));
                let open = assembly.open.values();
                let (held, costs) = open.fold((0, 0), |(held, costs), open| {
                    (held + open.message.payload.len(), costs + open.cost)
                });
                assert!(held < costs || assembly.open.is_empty());
                assert_eq!(costs, assembly.held);
                assert!(costs <= limit);
            }
            now += std::time::Duration::from_millis(10);
            for end in &mut ends {
                end.handle_timeout(now);
            }
        }
        assert!(assembly.open.is_empty() && assembly.held == 0);
        for message in &all {
            let stream = message.stream.0 as u8;
            assert!(message.payload.pieces().flatten().all(|b| *b == stream));
        }
        let parts = all.iter();
        parts
            .map(|m| (m.stream.0, m.part, m.payload.len()))
            .collect()
    }

    #[test]
    fn interleaved_messages_are_reassembled() {
        let mut all = assembled(1 << 20);
        all.sort_unstable_by_key(|m| m.0);
        let whole = |stream| (stream, MessagePart::Whole, 40_000);
        assert_eq!(all, [0, 1, 2, 3].map(whole));
    }

    /// A message as it was received.
    fn received() -> Message {
        let mut ends = ends();
        let now = Time::from_millis(1);
        let config = ends[0].default_config();
        let a = ends[0]
            .connect(now, &[[10, 0, 0, 2].into()], 5002, None, config)
            .unwrap();
        let b = exchange(now, &mut ends).unwrap();
        let options = SendOptions::on_stream(0);
        ends[0].send(now, a, options, vec![0; 1000].into()).unwrap();
        exchange(now, &mut ends);
        ends[1].receive(b).unwrap()
    }

    /// Payload of `count` bytes, each in its own chunk.
    fn fragmented(count: usize) -> Payload {
        let mut payload = Payload::default();
        for _ in 0..count {
            payload.append(Bytes::from_static(b"x").into());
        }
        payload
    }

    #[test]
    fn small_pieces_count_with_their_overhead() {
        const LIMIT: usize = 1 << 20;
        let part = |part| {
            let mut message = received();
            (message.part, message.payload) = (part, fragmented(6000));
            message
        };
        with_memory(LIMIT, |assembly, memory| {
            assert!(assembly.take(part(MessagePart::First), memory).is_none());
            let mut one = part(MessagePart::Middle);
            one.payload = fragmented(1);
            let mut parts = 1;
            let given = loop {
                if let Some(given) = assembly.take(one.clone(), memory) {
                    break given;
                }
                parts += 1;
                assert!(parts * PART_COST <= LIMIT, "{parts} parts");
            };
            // The first part was copied into one piece.
            assert_eq!(given.payload.pieces().count(), parts + 1);
            assert_eq!(given.payload.len(), 6000 + parts);
        });
        let queue = ReceiveQueue::new(100, LIMIT);
        assert!(!queue.has_room() && queue.accept());
        let (mut waiting, whole) = (0, part(MessagePart::Whole));
        while queue.has_room() {
            queue.add(&whole);
            waiting += 6000;
            assert!(waiting * size_of::<Bytes>() <= LIMIT, "{waiting} pieces");
        }
    }

    #[test]
    fn abandonment_is_reported_after_a_first_part_only() {
        for (limit, delivered) in [(1 << 20, false), (100, true)] {
            let mut part = received();
            part.part = MessagePart::First;
            let mut aborted = part.clone();
            aborted.part = MessagePart::Aborted;
            aborted.payload = carrick_proto::Payload::default();
            with_memory(limit, |assembly, memory| {
                assert_eq!(assembly.take(part, memory).is_some(), delivered);
                let last = assembly.take(aborted, memory);
                assert_eq!(
                    last.map(|m| m.part),
                    delivered.then_some(MessagePart::Aborted)
                );
                assert!(assembly.open.is_empty() && assembly.held == 0);
            });
        }
    }

    #[test]
    fn the_limit_is_shared_by_all_messages() {
        let all = assembled(50_000);
        assert!(all.iter().any(|m| m.1 != MessagePart::Whole));
        for stream in 0..4 {
            let of_stream = all.iter().filter(|m| m.0 == stream);
            assert_eq!(of_stream.map(|m| m.2).sum::<usize>(), 40_000);
        }
    }
}
