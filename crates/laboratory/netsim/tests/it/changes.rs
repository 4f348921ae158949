//! Changes of links and addresses while the network runs.

use crate::common;

use std::net::IpAddr;
use std::time::Duration;

use carrick_netsim::{
    Change, ConfigError, Direction, Jitter, LinkConfig, Loss, Network, Queue, Time,
};
use common::{Pair, Recorder, ip, numbered, packet, send};

const MS: Duration = Duration::from_millis(1);

#[test]
fn links_go_down_and_up_by_schedule() {
    let config = LinkConfig::new(8_000_000, 10 * MS);
    let mut pair = Pair::stream(1, config, 100, 1000, MS);
    let link = pair.link;
    let down = Time::from_micros(20_500);
    let up = Time::from_micros(60_500);
    pair.net.at(down, Change::LinkDown(link)).expect("ahead");
    pair.net.at(up, Change::LinkUp(link)).expect("ahead");
    pair.run();
    // Number n is sent at n-1 ms and arrives 11 ms later: 9 packets had arrived, 12 were in flight.
    let numbers = pair.receiver().numbers();
    let expected: Vec<u32> = (1..=10).chain(62..=100).collect();
    assert_eq!(numbers, expected);
    assert_eq!(pair.stats().dropped_down, 51);
    let port = pair.net.interfaces(pair.b)[0];
    assert_eq!(
        pair.receiver().link_changes,
        [(down, port, false), (up, port, true)]
    );
    assert!(pair.net.is_up(link));
}

#[test]
fn loss_and_configuration_change_by_schedule() {
    let mut pair = Pair::stream(1, LinkConfig::delay(MS), 30, 1000, 10 * MS);
    let (link, direction) = (pair.link, Direction::Forward);
    let at = |net: &mut Network, ms, change| {
        net.at(Time::from_millis(ms), change).expect("ahead");
    };
    let loss = |loss| Change::SetLoss {
        link,
        direction,
        loss,
    };
    at(&mut pair.net, 95, loss(Loss::Random(1.0)));
    at(&mut pair.net, 195, loss(Loss::None));
    let config = LinkConfig::new(8_000_000, 3 * MS);
    at(
        &mut pair.net,
        245,
        Change::SetLink {
            link,
            direction,
            config: config.clone(),
        },
    );
    pair.run();
    let numbers: Vec<u32> = (1..=10).chain(21..=30).collect();
    assert_eq!(pair.receiver().numbers(), numbers);
    let times = pair.receiver().times();
    assert_eq!(times[14], 241_000_000);
    assert_eq!(
        times[15], 254_000_000,
        "1 ms of transmission and 3 ms of delay"
    );
    assert_eq!(pair.net.link_config(link, direction), &config);
}

#[test]
fn a_shorter_delay_does_not_reorder() {
    let mut pair = Pair::stream(1, LinkConfig::delay(100 * MS), 10, 1000, MS);
    let change = Change::SetLink {
        link: pair.link,
        direction: Direction::Forward,
        config: LinkConfig::delay(MS),
    };
    pair.net
        .at(Time::from_micros(4_500), change)
        .expect("ahead");
    pair.run();
    assert_eq!(pair.receiver().numbers(), (1..=10).collect::<Vec<_>>());
    assert_eq!(pair.receiver().times()[5..], [104_000_000; 5]);
}

#[test]
fn a_smaller_queue_applies_to_later_packets() {
    // 1 ms each; five at once, then one more every 0.5 ms.
    let config =
        |packets| LinkConfig::new(8_000_000, Duration::ZERO).with_queue(Queue::packets(packets));
    let early = (1..=5).map(|n| (Time::ZERO, numbered(n, 1000)));
    let late = (6..=9).map(|n| (Time::from_micros(u64::from(n - 5) * 500), numbered(n, 1000)));
    let mut pair = Pair::new(1, config(10), Recorder::sending(early.chain(late)));
    let change = Change::SetLink {
        link: pair.link,
        direction: Direction::Forward,
        config: config(2),
    };
    let when = Time::from_micros(100);
    pair.net.at(when, change).expect("ahead");
    pair.run();
    // Four packets wait at first, three from 1 ms and two from 2 ms, when number 9 arrives.
    assert_eq!(pair.receiver().numbers(), [1, 2, 3, 4, 5]);
    assert_eq!(pair.stats().dropped_queue, 4);
}

#[test]
fn a_link_without_a_rate_empties_its_queue_at_once() {
    let mut pair = Pair::stream(1, LinkConfig::new(8_000_000, MS), 5, 1000, Duration::ZERO);
    let change = Change::SetLink {
        link: pair.link,
        direction: Direction::Forward,
        config: LinkConfig::delay(MS),
    };
    let when = Time::from_micros(1_500);
    pair.net.at(when, change).expect("ahead");
    pair.run();
    // The second packet is in transmission until 2 ms; the remaining ones follow it at once.
    let millis = [2, 3, 3, 3, 3];
    assert_eq!(pair.receiver().times(), millis.map(|ms| ms * 1_000_000));
    assert_eq!(pair.receiver().numbers(), [1, 2, 3, 4, 5]);
}

#[test]
fn reordering_by_a_shorter_delay_can_be_allowed() {
    let link = |delay| LinkConfig {
        jitter: Jitter::Uniform(Duration::ZERO),
        jitter_overtakes: true,
        ..LinkConfig::delay(delay)
    };
    let mut pair = Pair::stream(1, link(100 * MS), 10, 1000, MS);
    let change = Change::SetLink {
        link: pair.link,
        direction: Direction::Forward,
        config: link(MS),
    };
    let when = Time::from_micros(4_500);
    pair.net.at(when, change).expect("ahead");
    pair.run();
    assert_eq!(pair.receiver().numbers(), [6, 7, 8, 9, 10, 1, 2, 3, 4, 5]);
    let millis = [6, 7, 8, 9, 10, 100, 101, 102, 103, 104];
    assert_eq!(pair.receiver().times(), millis.map(|ms| ms * 1_000_000));
    assert_eq!(pair.stats().reordered, 5);
}

#[test]
fn addresses_are_added_and_removed() {
    let mut pair = Pair::new(1, LinkConfig::delay(10 * MS), Recorder::default());
    let (a, b) = (pair.a, pair.b);
    let interface = pair.net.interfaces(b)[0];
    let new: IpAddr = ip("10.0.7.7");
    let add = Change::AddAddress {
        interface,
        address: new,
    };
    let remove = Change::RemoveAddress {
        interface,
        address: new,
    };
    assert_eq!(
        pair.net.apply(remove.clone()),
        Err(ConfigError::NoSuchAddress(new))
    );
    pair.net.apply(add.clone()).expect("a free address");
    assert_eq!(pair.net.apply(add), Err(ConfigError::DuplicateAddress(new)));
    assert_eq!(pair.net.addresses(interface), [ip("10.0.0.2"), new]);
    send(&mut pair.net, a, packet("10.0.0.1", "10.0.7.7"));
    pair.net.run_until(Time::from_millis(15));
    assert_eq!(pair.receiver().received.len(), 1);

    // The second packet is in flight when the address is removed.
    send(&mut pair.net, a, packet("10.0.0.1", "10.0.7.7"));
    pair.net.at(Time::from_millis(20), remove).expect("ahead");
    pair.net.run_until(Time::from_millis(30));
    assert_eq!(pair.receiver().received.len(), 1);
    assert_eq!(pair.net.node_stats(b).dropped_not_mine, 1);
    let changes = [(Time::ZERO, new, true), (Time::from_millis(20), new, false)];
    assert_eq!(pair.receiver().address_changes, changes);
    send(&mut pair.net, a, packet("10.0.0.1", "10.0.7.7"));
    assert_eq!(pair.net.node_stats(a).dropped_no_route, 1);
}
