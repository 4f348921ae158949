//! `PathConfig::ignore_peer_addresses`: addresses in INIT, INIT ACK and cookies are ignored
//! (RFC 8261, section 6.1).

use std::net::IpAddr;

use carrick_proto::AssociationId;
use carrick_wire::{ChunkType, ParameterWriter};

use crate::common::*;

/// Addresses that the puppet lists beside its own.
fn listed_addresses(parameters: &mut ParameterWriter<'_>) {
    for address in ["10.0.0.98", "10.0.0.97"] {
        parameters.ip_address(ip(address));
    }
}

fn ignoring(ignore: bool) -> World {
    let mut w = World::with(1, |_, config| {
        config.association.paths.ignore_peer_addresses = ignore;
    });
    w.config.paths.ignore_peer_addresses = ignore;
    w
}

fn remotes(w: &World, id: AssociationId) -> Vec<IpAddr> {
    w.paths(0, id).map(|p| p.remote).collect()
}

/// RFC 8261, section 6.1
#[test]
fn addresses_in_init_and_init_ack_make_no_paths() {
    for ignore in [false, true] {
        for accepts in [false, true] {
            let mut w = ignoring(ignore);
            let mut peer = Puppet::new();
            let id = if accepts {
                let (learnt, id) = peer.connect_with(&mut w, listed_addresses);
                peer = learnt;
                id
            } else {
                let id = peer.begin_accept(&mut w);
                peer.answer_init(&mut w, |p| {
                    p.state_cookie(b"cookie");
                    listed_addresses(p);
                });
                peer.send(&mut w, |p| p.cookie_ack());
                id
            };
            let paths = remotes(&w, id);
            assert_eq!(paths[0], peer.link.from);
            assert_eq!(paths.len(), if ignore { 1 } else { 3 }, "accepts {accepts}");
            // A packet from one of them matches no association.
            let before = w.ends[0].stats().out_of_the_blue;
            let mut there = peer.clone();
            there.link.from = ip("10.0.0.98");
            there.send(&mut w, |p| p.heartbeat(b"here I am"));
            let strange = w.ends[0].stats().out_of_the_blue - before;
            assert_eq!(strange, u64::from(ignore), "accepts {accepts}");
            // Nothing ever goes there.
            w.log.clear();
            w.run(secs(100));
            assert!(
                !ignore
                    || w.log
                        .iter()
                        .all(|seen| seen.to() == peer.link.from || !seen.has(ChunkType::HEARTBEAT))
            );
        }
    }
}

/// RFC 8261, section 6.1
#[test]
fn a_cookie_from_another_address_is_discarded() {
    for ignore in [false, true] {
        let mut w = ignoring(ignore);
        let mut peer = Puppet::new();
        let answers = peer.init(&mut w, listed_addresses);
        peer.record_init(&answers[0]);
        let cookie = Puppet::cookie(&answers[0]);
        let mut there = peer.clone();
        there.link.from = ip("10.0.0.98");
        there.send(&mut w, |p| p.cookie_echo(&cookie));
        let made = w.ends[0].associations().count();
        assert_eq!(made, usize::from(!ignore));
        assert_eq!(w.ends[0].stats().forged_cookies, u64::from(ignore));
        if ignore {
            peer.send(&mut w, |p| p.cookie_echo(&cookie));
            assert_eq!(w.ends[0].associations().count(), 1);
        }
    }
}
