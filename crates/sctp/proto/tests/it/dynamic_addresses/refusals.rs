//! Refused requests, and the requests behind them.

use std::net::IpAddr;

use carrick_proto::AddressEvent;
use carrick_wire::{CauseCode, CorrelationId};

use crate::common::*;
use crate::dynamic_addresses::support::*;

const THREE: CorrelationId = CorrelationId(3);
const FOUR: CorrelationId = CorrelationId(4);

/// RFC 5061, section 5.3, rule F11
#[test]
fn a_refused_change_refuses_all_that_follow() {
    let (mut w, puppet, id) = puppet();
    let [known, other] = [ip("10.0.0.101"), ip("10.0.0.102")];
    send_asconf(&mut w, &puppet, 0, |p| p.add_ip_address(ONE, known));
    let before = [puppet.link.from, known];
    // An address that can't be reached from here, and the second one that is moved away from.
    let answer = send_asconf(&mut w, &puppet, 1, |p| {
        p.add_ip_address(ONE, ip("2001:db8::1"));
        p.delete_ip_address(TWO, known);
        p.add_ip_address(THREE, other);
        p.set_primary_address(FOUR, known);
    });
    assert_eq!(remotes(&w, 0, id), before, "the peer keeps its old address");
    let kinds: Vec<_> = answers(&answer).iter().map(|a| a.1.is_some()).collect();
    assert_eq!(kinds, [true, true, true, false]);
    assert_eq!(
        answers(&answer)[0].1,
        Some(CauseCode::UNRESOLVABLE_ADDRESS),
        "each cause is true of its request"
    );
    // The same behind a refused DELETE: of the source, and of an unknown address.
    for (number, wrong) in [(2, puppet.link.from), (3, ip("10.9.9.9"))] {
        let answer = send_asconf(&mut w, &puppet, number, |p| {
            p.delete_ip_address(ONE, wrong);
            p.delete_ip_address(TWO, known);
            p.add_ip_address(THREE, other);
        });
        assert!(answers(&answer).iter().all(|a| a.1.is_some()));
        assert_eq!(answers(&answer).len(), 3);
        assert_eq!(remotes(&w, 0, id), before);
    }
    // The next ASCONF starts over.
    send_asconf(&mut w, &puppet, 4, |p| p.delete_ip_address(ONE, known));
    assert_eq!(remotes(&w, 0, id), [puppet.link.from]);
}

/// Addresses of the network that both have.
fn many(count: u8) -> Vec<IpAddr> {
    (0..count)
        .map(|n| IpAddr::from([10, 3, 0, 10 + n]))
        .collect()
}

fn with_limit(max_paths: usize, homes: usize) -> (World, [carrick_proto::AssociationId; 2]) {
    let mut w = World::with(2, |end, c| {
        c.association = dynamic();
        c.association.paths.max_paths = if end == 1 { max_paths } else { 64 };
        c.local_addresses.truncate(homes);
    });
    w.config = dynamic();
    let (a, b) = w.connect();
    (w, [a, b])
}

/// RFC 5061, section 5.3, rule F10
/// RFC 5061, section 5.1.1
#[test]
fn refused_addresses_are_not_requested_forever() {
    let (mut w, [_, b]) = with_limit(2, 1);
    for new in many(40) {
        w.ends[0].local_address_added(new);
    }
    w.run(secs(60));
    let reported = asconfs(&w, 0).len();
    assert!(reported <= 4, "{reported} ASCONFs");
    assert_eq!(remotes(&w, 1, b).len(), 2);
    w.log.clear();
    w.run(secs(60));
    assert_eq!(asconfs(&w, 0).len(), 0, "no further requests");
}

/// RFC 5061, section 5.1
#[test]
fn changes_beyond_one_asconf_are_all_sent() {
    let (mut w, [a, b]) = with_limit(64, 1);
    for new in many(40) {
        w.ends[0].local_address_added(new);
    }
    w.run(secs(5));
    assert_eq!(asconfs(&w, 0).len(), 3);
    assert_eq!(remotes(&w, 1, b).len(), 41);
    for gone in many(40) {
        w.ends[0].local_address_removed(w.now, gone);
    }
    w.run(secs(5));
    assert_eq!(remotes(&w, 1, b), [addresses(0)[0]]);
    exchange(&mut w, a, b);
}

/// RFC 5061, section 5.4
#[test]
fn set_primary_behind_many_changes_is_sent() {
    let (mut w, [a, b]) = with_limit(64, 1);
    let all = many(40);
    for new in &all {
        w.ends[0].local_address_added(*new);
    }
    w.change(0, a).set_peer_primary(all[39]).expect("ask");
    w.run(secs(5));
    let primary = w.stats(1, b).current.expect("a primary");
    assert_eq!(w.path(1, b, primary.0).remote, all[39]);
}

/// RFC 5061, section 5.3, rule F11
#[test]
fn a_consequently_refused_request_is_repeated() {
    // The peer has room for two: the new address has to wait until an old one is deleted.
    let (mut w, [a, b]) = with_limit(2, 2);
    let [stays, goes] = addresses(0);
    let new = many(1)[0];
    w.block(goes);
    w.ends[0].local_address_removed(w.now, goes);
    w.ends[0].local_address_added(new);
    w.run(secs(5));
    assert_eq!(remotes(&w, 1, b), [stays, new]);
    let reported = asconfs(&w, 0).len();
    assert_eq!(reported, 3, "both, the DELETE alone, the ADD again");
    let events = address_events(&mut w, 0);
    assert!(events.contains(&AddressEvent::LocalRemoved(goes)));
    assert!(events.contains(&AddressEvent::LocalAdded(new)));
    exchange(&mut w, a, b);
}

/// RFC 5061, section 5.1, rule A7
#[test]
fn a_request_without_room_for_its_answer_is_skipped() {
    let (mut w, puppet, id) = puppet();
    let mut number = 0;
    // Refusals that leave less and less room behind them, to the last byte.
    for refused in 30..45 {
        for preferred in 0..4 {
            let before = remotes(&w, 0, id);
            assert_eq!(before, [puppet.link.from]);
            let answer = send_asconf(&mut w, &puppet, number, |p| {
                for n in 0..refused {
                    p.set_primary_address(CorrelationId(100 + n), ip("10.9.9.9"));
                }
                for n in 0..preferred {
                    p.set_primary_address(CorrelationId(500 + n), puppet.link.from);
                }
                p.set_primary_address(ONE, puppet.link.from);
                p.add_ip_address(TWO, ip("10.0.0.101"));
            });
            number += 1;
            let reported = answers(&answer);
            let last = reported.last().expect("an answer");
            let done = remotes(&w, 0, id).len() == 2;
            assert_eq!(done, *last == (TWO, None), "{refused} refusals: {last:?}");
            if done {
                send_asconf(&mut w, &puppet, number, |p| {
                    p.delete_ip_address(ONE, ip("10.0.0.101"))
                });
                number += 1;
            }
        }
    }
}
