//! Rules of Linux 2.6, the implementation of paper `failover`, that RFC 9260 does not have:
//! addresses are trusted without verification, and retransmissions hold back all new data.

use crate::common;

use carrick_proto::research::{AddressVerification, MarkedData};
use carrick_wire::ChunkType;
use common::{World, addresses, ms, pattern, secs};

fn verified(choice: AddressVerification) -> (World, bool) {
    let mut w = World::with(2, |_, config| {
        config.association.research.policies.address_verification = choice;
    });
    w.config.research.policies.address_verification = choice;
    let (a, b) = w.connect();
    let confirmed = [(0, a), (1, b)].map(|(end, id)| w.path(end, id, 1).status.confirmed);
    assert_eq!(confirmed, [true; 2]);
    let unmeasured = (0..2).any(|end| {
        let id = w.association(end);
        w.path(end, id, 1).srtt.is_none()
    });
    (w, unmeasured)
}

/// RFC 9260, section 5.4
#[test]
fn an_address_is_verified_by_a_heartbeat() {
    let (w, unmeasured) = verified(AddressVerification::Heartbeat);
    assert!((0..2).all(|end| !w.sent(end, ChunkType::HEARTBEAT).is_empty()));
    assert!(!unmeasured);
}

#[test]
fn trusted_addresses_are_not_verified_or_measured() {
    let (mut w, unmeasured) = verified(AddressVerification::Trust);
    assert!((0..2).all(|end| w.sent(end, ChunkType::HEARTBEAT).is_empty()));
    assert!(unmeasured);
    let b = w.association(1);
    assert_eq!(w.path(1, b, 1).rto, w.config.timers.rto_initial);
    w.block(addresses(1)[0]);
    let a = w.association(0);
    w.send(0, a, 0, pattern(100));
    w.run(secs(2));
    assert_eq!(
        w.receive(1, b).len(),
        1,
        "a timed-out chunk goes to the trusted address"
    );
}

/// New data to the failed primary while retransmissions wait for the window of the alternate.
fn new_data_meanwhile(choice: MarkedData) -> usize {
    let mut w = World::new();
    w.config.transmission.nagle = false;
    w.config.research.policies.marked_data = choice;
    let (a, b) = w.connect();
    for _ in 0..200 {
        w.send(0, a, 0, pattern(1400));
    }
    w.run(ms(65));
    w.block(addresses(1)[0]);
    w.run(ms(100));
    let waiting = w.stats(0, a).outstanding_chunks;
    assert!(waiting > 8, "{waiting}: more than the alternate's window");
    let before = w.stats(0, a).counters.t3_expirations;
    w.log.clear();
    let expired = |w: &mut World| w.stats(0, a).counters.t3_expirations > before;
    assert!(w.run_until(secs(3), expired));
    // Less than the round trip of 20 ms in which the alternate acknowledges.
    w.run(ms(5));
    let primary = addresses(1)[0];
    let to_it = w.log.iter().filter(|seen| seen.to() == primary);
    let count = to_it.filter(|seen| seen.has(ChunkType::DATA)).count();
    w.run(secs(300));
    assert_eq!(w.receive(1, b).len(), 200, "all is delivered in the end");
    count
}

/// RFC 9260, section 6.1
#[test]
fn retransmissions_delay_new_data_of_their_path() {
    assert_eq!(new_data_meanwhile(MarkedData::HoldsPath), 1);
}

#[test]
fn with_one_queue_retransmissions_delay_all_new_data() {
    assert_eq!(new_data_meanwhile(MarkedData::HoldsAll), 0);
}
