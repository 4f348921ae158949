//! Set-up of an association (RFC 9260 sections 3.2.1, 3.3.2, 3.3.3, 5.1, 5.2.6).

mod common;

use carrick_proto::{CloseReason, ConnectError, Event, SendError, SendOptions, Tsn};
use carrick_wire::{CauseCode, ChunkType, Parameter, ParameterType, VerificationTag};
use common::*;

/// The times at which an endpoint sent packets with such a chunk, in ms since the first.
fn times(w: &World, end: usize, kind: ChunkType) -> Vec<u64> {
    let sent = w.sent(end, kind);
    sent.iter()
        .map(|p| (p.time - sent[0].time).as_millis() as u64)
        .collect()
}

#[test]
fn four_packets_set_up_an_association_5_1() {
    let mut w = World::single_homed();
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.run(secs(1));
    let kinds: Vec<_> = w.log.iter().flat_map(|p| p.kinds()).collect();
    assert_eq!(
        kinds,
        [
            ChunkType::INIT,
            ChunkType::INIT_ACK,
            ChunkType::COOKIE_ECHO,
            ChunkType::COOKIE_ACK
        ]
    );
    let (tag_a, tag_z) = (w.log[0].init().tag, w.log[1].init().tag);
    let tags: Vec<_> = w.log.iter().map(|p| p.tag()).collect();
    assert_eq!(tags, [VerificationTag::ZERO, tag_a, tag_z, tag_a]);
    let established = |accepted: bool| Event::Established {
        peer_addresses: vec![addresses(usize::from(!accepted))[0]],
        outbound_streams: 10,
        inbound_streams: 10,
        accepted,
    };
    assert_eq!(w.events(0), [established(false)]);
    assert_eq!(w.events(1), [established(true)]);
    assert_eq!(w.stats(0, a).error_count, 0);
}

#[test]
fn each_lost_set_up_packet_is_sent_again_5_1() {
    for (end, kind) in [
        (0, ChunkType::INIT),
        (1, ChunkType::INIT_ACK),
        (0, ChunkType::COOKIE_ECHO),
        (1, ChunkType::COOKIE_ACK),
    ] {
        for losses in [1, 3] {
            let mut w = World::new();
            w.lose(end, kind, losses);
            let a = w.begin_connect(&[addresses(1)[0]]);
            w.send(0, a, 0, &b"early"[..]);
            assert!(
                w.run_until(secs(40), |w| w.states() == [Some("Established"); 2]),
                "{kind} lost {losses} times"
            );
            w.run(secs(5));
            let b = w.only(1);
            assert_eq!(w.receive_lengths(1, b), [5], "{kind}");
            w.send(1, b, 0, &b"answer"[..]);
            w.run(secs(5));
            assert_eq!(w.receive_lengths(0, a), [6], "{kind}");
        }
    }
}

#[test]
fn t1_init_doubles_and_gives_up_after_max_init_retransmits_4() {
    let mut w = World::single_homed();
    w.kill(addresses(1)[0]);
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.send_with(
        0,
        a,
        SendOptions {
            context: 77,
            ..SendOptions::default()
        },
        &b"lost"[..],
    );
    w.run(secs(1000));
    assert_eq!(
        times(&w, 0, ChunkType::INIT),
        [0, 1, 3, 7, 15, 31, 63, 123, 183].map(|s| s * 1000),
        "one INIT and eight again, doubled up to RTO.Max"
    );
    let events = w.events(0);
    assert!(matches!(&events[0], Event::SendFailed(f) if f.context == 77 && !f.sent));
    assert_eq!(events[1], Event::Closed(CloseReason::SetupTimedOut));
    assert_eq!(w.ends[0].associations().count(), 0);
}

#[test]
fn t1_cookie_gives_up_after_max_init_retransmits_5_1_4() {
    let mut w = World::single_homed();
    w.lose(0, ChunkType::COOKIE_ECHO, usize::MAX);
    w.begin_connect(&[addresses(1)[0]]);
    w.run(secs(1000));
    assert_eq!(w.sent(0, ChunkType::COOKIE_ECHO).len(), 9);
    assert_eq!(w.events(0), [Event::Closed(CloseReason::SetupTimedOut)]);
}

#[test]
fn inits_go_to_all_addresses_each_with_its_own_timer_5_1() {
    let mut w = World::new();
    w.kill(addresses(1)[0]);
    w.kill(addresses(1)[1]);
    w.begin_connect(&addresses(1));
    w.run(secs(8));
    let to: Vec<_> = w.log.iter().map(|p| p.to()).collect();
    let [first, second] = addresses(1);
    assert_eq!(to, [first, second, first, second, first]);
    assert_eq!(
        times(&w, 0, ChunkType::INIT),
        [0, 1000, 2000, 4000, 6000],
        "T1-init per address"
    );
    w.revive(second);
    assert!(w.run_until(secs(20), |w| w.states() == [Some("Established"); 2]));
    let a = w.only(0);
    assert_eq!(w.path(0, a, 0).remote, second, "data goes to what answered");
}

#[test]
fn cookie_echoes_go_to_all_confirmed_addresses_5_1() {
    let mut w = World::new();
    w.lose(0, ChunkType::COOKIE_ECHO, 1);
    w.begin_connect(&addresses(1));
    w.run(secs(3));
    let echoes = w.sent(0, ChunkType::COOKIE_ECHO);
    let to: Vec<_> = echoes.iter().map(|p| p.to()).collect();
    assert_eq!(to, addresses(1));
    assert_eq!(w.states(), [Some("Established"); 2]);
}

#[test]
fn a_stale_cookie_asks_for_a_longer_life_5_2_6() {
    let mut w = World::with(2, |i, c| {
        c.local_addresses.truncate(1);
        if i == 1 {
            c.association.valid_cookie_life = ms(10);
        }
    });
    // The cookie needs 20 ms there and back.
    w.begin_connect(&[addresses(1)[0]]);
    w.run(secs(1));
    assert_eq!(w.states(), [Some("Established"); 2]);
    assert_eq!(w.ends[1].stats().stale_cookies, 1);
    let error = w.sent(1, ChunkType::ERROR)[0];
    let (code, value) = error.causes()[0].clone();
    assert_eq!(code, CauseCode::STALE_COOKIE);
    assert_eq!(
        u32::from_be_bytes(value.try_into().unwrap()),
        10_000,
        "stale for 10 ms, in microseconds"
    );
    let inits = w.sent(0, ChunkType::INIT);
    let asked = inits[1].parameters().iter().find_map(|p| match p {
        Parameter::CookiePreservative { increment_ms } => Some(*increment_ms),
        _ => None,
    });
    assert_eq!(asked, Some(1020), "the round trip and at most a second");
    assert_eq!(inits[0].init().tag, inits[1].init().tag);
}

#[test]
fn a_cookie_that_stays_stale_ends_the_set_up_5_2_6() {
    let mut w = World::with(2, |i, c| {
        c.local_addresses.truncate(1);
        if i == 1 {
            c.association.valid_cookie_life = ms(10);
            c.association.max_cookie_life_increment = ms(0);
        }
    });
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.send(0, a, 0, &b"early"[..]);
    w.run(secs(60));
    let events = w.events(0);
    assert!(matches!(events[0], Event::SendFailed(_)), "{events:?}");
    assert_eq!(events[1], Event::Closed(CloseReason::StaleCookie));
    assert_eq!(w.ends[1].associations().count(), 0);
}

#[test]
fn data_bundled_with_a_stale_cookie_arrives_once_5_2_6() {
    let mut w = World::with(2, |i, c| {
        c.local_addresses.truncate(1);
        if i == 1 {
            c.association.valid_cookie_life = ms(10);
        }
    });
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.send(0, a, 3, &b"early"[..]);
    w.run(secs(10));
    let b = w.only(1);
    assert_eq!(w.receive_lengths(1, b), [5]);
    assert_eq!(w.stats(0, a).outstanding_chunks, 0);
}

#[test]
fn a_stale_cookie_error_means_nothing_once_established_5_2_6() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    assert_eq!(
        peer.say(&mut w, |p| p.error(|c| c.stale_cookie(5))).len(),
        0
    );
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    assert_eq!(w.events(0), []);
}

#[test]
fn a_cookie_outlives_one_change_of_the_secret_5_1_3() {
    for (changes, good) in [(1, true), (2, false)] {
        let mut w = World::with(1, |_, c| c.secret_lifetime = secs(10));
        let mut peer = Puppet::new();
        let answers = peer.init(&mut w, |_| {});
        peer.learn(&answers[0]);
        let cookie = Puppet::cookie(&answers[0]);
        for i in 0..changes {
            w.run(secs(11));
            let mut other = Puppet::new();
            other.port = 7100 + i;
            assert_eq!(other.init(&mut w, |_| {}).len(), 1);
        }
        let answers = peer.say(&mut w, |p| p.cookie_echo(&cookie));
        assert_eq!(w.ends[0].associations().count(), usize::from(good));
        assert_eq!(answers.len(), usize::from(good), "silently discarded");
        assert_eq!(w.ends[0].stats().forged_cookies, u64::from(!good));
    }
}

#[test]
fn an_init_with_a_zero_initiate_tag_is_discarded_3_3_2() {
    let mut w = World::with(1, |_, _| {});
    let mut peer = Puppet::new();
    peer.tag = VerificationTag::ZERO;
    assert_eq!(peer.init(&mut w, |_| {}).len(), 0);
}

#[test]
fn zero_streams_and_a_small_window_are_refused_3_3_2() {
    let change: [fn(&mut Puppet); 3] = [
        |p| p.streams.0 = 0,
        |p| p.streams.1 = 0,
        |p| p.a_rwnd = 1499,
    ];
    for change in change {
        let mut w = World::with(1, |_, _| {});
        let mut peer = Puppet::new();
        change(&mut peer);
        let answers = peer.init(&mut w, |_| {});
        assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
        assert_eq!(answers[0].tag(), peer.tag, "the Initiate Tag");
        assert_eq!(answers[0].flags(ChunkType::ABORT), 0, "no T bit");
        assert_eq!(w.ends[0].stats().inits_refused, 1);
    }
}

#[test]
fn a_refused_init_leaves_the_existing_association_alone_3_3_2() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    let mut again = peer.clone();
    again.a_rwnd = 1000;
    assert!(again.init(&mut w, |_| {})[0].has(ChunkType::ABORT));
    peer.data(&mut w, 0, 0, b"still here");
    assert_eq!(w.receive_lengths(0, id), [10]);
}

#[test]
fn an_init_ack_with_zero_streams_ends_the_set_up_3_3_3() {
    let change: [fn(&mut Puppet); 2] = [|p| p.streams.0 = 0, |p| p.streams.1 = 0];
    for change in change {
        let mut w = World::single_homed();
        let mut peer = Puppet::new();
        change(&mut peer);
        peer.begin_accept(&mut w);
        let answers = peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
        assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
        assert_eq!(answers[0].tag(), peer.tag);
        assert!(matches!(
            w.events(0)[0],
            Event::Closed(CloseReason::AbortedByProtocol(_))
        ));
    }
}

#[test]
fn an_init_ack_with_a_zero_tag_ends_the_set_up_with_the_t_bit_3_3_3() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    peer.begin_accept(&mut w);
    peer.tag = VerificationTag::ZERO;
    let answers = peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    assert_eq!(answers[0].flags(ChunkType::ABORT), 1);
    assert_eq!(w.ends[0].associations().count(), 0);
}

#[test]
fn an_init_ack_with_a_small_window_changes_nothing_3_3_3() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    peer.a_rwnd = 1499;
    let answers = peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    assert_eq!(answers[0].tag(), peer.tag);
    assert_eq!(state_name(&w.stats(0, id)), "CookieWait");
    peer.a_rwnd = 1500;
    let answers = peer.answer_init(&mut w, |p| p.state_cookie(b"c"));
    assert_eq!(answers[0].kinds(), [ChunkType::COOKIE_ECHO]);
}

#[test]
fn a_host_name_address_is_refused_5_1_2_b() {
    let mut w = World::single_homed();
    let peer = Puppet::new();
    let answers = peer.init(&mut w, |p| {
        p.raw(ParameterType::HOST_NAME_ADDRESS, b"a.b\0")
    });
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    let causes = answers[0].causes();
    assert_eq!(causes[0].0, CauseCode::UNRESOLVABLE_ADDRESS);
    assert_eq!(causes[0].1, b"\x00\x0b\x00\x08a.b\0");

    let mut peer = Puppet::new();
    peer.begin_accept(&mut w);
    let answers = peer.answer_init(&mut w, |p| {
        p.state_cookie(b"c");
        p.raw(ParameterType::HOST_NAME_ADDRESS, b"a.b\0");
    });
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    assert_eq!(answers[0].causes()[0].0, CauseCode::UNRESOLVABLE_ADDRESS);
    assert_eq!(w.ends[0].associations().count(), 0);
}

#[test]
fn an_init_ack_without_a_cookie_is_refused_5_1() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    peer.begin_accept(&mut w);
    let answers = peer.answer_init(&mut w, |_| {});
    let causes = answers[0].causes();
    assert_eq!(causes[0].0, CauseCode::MISSING_PARAMETERS);
    assert_eq!(causes[0].1, [0, 0, 0, 1, 0, 7]);
    assert_eq!(answers[0].tag(), peer.tag);
}

/// Parameters of all four kinds of unknown types (section 3.2.1), then an address.
fn unknown_parameters(stop: u16, p: &mut carrick_wire::ParameterWriter<'_>) {
    p.raw(ParameterType(0x8123), b"skip");
    p.raw(ParameterType(0xc123), b"skip, report");
    p.raw(ParameterType(stop), b"stop");
    p.ip_address(ip("10.1.0.99"));
    p.raw(ParameterType(0xc124), b"never reached");
}

#[test]
fn unknown_parameters_of_an_init_are_reported_in_the_init_ack_3_2_1() {
    for (stop, reported) in [(0x0123, 1), (0x4123, 2)] {
        let mut w = World::new();
        let peer = Puppet::new();
        let answers = peer.init(&mut w, |p| unknown_parameters(stop, p));
        let parameters = answers[0].parameters();
        let unrecognized: Vec<_> = parameters
            .iter()
            .filter_map(|p| match p {
                Parameter::UnrecognizedParameter(value) => Some(*value),
                _ => None,
            })
            .collect();
        assert_eq!(unrecognized.len(), reported);
        assert_eq!(unrecognized[0], b"\xc1\x23\x00\x10skip, report");
        assert!(
            parameters
                .iter()
                .any(|p| matches!(p, Parameter::StateCookie(_)))
        );
    }
}

/// Well formed or not: an extension that is not implemented cannot be read wrongly.
#[test]
fn parameters_of_extensions_that_are_not_implemented_are_unknown_3_2_1() {
    let mut w = World::new();
    let peer = Puppet::new();
    let malformed: [(u16, &[u8]); 5] = [
        (0xc000, b"?"),
        (0xc004, &[0, 0, 0, 1]),
        (0xc006, b"short"),
        (0x8001, &[]),
        (0x8004, &[0, 1, 0]),
    ];
    let answers = peer.init(&mut w, |p| {
        for (kind, value) in malformed {
            p.raw(ParameterType(kind), value);
        }
        // The two highest bits of RE-CONFIG's parameters are 00: stop without a report.
        p.raw(ParameterType(15), &[]);
        p.raw(ParameterType(0xc124), b"never reached");
    });
    assert!(answers[0].has(ChunkType::INIT_ACK));
    let parameters = answers[0].parameters();
    let unrecognized: Vec<_> = parameters
        .iter()
        .filter_map(|p| match p {
            Parameter::UnrecognizedParameter(value) => Some(&value[..2]),
            _ => None,
        })
        .collect();
    let expected: [&[u8]; 3] = [&[0xc0, 0], &[0xc0, 4], &[0xc0, 6]];
    assert_eq!(unrecognized, expected);
}

#[test]
fn unknown_parameters_of_an_init_ack_are_reported_behind_the_cookie_echo_3_2_2() {
    for (stop, reported) in [(0x0123, 16), (0x4123, 24)] {
        let mut w = World::new();
        let mut peer = Puppet::new();
        peer.begin_accept(&mut w);
        let answers = peer.answer_init(&mut w, |p| {
            p.state_cookie(b"cookie");
            unknown_parameters(stop, p);
        });
        assert_eq!(
            answers[0].kinds(),
            [ChunkType::COOKIE_ECHO, ChunkType::ERROR]
        );
        let causes = answers[0].causes();
        assert_eq!(causes[0].0, CauseCode::UNRECOGNIZED_PARAMETERS);
        assert_eq!(causes[0].1.len(), reported);
        assert_eq!(&causes[0].1[..16], b"\xc1\x23\x00\x10skip, report");
    }
}

#[test]
fn addresses_of_both_families_are_told_and_taken_5_1_2_c() {
    let mut w = World::with(2, |i, c| {
        c.local_addresses.push(ip(&format!("fd00::{}", i + 1)));
    });
    let (a, b) = w.connect();
    w.run(secs(5));
    assert_eq!(w.sent(0, ChunkType::INIT)[0].listed().len(), 3);
    assert_eq!(w.sent(1, ChunkType::INIT_ACK)[0].listed().len(), 3);
    for (end, id) in [(0, a), (1, b)] {
        let paths: Vec<_> = w.ends[end].paths(id).collect();
        assert_eq!(paths.len(), 3);
        assert!(paths.iter().all(|p| p.status.confirmed && p.status.active));
    }
    w.kill(addresses(1)[0]);
    w.kill(addresses(1)[1]);
    w.send(0, a, 0, pattern(5000));
    w.run(secs(60));
    assert_eq!(w.receive_lengths(1, b), [5000], "over IPv6");
}

#[test]
fn ipv6_alone_works_and_says_so_3_3_2_1_5() {
    let mut w = World::with(2, |i, c| {
        c.local_addresses = vec![ip(&format!("fd00::{}", i + 1))];
    });
    w.begin_connect(&[ip("fd00::2")]);
    w.run(secs(1));
    assert_eq!(w.states(), [Some("Established"); 2]);
    let init = w.sent(0, ChunkType::INIT)[0].clone();
    assert!(init.parameters().iter().any(
        |p| matches!(p, Parameter::SupportedAddressTypes(t) if t.clone().collect::<Vec<_>>() == [6])
    ));
    assert_eq!(init.listed().len(), 0, "a single address is not told");
}

#[test]
fn supported_address_types_limit_what_the_init_ack_tells_5_1_2() {
    let with_v6 = || {
        World::with(1, |_, c| {
            c.local_addresses.push(ip("fd00::1"));
            c.local_addresses.push(ip("fd00::2"));
        })
    };
    let mut w = with_v6();
    let answers = Puppet::new().init(&mut w, |p| p.supported_address_types(&[5]));
    assert_eq!(answers[0].listed(), addresses(0));
    // What the peer uses itself counts as supported, whatever it lists.
    let mut w = with_v6();
    let answers = Puppet::new().init(&mut w, |p| {
        p.supported_address_types(&[5]);
        p.ip_address(ip("fd00::99"));
    });
    assert_eq!(answers[0].listed().len(), 4);
    let mut w = with_v6();
    let answers = Puppet::new().init(&mut w, |p| p.supported_address_types(&[6]));
    assert_eq!(answers[0].listed().len(), 4, "IPv4 carried the INIT");
}

#[test]
fn addresses_that_cannot_be_used_are_ignored_without_an_error_5_1_2() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |p| {
        for address in [
            "fd00::99",
            "224.0.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "127.0.0.1",
            "10.1.0.99",
        ] {
            p.ip_address(ip(address));
        }
    });
    assert_eq!(answers[0].kinds(), [ChunkType::INIT_ACK]);
    peer.learn(&answers[0]);
    peer.say(&mut w, |p| p.cookie_echo(&Puppet::cookie(&answers[0])));
    let id = w.only(0);
    let remotes: Vec<_> = w.ends[0].paths(id).map(|p| p.remote).collect();
    assert_eq!(remotes, [ip("10.0.0.99"), ip("10.1.0.99")]);
}

#[test]
fn without_address_parameters_the_source_is_the_only_address_5_1_2_a() {
    let mut w = World::new();
    let (_, id) = Puppet::new().connect(&mut w);
    assert_eq!(w.ends[0].paths(id).count(), 1);
}

#[test]
fn streams_are_the_smaller_of_wanted_and_offered_5_1_1() {
    let mut w = World::with(2, |i, c| {
        if i == 1 {
            c.association.outbound_streams = 50;
            c.association.max_inbound_streams = 5;
        }
    });
    w.config.outbound_streams = 65_535;
    w.config.max_inbound_streams = 40;
    let (a, b) = w.connect();
    let (sa, sb) = (w.stats(0, a), w.stats(1, b));
    assert_eq!((sa.outbound_streams, sa.inbound_streams), (5, 40));
    assert_eq!((sb.outbound_streams, sb.inbound_streams), (40, 5));
    assert_eq!(
        w.ends[0].send(w.now, a, SendOptions::on_stream(5), pattern(1)),
        Err(SendError::InvalidStream { streams: 5 })
    );
    // Section 3.3.3: never more than the INIT's MIS.
    let init_ack = w.sent(1, ChunkType::INIT_ACK)[0].clone();
    assert!(init_ack.init().outbound_streams <= 40);
}

#[test]
fn all_65535_streams_can_be_used_5_1_1() {
    let mut w = World::with(2, |_, c| c.association.outbound_streams = 65_535);
    w.config.outbound_streams = 65_535;
    let (a, b) = w.connect();
    for stream in [0, 65_534, 32_768] {
        w.send(0, a, stream, pattern(10));
    }
    w.run(secs(1));
    let streams: Vec<_> = w.receive(1, b).iter().map(|m| m.stream.0).collect();
    assert_eq!(streams, [0, 65_534, 32_768]);
}

#[test]
fn messages_queued_for_streams_that_the_peer_refuses_come_back_5_1_1() {
    let mut w = World::with(2, |i, c| {
        if i == 1 {
            c.association.max_inbound_streams = 2;
        }
    });
    let a = w.begin_connect(&[addresses(1)[0]]);
    for stream in 0..4 {
        let options = SendOptions {
            context: u64::from(stream),
            ..SendOptions::on_stream(stream)
        };
        w.send_with(0, a, options, pattern(100));
    }
    w.run(secs(5));
    let b = w.only(1);
    assert_eq!(w.receive_lengths(1, b), [100, 100]);
    let failed: Vec<_> = w
        .events(0)
        .into_iter()
        .filter_map(|e| match e {
            Event::SendFailed(f) => Some((f.context, f.sent, f.unsent.len())),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [(2, false, 100), (3, false, 100)]);
    assert_eq!(w.sent(1, ChunkType::ERROR).len(), 0);
}

#[test]
fn an_endpoint_that_does_not_accept_answers_with_abort_5_1() {
    let mut w = World::with(2, |i, c| c.accept = i == 0);
    w.begin_connect(&[addresses(1)[0]]);
    w.run(secs(1));
    let abort = w.sent(1, ChunkType::ABORT)[0];
    assert_eq!(abort.flags(ChunkType::ABORT), 0);
    assert!(matches!(
        w.events(0)[..],
        [Event::Closed(CloseReason::AbortedByPeer(_))]
    ));
    assert_eq!(w.ends[1].stats().inits_refused, 1);
}

#[test]
fn an_association_too_many_is_out_of_resource_5_1() {
    let mut w = World::with(1, |_, c| c.max_associations = 1);
    Puppet::new().connect(&mut w);
    let mut second = Puppet::new();
    second.port = 7001;
    let answers = second.init(&mut w, |_| {});
    if answers[0].has(ChunkType::INIT_ACK) {
        second.learn(&answers[0]);
        let answers = second.say(&mut w, |p| p.cookie_echo(&Puppet::cookie(&answers[0])));
        assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
        assert_eq!(answers[0].tag(), second.tag);
        assert_eq!(answers[0].causes()[0].0, CauseCode::OUT_OF_RESOURCE);
    }
    assert_eq!(w.ends[0].associations().count(), 1);
    assert_eq!(
        w.ends[0].connect(w.now, &[ip("10.0.0.55")], 1, None, w.config.clone()),
        Err(ConnectError::TooManyAssociations)
    );
}

#[test]
fn data_goes_with_the_cookie_echo_and_its_sack_with_the_cookie_ack_5_1_5() {
    let mut w = World::single_homed();
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.send(0, a, 0, pattern(200));
    w.run(secs(1));
    assert_eq!(
        w.sent(0, ChunkType::COOKIE_ECHO)[0].kinds(),
        [ChunkType::COOKIE_ECHO, ChunkType::DATA]
    );
    assert_eq!(
        w.sent(1, ChunkType::COOKIE_ACK)[0].kinds(),
        [ChunkType::COOKIE_ACK, ChunkType::SACK]
    );
    assert_eq!(w.data_sent(0), 1, "sent once");
}

#[test]
fn nothing_but_the_cookie_echo_leaves_before_the_cookie_ack_5_1_c() {
    let mut w = World::single_homed();
    w.lose(1, ChunkType::COOKIE_ACK, 2);
    let a = w.begin_connect(&[addresses(1)[0]]);
    for _ in 0..20 {
        w.send(0, a, 0, pattern(1000));
    }
    w.run(ms(2900));
    let others = w
        .log
        .iter()
        .filter(|p| p.from == 0 && !p.has(ChunkType::INIT) && !p.has(ChunkType::COOKIE_ECHO));
    assert_eq!(others.count(), 0);
    w.run(secs(10));
    let b = w.only(1);
    assert_eq!(w.receive_lengths(1, b), [1000; 20]);
}

#[test]
fn the_first_data_is_acknowledged_at_once_5_1() {
    let mut w = World::single_homed();
    let (mut peer, _) = Puppet::new().connect(&mut w);
    let answers = peer.data(&mut w, 0, 0, b"first");
    assert_eq!(answers[0].kinds(), [ChunkType::SACK]);
    assert_eq!(peer.data(&mut w, 0, 1, b"second").len(), 0, "delayed");
}

#[test]
fn the_init_ack_goes_where_the_init_came_from_5_1_b() {
    let mut w = World::new();
    let mut peer = Puppet::new();
    peer.link.from = ip("10.1.0.77");
    peer.link.to = addresses(0)[1];
    let answers = peer.init(&mut w, |p| p.ip_address(ip("10.0.0.99")));
    assert_eq!(answers[0].to(), ip("10.1.0.77"));
    assert_eq!(answers[0].source(), addresses(0)[1]);
}

#[test]
fn a_cookie_is_good_for_one_association_only_5_2_4() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |_| {});
    peer.learn(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    for _ in 0..3 {
        let answers = peer.say(&mut w, |p| p.cookie_echo(&cookie));
        assert_eq!(answers[0].kinds(), [ChunkType::COOKIE_ACK], "row D");
    }
    assert_eq!(w.ends[0].associations().count(), 1);
    assert_eq!(w.events(0).len(), 1, "established once");
}

#[test]
fn a_cookie_with_other_ports_or_tags_is_discarded_5_1_5() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |_| {});
    peer.learn(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    let mut other_port = peer.clone();
    other_port.port += 1;
    assert_eq!(other_port.say(&mut w, |p| p.cookie_echo(&cookie)).len(), 0);
    let mut other_tag = peer.clone();
    other_tag.peer_tag.0 ^= 1;
    assert_eq!(other_tag.say(&mut w, |p| p.cookie_echo(&cookie)).len(), 0);
    assert_eq!(w.ends[0].associations().count(), 0);
    assert_eq!(peer.say(&mut w, |p| p.cookie_echo(&cookie)).len(), 1);
}

#[test]
fn an_init_ack_or_cookie_ack_out_of_place_is_discarded_5_2_3_and_5_2_5() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().accept(&mut w);
    let mut other = peer.clone();
    other.tag = VerificationTag(99);
    other.tsn = Tsn::new(5);
    assert_eq!(other.answer_init(&mut w, |p| p.state_cookie(b"x")).len(), 0);
    assert_eq!(peer.say(&mut w, |p| p.cookie_ack()).len(), 0);
    let answers = peer.data(&mut w, 0, 0, b"works");
    assert_eq!(answers[0].tag(), peer.tag, "the tag is the old one");
    assert_eq!(w.receive_lengths(0, id), [5]);
    assert_eq!(w.events(0), [Event::MessageReceived]);
}

#[test]
fn an_init_ack_from_another_address_is_taken_but_that_address_is_not_trusted_5_4() {
    let mut w = World::new();
    let mut peer = Puppet::new();
    let id = peer.begin_accept(&mut w);
    // It lists the address that was asked, so it belongs to the association (section 5.1.2 D).
    peer.link.from = ip("10.1.0.99");
    peer.link.to = addresses(0)[1];
    let answers = peer.answer_init(&mut w, |p| {
        p.state_cookie(b"c");
        p.ip_address(ip("10.0.0.99"));
    });
    assert_eq!(answers[0].kinds(), [ChunkType::COOKIE_ECHO]);
    assert_eq!(answers[0].to(), ip("10.0.0.99"));
    peer.say(&mut w, |p| p.cookie_ack());
    let confirmed: Vec<_> = w.ends[0]
        .paths(id)
        .map(|p| (p.remote, p.status.confirmed))
        .collect();
    assert_eq!(
        confirmed,
        [(ip("10.0.0.99"), true), (ip("10.1.0.99"), false)]
    );
}

#[test]
fn a_cookie_echo_from_an_address_that_the_init_did_not_have_gets_its_answer_where_the_init_came_from()
 {
    let mut w = World::new();
    let mut peer = Puppet::new();
    let answers = peer.init(&mut w, |_| {});
    peer.learn(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    let header = Puppet::data_header(peer.tsn, 0, 0);
    peer.link.from = ip("10.1.0.66");
    peer.link.to = addresses(0)[1];
    let answers = peer.say(&mut w, |p| {
        p.cookie_echo(&cookie);
        p.data(&header, b"hello");
    });
    assert!(!answers.is_empty());
    for answer in answers {
        assert_eq!(answer.to(), ip("10.0.0.99"));
    }
}

#[test]
fn arguments_of_connect_are_checked_11_1_2() {
    let mut w = World::single_homed();
    let mut connect = |peers: &[&str], port| {
        let peers: Vec<_> = peers.iter().map(|p| ip(p)).collect();
        w.ends[0].connect(w.now, &peers, port, None, w.config.clone())
    };
    assert_eq!(connect(&[], 1), Err(ConnectError::NoAddress));
    assert_eq!(connect(&["10.0.0.9"], 0), Err(ConnectError::InvalidPort));
    assert_eq!(connect(&["fd00::1"], 1), Err(ConnectError::FamilyMismatch));
    assert!(connect(&["10.0.0.9"], 1).is_ok());
    assert_eq!(
        connect(&["10.0.0.8", "10.0.0.9"], 1),
        Err(ConnectError::AlreadyConnected)
    );
    w.config.outbound_streams = 0;
    let refused = w.ends[0].connect(w.now, &[ip("10.0.0.7")], 1, None, w.config.clone());
    assert!(refused.is_err(), "a configuration out of its range");
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let run = || {
        let mut w = World::new();
        let (a, b) = w.connect();
        w.lose_data(0, &[3, 4]);
        w.send(0, a, 1, pattern(50_000));
        w.run(secs(3));
        w.receive(1, b);
        w.run(secs(100));
        let all: Vec<_> = w.log.iter().map(|p| (p.time, p.bytes.clone())).collect();
        all
    };
    assert_eq!(run(), run());
}
