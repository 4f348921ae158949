//! Proportional rate reduction (RFC 6937) lets data leave as data arrives; with nothing in flight
//! it must not block retransmissions.

use crate::common;

use carrick_proto::research::{LossDetection, MarkedData, Policies, RetransmissionRoute};
use carrick_proto::{AssociationConfig, AssociationId, SendOptions};
use carrick_wire::ChunkType;
use common::*;

/// The reduction, losses that are found by a timer, so that no SACK comes with them, and nothing
/// that leaves after a timeout whatever the window.
fn config() -> AssociationConfig {
    AssociationConfig::rfc9260().with(|c| {
        c.research.policies = Policies {
            proportional_rate_reduction: true,
            loss_detection: LossDetection::Rack,
            marked_data: MarkedData::HoldsAll,
            ..Policies::default()
        };
        c.paths.heartbeat = false;
    })
}

/// Packets of 1000 bytes.
fn send(w: &mut World, id: AssociationId, count: usize) {
    for _ in 0..count {
        let options = SendOptions {
            no_delay: true,
            ..SendOptions::default()
        };
        w.send_with(0, id, options, pattern(1000));
    }
}

/// RFC 6937, section 3
#[test]
fn a_lost_retransmission_ignores_a_closed_window() {
    let mut w = World::single_homed();
    w.config = config();
    let (p, id) = Puppet::new().accept(&mut w);
    send(&mut w, id, 1);
    w.run(ms(100));
    p.sack(&mut w, p.endpoint_tsn(0), 1 << 20, &[]);
    send(&mut w, id, 2);
    assert_eq!(p.numbers(&p.receive(&mut w)), [1, 2]);
    w.run(ms(100));
    // Only the second one arrived, and there is no room for the first: a timeout may be no loss.
    p.sack(&mut w, p.endpoint_tsn(0), 500, &[(2, 2)]);
    w.run(ms(200));
    assert_eq!(p.numbers(&p.receive(&mut w)), [1], "found by the timer");
    // The repair is lost, and whatever else leaves for some time.
    w.run(secs(20));
    let repeated = p.numbers(&p.receive(&mut w));
    assert!(repeated.len() > 1, "{repeated:?}");
    assert!(repeated.iter().all(|n| *n == 1));
    p.sack(&mut w, p.endpoint_tsn(2), 1 << 20, &[]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
}

/// RFC 6937, section 3
#[test]
fn a_lost_retransmission_returns_to_the_first_path() {
    let mut w = World::new();
    w.config = config();
    w.config.research.policies.retransmission_route = RetransmissionRoute::InTurn;
    let (a, b) = w.connect();
    send(&mut w, a, 2);
    w.run(secs(1));
    assert_eq!(w.receive(1, b).len(), 2);
    // A chunk is lost on the first path, and its repair on the second one.
    let (mut first, mut lost) = (None, 0);
    w.rule(move |seen| {
        if seen.from != 0 || !seen.has(ChunkType::DATA) || lost == 2 {
            return Verdict::Pass;
        }
        let tsn = seen.data()[0].tsn;
        if *first.get_or_insert(tsn) == tsn {
            lost += 1;
            return Verdict::Drop;
        }
        Verdict::Pass
    });
    w.log.clear();
    send(&mut w, a, 2);
    w.run(secs(20));
    assert_eq!(w.receive(1, b).len(), 2);
    assert_eq!(w.stats(0, a).outstanding_chunks, 0);
    let repairs = w.sent(0, ChunkType::DATA);
    let ways: Vec<_> = repairs[2..].iter().map(|seen| seen.to()).collect();
    assert_eq!(ways, [addresses(1)[1], addresses(1)[0]]);
}
