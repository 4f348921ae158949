//! Two endpoints in virtual time.

use alloc::vec;
use core::time::Duration;

use carrick_wire::StreamId;

use super::*;
use crate::route::Route;

/// Two endpoints and the packets between them.
pub(super) struct Pair {
    pub(super) now: Time,
    pub(super) ends: [Endpoint; 2],
    latency: Duration,
    /// Packets on their way: when they arrive, to which end, their route and bytes.
    wire: VecDeque<(Time, usize, Route, Bytes)>,
}

const ADDRESSES: [&str; 2] = ["10.0.0.1", "10.0.0.2"];

impl Pair {
    fn new() -> Self {
        Self::with(|_| {})
    }

    /// With another configuration on both sides.
    pub(super) fn with(change: fn(&mut EndpointConfig)) -> Self {
        Self {
            now: Time::ZERO,
            ends: [0, 1].map(|i| Self::end(i, i as u8 + 1, change)),
            latency: Duration::from_millis(10),
            wire: VecDeque::new(),
        }
    }

    fn end(i: usize, seed: u8, change: fn(&mut EndpointConfig)) -> Endpoint {
        let address = ADDRESSES[i].parse().unwrap();
        let mut config = EndpointConfig::new(5000 + i as u16, vec![address], [seed; 32]);
        change(&mut config);
        Endpoint::new(config).unwrap()
    }

    /// Replaces an endpoint by a new one, as after a restart.
    pub(super) fn forget(&mut self, i: usize, change: fn(&mut EndpointConfig)) {
        self.ends[i] = Self::end(i, i as u8 + 77, change);
    }

    fn pump(&mut self) {
        for i in 0..2 {
            let mut buf = Vec::new();
            while let Some(transmit) = self.ends[i].poll_transmit(self.now, &mut buf) {
                let all = Bytes::from(core::mem::take(&mut buf));
                let size = transmit.segment_size.unwrap_or(all.len());
                for chunk in all.chunks(size) {
                    let route = Route {
                        local: Some(transmit.route.remote),
                        remote: transmit.route.local.unwrap(),
                        ..transmit.route
                    };
                    self.wire.push_back((
                        self.now + self.latency,
                        1 - i,
                        route,
                        all.slice_ref(chunk),
                    ));
                }
            }
        }
    }

    /// Runs until nothing happens any more before `until`.
    pub(super) fn run(&mut self, until: Time) {
        loop {
            self.pump();
            let arrival = self.wire.front().map(|p| p.0);
            let timer = self.ends.iter().filter_map(Endpoint::poll_timeout).min();
            let Some(next) = crate::time::earliest(arrival, timer).filter(|t| *t <= until) else {
                break;
            };
            self.now = self.now.max(next);
            while self.wire.front().is_some_and(|p| p.0 <= self.now) {
                let (_, to, route, bytes) = self.wire.pop_front().unwrap();
                self.ends[to].handle_datagram(self.now, &route, bytes);
            }
            self.ends
                .iter_mut()
                .for_each(|e| e.handle_timeout(self.now));
        }
        self.now = self.now.max(until);
    }

    pub(super) fn connect(&mut self) -> (AssociationId, AssociationId) {
        let config = Arc::clone(&self.ends[0].accepted);
        let peers = [ADDRESSES[1].parse().unwrap()];
        let a = self.ends[0].connect(self.now, &peers, 5001, None, config);
        let a = a.unwrap();
        self.run(self.now + Duration::from_secs(1));
        let b = self.ends[1].associations().next().unwrap();
        (a, b)
    }

    fn events(&mut self, end: usize) -> Vec<Event> {
        core::iter::from_fn(|| self.ends[end].poll_event())
            .map(|e| e.1)
            .collect()
    }
}

#[test]
fn messages_are_delivered_before_shutdown() {
    let mut pair = Pair::new();
    let (a, b) = pair.connect();
    assert!(matches!(
        pair.events(0)[0],
        Event::Established {
            accepted: false,
            ..
        }
    ));
    assert!(matches!(
        pair.events(1)[0],
        Event::Established { accepted: true, .. }
    ));
    for size in [1_usize, 1000, 5000, 100_000] {
        pair.ends[0]
            .send(pair.now, a, SendOptions::on_stream(1), vec![7; size].into())
            .unwrap();
    }
    pair.run(pair.now + Duration::from_secs(5));
    assert!(pair.events(1).contains(&Event::MessageReceived));
    for size in [1_usize, 1000, 5000, 100_000] {
        let message = pair.ends[1].receive(b).unwrap();
        assert_eq!((message.payload.len(), message.stream), (size, StreamId(1)));
    }
    assert_eq!(pair.ends[1].receive(b), None);
    let stats = pair.ends[0].association(a).unwrap().stats();
    assert_eq!(stats.counters.retransmissions, 0);
    pair.ends[0].shutdown(pair.now, a).unwrap();
    pair.run(pair.now + Duration::from_secs(5));
    assert!(
        pair.events(0)
            .contains(&Event::Closed(CloseReason::Shutdown))
    );
    assert!(
        pair.events(1)
            .contains(&Event::Closed(CloseReason::Shutdown))
    );
    assert_eq!(
        pair.ends[0].associations().count() + pair.ends[1].associations().count(),
        0
    );
}

#[test]
fn unread_messages_survive_the_association() {
    let mut pair = Pair::new();
    let (a, b) = pair.connect();
    pair.ends[0]
        .send(pair.now, a, SendOptions::default(), vec![7; 100].into())
        .unwrap();
    pair.run(pair.now + Duration::from_secs(1));
    pair.ends[0].shutdown(pair.now, a).unwrap();
    pair.run(pair.now + Duration::from_secs(1));
    assert!(
        pair.events(1)
            .contains(&Event::Closed(CloseReason::Shutdown))
    );
    assert_eq!(
        pair.ends[1].association(b).unwrap().stats().state,
        crate::StateName::Closed
    );

    let peer = ADDRESSES[1].parse().unwrap();
    let again = pair.ends[0]
        .connect(pair.now, &[peer], 5001, None, AssociationConfig::rfc9260())
        .unwrap();
    pair.run(pair.now + Duration::from_secs(1));
    assert!(
        pair.ends[0]
            .association(again)
            .is_some_and(|a| a.stats().state == crate::StateName::Established)
    );

    assert_eq!(pair.ends[1].receive(b).map(|m| m.payload.len()), Some(100));
    assert!(pair.ends[1].association(b).is_none());
    assert_eq!(pair.ends[1].associations().count(), 1);
}

/// RFC 9260, section 8.4, rule 3.
#[test]
fn init_for_another_port_is_aborted() {
    let mut pair = Pair::new();
    let peers = [ADDRESSES[1].parse().unwrap()];
    let config = AssociationConfig::rfc9260();
    pair.ends[0]
        .connect(pair.now, &peers, 5002, None, config)
        .unwrap();
    pair.run(pair.now + Duration::from_millis(100));
    let events = pair.events(0);
    assert_eq!(
        events,
        [Event::Closed(CloseReason::AbortedByPeer(AbortCause::NONE))]
    );
    assert_eq!(pair.ends[0].stats().wrong_tag, 0);
    assert_eq!(pair.ends[1].stats().out_of_the_blue, 1);
}

/// Data sent on the paths of an association, and data kept for retransmission: in bytes and
/// chunks.
fn buffered(pair: &Pair, end: usize) -> Option<[(usize, usize); 2]> {
    let endpoint = &pair.ends[end];
    let id = endpoint.associations().next()?;
    let association = endpoint.registry.get(id)?;
    let (mut sent, mut chunks) = (0, 0);
    for path in association.path_set().iter() {
        sent += path.flight().buffered();
        chunks += path.flight().chunks() as usize;
    }
    let sent = (sent, chunks);
    let stats = association.stats();
    let kept = (stats.send_buffer_bytes, stats.outstanding_chunks);
    (stats.queued_messages == 0).then_some([sent, kept])
}

/// RFC 9260, section 5.2.4.
#[test]
fn outstanding_data_counts_after_collision() {
    let mut pair = Pair::new();
    for end in [0, 1] {
        let peers = [ADDRESSES[1 - end].parse().unwrap()];
        let config = AssociationConfig::rfc9260();
        let port = 5001 - end as u16;
        let now = pair.now;
        let id = pair.ends[end].connect(now, &peers, port, None, config);
        let data = vec![7; 300].into();
        let sent = pair.ends[end].send(now, id.unwrap(), SendOptions::default(), data);
        sent.unwrap();
    }
    let mut met = 0;
    for _ in 0..200 {
        pair.run(pair.now + Duration::from_millis(1));
        for [sent, kept] in [0, 1].iter().filter_map(|end| buffered(&pair, *end)) {
            assert_eq!(sent, kept, "at {:?}", pair.now);
            met += usize::from(kept.0 > 0);
        }
    }
    assert!(met > 0, "DATA went beside COOKIE ECHO");
}
