//! Wildcards where addresses are of two families (RFC 5061 sections 4.2.1 and 4.2.2).

use std::net::IpAddr;

use carrick_proto::{AddressEvent, AssociationConfig, AssociationId};
use carrick_wire::{Asconf, AsconfParameter, CauseCode, Chunk, ChunkType, Parameter};

use crate::common::*;
use crate::dynamic_addresses::support::*;

/// The addresses of an endpoint: one of each family, and one more of each.
fn of_both(end: usize) -> [IpAddr; 4] {
    let n = 1 + end;
    [
        addresses(end)[0],
        ip(&format!("fd00::{n}")),
        addresses(end)[1],
        ip(&format!("fd01::{n}")),
    ]
}

fn wild(config: AssociationConfig) -> AssociationConfig {
    config.with(|c| c.paths.wildcard_addresses = true)
}

/// Connects two endpoints that have addresses of both families. Endpoint 0 lists no addresses in its
/// set-up, which uses IPv4 (`family` 0) or IPv6 (1).
fn unlisted(family: usize) -> (World, AssociationId, AssociationId) {
    let mut w = World::with(2, |end, c| {
        c.local_addresses = of_both(end).to_vec();
        c.association = dynamic().with(|c| c.paths.wildcard_peers = true);
        if end == 0 {
            c.association = wild(dynamic());
        }
    });
    w.config = wild(dynamic());
    let a = w.begin_connect(&[of_both(1)[family]]);
    w.run(secs(5));
    assert_eq!(w.states(), [Some("Established"); 2]);
    let b = w.association(1);
    (w, a, b)
}

/// The addresses in the requests of an ASCONF, with the one that it is looked up by in front.
fn named(asconf: &Asconf<'_>) -> Vec<IpAddr> {
    let address = |p: AsconfParameter<'_>| match Parameter::parse(p.raw) {
        Ok(
            Parameter::AddIpAddress(r)
            | Parameter::DeleteIpAddress(r)
            | Parameter::SetPrimaryAddress(r),
        ) => r.address,
        other => panic!("{other:?}"),
    };
    let requests = asconf.parameters().map(|p| address(p.expect("a request")));
    std::iter::once(asconf.address).chain(requests).collect()
}

/// Each ASCONF of endpoint 0 names nothing but wildcards; the sources of all of them.
fn wildcard_sources(w: &World) -> Vec<IpAddr> {
    let sent = w.sent(0, ChunkType::ASCONF).into_iter();
    sent.map(|seen| {
        let named = seen.chunks().into_iter().find_map(|c| match c {
            Chunk::Asconf(asconf) => Some(named(&asconf)),
            _ => None,
        });
        let named = named.expect("an ASCONF");
        assert!(named.iter().all(IpAddr::is_unspecified), "{named:?}");
        let family = seen.source().is_ipv4();
        assert_eq!(named[0].is_ipv4(), family, "{named:?}");
        seen.source()
    })
    .collect()
}

/// RFC 5061, section 4.2.1
#[test]
fn wildcards_add_addresses_of_the_first_family() {
    for family in [0, 1] {
        let (mut w, a, b) = unlisted(family);
        let [first, second] = [of_both(0)[family], of_both(0)[family + 2]];
        assert_eq!(wildcard_sources(&w), [second]);
        assert_eq!(remotes(&w, 1, b), [first, second]);
        // Peer addresses of the other family have no address of this side to go with.
        assert_eq!(
            remotes(&w, 0, a),
            [of_both(1)[family], of_both(1)[family + 2]]
        );
        exchange(&mut w, a, b);
    }
}

/// RFC 5061, section 4.2.2
#[test]
fn the_remaining_address_deletes_its_family() {
    for (family, stays) in [(0, 0), (0, 2), (1, 1), (1, 3)] {
        let (mut w, a, b) = unlisted(family);
        let stays = of_both(0)[stays];
        w.events(0);
        w.log.clear();
        let others = of_both(0).into_iter().filter(|address| *address != stays);
        for gone in others {
            w.block(gone);
            w.ends[0].local_address_removed(w.now, gone);
        }
        w.run(secs(60));
        assert_eq!(remotes(&w, 1, b), [stays]);
        assert_eq!(wildcard_sources(&w), [stays]);
        let mut events = address_events(&mut w, 0);
        events.retain(|e| matches!(e, AddressEvent::LocalRemoved(_)));
        let same = |a: &&IpAddr| a.is_ipv4() == stays.is_ipv4() && **a != stays;
        let removed = of_both(0).iter().find(same).copied();
        assert_eq!(events, [AddressEvent::LocalRemoved(removed.unwrap())]);
        exchange(&mut w, a, b);
    }
}

/// A puppet at an IPv4 address, with a peer that has both families.
fn with_both() -> (World, Puppet, AssociationId) {
    let mut w = World::with(1, |_, c| {
        c.local_addresses = of_both(0).to_vec();
        c.association = open();
    });
    let (puppet, id) = Puppet::new().connect_with(&mut w, |p| {
        p.supported_extensions(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK]);
        p.supported_address_types(&[5, 6]);
    });
    (w, puppet, id)
}

/// RFC 5061, section 4.2.1
/// RFC 5061, section 4.2.2
#[test]
fn either_wildcard_means_the_source_address() {
    let theirs = ["10.0.0.99", "fd00::99", "10.0.0.98", "fd01::98"].map(ip);
    let wildcards = ["0.0.0.0", "::"].map(ip);
    let to = |source: IpAddr| of_both(0)[usize::from(source.is_ipv6())];
    // Added by one, deleted by the other, from an address of each family.
    for (adds, deletes) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for stays in 0..4 {
            let (mut w, mut puppet, id) = with_both();
            for (n, address) in theirs.into_iter().enumerate() {
                (puppet.link.from, puppet.link.to) = (address, to(address));
                let added = puppet.send(&mut w, |p| {
                    let serial = carrick_wire::AsconfSerial::new(puppet.tsn.plus(n as u32).value());
                    p.asconf(serial, theirs[0], |p| {
                        p.add_ip_address(ONE, wildcards[adds]);
                    });
                });
                assert_eq!((acks(&added), answers(&added)), (1, vec![]));
                assert_eq!(added[0].to(), address);
            }
            assert_eq!(remotes(&w, 0, id), theirs);
            let source = theirs[stays];
            (puppet.link.from, puppet.link.to) = (source, to(source));
            let kept = send_asconf(&mut w, &puppet, 4, |p| {
                p.delete_ip_address(ONE, wildcards[deletes]);
            });
            assert_eq!((acks(&kept), answers(&kept)), (1, vec![]));
            assert_eq!(remotes(&w, 0, id), [source]);
            // From one that it has deleted, nothing would be left.
            let other = theirs[(stays + 1) % 4];
            (puppet.link.from, puppet.link.to) = (other, to(other));
            let refused = puppet.send(&mut w, |p| {
                let serial = carrick_wire::AsconfSerial::new(puppet.tsn.plus(5).value());
                p.asconf(serial, source, |p| {
                    p.delete_ip_address(ONE, wildcards[deletes]);
                });
            });
            let last = Some(CauseCode::DELETE_LAST_ADDRESS);
            assert_eq!(answers(&refused), [(ONE, last)]);
            assert_eq!(remotes(&w, 0, id), [source]);
        }
    }
}
