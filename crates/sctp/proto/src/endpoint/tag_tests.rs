//! Associations that are found by their tag alone: those with a protection, and all where wildcards
//! are taken.

use alloc::boxed::Box;
use alloc::vec::Vec;

use carrick_wire::{CauseCode, ChunkType, ParameterType, VerificationTag};

use super::tests::Pair;
use super::*;
use crate::protection::{ChunkProtection, ChunkProtectionOffer, Offers, PacketContext, Seal};

/// In force, and does nothing.
#[derive(Debug)]
struct Idle;

impl ChunkProtection for Idle {
    fn protect(&mut self, _: &PacketContext, _: &mut Vec<u8>) -> Seal {
        Seal::Clear
    }

    fn unprotect(&mut self, _: &PacketContext, _: u8, _: &mut Vec<u8>) -> bool {
        false
    }

    fn admits(&self, _: ChunkType) -> bool {
        true
    }
}

impl ChunkProtectionOffer for Idle {
    fn chunk_type(&self) -> ChunkType {
        ChunkType(0x41)
    }

    fn parameter_type(&self) -> ParameterType {
        ParameterType(0x8f06)
    }

    fn value(&self, _: u32) -> Vec<u8> {
        Vec::new()
    }

    fn overhead(&self) -> usize {
        0
    }

    fn agree(&self, _: &[u8], theirs: Option<&[u8]>) -> Result<bool, CauseCode> {
        Ok(theirs.is_some())
    }

    fn begin(&self, _: &Offers<'_>) -> Box<dyn ChunkProtection> {
        Box::new(Idle)
    }
}

fn protected(config: &mut EndpointConfig) {
    config.association.security.protection = Some(Arc::new(Idle));
}

/// Looks up an association by its tag: among all, and among those with a protection.
fn found(pair: &Pair, id: AssociationId, tag: VerificationTag) -> [bool; 2] {
    let registry = &pair.ends[1].registry;
    [
        registry.find_by_tag(tag, 5000),
        registry.find_protected(tag, 5000),
    ]
    .map(|f| f == Some(id))
}

fn tag(pair: &Pair, id: AssociationId) -> VerificationTag {
    pair.ends[1].registry.get(id).unwrap().local_tag()
}

#[test]
fn tag_index_has_protected_associations_or_all() {
    let (_, b, plain) = connected(|_| {});
    assert_eq!(found(&plain, b, tag(&plain, b)), [false, false]);
    let (_, b, open) = connected(|c| c.association.paths.wildcard_addresses = true);
    assert_eq!(found(&open, b, tag(&open, b)), [true, false]);
    let (_, b, sealed) = connected(protected);
    assert_eq!(found(&sealed, b, tag(&sealed, b)), [true, true]);
    let other_port = sealed.ends[1].registry.find_by_tag(tag(&sealed, b), 5003);
    assert_eq!(other_port, None, "the peer's port is a part of the name");
}

fn connected(change: fn(&mut EndpointConfig)) -> (AssociationId, AssociationId, Pair) {
    let mut pair = Pair::with(change);
    let (a, b) = pair.connect();
    (a, b, pair)
}

#[test]
fn tag_of_an_ended_association_is_not_found() {
    for change in [protected, |c: &mut EndpointConfig| {
        c.association.paths.wildcard_addresses = true;
    }] {
        let (a, b, mut pair) = connected(change);
        let tag = tag(&pair, b);
        assert!(found(&pair, b, tag)[0]);
        // What was not read keeps the association, but not its name.
        let data = alloc::vec![7; 100].into();
        let now = pair.now;
        pair.ends[0]
            .send(now, a, SendOptions::default(), data)
            .unwrap();
        pair.ends[0].shutdown(now, a).unwrap();
        pair.run(now + core::time::Duration::from_secs(2));
        assert!(pair.ends[1].association(b).is_some());
        assert_eq!(pair.ends[1].registry.find_by_tag(tag, 5000), None);
        pair.ends[1].receive(b).unwrap();
        assert_eq!(pair.ends[1].registry.find_by_tag(tag, 5000), None);
    }
}

/// RFC 9260, section 5.2.4.
#[test]
fn restart_updates_the_tag_index() {
    for change in [protected, |c: &mut EndpointConfig| {
        c.association.paths.wildcard_addresses = true;
    }] {
        let (_, b, mut pair) = connected(change);
        let before = tag(&pair, b);
        pair.forget(0, change);
        assert_eq!(pair.connect().1, b, "restart of the same association");
        let after = tag(&pair, b);
        assert_ne!(before, after);
        assert!(found(&pair, b, after)[0]);
        assert_eq!(pair.ends[1].registry.find_by_tag(before, 5000), None);
    }
}
