//! Packets without a checksum where the lower layer protects them (RFC 9653).

use crate::common;

use bytes::Bytes;
use carrick_proto::{AssociationConfig, AssociationId, Extensions, LowerLayer};
use carrick_wire::{
    ChunkType, DataHeader, ErrorDetectionMethod, PacketBuilder, Parameter, ParameterType,
    VerificationTag,
};
use common::*;

const OFFERED: Extensions = Extensions {
    zero_checksum: true,
    authentication: true,
    dynamic_addresses: true,
    ..Extensions::NONE
};

const DTLS: ErrorDetectionMethod = ErrorDetectionMethod::DTLS;

fn config(lower_layer: LowerLayer, zero_checksum: bool) -> AssociationConfig {
    AssociationConfig {
        lower_layer,
        extensions: Extensions {
            zero_checksum,
            ..OFFERED
        },
        ..AssociationConfig::default()
    }
}

fn protected() -> AssociationConfig {
    config(LowerLayer::Dtls, true)
}

fn world(configs: &[AssociationConfig; 2]) -> World {
    let mut w = World::with(2, |end, config| {
        config.local_addresses.truncate(1);
        config.association = configs[end].clone();
    });
    w.config = configs[0].clone();
    w
}

/// An endpoint that takes such packets if `protected`, and a puppet that tells this parameter.
fn puppet(
    config: AssociationConfig,
    method: Option<ErrorDetectionMethod>,
) -> (World, Puppet, AssociationId) {
    let mut w = world(&[config.clone(), config]);
    let (peer, id) = Puppet::new().connect_with(&mut w, |p| {
        if let Some(method) = method {
            p.zero_checksum_acceptable(method);
        }
    });
    (w, peer, id)
}

/// A packet of the puppet without a checksum.
fn unchecked(
    peer: &Puppet,
    tag: VerificationTag,
    write: impl FnOnce(&mut PacketBuilder<'_>),
) -> Bytes {
    let mut buf = Vec::new();
    let mut packet = PacketBuilder::new(&mut buf, peer.header(tag), 1400);
    write(&mut packet);
    packet.finish_with_zero_checksum();
    buf.into()
}

fn next_data(peer: &mut Puppet, ssn: u16) -> DataHeader {
    let header = Puppet::data_header(peer.tsn, 0, ssn);
    peer.tsn = peer.tsn.next();
    header
}

fn is_zero(seen: &Seen) -> bool {
    seen.packet().checksum_is_zero()
}

#[test]
fn both_sides_leave_the_checksum_out_where_both_are_protected_9653_5_2() {
    let mut w = world(&[protected(), protected()]);
    let (a, b) = w.connect();
    for n in 0..20 {
        w.send(0, a, n % 3, pattern(4000));
        w.send(1, b, n % 3, pattern(3000));
    }
    w.run(secs(5));
    assert_eq!(w.receive_lengths(1, b), [4000; 20]);
    assert_eq!(w.receive_lengths(0, a), [3000; 20]);
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(secs(5));
    assert_eq!(w.states(), [None, None]);
    for seen in &w.log {
        let kinds = seen.kinds();
        // The last one belongs to no association any more.
        let set_up = [
            ChunkType::INIT,
            ChunkType::INIT_ACK,
            ChunkType::COOKIE_ECHO,
            ChunkType::SHUTDOWN_COMPLETE,
        ];
        let checked = set_up.iter().any(|kind| kinds.contains(kind));
        assert_eq!(is_zero(seen), !checked, "{kinds:?}");
    }
    for end in &w.ends {
        assert_eq!(end.stats().bad_checksum, 0);
    }
}

#[test]
fn where_one_side_cannot_all_packets_have_one_9653_5_1() {
    let unprotected = config(LowerLayer::Plain, true);
    let unwilling = config(LowerLayer::Dtls, false);
    for other in [unprotected, unwilling] {
        for configs in [[protected(), other.clone()], [other.clone(), protected()]] {
            let mut w = world(&configs);
            let (a, b) = w.connect();
            w.send(0, a, 0, pattern(4000));
            w.send(1, b, 0, pattern(4000));
            w.run(secs(5));
            assert_eq!(w.receive_lengths(1, b), [4000]);
            assert_eq!(w.receive_lengths(0, a), [4000]);
            assert!(!w.stats(0, a).extensions.zero_checksum);
            assert!(!w.stats(1, b).extensions.zero_checksum);
            assert!(!w.log.iter().any(is_zero));
        }
    }
}

#[test]
fn the_init_tells_the_method_only_where_it_protects_9653_4() {
    for (config, told) in [
        (protected(), true),
        (config(LowerLayer::Plain, true), false),
        (
            AssociationConfig {
                lower_layer: LowerLayer::Plain,
                ..AssociationConfig::modern()
            },
            false,
        ),
        (
            AssociationConfig {
                lower_layer: LowerLayer::Dtls,
                ..AssociationConfig::modern()
            },
            true,
        ),
    ] {
        let mut w = world(&[config.clone(), config]);
        w.begin_connect(&[addresses(1)[0]]);
        w.run(secs(1));
        for kind in [ChunkType::INIT, ChunkType::INIT_ACK] {
            let end = usize::from(kind == ChunkType::INIT_ACK);
            let sent = w.sent(end, kind)[0];
            let expected = Parameter::ZeroChecksumAcceptable(DTLS);
            assert_eq!(sent.parameters().contains(&expected), told, "{kind}");
        }
    }
}

#[test]
fn the_init_ack_tells_it_whatever_the_peer_says_9653_5_1() {
    let mut w = world(&[protected(), protected()]);
    let answers = Puppet::new().init(&mut w, |_| {});
    let kinds = answers[0].parameter_types();
    assert!(kinds.contains(&ParameterType::ZERO_CHECKSUM_ACCEPTABLE));
    let mut w = world(&[config(LowerLayer::Plain, true), protected()]);
    let answers = Puppet::new().init(&mut w, |p| p.zero_checksum_acceptable(DTLS));
    let kinds = answers[0].parameter_types();
    assert!(!kinds.contains(&ParameterType::ZERO_CHECKSUM_ACCEPTABLE));
}

#[test]
fn what_was_announced_is_accepted_though_the_peer_announced_nothing_9653_5_3() {
    for method in [None, Some(DTLS), Some(ErrorDetectionMethod(7))] {
        let (mut w, mut peer, id) = puppet(protected(), method);
        let header = next_data(&mut peer, 0);
        let bytes = unchecked(&peer, peer.peer_tag, |p| p.data(&header, b"hello"));
        w.inject(0, &peer.route(), bytes);
        assert_eq!(w.receive_lengths(0, id), [5]);
        // Its own packets go by what the peer can check.
        w.send(0, id, 0, pattern(100));
        let sent = peer.hear(&mut w);
        assert!(sent.iter().any(|p| p.has(ChunkType::DATA)));
        assert!(sent.iter().all(|p| is_zero(p) == (method == Some(DTLS))));
        assert_eq!(
            w.stats(0, id).extensions.zero_checksum,
            method == Some(DTLS)
        );
    }
}

#[test]
fn what_was_not_announced_is_dropped_and_counted_9653_5_3() {
    for config in [
        config(LowerLayer::Plain, true),
        config(LowerLayer::Dtls, false),
    ] {
        let (mut w, mut peer, id) = puppet(config, Some(DTLS));
        let header = next_data(&mut peer, 0);
        let bytes = unchecked(&peer, peer.peer_tag, |p| p.data(&header, b"hello"));
        w.inject(0, &peer.route(), bytes);
        assert_eq!(w.ends[0].stats().bad_checksum, 1);
        assert!(w.receive(0, id).is_empty());
    }
}

#[test]
fn a_wrong_checksum_that_is_not_zero_is_dropped_9653_5_3() {
    let (mut w, mut peer, id) = puppet(protected(), Some(DTLS));
    let header = next_data(&mut peer, 0);
    let good = peer.build(peer.peer_tag, |p| p.data(&header, b"hello"));
    for bit in 0..32 {
        let mut bytes = good.to_vec();
        bytes[8 + bit / 8] ^= 1 << (bit % 8);
        w.inject(0, &peer.route(), bytes);
    }
    assert_eq!(w.ends[0].stats().bad_checksum, 32);
    w.inject(0, &peer.route(), good);
    assert_eq!(w.receive_lengths(0, id), [5]);
}

#[test]
fn packets_that_set_up_need_one_9653_5_2() {
    let (mut w, peer, _) = puppet(protected(), Some(DTLS));
    let before = w.ends[0].stats().bad_checksum;
    let mut stranger = Puppet::new();
    stranger.port += 1;
    for (peer, tag, what) in [
        (&peer, VerificationTag::ZERO, "INIT for an association"),
        (&stranger, VerificationTag::ZERO, "INIT"),
    ] {
        let bytes = unchecked(peer, tag, |p| {
            p.init(ChunkType::INIT, peer.fields(), |p| {
                p.zero_checksum_acceptable(DTLS)
            });
        });
        w.inject(0, &peer.route(), bytes);
        assert!(peer.hear(&mut w).is_empty(), "{what}");
    }
    let bytes = unchecked(&peer, peer.peer_tag, |p| p.cookie_echo(b"cookie"));
    w.inject(0, &peer.route(), bytes);
    assert!(peer.hear(&mut w).is_empty());
    assert_eq!(w.ends[0].stats().bad_checksum, before + 3);
}

#[test]
fn a_peer_whose_association_is_gone_learns_it_at_once_9653_5_3() {
    for (config, answered) in [
        (protected(), true),
        (config(LowerLayer::Plain, true), false),
    ] {
        let mut w = world(&[config.clone(), config]);
        let mut stranger = Puppet::new();
        let header = next_data(&mut stranger, 0);
        let bytes = unchecked(&stranger, VerificationTag(9), |p| p.data(&header, b"hello"));
        w.inject(0, &stranger.route(), bytes);
        let answers = stranger.hear(&mut w);
        assert_eq!(answers.len(), usize::from(answered));
        // The answer is for anybody, and has a checksum.
        assert!(
            answers
                .iter()
                .all(|a| a.has(ChunkType::ABORT) && !is_zero(a))
        );
        assert_eq!(w.ends[0].stats().bad_checksum, u64::from(!answered));
    }
}

#[test]
fn a_parameter_of_another_length_is_malformed_9653_4() {
    for len in [0_usize, 3, 5, 8] {
        let mut w = world(&[protected(), protected()]);
        let answers = Puppet::new().init(&mut w, |p| {
            p.raw(ParameterType::ZERO_CHECKSUM_ACCEPTABLE, &vec![0; len]);
        });
        assert!(!answers.iter().any(|a| a.has(ChunkType::INIT_ACK)), "{len}");
    }
}

#[test]
fn both_know_the_same_after_a_collision_5_2_4() {
    for other in [protected(), config(LowerLayer::Plain, true)] {
        let expected = other.lower_layer == LowerLayer::Dtls;
        let mut w = world(&[protected(), other.clone()]);
        for (end, config) in [(0, protected()), (1, other)] {
            w.config = config;
            w.begin_connect_from(end, &[addresses(1 - end)[0]], port(1 - end));
        }
        assert!(w.run_until(secs(60), |w| w.states() == [Some("Established"); 2]));
        for end in 0..2 {
            let id = w.only(end);
            assert_eq!(w.stats(end, id).extensions.zero_checksum, expected);
            w.send(end, id, 0, pattern(5000));
        }
        w.run(secs(5));
        for end in 0..2 {
            let id = w.only(end);
            assert_eq!(w.receive_lengths(end, id), [5000]);
            assert_eq!(w.ends[end].stats().bad_checksum, 0);
        }
    }
}

#[test]
fn a_restart_without_it_brings_the_checksum_back_5_2_2() {
    let (mut w, mut peer, id) = puppet(protected(), Some(DTLS));
    for told in [false, true] {
        // The peer has lost its association and begins again.
        peer.tag = VerificationTag(peer.tag.0 + 1);
        let answers = peer.init(&mut w, |p| {
            if told {
                p.zero_checksum_acceptable(DTLS);
            }
        });
        peer.learn(&answers[0]);
        let cookie = Puppet::cookie(&answers[0]);
        peer.say(&mut w, |p| p.cookie_echo(&cookie));
        assert_eq!(w.stats(0, id).extensions.zero_checksum, told);
        w.send(0, id, 0, pattern(100));
        let sent = peer.hear(&mut w);
        assert!(sent.iter().any(|p| p.has(ChunkType::DATA)));
        assert!(sent.iter().all(|p| is_zero(p) == told));
    }
}

#[test]
fn lost_packets_of_each_kind_come_again_6_3_3() {
    for kind in [
        ChunkType::INIT,
        ChunkType::INIT_ACK,
        ChunkType::COOKIE_ECHO,
        ChunkType::COOKIE_ACK,
        ChunkType::DATA,
        ChunkType::SACK,
    ] {
        let mut w = world(&[protected(), protected()]);
        w.lose(0, kind, 1);
        w.lose(1, kind, 1);
        let (a, b) = w.connect();
        w.send(0, a, 0, pattern(3000));
        w.run(secs(20));
        assert_eq!(w.receive_lengths(1, b), [3000], "{kind}");
        assert!(w.stats(0, a).extensions.zero_checksum);
    }
}

#[test]
fn what_names_its_association_from_a_strange_address_needs_one_9653_5_2() {
    for checked in [false, true] {
        let (mut w, peer, id) = puppet(protected(), Some(DTLS));
        let std::net::IpAddr::V4(known) = peer.link.from else {
            panic!("the puppet has an IPv4 address");
        };
        let mut asconf = vec![0, 0, 0, 1, 0, 5, 0, 8];
        asconf.extend(known.octets());
        let mut elsewhere = peer.clone();
        elsewhere.link.from = ip("10.0.0.98");
        let before = w.ends[0].stats().bad_checksum;
        let write = |p: &mut PacketBuilder<'_>| {
            p.raw(ChunkType::ASCONF, 0, &asconf);
            p.abort(false, |_| {});
        };
        let bytes = if checked {
            peer.build(peer.peer_tag, write)
        } else {
            unchecked(&peer, peer.peer_tag, write)
        };
        w.inject(0, &elsewhere.route(), bytes);
        let refused = w.ends[0].stats().bad_checksum - before;
        assert_eq!(refused, u64::from(!checked));
        assert_eq!(w.ends[0].association_stats(id).is_some(), !checked);
    }
}
