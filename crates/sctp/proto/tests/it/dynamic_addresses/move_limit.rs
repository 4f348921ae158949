//! Limit on moves of data that the peer requests. Above it, and until a packet leaves, requests
//! that would move data are refused or omitted.

use std::net::IpAddr;

use carrick_proto::AssociationId;
use carrick_wire::{AsconfSerial, CauseCode, ChunkType};

use crate::common::*;
use crate::dynamic_addresses::support::*;

/// A puppet that moved from address to address with many chunks outstanding. No address is
/// verified, so that nothing leaves.
struct Wandered {
    w: World,
    puppet: Puppet,
    id: AssociationId,
    /// Current destination of all data.
    last: IpAddr,
    /// A further address.
    next: IpAddr,
    /// Serial number of the next ASCONF.
    number: u32,
}

/// Moves data until a move is refused, or only a few times. Before, this number of chunks is
/// acknowledged, by which the window grows.
fn wandered(until_refused: bool, acknowledged: u32) -> Wandered {
    let (mut w, mut puppet, id) = puppet();
    w.change(0, id)
        .set_heartbeat(carrick_proto::PathId(0), false)
        .expect("a path");
    for _ in 0..2 * acknowledged + 3 {
        w.send(0, id, 0, pattern(1400));
    }
    w.pump();
    for n in 0..acknowledged {
        puppet.sack(&mut w, puppet.endpoint_tsn(n), 1 << 20, &[]);
    }
    let outstanding = w.stats(0, id).outstanding_chunks;
    assert!(outstanding > acknowledged as usize, "{outstanding}");
    let mut last = puppet.link.from;
    puppet.link.from = ip("10.0.0.200");
    for n in 0..1000_u32 {
        let next = ip(&format!("10.0.0.{}", 100 + n % 2));
        let serial = AsconfSerial::new(puppet.tsn.plus(n).value());
        let enough = !until_refused && n == 10;
        let answer = puppet.send(&mut w, |p| {
            p.asconf(serial, last, |p| {
                p.add_ip_address(ONE, next);
                if !enough {
                    p.delete_ip_address(TWO, last);
                }
            });
        });
        let reported = answers(&answer);
        if enough || !reported.is_empty() {
            let refusal = [(TWO, Some(CauseCode::RESOURCE_SHORTAGE))];
            assert_eq!(reported, if enough { &[][..] } else { &refusal });
            assert_eq!(remotes(&w, 0, id), [last, next]);
            return Wandered {
                w,
                puppet,
                id,
                last,
                next,
                number: n + 1,
            };
        }
        last = next;
    }
    panic!("no DELETE was refused in 1,000 handovers");
}

/// RFC 5061, section 4.2.2
#[test]
fn a_wildcard_keeps_addresses_above_the_move_limit() {
    for spent in [false, true] {
        let Wandered {
            mut w,
            mut puppet,
            id,
            last,
            next,
            number,
        } = wandered(spent, 60);
        puppet.link.from = next;
        // The one without data may go.
        let third = ip("10.0.0.150");
        send_asconf(&mut w, &puppet, number, |p| p.add_ip_address(ONE, third));
        let gone = send_asconf(&mut w, &puppet, number + 1, |p| {
            p.delete_ip_address(ONE, third)
        });
        assert_eq!((acks(&gone), answers(&gone)), (1, vec![]));
        assert_eq!(remotes(&w, 0, id), [last, next]);
        let answer = send_asconf(&mut w, &puppet, number + 2, |p| {
            p.delete_ip_address(ONE, ip("0.0.0.0"))
        });
        if spent {
            let refusal = (ONE, Some(CauseCode::RESOURCE_SHORTAGE));
            assert_eq!(answers(&answer), [refusal]);
            assert_eq!(remotes(&w, 0, id), [last, next]);
        } else {
            assert_eq!(answers(&answer), []);
            assert_eq!(remotes(&w, 0, id), [next]);
        }
    }
}

/// Answers the last HEARTBEAT to this address; the DATA that leaves at once.
fn verify(wandered: &mut Wandered, address: IpAddr) -> Vec<u32> {
    let Wandered { w, puppet, .. } = wandered;
    let beats = w.sent(0, ChunkType::HEARTBEAT).into_iter();
    let beat = beats.rev().find(|s| s.to() == address);
    let beat = beat.expect("a HEARTBEAT").clone();
    puppet.link.from = address;
    let sent = puppet.answer_heartbeat(w, &beat);
    assert!(sent.iter().all(|s| s.to() == address), "{sent:?}");
    puppet.numbers(&sent)
}

#[test]
fn a_handover_above_the_move_limit_is_omitted() {
    for spent in [false, true] {
        // Each step examines this number of chunks, of which the last one has to take more than
        // what the transmissions to the first address allow again: with 68 it does.
        let mut all = wandered(spent, 68);
        let (last, next, number) = (all.last, all.next, all.number);
        let in_flight = verify(&mut all, last);
        assert_eq!(in_flight, [68, 69, 70, 71]);
        let prefers = send_asconf(&mut all.w, &all.puppet, number, |p| {
            p.set_primary_address(ONE, next)
        });
        assert_eq!((acks(&prefers), answers(&prefers)), (1, vec![]));
        let at_once = verify(&mut all, next);
        let expected = if spent { Vec::new() } else { in_flight };
        assert_eq!(at_once, expected);
        // The preference is taken all the same, and a timeout brings the data there.
        let (mut w, puppet, id) = (all.w, all.puppet, all.id);
        let primary = w.stats(0, id).current.expect("a primary");
        assert_eq!(w.read(0, id).path_stats(primary).unwrap().remote, next);
        w.run(secs(2));
        let later = puppet.receive(&mut w);
        let to_next = later.iter().filter(|s| s.to() == next).cloned();
        let there = puppet.numbers(&to_next.collect::<Vec<_>>());
        assert_eq!(there.first(), Some(&68), "{spent}: {there:?}");
    }
}
