//! Index of routing keys (RFC 4666, section 1.4.2.1).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{ApplicationServerConfig, RoutingKeyDestination};
use crate::m3ua::{AffectedPointCode, NetworkAppearance, PointCode, RoutingContext};

/// Service indicator of keys for all of them, above the 4 bits of SS7.
const ANY_SI: u8 = 16;

/// Networks in which a key is looked up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Network {
    /// All, whatever the network appearance of the key.
    Every,
    /// The keys with a network appearance, or without.
    With(Option<NetworkAppearance>),
}

/// Smallest part of a routing key: a destination, a service indicator, and a range of originating point codes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct KeySlot {
    network: Network,
    dpc: PointCode,
    si: u8,
    first_opc: PointCode,
    mask: Reverse<u8>,
}

impl KeySlot {
    fn range(self) -> AffectedPointCode {
        AffectedPointCode::range(self.first_opc.value(), self.mask.0)
    }

    fn with(self, range: AffectedPointCode) -> Self {
        let (first_opc, mask) = (range.point_code, Reverse(range.mask));
        Self {
            first_opc,
            mask,
            ..self
        }
    }
}

/// Application servers by the parts of their routing keys. Parts with the same network, destination and service indicator
/// do not overlap, so that a message or a key is looked up in a number of steps that does not grow with the number of
/// keys, but by the logarithm of the index.
#[derive(Debug, Default)]
pub(in crate::m3ua) struct KeyIndex {
    slots: BTreeMap<KeySlot, BTreeSet<RoutingContext>>,
    /// Lookups in the map, for the test of their number.
    #[cfg(test)]
    lookups: std::cell::Cell<usize>,
}

/// Returns the number of parts of a routing key.
pub(super) fn parts(destinations: &[RoutingKeyDestination]) -> usize {
    let parts = destinations.iter().map(|destination| {
        let (si, opcs) = (&destination.service_indicators, &destination.opcs);
        si.len().max(1).saturating_mul(opcs.len().max(1))
    });
    parts.fold(0, usize::saturating_add)
}

/// Returns the parts of a routing key in a network.
fn slots(
    network: Network,
    destinations: &[RoutingKeyDestination],
) -> impl Iterator<Item = KeySlot> + '_ {
    destinations.iter().flat_map(move |destination| {
        let (si, opcs) = (&destination.service_indicators[..], &destination.opcs[..]);
        let si = if si.is_empty() { &[ANY_SI] } else { si };
        let opcs = if opcs.is_empty() {
            &[AffectedPointCode::ALL]
        } else {
            opcs
        };
        si.iter().flat_map(move |&si| {
            opcs.iter().map(move |opc| {
                let opc = opc.aligned();
                KeySlot {
                    network,
                    dpc: destination.dpc,
                    si,
                    first_opc: opc.point_code,
                    mask: Reverse(opc.mask),
                }
            })
        })
    })
}

impl KeyIndex {
    #[cfg(test)]
    fn count(&self) {
        self.lookups.set(self.lookups.get() + 1);
    }

    /// Adds a routing key that overlaps no other one.
    pub(in crate::m3ua) fn insert(&mut self, server: &ApplicationServerConfig) {
        for slot in slots(Network::Every, &server.destinations) {
            self.slots
                .entry(slot)
                .or_default()
                .insert(server.routing_context);
        }
        // Parts of the key that are inside other ones of it are left out.
        for slot in slots(
            Network::With(server.network_appearance),
            &server.destinations,
        ) {
            if self.around(slot).is_some() {
                continue;
            }
            while let Some(inside) = self.inside(slot) {
                self.slots.remove(&inside);
            }
            self.slots
                .insert(slot, BTreeSet::from([server.routing_context]));
        }
    }

    /// Removes a routing key.
    pub(in crate::m3ua) fn remove(&mut self, server: &ApplicationServerConfig) {
        let networks = [Network::Every, Network::With(server.network_appearance)];
        for slot in networks
            .into_iter()
            .flat_map(|network| slots(network, &server.destinations))
        {
            if let Some(contexts) = self.slots.get_mut(&slot) {
                contexts.remove(&server.routing_context);
                if contexts.is_empty() {
                    self.slots.remove(&slot);
                }
            }
        }
    }

    /// Returns the application server of a message.
    pub(super) fn find(
        &self,
        appearance: Option<NetworkAppearance>,
        dpc: PointCode,
        opc: PointCode,
        si: u8,
    ) -> Option<RoutingContext> {
        let networks = [None, appearance];
        let networks = &networks[..if appearance.is_some() { 2 } else { 1 }];
        networks.iter().find_map(|&appearance| {
            let slot = KeySlot {
                network: Network::With(appearance),
                dpc,
                si,
                first_opc: opc,
                mask: Reverse(0),
            };
            self.owner(slot)
                .or_else(|| self.owner(KeySlot { si: ANY_SI, ..slot }))
        })
    }

    /// Returns the application server whose part contains a part, in a network in which parts do not overlap.
    fn owner(&self, slot: KeySlot) -> Option<RoutingContext> {
        #[cfg(test)]
        self.count();
        let (found, contexts) = self.slots.range(..=slot).next_back()?;
        let contains = found.with(slot.range()) == slot
            && found.range().contains(slot.first_opc)
            && found.mask.0 >= slot.mask.0;
        contexts.first().copied().filter(|_| contains)
    }

    /// Returns the part that contains a part: one step for each length of a mask.
    fn around(&self, slot: KeySlot) -> Option<&BTreeSet<RoutingContext>> {
        let range = slot.range();
        let mut masks = range.mask..=AffectedPointCode::ALL.mask;
        masks.find_map(|mask| {
            #[cfg(test)]
            self.count();
            self.slots.get(&slot.with(range.widened(mask)))
        })
    }

    /// Returns the first part inside a part.
    fn inside(&self, slot: KeySlot) -> Option<KeySlot> {
        #[cfg(test)]
        self.count();
        let last = KeySlot {
            first_opc: slot.range().last(),
            mask: Reverse(0),
            ..slot
        };
        self.slots
            .range(slot..=last)
            .next()
            .map(|(inside, _)| *inside)
    }

    /// Returns an application server to which a message for these destinations could belong, too. A routing key
    /// without network appearance applies to all networks.
    pub(in crate::m3ua) fn overlapping(
        &self,
        appearance: Option<NetworkAppearance>,
        destinations: &[RoutingKeyDestination],
    ) -> Option<RoutingContext> {
        let networks = match appearance {
            None => vec![Network::Every],
            Some(_) => vec![Network::With(None), Network::With(appearance)],
        };
        let mut slots = networks
            .into_iter()
            .flat_map(|network| slots(network, destinations));
        slots.find_map(|slot| {
            let any = slot.si == ANY_SI;
            let (first, last) = if any { (0, ANY_SI) } else { (slot.si, slot.si) };
            let mut indicators = (first..=last).chain((!any).then_some(ANY_SI));
            indicators.find_map(|si| {
                let slot = KeySlot { si, ..slot };
                let inside = || self.inside(slot).and_then(|inside| self.slots.get(&inside));
                let contexts = self.around(slot).or_else(inside)?;
                contexts.first().copied()
            })
        })
    }

    /// Returns the application server that has the first part of a routing key.
    pub(super) fn candidate(
        &self,
        appearance: Option<NetworkAppearance>,
        destinations: &[RoutingKeyDestination],
    ) -> Option<RoutingContext> {
        let first = slots(Network::With(appearance), destinations).next()?;
        self.owner(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> ApplicationServerConfig {
        let point_code = |value| PointCode::new(value).expect("a point code");
        let destination = RoutingKeyDestination {
            dpc: point_code(1),
            service_indicators: vec![3],
            opcs: vec![AffectedPointCode::single(point_code(number))],
        };
        ApplicationServerConfig::new(RoutingContext(number), vec![destination])
    }

    /// Keys of one destination that differ in the origin: an addition, a match and a comparison need as many lookups
    /// among 10,000 keys as among ten.
    #[test]
    fn lookups_do_not_grow_with_the_keys() {
        let mut index = KeyIndex::default();
        let mut counts = Vec::new();
        for number in 1..=10_000 {
            let server = key(number);
            let before = index.lookups.get();
            assert_eq!(index.overlapping(None, &server.destinations), None);
            index.insert(&server);
            assert!(index.overlapping(None, &server.destinations).is_some());
            let (dpc, opc) = (server.destinations[0].dpc, server.destinations[0].opcs[0]);
            let found = index.find(None, dpc, opc.point_code, 3);
            assert_eq!(found, Some(server.routing_context));
            counts.push(index.lookups.get() - before);
        }
        assert_eq!(counts[9_999], counts[9]);
        assert_eq!(index.slots.len(), 20_000);
        for number in 1..=10_000 {
            index.remove(&key(number));
        }
        assert!(index.slots.is_empty());
    }

    /// Parts inside other parts of the same key are one part.
    #[test]
    fn overlapping_parts_of_a_key_are_joined() {
        let mut server = key(5);
        let range = AffectedPointCode::range(0, 8);
        server.destinations[0].opcs.push(range);
        let mut index = KeyIndex::default();
        index.insert(&server);
        let dpc = server.destinations[0].dpc;
        for opc in [0, 5, 200] {
            let opc = PointCode::new(opc).expect("a point code");
            assert_eq!(index.find(None, dpc, opc, 3), Some(RoutingContext(5)));
        }
        index.remove(&server);
        assert!(index.slots.is_empty());
    }
}
