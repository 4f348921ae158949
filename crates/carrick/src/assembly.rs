//! Reassembly of partial deliveries (RFC 9260 section 6.9), up to a limit.

use std::collections::BTreeMap;

use carrick_proto::{Message, MessagePart};

use crate::shared::memory;

/// Messages of which only the beginning has arrived: several with interleaving (RFC 8260), otherwise one.
#[derive(Debug)]
pub(crate) struct Assembly {
    /// Limit of the memory of all messages together, in bytes.
    limit: usize,
    held: usize,
    /// Received parts of messages, with their cost, by the TSN that all parts of a message share. Messages
    /// without room are delivered in parts and are not listed here.
    open: BTreeMap<u32, (Message, usize)>,
}

impl Assembly {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            held: 0,
            open: BTreeMap::new(),
        }
    }

    /// Adds a message or a part of one. Returns the message or part that is delivered now.
    pub(crate) fn take(&mut self, message: Message) -> Option<Message> {
        match message.part {
            MessagePart::Whole => Some(message),
            MessagePart::First => {
                let cost = memory(&message.payload);
                self.hold(message, cost)
            }
            MessagePart::Middle | MessagePart::Last => self.go_on(message),
            MessagePart::Aborted => self.abort(message),
        }
    }

    /// Drops a message that the peer abandoned. The user is notified if it has received the first part.
    fn abort(&mut self, part: Message) -> Option<Message> {
        let Some((_, cost)) = self.open.remove(&part.tsn.value()) else {
            return Some(part);
        };
        self.held -= cost;
        None
    }

    /// Discards all parts after a restart of the peer, which will not complete them.
    pub(crate) fn clear(&mut self) {
        self.held = 0;
        self.open.clear();
    }

    /// Stores the part of a message, or returns it if the limit would be exceeded.
    fn hold(&mut self, message: Message, cost: usize) -> Option<Message> {
        if self.held + cost > self.limit {
            return Some(message);
        }
        self.held += cost;
        self.open.insert(message.tsn.value(), (message, cost));
        None
    }

    fn go_on(&mut self, part: Message) -> Option<Message> {
        let Some((mut message, cost)) = self.open.remove(&part.tsn.value()) else {
            return Some(part);
        };
        self.held -= cost;
        let cost = cost + memory(&part.payload);
        message.payload.append(part.payload);
        if part.part == MessagePart::Last {
            message.part = MessagePart::Whole;
            return Some(message);
        }
        self.hold(message, cost)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use carrick_proto::{
        AssociationConfig, AssociationId, Endpoint, EndpointConfig, Extensions, Payload, Route,
        SendOptions, StreamScheduler, Time,
    };

    use super::*;
    use crate::shared::ReceiveQueue;

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
        let mut assembly = Assembly::new(limit);
        let mut all = Vec::new();
        for _ in 0..2000 {
            exchange(now, &mut ends);
            while let Some(part) = ends[1].receive(b) {
                all.extend(assembly.take(part));
                let open = assembly.open.values();
                let (held, costs) = open.fold((0, 0), |(held, costs), (message, cost)| {
                    (held + message.payload.len(), costs + cost)
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
        let mut assembly = Assembly::new(LIMIT);
        let mut given = assembly.take(part(MessagePart::First));
        let middle = part(MessagePart::Middle);
        while given.is_none() {
            let open = assembly.open.values();
            let pieces: usize = open.map(|(m, _)| m.payload.pieces().count()).sum();
            assert!(pieces >= 6000 && pieces * size_of::<Bytes>() <= LIMIT);
            given = assembly.take(middle.clone());
        }
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
            let mut assembly = Assembly::new(limit);
            assert_eq!(assembly.take(part).is_some(), delivered);
            let last = assembly.take(aborted);
            assert_eq!(
                last.map(|m| m.part),
                delivered.then_some(MessagePart::Aborted)
            );
            assert!(assembly.open.is_empty() && assembly.held == 0);
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
