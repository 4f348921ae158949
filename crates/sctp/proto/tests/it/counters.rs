//! Counters of an endpoint and of its associations (RFC 3873).

use carrick_proto::SendOptions;

use crate::common::*;

/// RFC 3873, section 3.2: counters of the host
#[test]
fn counters_outlast_their_association() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.send(0, a, 0, pattern(5000));
    let options = SendOptions {
        unordered: true,
        ..SendOptions::on_stream(0)
    };
    w.send_with(0, a, options, pattern(10));
    w.run(secs(1));
    assert_eq!(w.receive(1, b).len(), 2);
    let before = [0, 1].map(|end| w.ends[end].association_counters());
    assert_eq!(
        before[0].data_chunks_sent,
        w.stats(0, a).counters.data_chunks_sent
    );
    let endpoints = [0, 1].map(|end| w.ends[end].stats());
    assert_eq!(before[0].unordered_chunks_sent, 1);
    assert_eq!(endpoints[0].messages_fragmented, 1);
    assert_eq!(before[1].unordered_chunks_received, 1);
    assert_eq!(before[1].data_chunks_received, before[0].data_chunks_sent);
    assert_eq!(before[1].messages_delivered, 2);
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(secs(1));
    assert_eq!(w.states(), [None, None]);
    for end in [0, 1] {
        let after = w.ends[end].association_counters();
        assert_eq!(after.data_chunks_sent, before[end].data_chunks_sent);
        assert_eq!(after.data_chunks_received, before[end].data_chunks_received);
        assert!(after.packets_sent > before[end].packets_sent, "SHUTDOWN");
    }
    let (a, _) = w.connect();
    w.send(0, a, 0, pattern(10));
    w.run(secs(1));
    let again = w.ends[0].association_counters();
    assert_eq!(again.data_chunks_sent, before[0].data_chunks_sent + 1);
}

/// RFC 3873, section 3.2: sctpActiveEstabs, sctpPassiveEstabs, sctpShutdowns, sctpAborteds
#[test]
fn ends_are_shutdowns_or_aborts() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(secs(1));
    let (a, _) = w.connect();
    w.ends[0].abort(w.now, a, b"").unwrap();
    w.run(secs(1));
    for end in [0, 1] {
        let stats = w.ends[end].stats();
        let accepted = if end == 1 { 2 } else { 0 };
        assert_eq!((stats.established, stats.accepted), (2, accepted));
        assert_eq!((stats.closed, stats.shut_down, stats.aborted), (2, 1, 1));
    }
}
