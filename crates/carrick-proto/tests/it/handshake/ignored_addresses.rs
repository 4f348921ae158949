//! `AssociationConfig::ignore_peer_addresses`: what INIT, INIT ACK and cookies say of addresses means
//! nothing (RFC 8261 section 6.1).

use std::net::IpAddr;

use carrick_proto::AssociationId;
use carrick_wire::{ChunkType, ParameterWriter};

use crate::common::*;

/// Addresses that the puppet tells beside the one that it has.
fn told(parameters: &mut ParameterWriter<'_>) {
    for address in ["10.0.0.98", "10.0.0.97"] {
        parameters.ip_address(ip(address));
    }
}

fn world(ignore: bool) -> World {
    let mut w = World::with(1, |_, config| {
        config.association.ignore_peer_addresses = ignore;
    });
    w.config.ignore_peer_addresses = ignore;
    w
}

fn remotes(w: &World, id: AssociationId) -> Vec<IpAddr> {
    w.ends[0].paths(id).map(|p| p.remote).collect()
}

#[test]
fn addresses_in_init_and_init_ack_are_no_paths_8261_6_1() {
    for ignore in [false, true] {
        for accepts in [false, true] {
            let mut w = world(ignore);
            let mut peer = Puppet::new();
            let id = if accepts {
                let (learnt, id) = peer.connect_with(&mut w, told);
                peer = learnt;
                id
            } else {
                let id = peer.begin_accept(&mut w);
                peer.answer_init(&mut w, |p| {
                    p.state_cookie(b"cookie");
                    told(p);
                });
                peer.say(&mut w, |p| p.cookie_ack());
                id
            };
            let paths = remotes(&w, id);
            assert_eq!(paths[0], peer.link.from);
            assert_eq!(paths.len(), if ignore { 1 } else { 3 }, "accepts {accepts}");
            // A packet from one of them is of nobody.
            let before = w.ends[0].stats().out_of_the_blue;
            let mut there = peer.clone();
            there.link.from = ip("10.0.0.98");
            there.say(&mut w, |p| p.heartbeat(b"here I am"));
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

#[test]
fn a_cookie_from_another_address_is_no_cookie_8261_6_1() {
    for ignore in [false, true] {
        let mut w = world(ignore);
        let mut peer = Puppet::new();
        let answers = peer.init(&mut w, told);
        peer.learn(&answers[0]);
        let cookie = Puppet::cookie(&answers[0]);
        let mut there = peer.clone();
        there.link.from = ip("10.0.0.98");
        there.say(&mut w, |p| p.cookie_echo(&cookie));
        let made = w.ends[0].associations().count();
        assert_eq!(made, usize::from(!ignore));
        assert_eq!(w.ends[0].stats().forged_cookies, u64::from(ignore));
        if ignore {
            peer.say(&mut w, |p| p.cookie_echo(&cookie));
            assert_eq!(w.ends[0].associations().count(), 1);
        }
    }
}
