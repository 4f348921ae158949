//! Authenticated chunks (RFC 4895).

use crate::common;

use bytes::Bytes;
use carrick_proto::{
    AssociationConfig, AssociationId, AuthenticationEvent, Ecn, Event, Extensions, HmacId,
    KeyError, PathId, PathMtuDiscovery, Reliability, Route, SendOptions, SharedKey, SharedKeyId,
    StreamDirection, StreamId,
};
use carrick_wire::{CauseCode, Chunk, ChunkType, CommonHeader, PacketBuilder, ParameterType};
use common::*;

/// All chunk types that may be authenticated.
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
    let mut config = AssociationConfig::rfc9260();
    config.extensions.authentication = true;
    config.security.authentication.required = required.to_vec();
    config
}

/// Two endpoints, each of which requires authentication of these chunks.
fn requiring_both(ours: &[ChunkType], theirs: &[ChunkType]) -> World {
    configured(requiring(ours), requiring(theirs))
}

fn configured(ours: AssociationConfig, theirs: AssociationConfig) -> World {
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
fn auth_of(seen: &SentPacket) -> Option<(SharedKeyId, HmacId)> {
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
    let packets = w
        .log
        .iter()
        .filter(|p| p.from == end)
        .map(SentPacket::kinds);
    packets
        .filter(|kinds| {
            let bare = kinds.iter().take_while(|k| **k != ChunkType::AUTH);
            bare.into_iter().any(|k| required.contains(k))
        })
        .collect()
}

/// RFC 4895, section 6.2
#[test]
fn chunks_required_by_the_peer_follow_auth() {
    let mut w = requiring_both(&ALL, &[ChunkType::DATA]);
    let (a, b) = w.connect();
    assert!(w.stats(0, a).extensions.authentication);
    let of_peer: Vec<ChunkType> = w.read(0, a).peer_required_chunks().collect();
    assert_eq!(of_peer, [ChunkType::DATA]);
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
    assert!(bare, "the peer does not require authenticated SACKs");
}

/// RFC 4895, section 6.2
#[test]
fn an_unauthenticated_sack_takes_no_room_from_data() {
    let mut w = requiring_both(&[], &[ChunkType::SACK]);
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

/// RFC 4895, section 6.2
#[test]
fn lost_authenticated_chunks_are_retransmitted() {
    let mut w = requiring_both(&ALL, &ALL);
    let (a, b) = w.connect();
    w.lose_data(0, &[3, 4, 9, 40, 41, 42]);
    w.lose(1, ChunkType::SACK, 5);
    exchange(&mut w, a, b);
    let stats = w.stats(1, b).authentication;
    assert_eq!((stats.forged_packets, stats.unauthenticated_chunks), (0, 0));
}

/// RFC 4895, section 6.1
#[test]
fn init_and_init_ack_carry_random_chunks_and_hmacs() {
    let mut w = requiring_both(&[ChunkType::DATA], &[]);
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

/// RFC 9260, section 5.1.3
/// RFC 4895, section 6.1
#[test]
fn an_init_leaves_no_keys_and_a_small_cookie() {
    let mut w = requiring_both(&ALL, &ALL);
    w.connect();
    let cookie = Puppet::cookie(w.sent(1, ChunkType::INIT_ACK)[0]);
    assert!(cookie.len() < 280, "{} bytes", cookie.len());
}

/// RFC 6458, section 6.1.8
#[test]
fn a_peer_without_authentication_is_reported() {
    let mut w = configured(requiring(&[ChunkType::DATA]), AssociationConfig::rfc9260());
    let (a, b) = w.connect();
    assert!(!w.stats(0, a).extensions.authentication);
    let event = Event::Authentication(AuthenticationEvent::NotSupported);
    assert!(w.events(0).contains(&event));
    assert_eq!(
        w.change(0, a).add_key(key(1, b"x")),
        Err(KeyError::NotInForce)
    );
    exchange(&mut w, a, b);
    assert!(w.sent(0, ChunkType::AUTH).is_empty());
}

/// RFC 4895, section 6.1
#[test]
fn the_first_supported_hmac_of_the_peer_is_used() {
    let mut sha1 = requiring(&[ChunkType::DATA]);
    sha1.security.authentication.algorithms = vec![HmacId::SHA_1];
    let mut w = configured(requiring(&[ChunkType::DATA]), sha1);
    let (a, b) = w.connect();
    exchange(&mut w, a, b);
    let used = |w: &World, end| auth_of(w.sent(end, ChunkType::AUTH)[0]).expect("AUTH").1;
    assert_eq!(used(&w, 0), HmacId::SHA_1);
    assert_eq!(used(&w, 1), HmacId::SHA_256);
}

/// RFC 4895, section 6.1
#[test]
fn a_key_changes_without_interruption() {
    let mut w = requiring_both(&[ChunkType::DATA], &[ChunkType::DATA]);
    let (a, b) = w.connect();
    for n in 0..300 {
        w.send(0, a, n % 4, pattern(1000));
    }
    w.run(ms(15));
    let [one, other] = [key(7, b"new"), key(7, b"new")];
    w.change(1, b).add_key(one).expect("a new key");
    w.change(0, a).add_key(other).expect("a new key");
    w.change(0, a)
        .activate_key(SharedKeyId(7))
        .expect("activate");
    assert_eq!(
        w.change(0, a).delete_key(SharedKeyId(7)),
        Err(KeyError::Active)
    );
    w.change(0, a)
        .deactivate_key(SharedKeyId(0))
        .expect("deactivate");
    assert_eq!(
        w.change(0, a).activate_key(SharedKeyId(0)),
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

/// RFC 4895, section 6.3
#[test]
fn an_unknown_key_is_reported_once() {
    let mut w = requiring_both(&[], &[ChunkType::DATA]);
    let (a, b) = w.connect();
    w.change(0, a).add_key(key(3, b"k")).expect("a key");
    w.change(0, a)
        .activate_key(SharedKeyId(3))
        .expect("activate");
    w.send(0, a, 0, pattern(100));
    w.run(secs(5));
    assert!(w.receive(1, b).is_empty());
    let unknown = Event::Authentication(AuthenticationEvent::UnknownKey(SharedKeyId(3)));
    assert_eq!(w.events(1).into_iter().filter(|e| *e == unknown).count(), 1);
    assert!(w.stats(1, b).authentication.unknown_keys >= 2);
    // With the key, what is sent again arrives.
    w.change(1, b).add_key(key(3, b"k")).expect("a key");
    w.run(secs(30));
    assert_eq!(w.receive_lengths(1, b), [100]);
}

/// RFC 4895, section 6.3
#[test]
fn another_secret_of_the_same_key_id_is_rejected() {
    let config = |secret| {
        let mut config = requiring(&[ChunkType::DATA]);
        config.security.authentication.keys = vec![key(1, secret)];
        config.security.authentication.active = SharedKeyId(1);
        config.security.authentication.null_key = false;
        config
    };
    let mut w = configured(config(b"ours"), config(b"theirs"));
    let (a, b) = w.connect();
    w.send(0, a, 0, pattern(100));
    w.run(secs(10));
    assert!(w.receive(1, b).is_empty());
    assert!(w.stats(1, b).authentication.forged_packets > 0);
    let mut w = configured(config(b"same"), config(b"same"));
    let (a, b) = w.connect();
    exchange(&mut w, a, b);
}

/// RFC 4895, section 6.3
#[test]
fn data_behind_cookie_echo_uses_the_new_keys() {
    for required in [&[ChunkType::DATA][..], &[ChunkType::COOKIE_ECHO], &ALL] {
        let mut w = requiring_both(&[], required);
        let a = w.begin_connect(&[addresses(1)[0]]);
        w.send(0, a, 0, pattern(300));
        w.run(secs(1));
        let echo = w.sent(0, ChunkType::COOKIE_ECHO)[0].kinds();
        let place = |kind| echo.iter().position(|k| *k == kind).expect("in the packet");
        let echo_first = place(ChunkType::COOKIE_ECHO) < place(ChunkType::AUTH);
        assert_eq!(echo_first, !required.contains(&ChunkType::COOKIE_ECHO));
        let b = w.association(1);
        assert_eq!(w.receive_lengths(1, b), [300]);
        assert_eq!(
            w.sent(0, ChunkType::DATA).len(),
            1,
            "nothing was sent again"
        );
    }
}

/// RFC 4895, section 6.3
#[test]
fn an_authenticated_set_up_survives_each_loss() {
    for kind in [
        ChunkType::INIT,
        ChunkType::INIT_ACK,
        ChunkType::COOKIE_ECHO,
        ChunkType::COOKIE_ACK,
        ChunkType::AUTH,
    ] {
        let mut w = requiring_both(&ALL, &ALL);
        w.lose(0, kind, 1);
        w.lose(1, kind, 1);
        let (a, b) = w.connect();
        exchange(&mut w, a, b);
    }
}

/// RFC 4895, section 6.3
#[test]
fn an_unauthenticated_cookie_is_discarded() {
    let mut w = requiring_both(&[], &[ChunkType::COOKIE_ECHO]);
    w.rule(|seen| {
        if !seen.has(ChunkType::COOKIE_ECHO) {
            return Verdict::Pass;
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
        Verdict::Replace(bytes)
    });
    w.begin_connect(&[addresses(1)[0]]);
    w.run(secs(3));
    assert_eq!(w.ends[1].associations().count(), 0);
    assert!(w.ends[1].stats().unauthenticated_cookies >= 2);
}

/// RFC 9260, section 5.2.4
/// RFC 4895, section 6.1
#[test]
fn colliding_associations_derive_the_same_keys() {
    let mut w = requiring_both(&ALL, &ALL);
    for end in [0, 1] {
        w.begin_connect_from(end, &[addresses(1 - end)[0]], port(1 - end));
    }
    assert!(w.run_until(secs(60), |w| w.states() == [Some("Established"); 2]));
    w.run(secs(1));
    let (a, b) = (w.association(0), w.association(1));
    exchange(&mut w, a, b);
    assert_eq!(w.stats(1, b).authentication.forged_packets, 0);
}

/// RFC 4895, section 6.3
#[test]
fn a_restarted_peer_has_new_keys() {
    let required = [ChunkType::DATA, ChunkType::SACK];
    let mut w = requiring_both(&required, &required);
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

/// RFC 4895, section 6.3
#[test]
fn an_unauthenticated_restart_can_be_refused() {
    let required = [ChunkType::COOKIE_ECHO];
    let mut w = requiring_both(&required, &required);
    let (_, b) = w.connect();
    let mut config = carrick_proto::EndpointConfig::new(port(0), addresses(0).to_vec(), [9; 32]);
    config.association = requiring(&required);
    w.ends[0] = carrick_proto::Endpoint::new(config).expect("an endpoint");
    w.begin_connect(&[addresses(1)[0]]);
    w.run(secs(2));
    assert!(!w.events(1).contains(&Event::Restarted));
    assert_eq!(state_name(&w.stats(1, b)), "Established");
}

/// A puppet that offers authentication, without keys.
fn puppet(w: &mut World) -> (Puppet, AssociationId) {
    puppet_requiring(w, &[ChunkType::DATA, ChunkType::INIT])
}

/// A puppet that requires authentication of these chunks, without keys.
fn puppet_requiring(w: &mut World, required: &[ChunkType]) -> (Puppet, AssociationId) {
    let mut puppet = Puppet::new();
    let answers = puppet.init(w, |p| {
        p.random(&[5; 32]);
        p.chunks(required);
        p.hmac_algo(&[HmacId(2), HmacId::SHA_1]);
    });
    puppet.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    puppet.send(w, |p| p.cookie_echo(&cookie));
    let id = w.association(0);
    w.events(0);
    (puppet, id)
}

/// RFC 4895, section 6.3
#[test]
fn unauthenticated_chunks_are_discarded_silently() {
    let mut w = requiring_both(&[ChunkType::DATA, ChunkType::ABORT], &[]);
    let (mut puppet, id) = puppet(&mut w);
    assert!(puppet.data(&mut w, 0, 0, b"forged").is_empty());
    assert!(puppet.send(&mut w, |p| p.abort(false, |_| {})).is_empty());
    // ABORT with the T bit and the tag that an eavesdropper also knows.
    let tag = puppet.tag;
    assert!(
        puppet
            .send_with_tag(&mut w, tag, |p| p.abort(true, |_| {}))
            .is_empty()
    );
    w.run(secs(1));
    assert!(w.receive(0, id).is_empty());
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    assert_eq!(w.stats(0, id).authentication.unauthenticated_chunks, 3);
}

/// RFC 9260, section 6.10: a SACK that reports a gap and waits in front of other replies, of which the peer requires
/// one authenticated.
#[test]
fn a_full_sack_leaves_room_for_auth() {
    let mut w = requiring_both(&[], &[]);
    let (p, id) = puppet_requiring(&mut w, &[ChunkType::HEARTBEAT]);
    let limit = w.path(0, id, 0).mtu - 20;
    for n in 0..400 {
        for next in [4 * n + 1, 4 * n + 3] {
            let header = Puppet::data_header(p.tsn.plus(next), 0, next as u16);
            let packet = p.build(p.peer_tag, |b| b.data(&header, b"x"));
            w.ends[0].handle_datagram(w.now, &p.route(), packet);
        }
        let answers = p.receive(&mut w);
        assert!(answers.iter().any(|a| a.has(ChunkType::AUTH)));
        let longest = answers.iter().map(|a| a.bytes.len()).max().unwrap();
        assert!(longest <= limit, "{longest} of {limit} bytes, gap {n}");
    }
}

/// RFC 4895, section 6.3
#[test]
fn a_wrong_hmac_of_any_length_discards_the_rest() {
    let mut w = requiring_both(&[ChunkType::DATA], &[]);
    let (puppet, id) = puppet(&mut w);
    let header = Puppet::data_header(puppet.tsn, 0, 0);
    for len in [0, 1, 19, 20, 21, 32, 1000] {
        for algorithm in [HmacId::SHA_1, HmacId::SHA_256] {
            let answers = puppet.send(&mut w, |p| {
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
    puppet.send(&mut w, |p| {
        p.raw(ChunkType::AUTH, 0, &[0, 0]);
        p.data(&header, b"forged");
    });
    w.run(secs(1));
    assert!(w.receive(0, id).is_empty());
    assert_eq!(w.stats(0, id).authentication.forged_packets, 15);
}

/// RFC 4895, section 6.3
#[test]
fn an_unlisted_hmac_is_answered_with_an_error() {
    let mut w = requiring_both(&[ChunkType::DATA], &[]);
    let (puppet, id) = puppet(&mut w);
    let header = Puppet::data_header(puppet.tsn, 0, 0);
    let answers = puppet.send(&mut w, |p| {
        p.raw(ChunkType::AUTH, 0, &[0, 0, 0, 9, 1, 2, 3, 4]);
        p.data(&header, b"x");
    });
    let expected = (CauseCode::UNSUPPORTED_HMAC_ID, vec![0, 9]);
    assert_eq!(answers[0].causes(), [expected]);
    assert!(w.receive(0, id).is_empty());
}

/// RFC 4895, section 6.1
#[test]
fn a_random_parameter_of_another_length_aborts() {
    let mut w = requiring_both(&[], &[]);
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

/// RFC 4895, section 6.3
#[test]
fn auth_before_keys_exist_changes_nothing() {
    let mut w = requiring_both(&[], &[]);
    let mut puppet = Puppet::new();
    let id = puppet.begin_accept(&mut w);
    puppet.send(&mut w, |p| {
        p.raw(ChunkType::AUTH, 0, &[0, 0, 0, 1, 1, 2, 3, 4]);
        p.cookie_ack();
    });
    assert_eq!(state_name(&w.stats(0, id)), "CookieWait");
    // Alone, and of no association.
    let stray = Puppet {
        port: 7001,
        ..Puppet::new()
    };
    let answers = stray.send_with_tag(&mut w, carrick_proto::VerificationTag(77), |p| {
        p.raw(ChunkType::AUTH, 0, &[0, 0, 0, 1, 1, 2, 3, 4]);
    });
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT], "out of the blue");
}

/// RFC 4895, section 3.3
#[test]
fn a_configuration_needs_sha1_and_valid_keys() {
    let fault = |change: fn(&mut AssociationConfig)| {
        let mut config = AssociationConfig::rfc9260();
        change(&mut config);
        config.validate().is_err()
    };
    assert!(fault(
        |c| c.security.authentication.algorithms = vec![HmacId::SHA_256]
    ));
    assert!(fault(
        |c| c.security.authentication.required = vec![ChunkType::INIT]
    ));
    assert!(fault(|c| c.security.authentication.active = SharedKeyId(4)));
    assert!(fault(|c| c.security.authentication.null_key = false));
    assert!(!fault(|c| c.extensions = Extensions {
        authentication: true,
        ..c.extensions
    }));
}

/// RFC 4895, section 6.2
/// RFC 8899, section 6.2.1.1
#[test]
fn authenticated_probes_keep_their_size() {
    let mut required = ALL.to_vec();
    required.push(ChunkType::PAD);
    for wanted in [&required[..], &[ChunkType::PAD], &[ChunkType::HEARTBEAT]] {
        let mut ours = requiring(&[]);
        ours.mtu.path_mtu_discovery = Some(PathMtuDiscovery::default());
        let mut w = configured(ours, requiring(wanted));
        w.narrow(0, 1492);
        w.narrow(1, 1492);
        let (a, b) = w.connect();
        w.run(secs(120));
        assert_eq!(w.path(0, a, 0).mtu, 1492);
        assert!(unprotected(&w, 0, wanted).is_empty());
        let probes = w.log.iter().filter(|p| p.probe && p.from == 0);
        let sizes: Vec<usize> = probes.map(SentPacket::ip_len).collect();
        for size in [1200, 1280, 1492, 1500] {
            assert!(sizes.contains(&size), "{sizes:?}");
        }
        exchange(&mut w, a, b);
    }
}

/// RFC 4895, section 6.2
#[test]
fn i_data_and_ecne_follow_auth() {
    let required = [ChunkType::I_DATA, ChunkType::ECNE, ChunkType::CWR];
    let mut config = requiring(&required);
    config.extensions.interleaving = true;
    config.extensions.ecn = true;
    let mut w = configured(config.clone(), config);
    let mut capable = 0;
    w.rule(move |seen| {
        capable += u32::from(seen.from == 0 && seen.route.ecn != Ecn::NotCapable);
        if seen.from == 0 && capable % 7 == 3 {
            Verdict::Mark
        } else {
            Verdict::Pass
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

/// An association in which both sides send nearly all types of chunks, and require authentication of one type.
fn course(required: ChunkType, interleaving: bool) -> World {
    let mut config = requiring(&[required]);
    config.extensions = Extensions {
        authentication: true,
        dynamic_addresses: true,
        reconfiguration: true,
        ecn: true,
        partial_reliability: true,
        interleaving,
        interleaved_partial_reliability: interleaving,
        nr_sack: interleaving,
        zero_checksum: false,
    };
    config.mtu.path_mtu_discovery = Some(PathMtuDiscovery::default());
    let mut w = configured(config.clone(), config);
    let mut sent = 0;
    w.rule(move |seen| {
        sent += 1;
        match sent % 7 {
            0 if !seen.user_data().is_empty() => Verdict::Drop,
            1 | 4 if seen.route.ecn != Ecn::NotCapable => Verdict::Mark,
            _ => Verdict::Pass,
        }
    });
    // Data in the packet with the COOKIE ECHO.
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.send(0, a, 0, pattern(100));
    w.run(secs(2));
    let b = w.association(1);
    // Abandoned and retransmitted messages, in both directions.
    for n in 0..60 {
        let options = |stream| SendOptions {
            stream: StreamId(stream),
            reliability: if n % 2 == 0 {
                Reliability::Full
            } else {
                Reliability::Retransmissions(0)
            },
            ..SendOptions::default()
        };
        w.send_with(0, a, options(n % 4), pattern(2000));
        w.send_with(1, b, options(n % 3), pattern(700));
        w.run(ms(50));
    }
    w.run(secs(20));
    // Requests of both extensions.
    for (end, id) in [(0, a), (1, b)] {
        let reset = w.change(end, id).reset_streams(StreamDirection::Both, &[]);
        assert_eq!(reset, Ok(()));
        w.run(secs(40));
    }
    let moved = addresses(0)[1];
    w.ends[0].local_address_removed(w.now, moved);
    w.run(secs(5));
    w.ends[0].local_address_added(moved);
    w.run(secs(40));
    // A chunk of an unknown type, which is reported.
    let last = w
        .log
        .iter()
        .rfind(|p| p.from == 1 && p.route.remote != moved);
    let last = last.expect("a packet").clone();
    let header = CommonHeader {
        source_port: port(1),
        destination_port: port(0),
        tag: last.tag(),
    };
    let route = Route {
        local: Some(last.to()),
        remote: last.source(),
        ..last.route
    };
    let mut bytes = Vec::new();
    let mut packet = PacketBuilder::new(&mut bytes, header, 1200);
    packet.raw(ChunkType(0xff), 0, b"unknown");
    packet.finish();
    w.inject(0, &route, bytes);
    w.run(secs(1));
    // Outstanding data at the end.
    w.send(0, a, 0, pattern(3000));
    w.send(1, b, 0, pattern(3000));
    for (end, id) in [(0, a), (1, b)] {
        let counters = w.stats(end, id).authentication;
        assert_eq!(counters.unauthenticated_chunks, 0, "{required}");
        w.receive(end, id);
    }
    w.ends[0].shutdown(w.now, a).expect("shutdown");
    w.run(secs(60));
    w.receive(0, a);
    w.receive(1, b);
    w.run(secs(1));
    assert_eq!(w.states(), [None, None], "{required}");
    w
}

/// RFC 4895, section 6.2
#[test]
fn each_chunk_type_alone_follows_auth() {
    let mut types = ALL.to_vec();
    types.retain(|kind| *kind != ChunkType::ABORT);
    types.extend([
        ChunkType::NR_SACK,
        ChunkType::I_DATA,
        ChunkType::ASCONF,
        ChunkType::ASCONF_ACK,
        ChunkType::RE_CONFIG,
        ChunkType::PAD,
        ChunkType::FORWARD_TSN,
        ChunkType::I_FORWARD_TSN,
    ]);
    for required in types {
        let mut seen = 0;
        for interleaving in [false, true] {
            let w = course(required, interleaving);
            for end in 0..2 {
                let bare = unprotected(&w, end, &[required]);
                assert!(bare.is_empty(), "{required}: {bare:?}");
                seen += w.sent(end, required).len();
            }
        }
        assert!(seen > 0, "{required}");
    }
}
