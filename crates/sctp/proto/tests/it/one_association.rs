//! One association between two endpoints, whatever the order of the set-ups (RFC 9260, section 1.3).

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{
    AssociationConfig, AssociationId, CloseReason, ConnectError, Event, VerificationTag,
};
use carrick_wire::{AsconfSerial, ChunkType, CorrelationId};

use crate::common::*;

/// Two set-ups of this side, and what became of their messages.
struct Attempt {
    end: usize,
    id: AssociationId,
    message: &'static str,
}

/// Starts a set-up with a message; `None` if the endpoint refuses it because it has an association with the peer.
fn attempt(w: &mut World, end: usize, to: &[IpAddr], message: &'static str) -> Option<Attempt> {
    let config = w.config.clone();
    let started = w.ends[end].connect(w.now, to, port(1 - end), None, config);
    match started {
        Ok(id) => {
            w.send(end, id, 0, message);
            Some(Attempt { end, id, message })
        }
        Err(error) => {
            assert_eq!(error, ConnectError::AlreadyConnected);
            None
        }
    }
}

/// Messages that the endpoint can read now.
fn read(w: &mut World, end: usize, id: AssociationId) -> Vec<Bytes> {
    let all = w.receive(end, id).into_iter();
    all.map(|m| m.payload.into_bytes()).collect()
}

/// Checks that exactly one association results and is not restarted, that each message is delivered or returned to its user,
/// and that each set-up that ended was refused as a second association with the peer.
fn assert_one(w: &mut World, attempts: &[Attempt], limit: Duration, what: &str) {
    let is_settled = |w: &World| {
        let up = |end: usize| {
            let mut all = w.ends[end].associations();
            let id = all.next().filter(|_| all.next().is_none());
            id.is_some_and(|id| state_name(&w.stats(end, id)) == "Established")
        };
        up(0) && up(1)
    };
    assert!(
        w.run_until(limit, |w| is_settled(w)),
        "{what}: {:?}, {} and {} associations",
        w.states(),
        w.ends[0].associations().count(),
        w.ends[1].associations().count()
    );
    w.run(secs(100));
    assert!(is_settled(w), "{what}");
    let ids = [w.association(0), w.association(1)];
    let delivered: Vec<Vec<Bytes>> = (0..2).map(|end| read(w, end, ids[end])).collect();
    let events: Vec<_> = (0..2).map(|end| w.events_of_all(end)).collect();
    for Attempt { end, id, message } in attempts {
        let of_attempt = events[*end].iter().filter(|(of, _)| of == id);
        let failed = of_attempt.clone().any(
            |(_, event)| matches!(event, Event::SendFailed(f) if f.unsent.len() == message.len()),
        );
        let arrived = delivered[1 - end].iter().filter(|m| *m == message).count();
        assert_eq!(
            arrived + usize::from(failed),
            1,
            "{what}: {message}: {events:?}"
        );
        let closed = of_attempt.filter(|(_, event)| matches!(event, Event::Closed(_)));
        let closed: Vec<_> = closed.map(|(_, event)| event.clone()).collect();
        let expected = Event::Closed(CloseReason::AlreadyConnected);
        let refused = if *id == ids[*end] {
            vec![]
        } else {
            vec![expected]
        };
        assert_eq!(closed, refused, "{what}: {message}");
        assert_eq!(failed, *id != ids[*end], "{what}: {message}");
    }
    let restarted = |(_, event): &(_, Event)| *event == Event::Restarted;
    assert!(!events.iter().flatten().any(restarted), "{what}");
    // The one that is left works both ways.
    for (end, id) in ids.iter().enumerate() {
        w.send(end, *id, 1, "afterwards");
    }
    w.run(secs(5));
    for (end, id) in ids.iter().enumerate() {
        assert_eq!(read(w, end, *id), ["afterwards"], "{what}");
    }
}

/// Addresses of the endpoints in a world.
type Homes = fn(usize) -> Vec<IpAddr>;

fn in_two_networks(end: usize) -> Vec<IpAddr> {
    addresses(end).to_vec()
}

fn of_both_families(end: usize) -> Vec<IpAddr> {
    vec![addresses(end)[0], in_v6(addresses(end)[1])]
}

/// More addresses than an INIT ACK lists; the last one is left out.
fn of_many_networks(end: usize) -> Vec<IpAddr> {
    let mut all = addresses(end).to_vec();
    if end == 1 {
        all.extend((2..24).map(|network| IpAddr::from([10, network, 0, 2])));
    }
    all
}

fn world_of(homes: Homes, hands_over: bool) -> World {
    let mut w = World::with(2, |end, config| config.local_addresses = homes(end));
    w.hands_over |= hands_over;
    w
}

/// Milliseconds between the offsets that are tested: fewer of them where each takes long.
fn step(of: &str, hands_over: bool) -> usize {
    if hands_over || of == "a list that is cut" {
        5
    } else {
        1
    }
}

const HOMES: [(Homes, &str); 3] = [
    (in_two_networks, "two networks"),
    (of_both_families, "IPv4 and IPv6"),
    (of_many_networks, "a list that is cut"),
];

/// RFC 9260, section 1.3
/// RFC 9260, section 5.1.2, rule D
#[test]
fn overlapping_set_ups_make_one_association() {
    for (homes, of) in HOMES {
        for hands_over in [false, true] {
            for gap in (0..=50).step_by(step(of, hands_over)) {
                let mut w = world_of(homes, hands_over);
                let theirs = homes(1);
                let (first, second) = (theirs[0], *theirs.last().unwrap());
                let mut attempts = Vec::from_iter(attempt(&mut w, 0, &[first], "first"));
                w.run(ms(gap));
                attempts.extend(attempt(&mut w, 0, &[second], "second"));
                let what = format!("{of}, {gap} ms apart, handovers {hands_over}");
                assert_one(&mut w, &attempts, secs(1), &what);
            }
        }
    }
}

/// The refusal takes one round trip, and nothing of the second set-up reaches the peer behind its INIT.
#[test]
fn a_second_set_up_ends_on_its_init_ack() {
    for gap in [0, 5, 15, 25, 35] {
        let mut w = World::new();
        attempt(&mut w, 0, &[addresses(1)[0]], "first");
        w.run(ms(gap));
        let second = attempt(&mut w, 0, &[addresses(1)[1]], "second").unwrap();
        w.run(ms(20));
        let closed = (second.id, Event::Closed(CloseReason::AlreadyConnected));
        assert!(w.events_of_all(0).contains(&closed), "{gap} ms apart");
        w.run(secs(100));
        let echoes: Vec<_> = w.sent(0, ChunkType::COOKIE_ECHO);
        assert_eq!(echoes.len(), 1, "{gap} ms apart");
        assert!(w.sent(0, ChunkType::ABORT).is_empty());
        assert!(w.sent(1, ChunkType::ABORT).is_empty());
        assert_eq!(w.ends[0].stats().aborted, 0, "no association was aborted");
    }
}

/// The first set-up is answered later than the second one.
#[test]
fn the_set_up_that_is_answered_first_remains() {
    for lost in 1..=2 {
        let mut w = World::new();
        w.lose(0, ChunkType::INIT, lost);
        let mut attempts = Vec::from_iter(attempt(&mut w, 0, &[addresses(1)[0]], "first"));
        w.run(ms(2));
        attempts.extend(attempt(&mut w, 0, &[addresses(1)[1]], "second"));
        assert_one(&mut w, &attempts, secs(10), &format!("{lost} lost"));
    }
    // The address of the first one does not answer until the second association has confirmed it.
    let mut w = World::new();
    w.block(addresses(1)[0]);
    let mut attempts = Vec::from_iter(attempt(&mut w, 0, &[addresses(1)[0]], "first"));
    attempts.extend(attempt(&mut w, 0, &[addresses(1)[1]], "second"));
    w.run(ms(500));
    assert_eq!(w.ends[0].associations().count(), 2);
    w.unblock(addresses(1)[0]);
    assert_one(&mut w, &attempts, secs(5), "blocked at first");
}

/// RFC 9260, section 5.2.1
/// RFC 9260, section 5.2.4
#[test]
fn set_ups_of_both_sides_to_any_addresses_make_one() {
    for (homes, of) in HOMES {
        for hands_over in [false, true] {
            for gap in (0..=50).step_by(step(of, hands_over)) {
                for (to_a, to_b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    let mut w = world_of(homes, hands_over);
                    let (theirs, ours) = (homes(1), homes(0));
                    let mut attempts =
                        Vec::from_iter(attempt(&mut w, 0, &[theirs[to_b]], "of the first"));
                    w.run(ms(gap));
                    attempts.extend(attempt(&mut w, 1, &[ours[to_a]], "of the second"));
                    let what = format!(
                        "{of}, {gap} ms apart, to addresses {to_b} and {to_a}, handovers {hands_over}"
                    );
                    assert_one(&mut w, &attempts, secs(5), &what);
                }
            }
        }
    }
}

/// The peer adds the address of the second set-up by ASCONF (RFC 5061).
#[test]
fn a_set_up_to_an_address_that_asconf_adds_ends() {
    for gap in 0..=60 {
        let config = AssociationConfig::rfc9260().with(|c| {
            c.extensions.dynamic_addresses = true;
            c.security.dynamic_addresses_without_authentication = true;
        });
        let mut w = World::with(2, |end, c| {
            c.association = config.clone();
            if end == 1 {
                c.local_addresses.truncate(1);
            }
        });
        w.config = config;
        let (a, _) = w.connect();
        w.events_of_all(0);
        w.events_of_all(1);
        w.ends[1].local_address_added(addresses(1)[1]);
        w.run(ms(gap));
        let second = attempt(&mut w, 0, &[addresses(1)[1]], "second");
        assert_one(&mut w, second.as_slice(), secs(10), &format!("{gap} ms"));
        assert_eq!(w.association(0), a);
    }
}

fn at(address: &str, tag: u32) -> Puppet {
    let mut puppet = Puppet::new();
    puppet.link.from = ip(address);
    puppet.tag = VerificationTag(tag);
    puppet
}

/// Lets the endpoint connect to a puppet that lists these addresses in its INIT ACK. Returns the answers.
fn answer_listing(w: &mut World, puppet: &Puppet, listed: &[&str]) -> Vec<SentPacket> {
    puppet.answer_init(w, |p| {
        p.state_cookie(b"cookie");
        for address in listed {
            p.ip_address(ip(address));
        }
    })
}

const OWNER: [&str; 2] = ["10.0.0.5", "10.1.0.5"];
const OTHER: &str = "10.0.0.66";

/// RFC 5062, section 2
#[test]
fn an_init_ack_with_foreign_addresses_ends_nothing() {
    // The other host is the second peer, and then the first one. It lists one address of the owner, or both.
    for other_first in [false, true] {
        for claimed in [&OWNER[..1], &OWNER[..]] {
            let mut w = World::new();
            let (mut owner, mut other) = (at(OWNER[0], 0x5555), at(OTHER, 0x6666));
            let listed: Vec<&str> = claimed.iter().copied().chain([OTHER]).collect();
            let mut ids = Vec::new();
            for of_other in [other_first, !other_first] {
                let (puppet, listed) = if of_other {
                    (&mut other, &listed[..])
                } else {
                    (&mut owner, &OWNER[..])
                };
                ids.push(puppet.begin_accept(&mut w));
                let answers = answer_listing(&mut w, puppet, listed);
                let lists_all = of_other && !other_first && claimed.len() == OWNER.len();
                // An INIT ACK with all addresses of the owner ends the set-up of its sender alone.
                assert_eq!(
                    answers.iter().any(|p| p.has(ChunkType::COOKIE_ECHO)),
                    !lists_all
                );
                puppet.send(&mut w, |p| p.cookie_ack());
            }
            let owners = ids[usize::from(other_first)];
            assert!(w.ends[0].associations().any(|id| id == owners));
            owner.data(&mut w, 0, 0, b"hello");
            assert_eq!(w.receive_lengths(0, owners), [5]);
        }
    }
}

/// Two peers list an address that many hosts have, such as that of a bridge for containers.
#[test]
fn a_private_address_in_common_proves_nothing() {
    let mut w = World::new();
    let shared = "172.17.0.1";
    // The first peer is the local host at this address.
    let mut first = at(shared, 0x1111);
    let one = first.begin_accept(&mut w);
    answer_listing(&mut w, &first, &[shared, "10.0.0.7"]);
    first.send(&mut w, |p| p.cookie_ack());
    let mut second = at("10.0.0.8", 0x2222);
    let two = second.begin_accept(&mut w);
    let answers = answer_listing(&mut w, &second, &["10.0.0.8", shared]);
    assert!(answers.iter().any(|p| p.has(ChunkType::COOKIE_ECHO)));
    second.send(&mut w, |p| p.cookie_ack());
    assert_eq!(w.ends[0].associations().count(), 2);
    first.data(&mut w, 0, 0, b"one");
    second.data(&mut w, 0, 0, b"second");
    assert_eq!(w.receive_lengths(0, one), [3]);
    assert_eq!(w.receive_lengths(0, two), [6]);
}

/// The peer's set-ups have nothing in common until the first association has confirmed the second address, after
/// COOKIE ECHO. Returns both set-ups, the second one in COOKIE-ECHOED.
fn confirmed_late(w: &mut World) -> ([Puppet; 2], [AssociationId; 2]) {
    let config = w.config.clone().with(|c| {
        c.extensions.dynamic_addresses = true;
        c.security.dynamic_addresses_without_authentication = true;
    });
    w.config = config;
    let mut first = at(OWNER[0], 0x1111);
    let one = first.begin_accept(w);
    first.answer_init(w, |p| {
        p.state_cookie(b"cookie");
        p.supported_extensions(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK]);
    });
    first.send(w, |p| p.cookie_ack());
    let mut second = at(OWNER[1], 0x2222);
    second.link.to = addresses(0)[1];
    let two = second.begin_accept(w);
    let answers = answer_listing(w, &second, &[]);
    assert!(answers.iter().any(|p| p.has(ChunkType::COOKIE_ECHO)));
    let serial = AsconfSerial::new(first.tsn.value());
    let answers = first.send(w, |p| {
        p.asconf(serial, ip(OWNER[0]), |r| {
            r.add_ip_address(CorrelationId(1), ip(OWNER[1]))
        });
    });
    let heartbeat = answers.iter().find(|p| p.to() == ip(OWNER[1])).unwrap();
    let mut from = first.clone();
    from.link = second.link;
    from.answer_heartbeat(w, heartbeat);
    let paths = w.paths(0, one);
    assert_eq!(paths.filter(|p| p.status.confirmed).count(), 2);
    ([first, second], [one, two])
}

/// The peer has discarded the COOKIE ECHO (RFC 9260, section 5.2.4).
#[test]
fn a_cookie_echo_to_a_known_peer_is_not_repeated() {
    let mut w = World::new();
    let ([mut first, _], [one, two]) = confirmed_late(&mut w);
    w.events_of_all(0);
    w.log.clear();
    w.run(secs(4));
    let closed = (two, Event::Closed(CloseReason::AlreadyConnected));
    assert!(w.events_of_all(0).contains(&closed));
    assert!(w.sent(0, ChunkType::COOKIE_ECHO).is_empty());
    assert_eq!(w.association(0), one);
    first.data(&mut w, 0, 0, b"hello");
    assert_eq!(w.receive_lengths(0, one), [5]);
}

/// The peer has taken the COOKIE ECHO for a restart (RFC 9260, section 5.2.4.1).
#[test]
fn an_association_that_the_peer_has_replaced_ends() {
    let mut w = World::new();
    let ([_, mut second], [one, two]) = confirmed_late(&mut w);
    w.send(0, one, 0, "lost");
    w.events_of_all(0);
    second.send(&mut w, |p| p.cookie_ack());
    let events = w.events_of_all(0);
    let failed =
        |event: &(AssociationId, Event)| event.0 == one && matches!(event.1, Event::SendFailed(_));
    assert!(events.iter().any(failed), "{events:?}");
    let closed = (one, Event::Closed(CloseReason::AlreadyConnected));
    assert!(events.contains(&closed), "{events:?}");
    assert_eq!(w.association(0), two);
    second.data(&mut w, 0, 0, b"hello");
    assert_eq!(w.receive_lengths(0, two), [5]);
}
