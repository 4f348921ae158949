//! Establishment, new keys, refusals (draft-ietf-tsvwg-sctp-dtls-chunk, section 5.1;
//! draft-porfiri-tsvwg-sctp-dtls-handshake, sections 6.1 and 6.2).

use std::sync::Arc;
use std::time::Duration;

use carrick_dtls::Certificate;
use carrick_dtls_chunk::{
    CipherSuite, DtlsChunkConfig, DtlsProtection, Identity, KeySet, Method, Role, Roles, Trust,
};
use carrick_proto::{Event, SendOptions};

use crate::common::{Verdict, addresses, ms, pattern, port, secs};
use crate::support::{
    CLIENT, DTLS, SERVER, assert_no_plaintext, fingerprints, offers, pre_shared, protection,
    transfer, world, world_with,
};

/// draft-ietf-tsvwg-sctp-dtls-chunk, section 5.2
#[test]
fn a_lossy_transfer_is_encrypted_on_both_paths() {
    for configs in [fingerprints(), pre_shared()] {
        let mut world = world_with(configs);
        let ids = world.connect();
        let mut state = 1_u32;
        world.rule(move |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match state >> 24 {
                0..=15 => Verdict::Drop,
                16..=24 => Verdict::Duplicate,
                25..=40 => Verdict::Delay(ms(15)),
                _ => Verdict::Pass,
            }
        });
        transfer(&mut world, ids, 50);
        world.block(addresses(SERVER)[0]);
        transfer(&mut world, ids, 20);
        assert_no_plaintext(&world);
        let used = |remote| world.log.iter().any(|s| s.has(DTLS) && s.to() == remote);
        assert!(addresses(SERVER).into_iter().all(used), "both paths");
        assert!(
            world.ends[SERVER].stats().forged_protection > 0,
            "replayed packets"
        );
    }
}

/// The goal of the key management: two round trips more than without it.
#[test]
fn the_set_up_takes_two_round_trips_more() {
    let duration = |mut world: crate::common::World| {
        world.latency = ms(50);
        let id = world.begin_connect(&addresses(SERVER)[..1]);
        let begun = world.now;
        let mut established = false;
        assert!(world.run_until(secs(10), |w| {
            established |= w
                .events(CLIENT)
                .iter()
                .any(|e| matches!(e, Event::Established { .. }));
            established
        }));
        let _ = id;
        world.now - begun
    };
    let plain = duration(world(&[None, None]));
    let secure = duration(world_with(fingerprints()));
    assert_eq!(plain, ms(200));
    assert_eq!(secure, ms(400));
}

#[test]
fn each_cipher_suite_and_role_is_used() {
    for suite in CipherSuite::ALL {
        for (client, server, role) in [
            (Roles::Client, Roles::Both, Role::Client),
            (Roles::Both, Roles::Client, Role::Server),
            (Roles::Server, Roles::Client, Role::Server),
        ] {
            let mut configs = fingerprints();
            for (config, roles) in configs.iter_mut().zip([client, server]) {
                config.cipher_suites = vec![suite];
                config.roles = roles;
            }
            let mut world = world_with(configs);
            let ids = world.connect();
            transfer(&mut world, ids, 3);
            let of_client = protection(&mut world.ends[CLIENT], ids.0);
            assert_eq!(of_client.agreement().role, role);
            assert_eq!(of_client.epoch(), Some(3));
            let (sent, opened, failed) = of_client.records(KeySet::Primary, 3);
            assert!(sent > 1 && opened > 1 && failed == 0);
        }
    }
}

/// Reasons with which the association ends at the client and at the server.
fn ends(configs: [Option<DtlsChunkConfig>; 2]) -> [String; 2] {
    let [client, server] = configs.map(|config| {
        config.map(|config| {
            std::sync::Arc::new(carrick_dtls_chunk::DtlsChunk::new(config).expect("valid"))
        })
    });
    let mut world = world(&[client, server]);
    world.begin_connect(&addresses(SERVER)[..1]);
    world.run(secs(40));
    [CLIENT, SERVER].map(|end| match &world.events(end)[..] {
        [.., Event::Closed(reason)] => reason.to_string(),
        events => format!("{events:?}"),
    })
}

/// Errors on both sides name what was refused.
#[test]
fn refused_certificates_are_named_on_both_sides() {
    let [client, mut server] = fingerprints();
    let stranger = Identity::try_from(Certificate::generate().unwrap()).unwrap();
    let fingerprint = stranger.fingerprint().to_string();
    let carrick_dtls_chunk::KeySource::Tls { trust, .. } = server.keys.clone() else {
        unreachable!("TLS");
    };
    server.keys = carrick_dtls_chunk::KeySource::Tls {
        identity: stranger,
        trust,
    };
    let [at_client, at_server] = ends([Some(client.clone()), Some(server)]);
    for text in [&at_client, &at_server] {
        assert!(
            text.contains(&fingerprint) && text.contains("is not trusted"),
            "{text}"
        );
    }
    // The other way round: the server refuses the client.
    let [mut other, server] = fingerprints();
    let carrick_dtls_chunk::KeySource::Tls { trust, .. } = other.keys else {
        unreachable!("TLS");
    };
    let stranger = Identity::try_from(Certificate::generate().unwrap()).unwrap();
    let fingerprint = stranger.fingerprint().to_string();
    other.keys = carrick_dtls_chunk::KeySource::Tls {
        identity: stranger,
        trust,
    };
    for text in ends([Some(other), Some(server)]) {
        assert!(
            text.contains(&fingerprint) && text.contains("is not trusted"),
            "{text}"
        );
    }
}

/// draft-ietf-tsvwg-sctp-dtls-chunk, sections 4.3 and 5.1
#[test]
fn a_peer_without_the_chunk_is_refused_in_strict_mode() {
    let [client, server] = fingerprints();
    let [at_client, _] = ends([Some(client.clone()), None]);
    assert!(
        at_client.contains("missing DTLS chunk support"),
        "{at_client}"
    );
    let [at_client, at_server] = ends([None, Some(server)]);
    assert!(
        at_client.contains("missing DTLS chunk support"),
        "{at_client}"
    );
    assert_eq!(at_server, "[]");
    let [mut one, mut other] = fingerprints();
    one.method = Method(200);
    let [at_client, _] = ends([Some(one.clone()), Some(other.clone())]);
    assert!(
        at_client.contains("no common DTLS key management method"),
        "{at_client}"
    );
    one.method = other.method;
    one.roles = Roles::Client;
    other.roles = Roles::Client;
    let [at_client, _] = ends([Some(one), Some(other)]);
    assert!(
        at_client.contains("incompatible DTLS key management roles"),
        "{at_client}"
    );
}

#[test]
fn loose_mode_accepts_a_peer_without_the_chunk() {
    for lacks in [CLIENT, SERVER] {
        let mut configs = fingerprints();
        for config in &mut configs {
            config.required = false;
        }
        let mut offers = offers(configs);
        offers[lacks] = None;
        let mut world = world(&offers);
        let ids = world.connect();
        transfer(&mut world, ids, 3);
        assert!(world.ends[CLIENT].chunk_protection(ids.0).is_none());
    }
}

/// draft-porfiri-tsvwg-sctp-dtls-handshake, section 6.2: a message each 10 ms, a thousand new keys in ten minutes.
#[test]
fn keys_are_replaced_a_thousand_times_without_loss() {
    let mut configs = fingerprints();
    for config in &mut configs {
        config.rekey_after = ms(500);
    }
    let mut world = world_with(configs);
    world.discard_log = true;
    let ids = world.connect();
    let mut sent = 0_u32;
    let mut received = 0_u32;
    let mut longest = Duration::ZERO;
    let mut last = world.now;
    while received < 60_000 {
        if sent < 60_000 {
            let options = SendOptions {
                no_delay: true,
                ..SendOptions::default()
            };
            world.send_with(CLIENT, ids.0, options, sent.to_be_bytes().to_vec());
            sent += 1;
        }
        world.run(ms(10));
        for message in world.receive(SERVER, ids.1) {
            assert_eq!(message.payload.into_bytes()[..], received.to_be_bytes());
            received += 1;
            longest = longest.max(world.now - last);
            last = world.now;
        }
    }
    let epoch = protection(&mut world.ends[CLIENT], ids.0).epoch().unwrap();
    assert!(epoch >= 1000, "{epoch}");
    assert!(longest <= ms(40), "{longest:?}: no gap");
    assert_eq!(
        world.ends[SERVER].stats().forged_protection,
        0,
        "no packet was lost by new keys"
    );
    let data = |end, id| world.stats(end, id).counters.retransmissions;
    assert_eq!((data(CLIENT, ids.0), data(SERVER, ids.1)), (0, 0));
}

#[test]
fn keys_are_replaced_on_a_lossy_path_and_after_bytes() {
    let mut configs = fingerprints();
    for config in &mut configs {
        config.rekey_bytes = 1 << 20;
        config.rekey_after = secs(2);
    }
    let mut world = world_with(configs);
    let ids = world.connect();
    let mut state = 5_u32;
    world.rule(move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        match state >> 24 {
            0..=12 => Verdict::Drop,
            13..=25 => Verdict::Delay(ms(30)),
            _ => Verdict::Pass,
        }
    });
    for _ in 0..20 {
        transfer(&mut world, ids, 60);
        world.run(ms(500));
    }
    let epochs = [(CLIENT, ids.0), (SERVER, ids.1)]
        .map(|(end, id)| protection(&mut world.ends[end], id).epoch().unwrap());
    assert!(epochs[0] >= 8, "{epochs:?}");
    assert!(epochs[0].abs_diff(epochs[1]) <= 1, "{epochs:?}");
    assert_no_plaintext(&world);
}

/// The server of TLS has changed to new keys, and its Protection Established is lost for longer than a handshake may
/// take: the client changes when it arrives.
#[test]
fn a_late_confirmation_of_new_keys_counts() {
    let mut configs = fingerprints();
    for config in &mut configs {
        config.handshake_timeout = secs(2);
    }
    let mut world = world_with(configs);
    let ids = world.connect();
    world.run(secs(5));
    let now = world.now;
    assert!(protection(&mut world.ends[CLIENT], ids.0).rekey(now));
    world.send(CLIENT, ids.0, 0, vec![1; 10]);
    let changed = world.run_until(secs(1), |w| {
        protection(&mut w.ends[SERVER], ids.1).epoch() == Some(4)
    });
    assert!(changed);
    assert_eq!(protection(&mut world.ends[CLIENT], ids.0).epoch(), Some(3));
    world.rule(|seen| match seen.from {
        SERVER => Verdict::Drop,
        _ => Verdict::Pass,
    });
    world.run(secs(8));
    world.clear_rules();
    world.run(secs(400));
    for (end, id) in [(CLIENT, ids.0), (SERVER, ids.1)] {
        assert!(protection(&mut world.ends[end], id).epoch() >= Some(4));
    }
    assert_eq!(world.receive_lengths(SERVER, ids.1), [10]);
    transfer(&mut world, ids, 3);
}

/// Both sides initiate at the same time: the tie breakers decide on the roles, also if packets are lost.
#[test]
fn crossing_set_ups_agree_on_keys() {
    for seed in 0..40_u32 {
        let offers = offers(fingerprints());
        let mut world = world(&offers);
        let mut state = seed;
        world.rule(move |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match state >> 24 {
                0..=20 if seed > 0 => Verdict::Drop,
                21..=60 if seed > 0 => Verdict::Delay(ms(15)),
                _ => Verdict::Pass,
            }
        });
        let client = world.begin_connect(&addresses(SERVER));
        // The parameters of associations are those of the client elsewhere.
        world.config.security.protection = offers[SERVER].clone().map(|offer| offer as Arc<_>);
        let server = world.begin_connect_from(SERVER, &addresses(CLIENT), port(CLIENT));
        world.run(secs(30));
        for (end, id) in [(CLIENT, client), (SERVER, server)] {
            assert_eq!(
                protection(&mut world.ends[end], id).epoch(),
                Some(3),
                "seed {seed}"
            );
        }
        transfer(&mut world, (client, server), 5);
        assert_no_plaintext(&world);
    }
}

/// draft-porfiri-tsvwg-sctp-dtls-handshake, section 6.2.4
#[test]
fn handshakes_at_the_same_time_are_resolved() {
    let mut world = world_with(fingerprints());
    let ids = world.connect();
    for round in 1..20 {
        let now = world.now;
        for (end, id) in [(CLIENT, ids.0), (SERVER, ids.1)] {
            assert!(protection(&mut world.ends[end], id).rekey(now));
        }
        transfer(&mut world, ids, 2);
        world.run(secs(2));
        for (end, id) in [(CLIENT, ids.0), (SERVER, ids.1)] {
            assert_eq!(
                protection(&mut world.ends[end], id).epoch(),
                Some(3 + round)
            );
        }
    }
}

/// Keys are replaced at once, also on an association without traffic.
#[test]
fn an_idle_association_gets_new_keys_on_request() {
    let mut world = world_with(fingerprints());
    let ids = world.connect();
    world.run(secs(5));
    let mut change = world.change(CLIENT, ids.0);
    let protection_of = change.chunk_protection().expect("in force");
    let any: &mut dyn std::any::Any = protection_of;
    let chunk: &mut DtlsProtection = any.downcast_mut().expect("the DTLS chunk");
    let now = carrick_proto::Time::ZERO + secs(5);
    assert!(chunk.rekey(now));
    drop(change);
    world.run(ms(100));
    for (end, id) in [(CLIENT, ids.0), (SERVER, ids.1)] {
        assert_eq!(protection(&mut world.ends[end], id).epoch(), Some(4));
    }
}

/// draft-porfiri-tsvwg-sctp-dtls-handshake, section 3.4: without new keys the association ends.
#[test]
fn keys_that_are_not_replaced_end_the_association() {
    let mut configs = fingerprints();
    for config in &mut configs {
        config.rekey_after = secs(60);
        config.handshake_timeout = secs(5);
    }
    let mut world = world_with(configs);
    let ids = world.connect();
    world.run(secs(5));
    world.events(CLIENT);
    world.block(addresses(SERVER)[0]);
    world.block(addresses(SERVER)[1]);
    world.run(secs(600));
    let events = world.events(CLIENT);
    let text = format!("{events:?}");
    assert!(matches!(events.last(), Some(Event::Closed(_))), "{text}");
    let _ = ids;
}

#[test]
fn messages_before_the_keys_wait() {
    let mut world = world_with(fingerprints());
    let id = world.begin_connect(&addresses(SERVER));
    world.send(CLIENT, id, 0, pattern(5000));
    world.run(secs(2));
    let peer = world.association(SERVER);
    assert_eq!(world.receive_lengths(SERVER, peer), [5000]);
    assert_no_plaintext(&world);
    let text = world.log.iter().any(|seen| {
        seen.bytes
            .windows(16)
            .any(|window| window == &pattern(5000)[..16])
    });
    assert!(!text, "payload in the clear");
}

/// Chains are checked to an authority, with dates and names.
#[test]
fn chains_are_checked_to_their_authority() {
    let authority = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = params.self_signed(&authority).unwrap();
    let issuer = rcgen::Issuer::new(params, authority);
    let leaf = |name: &str, expired: bool| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        if expired {
            params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        }
        let certificate = params.signed_by(&key, &issuer).unwrap();
        Identity::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
    };
    let trust = |name: Option<&str>| Trust::Authorities {
        certificates: vec![root.der().to_vec()],
        name: name.map(str::to_owned),
    };
    let config = |identity, name| DtlsChunkConfig::tls(identity, trust(name));
    let good = |name| config(leaf("amf.example", false), name);
    let mut world = world_with([
        good(None),
        config(leaf("gnb.example", false), Some("amf.example")),
    ]);
    let ids = world.connect();
    transfer(&mut world, ids, 3);
    for (identity, reason) in [
        (leaf("amf.example", true), "Expired"),
        (leaf("other.example", false), "not for the name amf.example"),
        (
            Identity::try_from(Certificate::generate().unwrap()).unwrap(),
            "UnknownIssuer",
        ),
    ] {
        let server = config(leaf("gnb.example", false), Some("amf.example"));
        let [at_client, at_server] = ends([Some(config(identity, None)), Some(server)]);
        assert!(at_server.contains(reason), "{at_server}");
        assert!(at_client.contains(reason), "{at_client}");
    }
}
