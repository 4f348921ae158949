//! Set-up chunks for associations that exist: collisions and restarts (RFC 9260 section 5.2).

use std::net::IpAddr;

use crate::common;

use carrick_proto::research::WindowAnnouncement;
use carrick_proto::{CloseReason, Endpoint, EndpointConfig, Event, SendOptions, Tsn};
use carrick_wire::{CauseCode, ChunkType, VerificationTag};
use common::*;

/// Both endpoints connect to each other, the second one `gap_ms` later.
fn collide(w: &mut World, gap_ms: u64) {
    w.begin_connect_from(0, &[addresses(1)[0]], port(1));
    w.run(ms(gap_ms));
    if w.ends[1].associations().count() == 0 {
        w.begin_connect_from(1, &[addresses(0)[0]], port(0));
    }
}

/// There is one association, and it works both ways.
fn assert_works(w: &mut World, what: &str) {
    assert!(
        w.run_until(secs(200), |w| w.states() == [Some("Established"); 2]),
        "{what}: {:?}",
        w.states()
    );
    let (a, b) = (w.association(0), w.association(1));
    for _ in 0..3 {
        w.send(0, a, 1, pattern(2000));
        w.send(1, b, 2, pattern(1000));
    }
    w.run(secs(100));
    assert_eq!(w.receive_lengths(1, b), [2000; 3], "{what}");
    assert_eq!(w.receive_lengths(0, a), [1000; 3], "{what}");
    assert_eq!(w.states(), [Some("Established"); 2], "{what}");
    for end in 0..2 {
        let events = w.events(end);
        let reported = |e: &&Event| matches!(e, Event::Established { .. });
        assert_eq!(
            events.iter().filter(reported).count(),
            1,
            "{what}: {events:?}"
        );
        let ended = |e: &Event| matches!(e, Event::Restarted | Event::Closed(_));
        assert!(!events.iter().any(ended), "{what}: {events:?}");
    }
}

/// RFC 9260, section 5.2.1
#[test]
fn colliding_set_ups_make_one_association() {
    for gap_ms in 0..=45 {
        let mut w = World::single_homed();
        collide(&mut w, gap_ms);
        assert_works(&mut w, &format!("{gap_ms} ms apart"));
    }
}

/// RFC 9260, section 5.2.4
#[test]
fn colliding_set_ups_survive_every_loss_pattern() {
    for gap_ms in [0, 5, 10, 15, 25] {
        for lost in 0_u32..512 {
            let mut w = World::single_homed();
            let mut n = 0;
            w.rule(move |_| {
                n += 1;
                let hit = n <= 9 && lost >> (n - 1) & 1 == 1;
                if hit { Verdict::Drop } else { Verdict::Pass }
            });
            collide(&mut w, gap_ms);
            assert_works(&mut w, &format!("{gap_ms} ms apart, losses {lost:b}"));
        }
    }
}

/// RFC 9260, section 5.2.4
#[test]
fn colliding_set_ups_survive_reordering() {
    for order in 0_u64..256 {
        let mut w = World::new();
        let mut n = 0;
        w.rule(move |_| {
            n += 1;
            let late = n <= 8 && order >> (n - 1) & 1 == 1;
            if late {
                Verdict::Delay(ms(37))
            } else {
                Verdict::Pass
            }
        });
        collide(&mut w, order % 12);
        assert_works(&mut w, &format!("delays {order:b}"));
    }
}

/// Two endpoints, the second with more addresses than its INIT ACK may list.
fn with_a_cut_list() -> World {
    World::with(2, |end, config| {
        config.local_addresses.truncate(1);
        if end == 1 {
            let further = (1..24).map(|network| IpAddr::from([10, network, 0, 2]));
            config.local_addresses.extend(further);
        }
    })
}

/// The INIT of the second endpoint lists addresses that its INIT ACK left out, which the first one
/// refuses with an ABORT (RFC 9260, section 5.2.1).
#[test]
fn set_ups_collide_although_an_init_ack_was_cut() {
    for gap_ms in 0..=45 {
        let mut w = with_a_cut_list();
        collide(&mut w, gap_ms);
        assert_works(&mut w, &format!("{gap_ms} ms apart"));
    }
    for lost in 0_u32..512 {
        let mut w = with_a_cut_list();
        let mut n = 0;
        w.rule(move |_| {
            n += 1;
            let hit = n <= 9 && lost >> (n - 1) & 1 == 1;
            if hit { Verdict::Drop } else { Verdict::Pass }
        });
        collide(&mut w, 15);
        assert_works(&mut w, &format!("losses {lost:b}"));
    }
}

/// RFC 9260, section 5.2.4
#[test]
fn data_queued_by_colliding_peers_arrives_once() {
    for lost in 0_u32..64 {
        let mut w = World::single_homed();
        let mut n = 0;
        w.rule(move |_| {
            n += 1;
            let hit = n <= 6 && lost >> (n - 1) & 1 == 1;
            if hit { Verdict::Drop } else { Verdict::Pass }
        });
        let a = w.begin_connect_from(0, &[addresses(1)[0]], port(1));
        let b = w.begin_connect_from(1, &[addresses(0)[0]], port(0));
        w.send(0, a, 0, pattern(111));
        w.send(1, b, 0, pattern(222));
        w.run(secs(300));
        assert_eq!(w.receive_lengths(1, b), [111], "losses {lost:b}");
        assert_eq!(w.receive_lengths(0, a), [222], "losses {lost:b}");
    }
}

/// RFC 9260, section 5.4
#[test]
fn configured_addresses_stay_confirmed_in_a_collision() {
    let mut w = World::new();
    // The INIT ACKs are lost, so that both sides learn of each other by COOKIE ECHO.
    w.begin_connect_from(0, &addresses(1), port(1));
    w.begin_connect_from(1, &addresses(0), port(0));
    w.lose(1, ChunkType::INIT_ACK, 1);
    assert!(w.run_until(secs(20), |w| w.states()[0] == Some("Established")));
    let a = w.association(0);
    assert!(w.paths(0, a).all(|p| p.status.confirmed));
}

/// RFC 9260, section 5.2.1
#[test]
fn cookie_wait_answers_with_its_own_init_parameters() {
    let mut w = World::single_homed();
    w.config.buffers.receive_buffer = 77_777;
    w.config.streams.outbound_streams = 7;
    w.config.streams.max_inbound_streams = 9;
    let mut peer = Puppet::new();
    let id = w.begin_connect_from(0, &[peer.link.from], peer.port);
    let own = peer.receive(&mut w)[0].clone();
    peer.record_init(&own);
    for state in ["CookieWait", "CookieEchoed"] {
        assert_eq!(state_name(&w.stats(0, id)), state);
        let answers = peer.init(&mut w, |_| {});
        assert_eq!(answers[0].kinds(), [ChunkType::INIT_ACK]);
        assert_eq!(answers[0].init().fields(), own.init().fields(), "{state}");
        assert_eq!(state_name(&w.stats(0, id)), state, "unchanged");
        peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
    }
}

/// The limit of an INIT ACK to a source that is not verified does not apply (RFC 9260, section 5.2.1).
#[test]
fn cookie_wait_answers_with_the_addresses_of_its_init() {
    let mut w = World::with(1, |_, config| {
        let further = (2..24).map(|network| IpAddr::from([10, network, 0, 1]));
        config.local_addresses.extend(further);
    });
    let mut peer = Puppet::new();
    w.begin_connect_from(0, &[peer.link.from], peer.port);
    let own = peer.receive(&mut w)[0].clone();
    peer.record_init(&own);
    assert_eq!(own.listed().len(), 24);
    let answers = peer.init(&mut w, |_| {});
    assert_eq!(answers[0].listed(), own.listed());

    // Those that the peer refuses are left out of both.
    let refused = &own.listed()[20..];
    let inits = new_addresses_refused(&peer, &mut w, refused);
    assert_eq!(inits[0].listed(), own.listed()[..20]);
    let answers = peer.init(&mut w, |_| {});
    assert_eq!(answers[0].listed(), own.listed()[..20]);

    // An address that the peer only claims gets no more than one without an association.
    let claimed = ip("10.0.0.98");
    peer.answer_init(&mut w, |p| {
        p.state_cookie(b"c");
        p.ip_address(claimed);
    });
    peer.link.from = claimed;
    let answers = peer.init(&mut w, |_| {});
    assert_eq!(answers[0].kinds(), [ChunkType::INIT_ACK]);
    assert!(answers[0].listed().len() < 10, "{:?}", answers[0].listed());
}

/// RFC 9260, section 5.2.1
#[test]
fn cookie_wait_answers_only_to_a_configured_address() {
    let mut w = World::new();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    let given = peer.link.from;
    peer.link.from = ip("10.1.0.99");
    peer.link.to = addresses(0)[1];
    let answers = peer.init(&mut w, |p| p.ip_address(given));
    assert!(answers.iter().all(|p| p.to() == given));
    // From the source of this side's INIT: with policy routing, packets from another one have no route.
    assert!(
        answers
            .iter()
            .all(|p| p.route.local == Some(addresses(0)[0]))
    );
    assert!(!answers.is_empty());
    assert_eq!(state_name(&w.stats(0, id)), "CookieWait");
}

/// RFC 9260, section 5.2.1
#[test]
fn cookie_echoed_refuses_an_init_with_a_new_address() {
    let mut w = World::new();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
    let late = peer.init(&mut w, |p| p.ip_address(ip("10.1.0.99")));
    assert!(late.is_empty(), "the tag is that of the INIT ACK");

    peer.tag = VerificationTag(0x00ab_cdef);
    let answers = peer.init(&mut w, |p| p.ip_address(ip("10.1.0.99")));
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    assert_eq!(answers[0].tag(), peer.tag);
    let (code, value) = answers[0].causes()[0].clone();
    assert_eq!(code, CauseCode::RESTART_WITH_NEW_ADDRESSES);
    assert_eq!(value, [0, 5, 0, 8, 10, 1, 0, 99]);
    assert_eq!(state_name(&w.stats(0, id)), "CookieEchoed");
}

/// Returns the ABORT of a peer that has an association with this host, without these addresses.
fn new_addresses_refused(peer: &Puppet, w: &mut World, new: &[IpAddr]) -> Vec<SentPacket> {
    peer.send(w, |p| {
        p.abort(false, |causes| causes.restart_with_new_addresses(new));
    })
}

fn assert_ended_by_new_addresses(w: &mut World) {
    let events = w.events(0);
    let [Event::Closed(CloseReason::AbortedByPeer(cause))] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(cause.code, CauseCode::RESTART_WITH_NEW_ADDRESSES.0);
}

/// RFC 9260, section 3.3.10.11
#[test]
fn an_init_is_repeated_without_refused_addresses() {
    let mut w = World::with(1, |_, config| {
        config.local_addresses.push(ip("10.2.0.1"));
    });
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    let [first, second] = addresses(0);
    let new = [second, ip("10.2.0.1")];
    let answers = new_addresses_refused(&peer, &mut w, &new[..1]);
    let [init] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!(init.init().tag, peer.peer_tag, "the same tag");
    assert_eq!(init.source(), first);
    assert_eq!(init.listed(), [first, ip("10.2.0.1")]);

    // The reply to the first INIT once more.
    assert!(new_addresses_refused(&peer, &mut w, &new[..1]).is_empty());
    assert_eq!(state_name(&w.stats(0, id)), "CookieWait");

    // The rest is refused with the source.
    new_addresses_refused(&peer, &mut w, &[first, ip("10.2.0.1")]);
    assert_ended_by_new_addresses(&mut w);
}

/// RFC 9260, section 3.3.10.11
#[test]
fn an_init_leaves_from_an_address_that_is_not_refused() {
    let mut w = World::new();
    let mut peer = Puppet::new();
    peer.begin_accept(&mut w);
    let [first, second] = addresses(0);
    let answers = new_addresses_refused(&peer, &mut w, &[first]);
    assert_eq!(answers[0].kinds(), [ChunkType::INIT]);
    assert_eq!(answers[0].source(), second);
}

/// RFC 9260, section 9.1
#[test]
fn refused_addresses_of_others_end_the_set_up() {
    let mut w = World::new();
    let mut peer = Puppet::new();
    peer.begin_accept(&mut w);
    new_addresses_refused(&peer, &mut w, &[ip("192.0.2.1")]);
    assert_ended_by_new_addresses(&mut w);
}

/// A puppet in an association, and the cookie of a restart of it.
fn restarting(w: &mut World) -> (Puppet, Puppet, bytes::Bytes) {
    let (old, _) = Puppet::new().connect(w);
    let mut new = old.clone();
    new.tag = VerificationTag(0x00ab_cdef);
    new.tsn = Tsn::new(500_000);
    let answers = new.init(w, |_| {});
    assert_eq!(answers[0].kinds(), [ChunkType::INIT_ACK]);
    assert_eq!(answers[0].tag(), new.tag);
    new.record_init(&answers[0]);
    assert_ne!(new.peer_tag, old.peer_tag, "a new Initiate Tag");
    let cookie = Puppet::cookie(&answers[0]);
    (old, new, cookie)
}

/// RFC 9260, section 5.2.2
#[test]
fn an_unexpected_init_changes_nothing() {
    let mut w = World::single_homed();
    let (mut old, _, _) = restarting(&mut w);
    let id = w.association(0);
    let answers = old.data(&mut w, 0, 0, b"still here");
    assert_eq!(answers[0].tag(), old.tag);
    assert_eq!(w.receive_lengths(0, id), [10]);
    assert_eq!(w.events(0), [Event::MessageReceived]);
}

/// RFC 9260, section 5.2.2
#[test]
fn an_unexpected_init_gets_the_current_parameters() {
    let mut w = World::single_homed();
    w.config.buffers.receive_buffer = 77_777;
    w.config.research.policies.window_announcement = WindowAnnouncement::True;
    w.config.streams.outbound_streams = 7;
    w.config.streams.max_inbound_streams = 9;
    let (mut peer, _) = Puppet::new().accept(&mut w);
    peer.tag = VerificationTag(0x00ab_cdef);
    let answers = peer.init(&mut w, |_| {});
    let fields = answers[0].init().fields();
    assert_eq!(
        (
            fields.a_rwnd,
            fields.outbound_streams,
            fields.inbound_streams
        ),
        (77_777, 7, 9)
    );
}

/// RFC 9260, section 5.2.4
#[test]
fn action_a_restarts_the_association() {
    let mut w = World::single_homed();
    let (mut old, mut new, cookie) = restarting(&mut w);
    let id = w.association(0);
    // Unread, out of order and half received; sent and queued.
    old.data(&mut w, 0, 0, b"unread");
    old.data(&mut w, 0, 5, b"waits for those before it");
    for context in 0..5 {
        let options = SendOptions {
            context,
            ..SendOptions::on_stream(3)
        };
        w.send_with(0, id, options, pattern(1400));
    }
    w.run(secs(2));
    assert!(w.path(0, id, 0).cwnd < 4404, "a timeout made it small");
    w.events(0);

    let answers = new.send(&mut w, |p| p.cookie_echo(&cookie));
    assert_eq!(answers[0].kinds()[0], ChunkType::COOKIE_ACK);
    assert_eq!(answers[0].tag(), new.tag);
    let events = w.events(0);
    let failed: Vec<_> = events
        .iter()
        .filter_map(|e| match e {
            Event::SendFailed(f) => Some((f.context, f.unsent.len())),
            _ => None,
        })
        .collect();
    assert_eq!(
        failed,
        [(0, 1400), (1, 1400), (2, 1400), (3, 1400), (4, 1400)]
    );
    assert!(events.contains(&Event::Restarted));
    assert!(!events.iter().any(|e| matches!(e, Event::Closed(_))));
    let path = w.path(0, id, 0);
    assert_eq!((path.cwnd, path.ssthresh), (4404, usize::MAX));
    assert_eq!((path.flight_size, path.error_count), (0, 0));
    assert_eq!(path.rto, secs(1));
    assert_eq!(w.stats(0, id).send_buffer_bytes, 0);

    // TSNs and SSNs restart.
    let answers = new.data(&mut w, 0, 0, b"again");
    assert_eq!(
        answers[0].sack().unwrap().cumulative_tsn_ack,
        new.tsn.previous()
    );
    assert_eq!(
        w.receive_lengths(0, id),
        [6, 5],
        "what was complete stays for the user"
    );
    w.send(0, id, 3, pattern(10));
    let sent = new.receive(&mut w);
    assert_eq!(sent[0].data()[0].tsn, new.peer_tsn);
    assert_eq!(sent[0].data()[0].ssn.value(), 0);
    assert_eq!(w.ends[0].associations().count(), 1);
    // The old peer is no longer known.
    assert_eq!(old.data(&mut w, 0, 9, b"old").len(), 0);
}

/// RFC 9260, section 5.2.2
#[test]
fn a_restart_with_new_addresses_is_refused() {
    let mut w = World::new();
    let (peer, _) = Puppet::new().connect(&mut w);
    let mut new = peer.clone();
    new.tag = VerificationTag(0x00ab_cdef);
    let answers = new.init(&mut w, |p| {
        p.ip_address(ip("10.0.0.99"));
        p.ip_address(ip("10.1.0.98"));
        p.ip_address(ip("fd00::98"));
    });
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    assert_eq!(answers[0].tag(), new.tag, "the Initiate Tag");
    assert_eq!(answers[0].flags(ChunkType::ABORT), 0);
    let (code, value) = answers[0].causes()[0].clone();
    assert_eq!(code, CauseCode::RESTART_WITH_NEW_ADDRESSES);
    assert_eq!(value[..8], [0, 5, 0, 8, 10, 1, 0, 98]);
    assert_eq!(value.len(), 8 + 20, "those that are new, not the known one");
    assert_eq!(w.states()[0], Some("Established"));
    assert_eq!(w.events(0), []);
}

/// RFC 9260, section 5.1.2, rule D
#[test]
fn an_init_listing_a_known_address_is_a_restart() {
    let mut w = World::new();
    let (peer, _) = Puppet::new().connect(&mut w);
    let mut new = peer.clone();
    new.tag = VerificationTag(0x00ab_cdef);
    new.link.from = ip("10.1.0.98");
    new.link.to = addresses(0)[1];
    let answers = new.init(&mut w, |p| p.ip_address(ip("10.0.0.99")));
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    assert_eq!(answers[0].to(), new.link.from);
    assert_eq!(w.ends[0].associations().count(), 1);
}

/// RFC 9260, section 5.2.4, rule A
#[test]
fn a_restart_in_shutdown_ack_sent_is_refused() {
    let mut w = World::single_homed();
    let (old, new, cookie) = restarting(&mut w);
    let id = w.association(0);
    old.send(&mut w, |p| p.shutdown(old.endpoint_tsn(0).previous()));
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownAckSent");
    let answers = new.send(&mut w, |p| p.cookie_echo(&cookie));
    let kinds: Vec<_> = answers.iter().flat_map(|p| p.kinds()).collect();
    assert!(kinds.contains(&ChunkType::SHUTDOWN_ACK), "{kinds:?}");
    let causes: Vec<_> = answers.iter().flat_map(|p| p.causes()).collect();
    assert_eq!(causes, [(CauseCode::COOKIE_WHILE_SHUTTING_DOWN, vec![])]);
    assert_eq!(state_name(&w.stats(0, id)), "ShutdownAckSent");
    assert!(!w.events(0).contains(&Event::Restarted));
}

/// RFC 9260, section 5.2.4
#[test]
fn action_b_takes_the_tag_of_the_cookie() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    // The peer answers with one tag and then sends an INIT with another.
    let answering = Puppet {
        tag: VerificationTag(0x1111),
        ..peer.clone()
    };
    answering.answer_init(&mut w, |p| p.state_cookie(b"c"));
    assert_eq!(state_name(&w.stats(0, id)), "CookieEchoed");
    let answers = peer.init(&mut w, |_| {});
    assert_eq!(answers[0].init().tag, peer.peer_tag, "the INIT's own tag");
    let cookie = Puppet::cookie(&answers[0]);
    let answers = peer.send(&mut w, |p| p.cookie_echo(&cookie));
    assert_eq!(answers[0].kinds()[0], ChunkType::COOKIE_ACK);
    assert_eq!(answers[0].tag(), peer.tag, "updated");
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    let answers = peer.data(&mut w, 0, 0, b"works");
    assert_eq!(answers[0].tag(), peer.tag);
    assert_eq!(w.receive_lengths(0, id), [5]);
    w.run(secs(20));
    let again = peer.receive(&mut w);
    assert!(
        again.iter().all(|p| !p.has(ChunkType::COOKIE_ECHO)),
        "T1-cookie has stopped"
    );
}

/// RFC 9260, section 5.2.4
#[test]
fn action_b_applies_before_the_peer_tag_is_known() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    let answers = peer.init(&mut w, |_| {});
    let cookie = Puppet::cookie(&answers[0]);
    let answers = peer.send(&mut w, |p| p.cookie_echo(&cookie));
    assert_eq!(answers[0].kinds()[0], ChunkType::COOKIE_ACK);
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    w.run(secs(20));
    let again = peer.receive(&mut w);
    assert!(
        again.iter().all(|p| !p.has(ChunkType::INIT)),
        "T1-init has stopped"
    );
}

/// RFC 9260, section 5.2.4
#[test]
fn action_c_discards_a_late_cookie() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |_| {});
    let late_tag = answers[0].init().tag;
    let cookie = Puppet::cookie(&answers[0]);
    // Meanwhile the endpoint sets up an association itself, and the peer uses the same tag.
    let (mut peer, id) = {
        let id = peer.begin_accept(&mut w);
        peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
        peer.send(&mut w, |p| p.cookie_ack());
        (peer, id)
    };
    w.events(0);
    assert_eq!(
        peer.send_with_tag(&mut w, late_tag, |p| p.cookie_echo(&cookie))
            .len(),
        0
    );
    assert_eq!(w.events(0), []);
    peer.data(&mut w, 0, 0, b"works");
    assert_eq!(w.receive_lengths(0, id), [5]);
}

/// RFC 9260, section 5.2.4
#[test]
fn action_d_acknowledges_a_cookie_in_every_state() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |_| {});
    peer.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    peer.send(&mut w, |p| p.cookie_echo(&cookie));
    let id = w.association(0);
    w.events(0);
    peer.data(&mut w, 0, 0, b"before");
    let answers = peer.send(&mut w, |p| p.cookie_echo(&cookie));
    assert_eq!(answers[0].kinds()[0], ChunkType::COOKIE_ACK);
    // Even when it is stale: both tags match (step 3).
    w.run(secs(300));
    peer.receive(&mut w);
    if w.states()[0] == Some("Established") {
        let answers = peer.send(&mut w, |p| p.cookie_echo(&cookie));
        assert_eq!(answers[0].kinds()[0], ChunkType::COOKIE_ACK);
    }
    assert!(!w.events(0).contains(&Event::Restarted));
    assert_eq!(w.receive_lengths(0, id), [6]);
}

/// RFC 9260, section 5.2.4
#[test]
fn action_d_leaves_cookie_echoed() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
    let answers = peer.init(&mut w, |_| {});
    let cookie = Puppet::cookie(&answers[0]);
    let answers = peer.send(&mut w, |p| p.cookie_echo(&cookie));
    assert_eq!(answers[0].kinds()[0], ChunkType::COOKIE_ACK);
    assert_eq!(state_name(&w.stats(0, id)), "Established");
}

/// RFC 9260, section 5.2.4
#[test]
fn a_cookie_matching_no_action_is_discarded() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    // Two cookies from the time before the association, one of them becomes it.
    let first = peer.init(&mut w, |_| {});
    let first_tag = first[0].init().tag;
    let unused = Puppet::cookie(&first[0]);
    peer.tag = VerificationTag(0x2222);
    let (mut peer, id) = peer.connect(&mut w);
    assert_eq!(
        peer.send_with_tag(&mut w, first_tag, |p| p.cookie_echo(&unused))
            .len(),
        0,
        "local and peer's tag differ and there are no tie-tags"
    );
    assert_eq!(w.events(0), []);
    peer.data(&mut w, 0, 0, b"works");
    assert_eq!(w.receive_lengths(0, id), [5]);
}

/// RFC 9260, section 5.2.4
#[test]
fn the_cookie_of_an_older_restart_is_discarded() {
    let mut w = World::single_homed();
    let (_, first, first_cookie) = restarting(&mut w);
    first.send(&mut w, |p| p.cookie_echo(&first_cookie));
    // The tie-tags are new after a restart: a second use of a cookie with the old ones is row D,
    // one that was made before it belongs to no row.
    w.events(0);
    let mut second = first.clone();
    second.tag = VerificationTag(0x3333);
    let answers = second.init(&mut w, |_| {});
    second.record_init(&answers[0]);
    let second_cookie = Puppet::cookie(&answers[0]);
    second.send(&mut w, |p| p.cookie_echo(&second_cookie));
    assert!(w.events(0).contains(&Event::Restarted));
    assert_eq!(
        first.send(&mut w, |p| p.cookie_echo(&first_cookie)).len(),
        0
    );
    assert_eq!(w.events(0), []);
}

/// RFC 9260, section 5.2.4, rule 3
#[test]
fn a_stale_cookie_of_a_restart_is_reported() {
    let mut w = World::with(1, |_, c| {
        c.local_addresses.truncate(1);
        c.association.timers.valid_cookie_life = secs(2);
        c.association.paths.heartbeat = false;
    });
    let (_, new, cookie) = restarting(&mut w);
    w.run(secs(3));
    let answers = new.send(&mut w, |p| p.cookie_echo(&cookie));
    assert_eq!(answers[0].kinds(), [ChunkType::ERROR]);
    assert_eq!(answers[0].causes()[0].0, CauseCode::STALE_COOKIE);
    assert_eq!(answers[0].tag(), new.tag);
    assert_eq!(w.states()[0], Some("Established"));
}

/// RFC 9260, section 5.2.4.1
#[test]
fn an_endpoint_that_lost_its_state_reconnects() {
    for both_homes in [false, true] {
        let homes = if both_homes { 2 } else { 1 };
        let mut w = World::with(2, |_, c| c.local_addresses.truncate(homes));
        let (a, _) = w.connect();
        for _ in 0..10 {
            w.send(0, a, 0, pattern(3000));
        }
        w.pump();
        // A crash: a new endpoint with the same addresses and port.
        let local = addresses(1)[..homes].to_vec();
        w.ends[1] = Endpoint::new(EndpointConfig::new(port(1), local, [99; 32])).unwrap();
        w.begin_connect_from(1, &[addresses(0)[0]], port(0));
        w.run(secs(5));
        let events = w.events(0);
        // The DATA on its way is out of the blue for the new endpoint, and the ABORT may win.
        let restarted = events.contains(&Event::Restarted);
        let aborted = events
            .iter()
            .any(|e| matches!(e, Event::Closed(CloseReason::AbortedByPeer(_))));
        assert!(restarted || aborted, "{events:?}");
        assert_eq!(w.states(), [Some("Established"); 2]);
        let (a, b) = (w.association(0), w.association(1));
        w.receive(1, b);
        w.send(0, a, 5, pattern(5000));
        w.send(1, b, 5, pattern(6000));
        w.run(secs(5));
        assert_eq!(w.receive_lengths(1, b), [5000]);
        assert_eq!(w.receive_lengths(0, a), [6000]);
    }
}

/// RFC 9260, section 5.2.4.1
#[test]
fn a_restart_of_an_idle_peer_is_reported_once() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.events(0);
    w.ends[1] = Endpoint::new(EndpointConfig::new(
        port(1),
        addresses(1).to_vec(),
        [99; 32],
    ))
    .unwrap();
    w.begin_connect_from(1, &[addresses(0)[0]], port(0));
    w.run(secs(5));
    let events = w.events(0);
    let reported = events.iter().filter(|e| **e == Event::Restarted).count();
    assert_eq!(reported, 1, "{events:?}");
    assert_eq!(w.association(0), a, "the same association for the user");
    let b = w.association(1);
    w.send(0, a, 5, pattern(5000));
    w.run(secs(5));
    assert_eq!(w.receive_lengths(1, b), [5000]);
    assert!(w.paths(0, a).all(|p| p.status.confirmed));
}

/// The peer refuses the first INIT (RFC 9260, section 5.2.2).
#[test]
fn a_host_restarts_with_another_address() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.events(0);
    let mut local = addresses(1).to_vec();
    local.push(ip("10.2.0.2"));
    w.ends[1] = Endpoint::new(EndpointConfig::new(port(1), local, [99; 32])).unwrap();
    let from = w.log.len();
    w.begin_connect_from(1, &[addresses(0)[0]], port(0));
    w.run(secs(1));
    assert!(w.events(0).contains(&Event::Restarted));
    assert_eq!(w.states(), [Some("Established"); 2]);
    assert_eq!(w.association(0), a);
    let set_up = w.log[from..].iter();
    let inits: Vec<_> = set_up.filter(|p| p.has(ChunkType::INIT)).collect();
    let listed: Vec<_> = inits.iter().map(|p| p.listed().len()).collect();
    assert_eq!(listed, [3, 2]);
}

/// RFC 9260, section 5.2.4
#[test]
fn a_restart_during_shutdown_is_handled() {
    let mut w = World::single_homed();
    let (_, mut new, cookie) = restarting(&mut w);
    let id = w.association(0);
    w.ends[0].shutdown(w.now, id).unwrap();
    assert_eq!(w.states()[0], Some("ShutdownSent"));
    let answers = new.send(&mut w, |p| p.cookie_echo(&cookie));
    assert_eq!(answers[0].kinds()[0], ChunkType::COOKIE_ACK);
    assert_eq!(w.states()[0], Some("Established"));
    new.data(&mut w, 0, 0, b"new");
    assert_eq!(w.receive_lengths(0, id), [3]);
    w.run(secs(100));
    let packets = new.receive(&mut w);
    assert!(
        packets.iter().all(|p| !p.has(ChunkType::SHUTDOWN)),
        "T2 has stopped"
    );
}
