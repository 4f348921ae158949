//! Helpers shared by the modules.

use carrick_proto::{AssociationId, Extensions, Mid, Ppid, StreamId, StreamScheduler, Tsn};
use carrick_wire::{ChunkType, Fragment, IDataHeader};

use crate::common::*;

/// Payload of an I-DATA chunk that has a packet for itself: four bytes less than with DATA.
pub(crate) const FULL: usize = 1448;

pub(crate) const INTERLEAVING: Extensions = Extensions {
    interleaving: true,
    ..Extensions::NONE
};

/// Two associated endpoints that interleave; the first one's messages wait until the world runs.
pub(crate) fn interleaved(scheduler: StreamScheduler) -> (World, AssociationId, AssociationId) {
    interleaved_with(scheduler, |_| {})
}

pub(crate) fn interleaved_with(
    scheduler: StreamScheduler,
    change: impl Fn(&mut carrick_proto::AssociationConfig),
) -> (World, AssociationId, AssociationId) {
    let mut w = World::with(2, |_, config| {
        config.local_addresses.truncate(1);
        config.association.extensions = INTERLEAVING;
        change(&mut config.association);
    });
    w.config.extensions = INTERLEAVING;
    w.config.streams.scheduler = scheduler;
    w.config.transmission.nagle = false;
    let (a, b) = w.connect();
    for (end, id) in [(0, a), (1, b)] {
        assert!(w.stats(end, id).extensions.interleaving);
    }
    w.log.clear();
    (w, a, b)
}

/// The chunks of endpoint 0 by their TSNs, each once.
pub(crate) fn on_the_wire(w: &World) -> Vec<UserData> {
    let mut chunks: Vec<UserData> = w
        .log
        .iter()
        .filter(|p| p.from == 0)
        .flat_map(|p| {
            assert!(!p.has(ChunkType::DATA), "section 2.2.1: I-DATA only");
            p.user_data()
        })
        .collect();
    let first = chunks.first().map_or(Tsn::new(0), |c| c.tsn);
    chunks.sort_by_key(|c| c.tsn.since(first));
    chunks.dedup();
    chunks
}

/// Three streams with the messages of figure 2.
pub(crate) fn send_figure_2(w: &mut World, a: AssociationId) {
    w.send(0, a, 0, pattern(3 * FULL));
    for _ in 0..3 {
        w.send(0, a, 1, pattern(FULL));
    }
    w.send(0, a, 2, pattern(3 * FULL));
}

/// A puppet whose association with endpoint 0 interleaves, or not.
pub(crate) fn puppet(interleaving: bool) -> (World, Puppet, AssociationId) {
    let mut w = World::with(2, |_, config| config.association.extensions = INTERLEAVING);
    let (peer, id) = Puppet::new().connect_with(&mut w, |p| {
        if interleaving {
            p.supported_extensions(&[ChunkType::I_DATA]);
        }
    });
    assert_eq!(w.stats(0, id).extensions.interleaving, interleaving);
    (w, peer, id)
}

pub(crate) fn i_data(
    tsn: Tsn,
    stream: u16,
    mid: u32,
    fragment: Fragment,
    ending: bool,
) -> IDataHeader {
    IDataHeader {
        tsn,
        stream: StreamId(stream),
        mid: Mid::new(mid),
        fragment,
        immediate: false,
        unordered: false,
        ending,
    }
}

pub(crate) const FIRST: Fragment = Fragment::First(Ppid(0));
