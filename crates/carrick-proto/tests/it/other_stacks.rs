//! What associations with other stacks found, each as a scenario of its own.

use crate::common;

use carrick_proto::{AssociationConfig, Event, PathId};
use common::{Puppet, World, addresses, ms, secs};

/// The peer's SACK for a lone packet comes later than the timeout that sends it again, to the dead
/// path this time: that SACK must not be taken for a sign of life of the dead path.
#[test]
fn a_dead_path_fails_although_its_chunks_arrive_over_another_8_2() {
    let mut w = World::new();
    w.config = AssociationConfig {
        rto_initial: ms(100),
        rto_min: ms(100),
        rto_max: secs(1),
        path_max_retrans: 2,
        hb_interval: ms(300),
        ..AssociationConfig::default()
    };
    let (a, b) = w.connect();
    for _ in 0..60 {
        w.send(0, a, 0, vec![1; 10_000]);
    }
    w.run(ms(50));
    w.kill(addresses(1)[0]);
    let failed = |w: &mut World| !w.path(0, a, 0).status.active;
    assert!(w.run_until(secs(20), failed));
    w.run(secs(5));
    let events = w.events(0);
    assert!(events.contains(&Event::PathFailed(PathId(0))), "{events:?}");
    assert_eq!(w.receive_lengths(1, b), [10_000; 60]);
}

/// A receiver may have to see a chunk that does not fit before it delivers what it has of a message
/// larger than its buffer. A closed window is probed later: see the tests of the window.
#[test]
fn a_window_too_small_for_the_next_chunk_is_probed_at_once_6_1() {
    for (a_rwnd, probes) in [(500, 1), (0, 0)] {
        let mut w = World::single_homed();
        let (peer, id) = Puppet::new().connect(&mut w);
        w.send(0, id, 0, vec![1; 20_000]);
        let sent = peer.numbers(&peer.hear(&mut w));
        let last = *sent.last().unwrap();
        let answers = peer.sack(&mut w, peer.theirs(last), a_rwnd, &[]);
        assert_eq!(peer.numbers(&answers).len(), probes, "a_rwnd {a_rwnd}");
    }
}
