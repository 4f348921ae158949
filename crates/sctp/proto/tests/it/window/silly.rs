//! Silly windows.

use carrick_proto::research::WindowAnnouncement;

use crate::common::*;

/// Number of chunks dropped when a sender fills the window of a user that does not read.
fn dropped_when_filled(announcement: WindowAnnouncement, size: usize) -> u64 {
    let mut w = World::with(2, |end, config| {
        config.local_addresses.truncate(1);
        if end == 1 {
            config.association.buffers.receive_buffer = 400_000;
            config.association.research.policies.window_announcement = announcement;
        }
    });
    w.config.buffers.send_buffer = 1 << 24;
    let (a, b) = w.connect();
    for _ in 0..2_000_000 / size {
        w.send(0, a, 0, pattern(size));
    }
    // The window is full long before the first probe.
    w.run(ms(900));
    let stats = w.stats(1, b);
    assert!(stats.a_rwnd < 3000, "{stats:?}");
    stats.counters.dropped_for_buffer
}

/// RFC 9260, section 6.2
#[test]
fn a_sufficient_window_causes_no_retransmission() {
    for size in [200, 1000, 1452, 20_000] {
        let dropped = dropped_when_filled(WindowAnnouncement::Fitting, size);
        assert_eq!(dropped, 0, "messages of {size}");
    }
    assert!(dropped_when_filled(WindowAnnouncement::True, 1000) > 0);
}

/// RFC 9260, section 6.1, rule A
#[test]
fn a_silly_window_is_probed_despite_sacks() {
    let mut w = World::with(1, |_, c| {
        c.local_addresses.truncate(1);
        c.association.mtu.max_payload = Some(100);
    });
    let mut peer = Puppet::new();
    peer.a_rwnd = 10_000;
    let (peer, a) = peer.connect(&mut w);
    w.send(0, a, 0, pattern(100));
    peer.receive(&mut w);
    peer.sack(&mut w, peer.endpoint_tsn(0), 1000, &[]);
    // There is room for chunks, but not for a packet of them.
    w.send(0, a, 0, pattern(16_000));
    let mut probes = 0;
    for _ in 0..10 {
        w.run(ms(300));
        probes += peer.numbers(&peer.receive(&mut w)).len();
        peer.sack(&mut w, peer.endpoint_tsn(probes as u32), 1000, &[]);
    }
    assert!((1..=4).contains(&probes), "{probes} probes in 3 s");
}

/// RFC 9260, section 6.1, rule A
#[test]
fn a_window_filled_by_small_chunks_is_not_silly() {
    let mut w = World::with(1, |_, c| {
        c.local_addresses.truncate(1);
        c.association.mtu.max_payload = Some(7);
    });
    let mut peer = Puppet::new();
    peer.a_rwnd = 10_000;
    let (peer, a) = peer.connect(&mut w);
    w.send(0, a, 0, pattern(7));
    peer.receive(&mut w);
    peer.sack(&mut w, peer.endpoint_tsn(0), 1037, &[]);
    // One message, but it leaves in chunks of 7 bytes, and each has a header.
    w.send(0, a, 0, pattern(7000));
    let chunks = peer.numbers(&peer.receive(&mut w)).len();
    assert!(chunks > 100, "{chunks} chunks");
}
