//! Peers without the extension, or without authentication.

use carrick_proto::{AddressEvent, OperationError};
use carrick_wire::{ChunkType, ParameterWriter};

use crate::common::*;
use crate::dynamic_addresses::support::*;

/// RFC 5061, section 4.2.7
#[test]
fn no_asconf_is_sent_to_a_peer_without_it() {
    let mut w = World::with(2, |end, c| {
        c.local_addresses.truncate(1);
        if end == 0 {
            c.association = dynamic();
        }
    });
    w.config = dynamic();
    let (a, b) = w.connect();
    assert!(!w.stats(0, a).extensions.dynamic_addresses);
    w.ends[0].local_address_added(addresses(0)[1]);
    exchange(&mut w, a, b);
    assert!(w.sent(0, ChunkType::ASCONF).is_empty());
    let refused = w.change(0, a).set_peer_primary(addresses(0)[0]);
    assert_eq!(refused, Err(OperationError::WrongState));
}

/// RFC 5061, section 4.2.7
#[test]
fn asconf_is_not_offered_without_authentication() {
    let mut bare = dynamic();
    bare.extensions.authentication = false;
    let mut w = world_of(&bare, 1);
    let (a, _) = w.connect();
    assert!(!w.stats(0, a).extensions.dynamic_addresses);
    let mut w = world_of(&open(), 1);
    let (a, b) = w.connect();
    w.ends[0].local_address_added(addresses(0)[1]);
    w.run(secs(1));
    assert_eq!(remotes(&w, 1, b), addresses(0));
    assert!(w.sent(0, ChunkType::AUTH).is_empty());
    exchange(&mut w, a, b);
}

/// RFC 5061, section 4.2.7
#[test]
fn asconf_without_authentication_aborts() {
    let mut w = world_of(&dynamic(), 1);
    let puppet = Puppet::new();
    let offer = |p: &mut ParameterWriter<'_>| {
        p.supported_extensions(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK]);
    };
    let answers = puppet.init(&mut w, offer);
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    let mut puppet = Puppet::new();
    puppet.begin_accept(&mut w);
    puppet.answer_init(&mut w, |p| {
        p.state_cookie(b"cookie");
        offer(p);
    });
    assert!(w.sent(0, ChunkType::COOKIE_ECHO).is_empty());
    assert_eq!(w.ends[0].associations().count(), 0);
}

/// RFC 5061, section 5.1, rule A9
#[test]
fn an_unknown_asconf_is_not_sent_again() {
    let (mut w, puppet, id) = puppet();
    w.ends[0].local_address_added(addresses(0)[1]);
    let sent = puppet.receive(&mut w);
    assert!(sent[0].has(ChunkType::ASCONF));
    let chunk = [0xc1, 0, 0, 4];
    puppet.send(&mut w, |p| {
        p.error(|causes| causes.unrecognized_chunk(&chunk));
    });
    assert!(address_events(&mut w, 0).contains(&AddressEvent::NotSupported));
    w.ends[0].local_address_added(ip("10.2.0.1"));
    w.run(secs(20));
    assert_eq!(w.sent(0, ChunkType::ASCONF).len(), 1);
    assert_eq!(w.stats(0, id).error_count, 0);
}
