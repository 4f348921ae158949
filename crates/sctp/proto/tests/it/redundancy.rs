//! Two hosts in two networks, one of which fails, with the recommended configuration: a packet leaves by the
//! network of its destination, whatever its source is, and no message is late, lost or repeated.

use crate::common;

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use carrick_proto::{
    AssociationConfig, AssociationId, Event, ParameterChanges, PathId, SendOptions, Time,
};
use carrick_wire::ChunkType;
use common::*;

/// Time between two messages of a stream.
const INTERVAL: u64 = 20;

/// Two endpoints with two addresses each, which exchange a message each 20 ms in both directions.
struct Pair {
    w: World,
    ids: [AssociationId; 2],
    /// Networks that are cut, by the direction: packets of endpoint 0 and those of endpoint 1.
    cut: Rc<Cell<[[bool; 2]; 2]>>,
    next: [u32; 2],
    received: [u32; 2],
    sent_at: [Vec<Time>; 2],
    /// Longest delay of a message since the last query.
    longest: Duration,
    /// Messages leave without Nagle's algorithm.
    no_delay: bool,
    /// Endpoints that send.
    talkers: Range<usize>,
}

fn recommended() -> AssociationConfig {
    AssociationConfig::default()
}

impl Pair {
    fn new(config: &AssociationConfig) -> Self {
        let mut pair = Self::fresh(config);
        pair.talk(ms(2000));
        pair
    }

    /// An association that has sent no data.
    fn fresh(config: &AssociationConfig) -> Self {
        let mut w = World::with(2, |_, c| c.association = config.clone());
        w.config = config.clone();
        let cut = Rc::new(Cell::new([[false; 2]; 2]));
        let rule = Rc::clone(&cut);
        w.rule(move |packet| {
            let network = usize::from(packet.to() == addresses(1 - packet.from)[1]);
            if rule.get()[packet.from][network] {
                Verdict::Drop
            } else {
                Verdict::Pass
            }
        });
        let (w, a, b) = w.connected();
        Self {
            w,
            ids: [a, b],
            cut,
            next: [0; 2],
            received: [0; 2],
            sent_at: [Vec::new(), Vec::new()],
            longest: Duration::ZERO,
            no_delay: true,
            talkers: 0..2,
        }
    }

    /// Cuts or repairs a network in both directions.
    fn set_cut(&mut self, network: usize, is_cut: bool) {
        let mut cut = self.cut.get();
        cut[0][network] = is_cut;
        cut[1][network] = is_cut;
        self.cut.set(cut);
    }

    /// Cuts or repairs a network for the packets of one endpoint.
    fn set_cut_from(&mut self, end: usize, network: usize, is_cut: bool) {
        let mut cut = self.cut.get();
        cut[end][network] = is_cut;
        self.cut.set(cut);
    }

    /// Exchanges messages for this long. Returns the longest delay of those that arrived.
    fn talk(&mut self, duration: Duration) -> Duration {
        self.talk_each(ms(INTERVAL), duration)
    }

    /// Exchanges a message in each interval for this long. Returns the longest delay of those that arrived.
    fn talk_each(&mut self, interval: Duration, duration: Duration) -> Duration {
        self.longest = Duration::ZERO;
        let until = self.w.now + duration;
        let mut next = self.w.now;
        while self.w.now < until {
            if self.w.now < next {
                self.w.run(ms(5));
                self.receive();
                continue;
            }
            next += interval;
            for end in self.talkers.clone() {
                let number = self.next[end];
                self.next[end] += 1;
                self.sent_at[end].push(self.w.now);
                let mut payload = vec![0; 100];
                payload[..4].copy_from_slice(&number.to_be_bytes());
                let options = SendOptions {
                    no_delay: self.no_delay,
                    ..SendOptions::on_stream(0)
                };
                self.w.send_with(end, self.ids[end], options, payload);
            }
        }
        self.longest
    }

    /// Reads what arrived: each message once and in order.
    fn receive(&mut self) {
        for end in 0..2 {
            for message in self.w.receive(end, self.ids[end]) {
                let bytes = message.payload.into_bytes();
                let number = u32::from_be_bytes(bytes[..4].try_into().unwrap());
                assert_eq!(number, self.received[end], "each message once, in order");
                self.received[end] += 1;
                let sent = self.sent_at[1 - end][number as usize];
                self.longest = self.longest.max(self.w.now - sent);
            }
        }
    }

    /// All messages have arrived.
    fn assert_complete(&mut self) {
        self.w.run(secs(2));
        self.receive();
        assert_eq!(self.received, [self.next[1], self.next[0]]);
    }

    /// Sources of the paths of an endpoint.
    fn sources(&self, end: usize) -> Vec<std::net::IpAddr> {
        let paths = (0..2).map(|path| self.w.path(end, self.ids[end], path));
        let mut routes: Vec<_> = paths.map(|p| (p.remote, p.local.unwrap())).collect();
        routes.sort_unstable();
        routes.into_iter().map(|r| r.1).collect()
    }
}

/// Longest delay of a message when a network fails: the silence limit of at most two round trips of 20 ms and one and a
/// quarter SACK delays of 200 ms, two round trips for the heartbeats, half a round trip for the data, and twice the
/// 5 ms between two looks for messages.
const FAILOVER: Duration = Duration::from_millis(40 + 250 + 40 + 10 + 10);
/// Longest time for which Nagle's algorithm holds a message: a round trip and a SACK delay.
const NAGLE: Duration = Duration::from_millis(20 + 200);

/// The sequence of failures after which both paths depended on one network (RFC 9260, section 6.4: the source
/// that the routes of the host select).
#[test]
fn networks_fail_and_return_in_any_order() {
    for order in [[0, 1, 0, 1], [1, 0, 1, 0], [0, 0, 1, 1]] {
        let mut pair = Pair::new(&recommended());
        for network in order {
            pair.set_cut(network, true);
            let late = pair.talk(secs(100));
            assert!(late <= FAILOVER, "network {network} of {order:?}: {late:?}");
            pair.set_cut(network, false);
            let late = pair.talk(secs(60));
            assert!(late <= FAILOVER, "its return in {order:?}: {late:?}");
        }
        pair.assert_complete();
        for end in 0..2 {
            assert_eq!(pair.sources(end), addresses(end));
        }
    }
}

/// Without quick failover as well, whatever the last error of the path was (RFC 9260, section 6.4.1).
#[test]
fn data_leaves_an_inactive_path_at_once() {
    let config = recommended().with(|c| c.paths.potentially_failed_max_retrans = None);
    for interval in [20, 50, 200] {
        let mut pair = Pair::new(&config);
        pair.w.events(0);
        pair.set_cut(0, true);
        let mut events = Vec::new();
        while !events.contains(&Event::PathFailed(PathId(0))) {
            assert!(pair.w.now < Time::from_millis(100_000), "{events:?}");
            pair.talk_each(ms(interval), ms(interval));
            events.extend(pair.w.events(0));
        }
        pair.talk_each(ms(interval), ms(400));
        pair.w.run(ms(400));
        pair.receive();
        assert_eq!(pair.received[1], pair.next[0], "{interval} ms");
        pair.assert_complete();
    }
}

/// The other network fails seconds after the first has returned, before a heartbeat was due there.
#[test]
fn a_network_that_has_just_returned_is_found() {
    for pause in [0, 1, 5, 20] {
        let mut pair = Pair::new(&recommended());
        pair.set_cut(0, true);
        pair.talk(secs(200));
        pair.set_cut(0, false);
        pair.talk(secs(pause));
        pair.set_cut(1, true);
        let late = pair.talk(secs(100));
        assert!(late <= FAILOVER, "after {pause} s: {late:?}");
        pair.assert_complete();
    }
}

/// The answers to heartbeats arrive later than the next ones leave, as packets of the peer arrive meanwhile.
#[test]
fn a_network_that_returns_with_a_long_delay_is_found() {
    let mut pair = Pair::new(&recommended());
    pair.set_cut(0, true);
    pair.talk(secs(200));
    pair.w.rule(move |packet| {
        if packet.to() == addresses(1 - packet.from)[0] {
            Verdict::Delay(secs(2))
        } else {
            Verdict::Pass
        }
    });
    pair.set_cut(0, false);
    pair.set_cut(1, true);
    let late = pair.talk(secs(100));
    assert!(late < secs(30), "{late:?}");
    pair.talk(secs(20));
    pair.w.run(secs(20));
    pair.assert_complete();
}

#[test]
fn packets_of_one_direction_are_lost() {
    for end in 0..2 {
        let mut pair = Pair::new(&recommended());
        pair.set_cut_from(end, 0, true);
        let late = pair.talk(secs(100));
        assert!(late <= FAILOVER, "packets of {end}: {late:?}");
        pair.set_cut_from(end, 0, false);
        pair.talk(secs(60));
        pair.set_cut_from(1 - end, 1, true);
        let late = pair.talk(secs(100));
        assert!(late <= FAILOVER, "then those of {}: {late:?}", 1 - end);
        pair.assert_complete();
    }
}

/// Packets of endpoint 0 arrive by the first network only, those of endpoint 1 by the second: a path works from
/// the first address of endpoint 0 to the first of endpoint 1 for as long as answers go to the second address.
#[test]
fn an_expedient_source_is_left_for_the_selected_one() {
    let mut pair = Pair::new(&recommended());
    pair.set_cut_from(0, 1, true);
    pair.set_cut_from(1, 0, true);
    pair.talk(secs(20));
    let expedient = pair.sources(0);
    assert_eq!(
        expedient[0],
        addresses(0)[1],
        "the answers return by network 1"
    );
    let late = pair.talk(secs(10));
    assert!(late <= FAILOVER, "{late:?}");
    pair.set_cut(0, false);
    pair.set_cut(1, false);
    pair.talk(secs(60));
    for end in 0..2 {
        assert_eq!(pair.sources(end), addresses(end));
    }
    pair.assert_complete();
}

/// RFC 9260, section 8.3: while data waits and no path is usable, heartbeats follow the back-off of the RTO, at
/// most HB.interval apart.
#[test]
fn the_first_network_to_return_is_used() {
    for (dead, limit) in [(5, 4), (30, 17), (90, 32)] {
        for network in 0..2 {
            let mut pair = Pair::new(&recommended());
            pair.set_cut(0, true);
            pair.set_cut(1, true);
            pair.talk(secs(dead));
            pair.set_cut(network, false);
            let late = pair.talk(secs(100));
            let after = late.saturating_sub(secs(dead));
            assert!(after <= secs(limit), "{network} after {dead} s: {after:?}");
            pair.assert_complete();
        }
    }
}

/// Delayed SACKs and Nagle's algorithm are no silence, however often messages are sent.
#[test]
fn paths_without_losses_are_not_checked() {
    for (interval, talkers) in [20, 70, 150, 250, 600]
        .into_iter()
        .flat_map(|interval| [0..1, 1..2, 0..2].map(|talkers| (ms(interval), talkers)))
    {
        for no_delay in [false, true] {
            let mut pair = Pair::fresh(&recommended());
            (pair.no_delay, pair.talkers) = (no_delay, talkers.clone());
            pair.w.log.clear();
            pair.talk_each(interval, secs(60));
            for end in talkers.clone() {
                let stats = pair.w.stats(end, pair.ids[end]).counters;
                assert_eq!(
                    stats.fast_retransmissions + stats.timeout_retransmissions,
                    0
                );
                let to_first = |p: &&SentPacket| p.to() == addresses(1 - end)[0];
                let heartbeats = pair.w.sent(end, ChunkType::HEARTBEAT);
                let checks = heartbeats.into_iter().filter(to_first).count();
                assert_eq!(
                    checks, 0,
                    "of {end}, a message in {interval:?} of {talkers:?}"
                );
            }
        }
    }
}

/// RFC 9260, section 6.2, allows SACK delays of up to 500 ms: data on a path without losses stays there.
#[test]
fn long_sack_delays_of_a_peer_are_no_failure() {
    let mut random = random_below(5);
    for talkers in [0..1, 0..2] {
        for no_delay in [false, true] {
            let mut pair = Pair::fresh(&recommended());
            (pair.no_delay, pair.talkers) = (no_delay, talkers.clone());
            let changes = ParameterChanges::new().sack(ms(500), 2);
            let peer = pair.ids[1];
            pair.w.change(1, peer).change_parameters(&changes).unwrap();
            for _ in 0..200 {
                pair.talk_each(ms(20 + random(700)), secs(2));
            }
            let counters = pair.w.stats(0, pair.ids[0]).counters;
            assert_eq!(counters.t3_expirations, 0);
            let data = pair.w.sent(0, ChunkType::DATA);
            let moved = data.iter().filter(|p| p.to() == addresses(1)[1]);
            assert_eq!(moved.count(), 0, "{talkers:?}, Nagle {}", !no_delay);
            pair.assert_complete();
        }
    }
}

/// Needless checks and failovers on a path that loses 1 % of its packets are rare, and harm no message.
#[test]
fn a_path_with_losses_is_kept() {
    let mut pair = Pair::new(&recommended());
    let mut state = 1_u64;
    pair.w.rule(move |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        if (state >> 33).is_multiple_of(128) {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    pair.w.log.clear();
    let late = pair.talk(secs(300));
    assert!(late <= FAILOVER, "{late:?}");
    let on_second = pair
        .w
        .sent(0, ChunkType::DATA)
        .iter()
        .filter(|p| p.to() == addresses(1)[1])
        .count();
    assert!(
        on_second * 1000 < pair.w.data_sent(0),
        "{on_second} packets"
    );
    pair.assert_complete();
}

/// Returns a function that returns a random number below its argument.
fn random_below(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// A network fails for so short a time that it works again when the silence of its path is checked, but not when
/// the tail loss probe left.
#[test]
fn short_failures_delay_no_message_until_t3() {
    let mut random = random_below(7);
    for (talkers, no_delay) in [(0..1, false), (0..1, true), (0..2, false), (0..2, true)] {
        let limit = FAILOVER + ms(40) + if no_delay { ms(0) } else { NAGLE };
        for _ in 0..100 {
            let gap = 40 + random(600);
            let mut pair = Pair::new(&recommended());
            (pair.no_delay, pair.talkers) = (no_delay, talkers.clone());
            pair.talk_each(ms(gap), secs(3));
            for _ in 0..5 {
                let cut = 100 + random(500);
                pair.w.run(ms(random(gap)));
                pair.set_cut(0, true);
                let during = pair.talk_each(ms(gap), ms(cut));
                pair.set_cut(0, false);
                let after = pair.talk_each(ms(gap), secs(2));
                let late = during.max(after);
                assert!(late <= limit, "{cut} ms, a message in {gap} ms: {late:?}");
            }
            pair.assert_complete();
        }
    }
}

/// A network fails while messages are rare: round trips are measured by delayed SACKs alone, in the first seconds of
/// an association, and Nagle's algorithm holds what was sent since the last SACK.
#[test]
fn rare_messages_move_in_time() {
    let mut random = random_below(3);
    for (talkers, no_delay) in [0..1, 1..2, 0..2]
        .into_iter()
        .flat_map(|talkers| [(talkers.clone(), false), (talkers, true)])
    {
        let mut worst = Duration::ZERO;
        for _ in 0..200 {
            let gap = 10 + random(400);
            let mut pair = Pair::fresh(&recommended());
            (pair.no_delay, pair.talkers) = (no_delay, talkers.clone());
            pair.talk_each(ms(gap), ms(500 + random(30_000)));
            pair.w.run(ms(random(gap)));
            pair.set_cut(0, true);
            let late = pair.talk_each(ms(gap), secs(3));
            worst = worst.max(late);
            pair.assert_complete();
        }
        let limit = FAILOVER + if no_delay { ms(0) } else { NAGLE };
        assert!(
            worst <= limit,
            "{talkers:?}, Nagle {}: {worst:?}",
            !no_delay
        );
    }
}

/// The heartbeats that are acknowledged at the end of an outage are no sign that data alone is lost.
#[test]
fn the_end_of_an_outage_is_no_stall() {
    for order in [[0, 1], [1, 0]] {
        for dead in [25, 45, 90] {
            let mut pair = Pair::new(&recommended());
            pair.set_cut(order[0], true);
            pair.talk(secs(3));
            pair.set_cut(order[1], true);
            pair.talk(secs(dead));
            pair.set_cut(order[0], false);
            pair.talk(secs(60));
            pair.assert_complete();
            for end in 0..2 {
                let events = pair.w.events(end);
                assert!(!events.contains(&Event::NoProgress), "{dead} s: {events:?}");
            }
        }
    }
}

/// Both networks fail at each time between two messages, so that T3-rtx of both paths expire together in some
/// runs: the errors of one RTO count once (RFC 9260, section 8.1), and the association lives as long as with data
/// on one path alone.
#[test]
fn errors_on_two_paths_end_no_association_sooner() {
    for (config, outage) in [(AssociationConfig::signaling(), 7), (recommended(), 90)] {
        for phase in 0..INTERVAL {
            let mut pair = Pair::new(&config);
            pair.w.run(ms(phase));
            pair.set_cut(0, true);
            pair.set_cut(1, true);
            pair.talk(secs(outage));
            pair.set_cut((phase % 2) as usize, false);
            pair.talk(secs(20));
            pair.assert_complete();
        }
    }
}
