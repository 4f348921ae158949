//! What leaves between a timeout and the next acknowledgement, by the standard's rule and by the other.

use crate::common;

use carrick_proto::policy::AfterTimeout;
use carrick_wire::ChunkType;
use common::{World, ms};

/// Packets of small messages that leave after a timeout whose retransmission is lost too.
fn packets_after_a_timeout(rule: AfterTimeout) -> usize {
    let mut w = World::single_homed();
    w.config.nagle = false;
    w.config.policies.after_timeout = rule;
    let (a, _) = w.connect();
    w.lose(0, ChunkType::DATA, 1000);
    w.send(0, a, 0, vec![1; 250]);
    w.run(ms(1100));
    let before = w.data_sent(0);
    assert_eq!(before, 2, "the message, and once again");
    for _ in 0..10 {
        w.send(0, a, 0, vec![2; 250]);
        w.run(ms(10));
    }
    w.data_sent(0) - before
}

#[test]
fn one_packet_is_in_flight_after_a_timeout_7_2_3() {
    assert_eq!(packets_after_a_timeout(AfterTimeout::OnePacket), 0);
}

#[test]
fn a_window_of_small_packets_may_be_in_flight_where_bytes_only_count() {
    // 268 bytes each: the sixth fills a window of 1468.
    assert_eq!(packets_after_a_timeout(AfterTimeout::OneWindow), 5);
}
