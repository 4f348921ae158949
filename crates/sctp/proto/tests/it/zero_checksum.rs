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
    AssociationConfig::rfc9260().with(|c| {
        c.security.lower_layer = lower_layer;
        c.extensions = Extensions {
            zero_checksum,
            ..OFFERED
        };
    })
}

fn protected() -> AssociationConfig {
    config(LowerLayer::Dtls, true)
}

/// An endpoint with this configuration, and a puppet that advertises this method.
fn puppet(
    config: AssociationConfig,
    method: Option<ErrorDetectionMethod>,
) -> (World, Puppet, AssociationId) {
    let mut w = World::pair([config.clone(), config]);
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

fn is_zero(seen: &SentPacket) -> bool {
    seen.packet().checksum_is_zero()
}

/// RFC 9653, section 5.2
#[test]
fn protected_peers_omit_the_checksum() {
    let mut w = World::pair([protected(), protected()]);
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

/// RFC 9653, section 5.1
#[test]
fn one_unprotected_peer_keeps_all_checksums() {
    let unprotected = config(LowerLayer::Plain, true);
    let unwilling = config(LowerLayer::Dtls, false);
    for other in [unprotected, unwilling] {
        for configs in [[protected(), other.clone()], [other.clone(), protected()]] {
            let mut w = World::pair(configs.clone());
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

/// RFC 9653, section 4
#[test]
fn the_init_names_the_method_when_protected() {
    for (config, advertised) in [
        (protected(), true),
        (config(LowerLayer::Plain, true), false),
        (
            AssociationConfig::modern().with(|c| c.security.lower_layer = LowerLayer::Plain),
            false,
        ),
        (
            AssociationConfig::modern().with(|c| c.security.lower_layer = LowerLayer::Dtls),
            true,
        ),
    ] {
        let mut w = World::pair([config.clone(), config]);
        w.begin_connect(&[addresses(1)[0]]);
        w.run(secs(1));
        for kind in [ChunkType::INIT, ChunkType::INIT_ACK] {
            let end = usize::from(kind == ChunkType::INIT_ACK);
            let sent = w.sent(end, kind)[0];
            let expected = Parameter::ZeroChecksumAcceptable(DTLS);
            assert_eq!(sent.parameters().contains(&expected), advertised, "{kind}");
        }
    }
}

/// RFC 9653, section 5.1
#[test]
fn init_ack_offers_zero_checksum_whatever_the_peer() {
    let mut w = World::pair([protected(), protected()]);
    let answers = Puppet::new().init(&mut w, |_| {});
    let kinds = answers[0].parameter_types();
    assert!(kinds.contains(&ParameterType::ZERO_CHECKSUM_ACCEPTABLE));
    let mut w = World::pair([config(LowerLayer::Plain, true), protected()]);
    let answers = Puppet::new().init(&mut w, |p| p.zero_checksum_acceptable(DTLS));
    let kinds = answers[0].parameter_types();
    assert!(!kinds.contains(&ParameterType::ZERO_CHECKSUM_ACCEPTABLE));
}

/// RFC 9653, section 5.3
#[test]
fn a_zero_checksum_is_accepted_once_advertised() {
    for method in [None, Some(DTLS), Some(ErrorDetectionMethod(7))] {
        let (mut w, mut peer, id) = puppet(protected(), method);
        let header = next_data(&mut peer, 0);
        let bytes = unchecked(&peer, peer.peer_tag, |p| p.data(&header, b"hello"));
        w.inject(0, &peer.route(), bytes);
        assert_eq!(w.receive_lengths(0, id), [5]);
        // Its own packets go by what the peer can check.
        w.send(0, id, 0, pattern(100));
        let sent = peer.receive(&mut w);
        assert!(sent.iter().any(|p| p.has(ChunkType::DATA)));
        assert!(sent.iter().all(|p| is_zero(p) == (method == Some(DTLS))));
        assert_eq!(
            w.stats(0, id).extensions.zero_checksum,
            method == Some(DTLS)
        );
    }
}

/// RFC 9653, section 5.3
#[test]
fn an_unadvertised_zero_checksum_is_dropped() {
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

/// RFC 9653, section 5.3
#[test]
fn a_wrong_nonzero_checksum_is_dropped() {
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

/// RFC 9653, section 5.2
#[test]
fn set_up_packets_need_a_checksum() {
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
        assert!(peer.receive(&mut w).is_empty(), "{what}");
    }
    let bytes = unchecked(&peer, peer.peer_tag, |p| p.cookie_echo(b"cookie"));
    w.inject(0, &peer.route(), bytes);
    assert!(peer.receive(&mut w).is_empty());
    assert_eq!(w.ends[0].stats().bad_checksum, before + 3);
}

/// RFC 9653, section 5.3
#[test]
fn a_peer_without_its_association_learns_it_at_once() {
    for (config, answered) in [
        (protected(), true),
        (config(LowerLayer::Plain, true), false),
    ] {
        let mut w = World::pair([config.clone(), config]);
        let mut stranger = Puppet::new();
        let header = next_data(&mut stranger, 0);
        let bytes = unchecked(&stranger, VerificationTag(9), |p| p.data(&header, b"hello"));
        w.inject(0, &stranger.route(), bytes);
        let answers = stranger.receive(&mut w);
        assert_eq!(answers.len(), usize::from(answered));
        // The reply goes to an unknown peer, and has a checksum.
        assert!(
            answers
                .iter()
                .all(|a| a.has(ChunkType::ABORT) && !is_zero(a))
        );
        assert_eq!(w.ends[0].stats().bad_checksum, u64::from(!answered));
    }
}

/// RFC 9653, section 4
#[test]
fn a_parameter_of_another_length_is_malformed() {
    for len in [0_usize, 3, 5, 8] {
        let mut w = World::pair([protected(), protected()]);
        let answers = Puppet::new().init(&mut w, |p| {
            p.raw(ParameterType::ZERO_CHECKSUM_ACCEPTABLE, &vec![0; len]);
        });
        assert!(!answers.iter().any(|a| a.has(ChunkType::INIT_ACK)), "{len}");
    }
}

/// RFC 9260, section 5.2.4
/// RFC 9653, section 5.1
#[test]
fn colliding_peers_agree_on_the_checksum() {
    for other in [protected(), config(LowerLayer::Plain, true)] {
        let expected = other.security.lower_layer == LowerLayer::Dtls;
        let mut w = World::pair([protected(), other.clone()]);
        for (end, config) in [(0, protected()), (1, other)] {
            w.config = config;
            w.begin_connect_from(end, &[addresses(1 - end)[0]], port(1 - end));
        }
        assert!(w.run_until(secs(60), |w| w.states() == [Some("Established"); 2]));
        for end in 0..2 {
            let id = w.association(end);
            assert_eq!(w.stats(end, id).extensions.zero_checksum, expected);
            w.send(end, id, 0, pattern(5000));
        }
        w.run(secs(5));
        for end in 0..2 {
            let id = w.association(end);
            assert_eq!(w.receive_lengths(end, id), [5000]);
            assert_eq!(w.ends[end].stats().bad_checksum, 0);
        }
    }
}

/// RFC 9260, section 5.2.2
/// RFC 9653, section 5.1
#[test]
fn a_restart_without_the_parameter_restores_crc32c() {
    let (mut w, mut peer, id) = puppet(protected(), Some(DTLS));
    for advertised in [false, true] {
        // The peer has lost its association and begins again.
        peer.tag = VerificationTag(peer.tag.0 + 1);
        let answers = peer.init(&mut w, |p| {
            if advertised {
                p.zero_checksum_acceptable(DTLS);
            }
        });
        peer.record_init(&answers[0]);
        let cookie = Puppet::cookie(&answers[0]);
        peer.send(&mut w, |p| p.cookie_echo(&cookie));
        assert_eq!(w.stats(0, id).extensions.zero_checksum, advertised);
        w.send(0, id, 0, pattern(100));
        let sent = peer.receive(&mut w);
        assert!(sent.iter().any(|p| p.has(ChunkType::DATA)));
        assert!(sent.iter().all(|p| is_zero(p) == advertised));
    }
}

/// RFC 9260, section 6.3.3
#[test]
fn lost_packets_of_each_kind_are_repeated() {
    for kind in [
        ChunkType::INIT,
        ChunkType::INIT_ACK,
        ChunkType::COOKIE_ECHO,
        ChunkType::COOKIE_ACK,
        ChunkType::DATA,
        ChunkType::SACK,
    ] {
        let mut w = World::pair([protected(), protected()]);
        w.lose(0, kind, 1);
        w.lose(1, kind, 1);
        let (a, b) = w.connect();
        w.send(0, a, 0, pattern(3000));
        w.run(secs(20));
        assert_eq!(w.receive_lengths(1, b), [3000], "{kind}");
        assert!(w.stats(0, a).extensions.zero_checksum);
    }
}

/// RFC 9653, section 5.2
#[test]
fn matching_from_an_unknown_address_needs_a_checksum() {
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
        assert_eq!(w.ends[0].association(id).is_some(), !checked);
    }
}
