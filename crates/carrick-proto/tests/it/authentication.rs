//! Authenticated chunks (RFC 4895).

use crate::common;

use bytes::Bytes;
use carrick_proto::{
    AssociationConfig, AssociationId, AuthenticationEvent, Ecn, Event, Extensions, HmacId,
    KeyError, PathId, PathMtuDiscovery, SendOptions, SharedKey, SharedKeyId,
};
use carrick_wire::{CauseCode, Chunk, ChunkType, PacketBuilder, ParameterType};
use common::*;

/// Everything that may be authenticated.
const ALL: [ChunkType; 12] = [
    ChunkType::DATA,
    ChunkType::SACK,
    ChunkType::HEARTBEAT,
    ChunkType::HEARTBEAT_ACK,
    ChunkType::ABORT,
    ChunkType::SHUTDOWN,
    ChunkType::SHUTDOWN_ACK,
    ChunkType::ERROR,
    ChunkType::COOKIE_ECHO,
    ChunkType::COOKIE_ACK,
    ChunkType::ECNE,
    ChunkType::CWR,
];

fn requiring(required: &[ChunkType]) -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.extensions.authentication = true;
    config.authentication.required = required.to_vec();
    config
}

/// Two endpoints; each takes these chunks only authenticated.
fn world(ours: &[ChunkType], theirs: &[ChunkType]) -> World {
    world_of(requiring(ours), requiring(theirs))
}

fn world_of(ours: AssociationConfig, theirs: AssociationConfig) -> World {
    let configs = [ours.clone(), theirs];
    let mut w = World::with(2, |end, config| config.association = configs[end].clone());
    w.config = ours;
    w
}

fn key(id: u16, secret: &'static [u8]) -> SharedKey {
    SharedKey {
        id: SharedKeyId(id),
        secret: Bytes::from_static(secret),
    }
}

/// The key and the algorithm of the packet's AUTH chunk.
fn auth_of(seen: &Seen) -> Option<(SharedKeyId, HmacId)> {
    seen.chunks().into_iter().find_map(|c| match c {
        Chunk::Auth(auth) => Some((auth.shared_key, auth.hmac_id)),
        _ => None,
    })
}

/// Both sides send 100 messages to each other, and everything arrives.
fn exchange(w: &mut World, a: AssociationId, b: AssociationId) {
    for n in 0..100 {
        w.send(0, a, n % 4, pattern(2000));
        w.send(1, b, n % 4, pattern(700));
    }
    w.run(secs(120));
    assert_eq!(w.receive_lengths(1, b), [2000; 100]);
    assert_eq!(w.receive_lengths(0, a), [700; 100]);
}

/// Chunks of these types that left without AUTH before them.
fn unprotected(w: &World, end: usize, required: &[ChunkType]) -> Vec<Vec<ChunkType>> {
    let packets = w.log.iter().filter(|p| p.from == end).map(Seen::kinds);
    packets
        .filter(|kinds| {
            let bare = kinds.iter().take_while(|k| **k != ChunkType::AUTH);
            bare.into_iter().any(|k| required.contains(k))
        })
        .collect()
}

#[test]
fn what_the_peer_requires_leaves_behind_auth_6_2() {
    let mut w = world(&ALL, &[ChunkType::DATA]);
    let (a, b) = w.connect();
    assert!(w.stats(0, a).extensions.authentication);
    exchange(&mut w, a, b);
    w.run(secs(90));
    w.ends[0].shutdown(w.now, a).expect("shutdown");
    w.run(secs(10));
    assert_eq!(w.states(), [None, None]);
    assert!(
        unprotected(&w, 1, &ALL).is_empty(),
        "{:?}",
        unprotected(&w, 1, &ALL)
    );
    assert!(unprotected(&w, 0, &[ChunkType::DATA]).is_empty());
    let sacks = w.sent(0, ChunkType::SACK);
    let bare = sacks.iter().any(|p| !p.has(ChunkType::AUTH));
    assert!(bare, "nobody asked for SACKs to be authenticated");
}

#[test]
fn a_sack_that_goes_another_way_takes_no_room_from_data_6_2() {
    let mut w = world(&[], &[ChunkType::SACK]);
    let (a, b) = w.connect();
    // A SACK for the second path waits here.
    let second = SendOptions {
        path: Some(PathId(1)),
        ..SendOptions::default()
    };
    w.send_with(1, b, second, pattern(10));
    w.run(secs(1));
    w.log.clear();
    w.send_with(1, b, second, pattern(10));
    w.run(ms(15));
    assert_eq!(w.receive_lengths(0, a), [10, 10]);
    assert!(w.sent(0, ChunkType::SACK).is_empty(), "it is delayed");
    // And a chunk that fills a packet of the first.
    w.send(0, a, 0, pattern(1452));
    w.run(ms(1));
    let data = w.sent(0, ChunkType::DATA);
    assert_eq!(data.iter().map(|d| d.data().len()).sum::<usize>(), 1);
    assert!(!data[0].has(ChunkType::AUTH));
    w.run(secs(1));
    let sacks = w.sent(0, ChunkType::SACK);
    assert!(!sacks.is_empty() && sacks.iter().all(|s| s.has(ChunkType::AUTH)));
}

#[test]
fn loss_is_repaired_under_authentication_6_2() {
    let mut w = world(&ALL, &ALL);
    let (a, b) = w.connect();
    w.lose_data(0, &[3, 4, 9, 40, 41, 42]);
    w.lose(1, ChunkType::SACK, 5);
    exchange(&mut w, a, b);
    let stats = w.stats(1, b).authentication;
    assert_eq!((stats.forged_packets, stats.unauthenticated_chunks), (0, 0));
}

#[test]
fn init_and_init_ack_carry_random_chunks_and_algorithms_6_1() {
    let mut w = world(&[ChunkType::DATA], &[]);
    w.connect();
    let init = w.sent(0, ChunkType::INIT)[0].clone();
    let answer = w.sent(1, ChunkType::INIT_ACK)[0].clone();
    for (seen, chunks) in [(&init, true), (&answer, false)] {
        let types = seen.parameter_types();
        assert!(types.contains(&ParameterType::RANDOM));
        assert!(types.contains(&ParameterType::HMAC_ALGO));
        assert_eq!(types.contains(&ParameterType::CHUNKS), chunks);
    }
}

#[test]
fn an_answer_to_init_keeps_nothing_and_its_cookie_stays_small_5_1_3() {
    let mut w = world(&ALL, &ALL);
    w.connect();
    let cookie = Puppet::cookie(w.sent(1, ChunkType::INIT_ACK)[0]);
    assert!(cookie.len() < 280, "{} bytes", cookie.len());
}

#[test]
fn a_peer_without_authentication_is_taken_and_the_user_told_6458() {
    let mut w = world_of(requiring(&[ChunkType::DATA]), AssociationConfig::default());
    let (a, b) = w.connect();
    assert!(!w.stats(0, a).extensions.authentication);
    let event = Event::Authentication(AuthenticationEvent::NotSupported);
    assert!(w.events(0).contains(&event));
    assert_eq!(
        w.ends[0].add_key(w.now, a, key(1, b"x")),
        Err(KeyError::NotInForce)
    );
    exchange(&mut w, a, b);
    assert!(w.sent(0, ChunkType::AUTH).is_empty());
}

#[test]
fn the_first_algorithm_of_the_peers_list_is_used_6_1() {
    let mut sha1 = requiring(&[ChunkType::DATA]);
    sha1.authentication.algorithms = vec![HmacId::SHA_1];
    let mut w = world_of(requiring(&[ChunkType::DATA]), sha1);
    let (a, b) = w.connect();
    exchange(&mut w, a, b);
    let used = |w: &World, end| auth_of(w.sent(end, ChunkType::AUTH)[0]).expect("AUTH").1;
    assert_eq!(used(&w, 0), HmacId::SHA_1);
    assert_eq!(used(&w, 1), HmacId::SHA_256);
}

#[test]
fn a_key_is_changed_without_interruption_6_1() {
    let mut w = world(&[ChunkType::DATA], &[ChunkType::DATA]);
    let (a, b) = w.connect();
    for n in 0..300 {
        w.send(0, a, n % 4, pattern(1000));
    }
    w.run(ms(15));
    let [one, other] = [key(7, b"new"), key(7, b"new")];
    w.ends[1].add_key(w.now, b, one).expect("a new key");
    w.ends[0].add_key(w.now, a, other).expect("a new key");
    w.ends[0]
        .activate_key(w.now, a, SharedKeyId(7))
        .expect("activate");
    assert_eq!(
        w.ends[0].delete_key(w.now, a, SharedKeyId(7)),
        Err(KeyError::Active)
    );
    w.ends[0]
        .deactivate_key(w.now, a, SharedKeyId(0))
        .expect("deactivate");
    assert_eq!(
        w.ends[0].activate_key(w.now, a, SharedKeyId(0)),
        Err(KeyError::Deactivated)
    );
    w.run(secs(20));
    assert_eq!(w.receive_lengths(1, b), [1000; 300]);
    assert_eq!(w.stats(1, b).authentication.forged_packets, 0);
    assert_eq!(w.stats(0, a).counters.t3_expirations, 0);
    let changed = Event::Authentication(AuthenticationEvent::PeerKeyChanged(SharedKeyId(7)));
    let changes = w.events(1).into_iter().filter(|e| *e == changed).count();
    assert_eq!(changes, 1);
    let free = Event::Authentication(AuthenticationEvent::KeyFree(SharedKeyId(0)));
    assert!(w.events(0).contains(&free));
    let last = w.sent(0, ChunkType::DATA).last().and_then(|p| auth_of(p));
    assert_eq!(last.map(|l| l.0), Some(SharedKeyId(7)));
}

#[test]
fn what_comes_with_an_unknown_key_is_dropped_and_told_once_6_3() {
    let mut w = world(&[], &[ChunkType::DATA]);
    let (a, b) = w.connect();
    w.ends[0].add_key(w.now, a, key(3, b"k")).expect("a key");
    w.ends[0]
        .activate_key(w.now, a, SharedKeyId(3))
        .expect("activate");
    w.send(0, a, 0, pattern(100));
    w.run(secs(5));
    assert!(w.receive(1, b).is_empty());
    let unknown = Event::Authentication(AuthenticationEvent::UnknownKey(SharedKeyId(3)));
    assert_eq!(w.events(1).into_iter().filter(|e| *e == unknown).count(), 1);
    assert!(w.stats(1, b).authentication.unknown_keys >= 2);
    // With the key, what is sent again arrives.
    w.ends[1].add_key(w.now, b, key(3, b"k")).expect("a key");
    w.run(secs(30));
    assert_eq!(w.receive_lengths(1, b), [100]);
}

#[test]
fn another_secret_of_the_same_number_is_a_forgery_6_3() {
    let config = |secret| {
        let mut config = requiring(&[ChunkType::DATA]);
        config.authentication.keys = vec![key(1, secret)];
        config.authentication.active = SharedKeyId(1);
        config.authentication.null_key = false;
        config
    };
    let mut w = world_of(config(b"ours"), config(b"theirs"));
    let (a, b) = w.connect();
    w.send(0, a, 0, pattern(100));
    w.run(secs(10));
    assert!(w.receive(1, b).is_empty());
    assert!(w.stats(1, b).authentication.forged_packets > 0);
    let mut w = world_of(config(b"same"), config(b"same"));
    let (a, b) = w.connect();
    exchange(&mut w, a, b);
}

#[test]
fn data_behind_cookie_echo_is_authenticated_by_the_new_key_7() {
    for required in [&[ChunkType::DATA][..], &[ChunkType::COOKIE_ECHO], &ALL] {
        let mut w = world(&[], required);
        let a = w.begin_connect(&[addresses(1)[0]]);
        w.send(0, a, 0, pattern(300));
        w.run(secs(1));
        let echo = w.sent(0, ChunkType::COOKIE_ECHO)[0].kinds();
        let place = |kind| echo.iter().position(|k| *k == kind).expect("in the packet");
        let echo_first = place(ChunkType::COOKIE_ECHO) < place(ChunkType::AUTH);
        assert_eq!(echo_first, !required.contains(&ChunkType::COOKIE_ECHO));
        let b = w.only(1);
        assert_eq!(w.receive_lengths(1, b), [300]);
        assert_eq!(
            w.sent(0, ChunkType::DATA).len(),
            1,
            "nothing was sent again"
        );
    }
}

#[test]
fn each_lost_chunk_of_an_authenticated_set_up_is_repaired_6_3() {
    for kind in [
        ChunkType::INIT,
        ChunkType::INIT_ACK,
        ChunkType::COOKIE_ECHO,
        ChunkType::COOKIE_ACK,
        ChunkType::AUTH,
    ] {
        let mut w = world(&ALL, &ALL);
        w.lose(0, kind, 1);
        w.lose(1, kind, 1);
        let (a, b) = w.connect();
        exchange(&mut w, a, b);
    }
}

#[test]
fn a_cookie_that_is_not_authenticated_makes_nothing_6_3() {
    let mut w = world(&[], &[ChunkType::COOKIE_ECHO]);
    w.rule(|seen| {
        if !seen.has(ChunkType::COOKIE_ECHO) {
            return Fate::Pass;
        }
        // The same without AUTH.
        let mut bytes = Vec::new();
        let mut packet = PacketBuilder::new(&mut bytes, seen.packet().header(), 1480);
        for raw in seen.packet().chunks().map(|c| c.expect("a chunk")) {
            if raw.kind != ChunkType::AUTH {
                packet.raw(raw.kind, raw.flags, raw.value);
            }
        }
        packet.finish();
        Fate::Replace(bytes)
    });
    w.begin_connect(&[addresses(1)[0]]);
    w.run(secs(3));
    assert_eq!(w.ends[1].associations().count(), 0);
    assert!(w.ends[1].stats().unauthenticated_cookies >= 2);
}

#[test]
fn both_at_once_agree_on_keys_5_2_4() {
    let mut w = world(&ALL, &ALL);
    for end in [0, 1] {
        w.begin_connect_from(end, &[addresses(1 - end)[0]], port(1 - end));
    }
    assert!(w.run_until(secs(60), |w| w.states() == [Some("Established"); 2]));
    w.run(secs(1));
    let (a, b) = (w.only(0), w.only(1));
    exchange(&mut w, a, b);
    assert_eq!(w.stats(1, b).authentication.forged_packets, 0);
}

#[test]
fn a_restarted_peer_has_new_keys_6_3() {
    let required = [ChunkType::DATA, ChunkType::SACK];
    let mut w = world(&required, &required);
    let (a, b) = w.connect();
    exchange(&mut w, a, b);
    let mut config = carrick_proto::EndpointConfig::new(port(0), addresses(0).to_vec(), [9; 32]);
    config.association = requiring(&required);
    w.ends[0] = carrick_proto::Endpoint::new(config).expect("an endpoint");
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.run(secs(5));
    assert!(w.events(1).contains(&Event::Restarted));
    exchange(&mut w, a, b);
}

#[test]
fn a_restart_can_be_refused_by_asking_for_an_authenticated_cookie_6_3() {
    let required = [ChunkType::COOKIE_ECHO];
    let mut w = world(&required, &required);
    let (_, b) = w.connect();
    let mut config = carrick_proto::EndpointConfig::new(port(0), addresses(0).to_vec(), [9; 32]);
    config.association = requiring(&required);
    w.ends[0] = carrick_proto::Endpoint::new(config).expect("an endpoint");
    w.begin_connect(&[addresses(1)[0]]);
    w.run(secs(2));
    assert!(!w.events(1).contains(&Event::Restarted));
    assert_eq!(state_name(&w.stats(1, b)), "Established");
}

/// A puppet that says it authenticates; nobody knows its keys.
fn puppet(w: &mut World) -> (Puppet, AssociationId) {
    let mut puppet = Puppet::new();
    let answers = puppet.init(w, |p| {
        p.random(&[5; 32]);
        p.chunks(&[ChunkType::DATA, ChunkType::INIT]);
        p.hmac_algo(&[HmacId(2), HmacId::SHA_1]);
    });
    puppet.learn(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    puppet.say(w, |p| p.cookie_echo(&cookie));
    let id = w.only(0);
    w.events(0);
    (puppet, id)
}

#[test]
fn what_is_not_authenticated_is_dropped_silently_6_3() {
    let mut w = world(&[ChunkType::DATA, ChunkType::ABORT], &[]);
    let (mut puppet, id) = puppet(&mut w);
    assert!(puppet.data(&mut w, 0, 0, b"forged").is_empty());
    assert!(puppet.say(&mut w, |p| p.abort(false, |_| {})).is_empty());
    // ABORT with the T bit and the tag that an eavesdropper also knows.
    let tag = puppet.tag;
    assert!(
        puppet
            .say_with(&mut w, tag, |p| p.abort(true, |_| {}))
            .is_empty()
    );
    w.run(secs(1));
    assert!(w.receive(0, id).is_empty());
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    assert_eq!(w.stats(0, id).authentication.unauthenticated_chunks, 3);
}

#[test]
fn a_wrong_hmac_of_any_length_drops_what_follows_6_3() {
    let mut w = world(&[ChunkType::DATA], &[]);
    let (puppet, id) = puppet(&mut w);
    let header = Puppet::data_header(puppet.tsn, 0, 0);
    for len in [0, 1, 19, 20, 21, 32, 1000] {
        for algorithm in [HmacId::SHA_1, HmacId::SHA_256] {
            let answers = puppet.say(&mut w, |p| {
                let mut value = vec![0, 0];
                value.extend(algorithm.0.to_be_bytes());
                value.resize(4 + len, 0);
                p.raw(ChunkType::AUTH, 0, &value);
                p.data(&header, b"forged");
            });
            assert!(answers.is_empty());
        }
    }
    // Too short for its fields.
    puppet.say(&mut w, |p| {
        p.raw(ChunkType::AUTH, 0, &[0, 0]);
        p.data(&header, b"forged");
    });
    w.run(secs(1));
    assert!(w.receive(0, id).is_empty());
    assert_eq!(w.stats(0, id).authentication.forged_packets, 15);
}

#[test]
fn an_algorithm_that_was_not_listed_is_answered_with_an_error_6_3() {
    let mut w = world(&[ChunkType::DATA], &[]);
    let (puppet, id) = puppet(&mut w);
    let header = Puppet::data_header(puppet.tsn, 0, 0);
    let answers = puppet.say(&mut w, |p| {
        p.raw(ChunkType::AUTH, 0, &[0, 0, 0, 9, 1, 2, 3, 4]);
        p.data(&header, b"x");
    });
    let expected = (CauseCode::UNSUPPORTED_HMAC_ID, vec![0, 9]);
    assert_eq!(answers[0].causes(), [expected]);
    assert!(w.receive(0, id).is_empty());
}

#[test]
fn a_random_number_of_another_length_ends_the_set_up_6_1() {
    let mut w = world(&[], &[]);
    let puppet = Puppet::new();
    for len in [0, 31, 33] {
        let answers = puppet.init(&mut w, |p| {
            p.random(&vec![5; len]);
            p.hmac_algo(&[HmacId::SHA_1]);
        });
        assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
        assert_eq!(answers[0].causes()[0].0, CauseCode::PROTOCOL_VIOLATION);
    }
}

#[test]
fn auth_before_there_are_keys_changes_nothing_6_3() {
    let mut w = world(&[], &[]);
    let mut puppet = Puppet::new();
    let id = puppet.begin_accept(&mut w);
    puppet.say(&mut w, |p| {
        p.raw(ChunkType::AUTH, 0, &[0, 0, 0, 1, 1, 2, 3, 4]);
        p.cookie_ack();
    });
    assert_eq!(state_name(&w.stats(0, id)), "CookieWait");
    // Alone, and of no association.
    let stray = Puppet {
        port: 7001,
        ..Puppet::new()
    };
    let answers = stray.say_with(&mut w, carrick_proto::VerificationTag(77), |p| {
        p.raw(ChunkType::AUTH, 0, &[0, 0, 0, 1, 1, 2, 3, 4]);
    });
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT], "out of the blue");
}

#[test]
fn authentication_needs_sha_1_and_sane_keys_3_3() {
    let fault = |change: fn(&mut AssociationConfig)| {
        let mut config = AssociationConfig::default();
        change(&mut config);
        config.validate().is_err()
    };
    assert!(fault(
        |c| c.authentication.algorithms = vec![HmacId::SHA_256]
    ));
    assert!(fault(|c| c.authentication.required = vec![ChunkType::INIT]));
    assert!(fault(|c| c.authentication.active = SharedKeyId(4)));
    assert!(fault(|c| c.authentication.null_key = false));
    assert!(!fault(|c| c.extensions = Extensions {
        authentication: true,
        ..c.extensions
    }));
}

#[test]
fn probes_for_the_path_mtu_are_authenticated_and_keep_their_size_6_2_8899() {
    let mut required = ALL.to_vec();
    required.push(ChunkType::PAD);
    for wanted in [&required[..], &[ChunkType::PAD], &[ChunkType::HEARTBEAT]] {
        let mut ours = requiring(&[]);
        ours.path_mtu_discovery = Some(PathMtuDiscovery::default());
        let mut w = world_of(ours, requiring(wanted));
        w.narrow(0, 1492);
        w.narrow(1, 1492);
        let (a, b) = w.connect();
        w.run(secs(120));
        assert_eq!(w.path(0, a, 0).mtu, 1492);
        assert!(unprotected(&w, 0, wanted).is_empty());
        let probes = w.log.iter().filter(|p| p.probe && p.from == 0);
        let sizes: Vec<usize> = probes.map(Seen::ip_len).collect();
        for size in [1200, 1280, 1492, 1500] {
            assert!(sizes.contains(&size), "{sizes:?}");
        }
        exchange(&mut w, a, b);
    }
}

#[test]
fn data_in_i_data_chunks_and_congestion_marks_leave_behind_auth_6_2() {
    let required = [ChunkType::I_DATA, ChunkType::ECNE, ChunkType::CWR];
    let mut config = requiring(&required);
    config.extensions.interleaving = true;
    config.extensions.ecn = true;
    let mut w = world_of(config.clone(), config);
    let mut capable = 0;
    w.rule(move |seen| {
        capable += u32::from(seen.from == 0 && seen.route.ecn != Ecn::NotCapable);
        if seen.from == 0 && capable % 7 == 3 {
            Fate::Mark
        } else {
            Fate::Pass
        }
    });
    let (a, b) = w.connect();
    exchange(&mut w, a, b);
    assert!(!w.sent(1, ChunkType::ECNE).is_empty());
    assert!(!w.sent(0, ChunkType::CWR).is_empty());
    for end in 0..2 {
        assert!(unprotected(&w, end, &required).is_empty());
    }
}
