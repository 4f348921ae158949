//! Packet filter in memory, for tests and load. It behaves like the sets of a kernel.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::{Backend, BackendError, Element, PortPool, Reservation};
use crate::Time;
use crate::message::{Direction, Lifetime, PrrParameters};

/// Limits of a [`MemoryBackend`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryLimits {
    /// Maximum number of passing elements, like the size of a kernel's set.
    pub elements: usize,
    /// Maximum number of blocking elements.
    pub blocks: usize,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self {
            elements: 1 << 20,
            blocks: 1024,
        }
    }
}

/// A packet filter in memory, with or without address translation.
#[derive(Debug, Default)]
pub struct MemoryBackend {
    limits: MemoryLimits,
    /// Elements with their expiry.
    elements: BTreeMap<Element, Time>,
    /// Number of blocking elements.
    blocks: usize,
    pool: Option<PortPool>,
}

impl MemoryBackend {
    /// Creates a packet filter with these limits.
    pub fn new(limits: MemoryLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Adds address translation with these outside ports.
    #[must_use]
    pub fn with_translation(mut self, pool: PortPool) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Returns the elements that have not expired.
    pub fn live(&self, now: Time) -> impl Iterator<Item = &Element> {
        let live = move |(_, until): &(&Element, &Time)| **until > now;
        self.elements
            .iter()
            .filter(live)
            .map(|(element, _)| element)
    }

    /// Returns the number of reserved ports.
    pub fn reserved_ports(&self) -> usize {
        self.pool.as_ref().map_or(0, PortPool::used)
    }

    /// Returns whether a packet between these addresses would pass in this direction,
    /// [`Direction::Inbound`] or [`Direction::Outbound`].
    pub fn passes(
        &self,
        now: Time,
        protocol: u8,
        internal: SocketAddr,
        external: SocketAddr,
        direction: Direction,
    ) -> bool {
        let way = |allowed: Direction| allowed == direction || allowed == Direction::Both;
        let mut allowed = false;
        for element in self.live(now) {
            match element {
                Element::Block(pattern) if pattern.contains(protocol, internal, external) => {
                    return false;
                }
                Element::Block(_) => {}
                Element::Allow(pattern, direction) => {
                    allowed |= way(*direction) && pattern.contains(protocol, internal, external);
                }
                Element::Flow(flow) => {
                    let ends = (flow.protocol, flow.internal, flow.external);
                    allowed |= way(flow.direction) && ends == (protocol, internal, external);
                }
            }
        }
        allowed
    }
}

fn until(now: Time, lifetime: Lifetime) -> Time {
    now + Duration::from_secs(u64::from(lifetime.0))
}

fn blocks<'a>(elements: impl IntoIterator<Item = &'a Element>) -> usize {
    let blocks = |e: &&Element| matches!(e, Element::Block(_));
    elements.into_iter().filter(blocks).count()
}

impl MemoryBackend {
    /// Returns whether there is room for these elements.
    fn has_room(&self, elements: &[Element]) -> bool {
        let (blocks, held) = (blocks(elements), self.elements.len() - self.blocks);
        self.blocks + blocks <= self.limits.blocks
            && held + elements.len() - blocks <= self.limits.elements
    }
}

impl Backend for MemoryBackend {
    fn add(
        &mut self,
        now: Time,
        elements: &[Element],
        lifetime: Lifetime,
    ) -> Result<(), BackendError> {
        let there = |e: &Element| self.elements.get(e).is_some_and(|until| *until > now);
        if elements.iter().any(there) {
            return Err(BackendError::OutOfStep);
        }
        if !self.has_room(elements) {
            self.elements.retain(|_, until| *until > now);
            self.blocks = blocks(self.elements.keys());
        }
        if !self.has_room(elements) {
            return Err(BackendError::Full);
        }
        let until = until(now, lifetime);
        for element in elements {
            let new = self.elements.insert(*element, until).is_none();
            self.blocks += usize::from(new && matches!(element, Element::Block(_)));
        }
        Ok(())
    }

    fn extend(
        &mut self,
        now: Time,
        elements: &[Element],
        lifetime: Lifetime,
    ) -> Result<(), BackendError> {
        if elements.iter().any(|e| !self.elements.contains_key(e)) {
            return Err(BackendError::OutOfStep);
        }
        for element in elements {
            self.elements.insert(*element, until(now, lifetime));
        }
        Ok(())
    }

    fn remove(&mut self, _: Time, elements: &[Element]) -> Result<(), BackendError> {
        if elements.iter().any(|e| !self.elements.contains_key(e)) {
            return Err(BackendError::OutOfStep);
        }
        for element in elements {
            self.elements.remove(element);
        }
        self.blocks -= blocks(elements);
        Ok(())
    }

    fn translates(&self) -> bool {
        self.pool.is_some()
    }

    fn reserve(&mut self, wanted: &PrrParameters) -> Result<Reservation, BackendError> {
        let pool = self.pool.as_mut().ok_or(BackendError::NoAddresses)?;
        pool.allocate(wanted)
    }

    fn restore_reservation(&mut self, reservation: &Reservation) -> Result<(), BackendError> {
        let pool = self.pool.as_mut().ok_or(BackendError::NoAddresses)?;
        pool.restore(reservation)
    }

    fn release(&mut self, reservation: &Reservation) {
        if let Some(pool) = &mut self.pool {
            pool.free(reservation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Flow, References, pattern_of};
    use super::*;
    use crate::message::{AddressTuple, IpVersion, Location, Scope};

    fn ends(port: u16) -> [SocketAddr; 2] {
        [([10, 0, 0, 1], port).into(), ([192, 0, 2, 1], port).into()]
    }

    fn flow(port: u16, direction: Direction) -> Element {
        let [internal, external] = ends(port);
        Element::Flow(Flow {
            protocol: 17,
            internal,
            external,
            outside: None,
            direction,
        })
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn elements_are_added_all_or_none() {
        let mut backend = MemoryBackend::new(MemoryLimits {
            elements: 3,
            blocks: 0,
        });
        let [a, b, c, d] = [1, 2, 3, 4].map(|port| flow(port, Direction::Both));
        assert_eq!(backend.add(at(0), &[a, b], Lifetime(9)), Ok(()));
        assert_eq!(
            backend.add(at(0), &[c, b], Lifetime(9)),
            Err(BackendError::OutOfStep)
        );
        assert_eq!(
            backend.add(at(0), &[c, d], Lifetime(9)),
            Err(BackendError::Full)
        );
        assert_eq!(backend.remove(at(0), &[a, c]), Err(BackendError::OutOfStep));
        assert_eq!(backend.live(at(0)).count(), 2, "nothing was done by halves");
        assert_eq!(backend.remove(at(0), &[a, b]), Ok(()));
        assert_eq!(backend.live(at(0)).count(), 0);
    }

    #[test]
    fn packets_pass_unless_blocked_or_expired() {
        let mut backend = MemoryBackend::default();
        let [internal, external] = ends(5);
        let flow = flow(5, Direction::Inbound);
        backend.add(at(0), &[flow], Lifetime(10)).unwrap();
        let passes = |b: &MemoryBackend, now, way| b.passes(now, 17, internal, external, way);
        assert!(passes(&backend, at(9), Direction::Inbound));
        assert!(!passes(&backend, at(9), Direction::Outbound));
        assert!(
            !passes(&backend, at(10), Direction::Inbound),
            "the fail-safe"
        );
        backend.extend(at(9), &[flow], Lifetime(10)).unwrap();
        assert!(passes(&backend, at(10), Direction::Inbound));
        let any = |location| AddressTuple {
            location,
            protocol: 0,
            scope: Scope::ProtocolsOnly(IpVersion::V4),
        };
        let all = pattern_of(&any(Location::Internal), &any(Location::External));
        backend
            .add(at(9), &[Element::Block(all)], Lifetime(2))
            .unwrap();
        assert!(!passes(&backend, at(10), Direction::Inbound));
        assert!(passes(&backend, at(12), Direction::Inbound));
    }

    #[test]
    fn expired_element_does_not_conflict() {
        let mut backend = MemoryBackend::new(MemoryLimits {
            elements: 1,
            blocks: 0,
        });
        let [a, b] = [1, 2].map(|port| flow(port, Direction::Both));
        backend.add(at(0), &[a], Lifetime(9)).unwrap();
        assert_eq!(
            backend.add(at(8), &[b], Lifetime(9)),
            Err(BackendError::Full)
        );
        assert_eq!(backend.add(at(9), &[a], Lifetime(9)), Ok(()), "again");
        assert_eq!(backend.add(at(18), &[b], Lifetime(9)), Ok(()), "its room");
        assert_eq!(backend.live(at(18)).collect::<Vec<_>>(), [&b]);
    }

    /// RFC 4540, section 8.8
    #[test]
    fn blocks_and_pinholes_have_separate_room() {
        let mut backend = MemoryBackend::new(MemoryLimits {
            elements: 2,
            blocks: 1,
        });
        let side = |port| {
            let (address, port) = (ends(0)[0].ip(), port);
            AddressTuple::single(Location::Internal, 17, address, port)
        };
        let block = |port| Element::Block(pattern_of(&side(port), &side(port)));
        let flows = [1, 2, 3].map(|port| flow(port, Direction::Both));
        let full = Err(BackendError::Full);
        backend.add(at(0), &flows[..2], Lifetime(9)).unwrap();
        assert_eq!(backend.add(at(0), &flows[2..], Lifetime(9)), full);
        assert_eq!(backend.add(at(0), &[block(1)], Lifetime(99)), Ok(()));
        assert_eq!(backend.add(at(0), &[block(2)], Lifetime(9)), full);
        backend.remove(at(0), &flows[..1]).unwrap();
        assert_eq!(backend.add(at(0), &[block(2)], Lifetime(9)), full);
        backend.add(at(0), &flows[2..], Lifetime(9)).unwrap();
        // Expired elements make room, for each kind separately.
        backend.add(at(9), &flows[..2], Lifetime(9)).unwrap();
        backend.remove(at(9), &[block(1)]).unwrap();
        assert_eq!(backend.add(at(9), &[block(2)], Lifetime(9)), Ok(()));
    }

    #[test]
    fn a_shared_element_stays_until_the_last_rule_is_gone() {
        let mut backend = MemoryBackend::default();
        let mut references = References::default();
        let element = [flow(5, Direction::Both)];
        references
            .add(at(0), &mut backend, &element, Lifetime(10))
            .unwrap();
        references
            .add(at(0), &mut backend, &element, Lifetime(100))
            .unwrap();
        assert_eq!(
            backend.live(at(50)).count(),
            1,
            "as long as the longest rule"
        );
        references
            .remove(at(1), &mut backend, &element, at(10))
            .unwrap();
        assert_eq!(backend.live(at(50)).count(), 1);
        references
            .extend(at(60), &mut backend, &element, at(100), Lifetime(100))
            .unwrap();
        assert_eq!(backend.live(at(150)).count(), 1);
        references
            .remove(at(1), &mut backend, &element, at(160))
            .unwrap();
        assert_eq!(backend.live(at(1)).count(), 0);
    }

    #[test]
    fn expiry_is_that_of_the_longest_rule() {
        let mut backend = MemoryBackend::default();
        let mut references = References::default();
        let element = [flow(5, Direction::Both)];
        for lifetime in [1000, 100] {
            references
                .add(at(0), &mut backend, &element, Lifetime(lifetime))
                .unwrap();
        }
        let ends = |backend: &MemoryBackend| {
            let live = |second: &u64| backend.live(at(*second)).count() == 0;
            (0..2000).find(live).unwrap()
        };
        assert_eq!(ends(&backend), 1005);
        references
            .shorten(at(0), &mut backend, &element, at(1000), Lifetime(500))
            .unwrap();
        assert_eq!(ends(&backend), 505);
        references
            .shorten(at(0), &mut backend, &element, at(100), Lifetime(50))
            .unwrap();
        assert_eq!(ends(&backend), 505, "not the longest");
        references
            .remove(at(0), &mut backend, &element, at(500))
            .unwrap();
        assert_eq!(ends(&backend), 55);
    }
}
