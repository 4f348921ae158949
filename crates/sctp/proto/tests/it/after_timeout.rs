//! Packets in flight between a timeout and the next acknowledgement, by RFC 9260 and by a policy
//! that counts bytes.

use crate::common;

use carrick_proto::research::AfterTimeout;
use carrick_wire::ChunkType;
use common::{World, ms};

/// Packets of small messages that leave after a timeout whose retransmission is lost too.
fn packets_after_a_timeout(rule: AfterTimeout) -> usize {
    let mut w = World::single_homed();
    w.config.transmission.nagle = false;
    w.config.research.policies.after_timeout = rule;
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

/// RFC 9260, section 7.2.3
#[test]
fn one_packet_is_in_flight_after_a_timeout() {
    assert_eq!(packets_after_a_timeout(AfterTimeout::OnePacket), 0);
}

#[test]
fn counting_bytes_allows_several_small_packets() {
    // 268 bytes each: the sixth fills a window of 1468.
    assert_eq!(packets_after_a_timeout(AfterTimeout::OneWindow), 5);
}
