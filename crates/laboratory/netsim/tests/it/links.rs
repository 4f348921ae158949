//! Rate, delay and queues, exact to the nanosecond.

use crate::common;

use std::time::Duration;

use carrick_netsim::{LinkConfig, Queue};
use common::Pair;

const MS: u64 = 1_000_000;

#[test]
fn transmission_then_propagation_to_the_nanosecond() {
    // 1000 bytes at 1 Mbit/s take 8 ms; the packets queue behind each other.
    let config = LinkConfig::new(1_000_000, Duration::from_millis(20));
    let mut pair = Pair::stream(1, config, 3, 1000, Duration::ZERO);
    pair.run();
    assert_eq!(pair.receiver().times(), [28 * MS, 36 * MS, 44 * MS]);
    assert_eq!(pair.receiver().numbers(), [1, 2, 3]);
}

#[test]
fn fractions_of_a_nanosecond_round_up() {
    // 28 bytes at 3 bit/s: 224/3 s.
    let mut pair = Pair::stream(1, LinkConfig::new(3, Duration::ZERO), 1, 28, Duration::ZERO);
    pair.run();
    assert_eq!(pair.receiver().times(), [74_666_666_667]);
}

#[test]
fn without_a_rate_only_the_delay_counts() {
    let config = LinkConfig::delay(Duration::from_nanos(7));
    let mut pair = Pair::stream(1, config, 2, 1500, Duration::from_nanos(1));
    pair.run();
    assert_eq!(pair.receiver().times(), [7, 8]);
}

#[test]
fn packet_limit_excludes_the_packet_in_transmission() {
    let config = LinkConfig::new(1_000_000, Duration::ZERO).with_queue(Queue::packets(6));
    let mut pair = Pair::stream(1, config, 10, 1000, Duration::ZERO);
    pair.run();
    assert_eq!(pair.receiver().numbers(), [1, 2, 3, 4, 5, 6, 7]);
    let stats = pair.stats();
    assert_eq!((stats.dropped_queue, stats.dropped()), (3, 3));
    assert_eq!((stats.max_queue_packets, stats.max_queue_bytes), (6, 6000));
}

#[test]
fn the_queue_is_limited_in_bytes() {
    let config = LinkConfig::new(1_000_000, Duration::ZERO).with_queue(Queue::bytes(2500));
    let mut pair = Pair::stream(1, config, 4, 1000, Duration::ZERO);
    pair.run();
    assert_eq!(pair.receiver().numbers(), [1, 2, 3]);
    assert_eq!(pair.stats().max_queue_bytes, 2000);
}
