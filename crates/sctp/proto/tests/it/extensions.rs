//! Negotiation of extensions (RFC 5061, section 4.2.7, RFC 3758, section 3.1).

use crate::common;

use carrick_proto::Extensions;
use carrick_wire::{ChunkType, ParameterType};
use common::*;

const SOME: Extensions = Extensions {
    partial_reliability: true,
    reconfiguration: true,
    ..Extensions::NONE
};

const OTHERS: Extensions = Extensions {
    reconfiguration: true,
    interleaving: true,
    ..Extensions::NONE
};

fn in_force(initiator: Extensions, acceptor: Extensions) -> [Extensions; 2] {
    let mut w = World::with(2, |end, config| {
        config.association.extensions = if end == 0 { initiator } else { acceptor };
    });
    w.config.extensions = initiator;
    let (a, b) = w.connect();
    [w.stats(0, a).extensions, w.stats(1, b).extensions]
}

/// RFC 5061, section 4.2.7
#[test]
fn an_extension_is_used_when_both_offer_it() {
    let both = Extensions {
        reconfiguration: true,
        ..Extensions::NONE
    };
    for (ours, theirs, expected) in [
        (SOME, SOME, SOME),
        (SOME, OTHERS, both),
        (OTHERS, SOME, both),
        (SOME, Extensions::NONE, Extensions::NONE),
        (Extensions::NONE, OTHERS, Extensions::NONE),
    ] {
        assert_eq!(
            in_force(ours, theirs),
            [expected; 2],
            "{ours:?}, {theirs:?}"
        );
    }
}

/// RFC 9260, section 5.2.4
#[test]
fn colliding_peers_agree_on_extensions() {
    let mut w = World::with(2, |end, config| {
        config.association.extensions = if end == 0 { SOME } else { OTHERS };
    });
    for (end, offered) in [(0, SOME), (1, OTHERS)] {
        w.config.extensions = offered;
        w.begin_connect_from(end, &[addresses(1 - end)[0]], port(1 - end));
    }
    assert!(w.run_until(secs(60), |w| w.states() == [Some("Established"); 2]));
    let ids = [w.association(0), w.association(1)];
    for (end, id) in ids.into_iter().enumerate() {
        assert_eq!(w.stats(end, id).extensions, SOME.and(OTHERS), "end {end}");
    }
}

/// RFC 9260, section 3.2.1
#[test]
fn init_ack_offers_nothing_the_peer_lacks() {
    let mut w = World::with(2, |_, config| config.association.extensions = SOME);
    let peer = Puppet::new();
    let types = |answer: &SentPacket| -> Vec<ParameterType> {
        answer
            .parameter_types()
            .into_iter()
            .filter(|k| !k.is_base())
            .collect()
    };
    let answers = peer.init(&mut w, |_| {});
    assert_eq!(types(&answers[0]), []);
    let answers = peer.init(&mut w, |p| {
        p.supported_extensions(&[ChunkType::RE_CONFIG, ChunkType::I_DATA]);
    });
    assert_eq!(types(&answers[0]), [ParameterType::SUPPORTED_EXTENSIONS]);
}

/// RFC 9260, section 3.2.1
#[test]
fn parameters_of_unoffered_extensions_are_unknown() {
    for (offered, reported) in [(SOME, false), (Extensions::NONE, true)] {
        let mut w = World::with(2, |_, config| config.association.extensions = offered);
        let answers = Puppet::new().init(&mut w, |p| p.forward_tsn_supported());
        let kinds = answers[0].parameter_types();
        let unrecognized = kinds.contains(&ParameterType::UNRECOGNIZED_PARAMETER);
        assert_eq!(unrecognized, reported);
    }
}
