//! Handshakes of peers that have not proved yet that they receive at their address: their source address may
//! be forged.
//!
//! 1. A datagram that opens a handshake, or continues one, is queued.
//! 2. When the endpoint and the sessions have nothing to send, it is processed by the candidate that it
//!    began, or by a new one. A peer may have several candidates: a forged datagram replaces none.
//! 3. The reply of a candidate is sent once for each datagram, without a timer (RFC 9147, section 5.1).
//! 4. A candidate that has validated the address of its peer (RFC 6347, section 4.2.1) becomes the session of
//!    the route, or its successor.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::IpAddr;

use super::{PacketSession, RouteKey, SessionFactory, SessionLayer, SessionState, route_key};
use crate::endpoint::{Endpoint, SourceKey};
use crate::route::{Ecn, Route};
use crate::time::Time;

/// Limit of queued datagrams that open or continue a handshake.
const MAX_HELLOS: usize = 32;

/// Unfinished handshakes by the source of their peers. Keys are ordered by age.
#[derive(Debug)]
pub(super) struct BySource<K> {
    sources: BTreeMap<SourceKey, BTreeSet<K>>,
    len: usize,
}

impl<K: Ord + Copy> BySource<K> {
    pub(super) fn new() -> Self {
        Self {
            sources: BTreeMap::new(),
            len: 0,
        }
    }

    pub(super) fn insert(&mut self, peer: IpAddr, key: K) {
        let keys = self.sources.entry(SourceKey::of(peer)).or_default();
        self.len += usize::from(keys.insert(key));
    }

    pub(super) fn remove(&mut self, peer: IpAddr, key: K) {
        let source = SourceKey::of(peer);
        let Some(keys) = self.sources.get_mut(&source) else {
            return;
        };
        self.len -= usize::from(keys.remove(&key));
        if keys.is_empty() {
            self.sources.remove(&source);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the oldest entry of the source with the most entries.
    pub(super) fn oldest_of_largest(&self) -> Option<K> {
        let of_source = self.sources.values();
        let largest = of_source.max_by_key(|keys| (keys.len(), Reverse(keys.first())));
        largest?.first().copied()
    }
}

/// Handshake of a peer whose address is not validated.
#[derive(Debug)]
struct Candidate<S> {
    session: S,
    route: Route,
    deadline: Time,
}

/// Candidates by age, route and source.
#[derive(Debug)]
pub(super) struct Candidates<S> {
    all: BTreeMap<u64, Candidate<S>>,
    /// Candidates of a route, the last used one last.
    by_route: BTreeMap<RouteKey, Vec<u64>>,
    by_source: BySource<u64>,
    last: u64,
}

impl<S: PacketSession> Candidates<S> {
    pub(super) fn new() -> Self {
        Self {
            all: BTreeMap::new(),
            by_route: BTreeMap::new(),
            by_source: BySource::new(),
            last: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the deadline of the oldest candidate.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.all.values().next().map(|oldest| oldest.deadline)
    }

    /// Removes the oldest candidate if it is overdue; returns whether it was.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        let overdue = self.deadline().is_some_and(|at| at <= now);
        if overdue && let Some(&number) = self.all.keys().next() {
            self.remove(number);
        }
        overdue
    }

    /// Returns the candidate that this datagram began.
    fn begun_by(&self, route: &Route, datagram: &[u8]) -> Option<u64> {
        let of_route = self.by_route.get(&route_key(route))?;
        let mut of_route = of_route.iter().rev();
        of_route
            .find(|number| {
                let candidate = self.all.get(number);
                candidate.is_some_and(|c| c.session.is_begun_by(datagram))
            })
            .copied()
    }

    /// Returns the candidate of this route that was used last.
    fn last_used(&self, route: &Route) -> Option<u64> {
        self.by_route.get(&route_key(route))?.last().copied()
    }

    fn insert(&mut self, candidate: Candidate<S>) -> u64 {
        self.last += 1;
        let number = self.last;
        let route = candidate.route;
        self.by_route
            .entry(route_key(&route))
            .or_default()
            .push(number);
        self.by_source.insert(route.remote, number);
        self.all.insert(number, candidate);
        number
    }

    fn remove(&mut self, number: u64) -> Option<Candidate<S>> {
        let candidate = self.all.remove(&number)?;
        self.by_source.remove(candidate.route.remote, number);
        let key = route_key(&candidate.route);
        if let Some(of_route) = self.by_route.get_mut(&key) {
            of_route.retain(|n| *n != number);
            if of_route.is_empty() {
                self.by_route.remove(&key);
            }
        }
        Some(candidate)
    }

    fn mark_used(&mut self, route: &Route, number: u64) {
        if let Some(of_route) = self.by_route.get_mut(&route_key(route)) {
            of_route.retain(|n| *n != number);
            of_route.push(number);
        }
    }
}

impl<F: SessionFactory> SessionLayer<F> {
    /// Queues a datagram that opens or continues a handshake, if it is not one of a session. Returns
    /// whether it was queued or discarded.
    pub(super) fn queue_hello(&mut self, route: &Route, datagram: &[u8]) -> bool {
        let queues = if self.factory.opens(datagram) {
            !self.is_hello_of_session(route, datagram)
                || self.candidates.begun_by(route, datagram).is_some()
        } else {
            // A later fragment: of a candidate, or of a hello in the queue.
            self.factory.continues(datagram)
                && (self.candidates.last_used(route).is_some()
                    || self.hellos.iter().any(|(of, _)| of == route))
        };
        if !queues || route.encapsulation.is_none() {
            return false;
        }
        let is_full = self.slots.len() >= self.config.max_sessions;
        if self.hellos.len() >= MAX_HELLOS || is_full && self.find(route).is_none() {
            self.stats.refused += 1;
        } else {
            self.hellos.push_back((*route, datagram.to_vec()));
        }
        true
    }

    /// Returns whether the session of this route, or its successor, was begun by this datagram.
    fn is_hello_of_session(&mut self, route: &Route, datagram: &[u8]) -> bool {
        let slot = self.find(route).and_then(|id| self.slots.get(&id));
        slot.is_some_and(|slot| {
            let successor = slot.successor.as_ref();
            slot.ended
                || slot.session.is_begun_by(datagram)
                || successor.is_some_and(|successor| successor.is_begun_by(datagram))
        })
    }

    /// Processes the oldest queued datagram; returns `false` if there is none.
    pub(super) fn process_hello(&mut self, now: Time, endpoint: &mut Endpoint) -> bool {
        let Some((route, datagram)) = self.hellos.pop_front() else {
            return false;
        };
        let begun = self.candidates.begun_by(&route, &datagram);
        let number = if !self.factory.opens(&datagram) {
            self.candidates.last_used(&route)
        } else if begun.is_some() {
            begun
        } else if self.is_hello_of_session(&route, &datagram) {
            // The address was validated while this datagram was queued.
            self.handle_session_datagram(now, endpoint, &route, &datagram);
            None
        } else {
            Some(self.add_candidate(now, &route))
        };
        if let Some(number) = number {
            self.advance_candidate(now, endpoint, number, &datagram);
        }
        true
    }

    fn add_candidate(&mut self, now: Time, route: &Route) -> u64 {
        let candidates = &mut self.candidates;
        if candidates.len() >= self.config.max_handshakes
            && let Some(oldest) = candidates.by_source.oldest_of_largest()
        {
            candidates.remove(oldest);
            self.stats.evicted += 1;
        }
        candidates.insert(Candidate {
            session: self.factory.accept(now),
            route: Route {
                ecn: Ecn::NotCapable,
                ..*route
            },
            deadline: now + self.config.handshake_timeout,
        })
    }

    fn advance_candidate(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        number: u64,
        datagram: &[u8],
    ) {
        let Some(candidate) = self.candidates.all.get_mut(&number) else {
            return;
        };
        let (session, route) = (&mut candidate.session, candidate.route);
        // Packets before the end of the handshake may come from another peer.
        let mut early = Vec::new();
        session.handle_datagram(now, datagram, &mut early);
        if session.has_validated_address() {
            if let Some(candidate) = self.candidates.remove(number) {
                self.admit(now, endpoint, candidate);
            }
            return;
        }
        if matches!(
            session.state(),
            SessionState::Closed | SessionState::Failed(_)
        ) {
            self.stats.failed += 1;
            self.candidates.remove(number);
            return;
        }
        let mut reply = Vec::new();
        while session.poll_datagram(now, &mut reply) {
            let reply = core::mem::take(&mut reply);
            self.odd_sized
                .push_back((super::single(route, reply.len()), reply));
        }
        self.candidates.mark_used(&route, number);
    }

    /// Makes a candidate whose peer has validated its address the session of its route, or the successor of
    /// the session there.
    fn admit(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        Candidate { session, route, .. }: Candidate<F::Session>,
    ) {
        let known = self.find(&route);
        let id = if let Some(id) = known
            && let Some(slot) = self.slots.get_mut(&id)
        {
            slot.successor = Some(session);
            slot.successor_deadline = Some(now + self.config.handshake_timeout);
            id
        } else {
            let Some(id) = self.insert(now, session, route) else {
                self.stats.refused += 1;
                return;
            };
            self.half_open.insert(route.remote, id);
            if self.half_open.len() > self.config.max_handshakes
                && let Some(oldest) = self.half_open.oldest_of_largest()
            {
                self.stats.evicted += 1;
                self.evict(now, endpoint, oldest);
            }
            id
        };
        self.ready.insert(id);
        self.update_session(now, endpoint, id);
    }

    /// Returns the number of unfinished handshakes that peers have started, with validated and unvalidated
    /// addresses.
    pub fn handshakes(&self) -> usize {
        self.candidates.len() + self.half_open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_largest_source_is_evicted() {
        let mut table = BySource::new();
        let of = |text: &str| -> IpAddr { text.parse().unwrap() };
        for (key, peer) in [
            (1, "192.0.2.1"),
            (2, "2001:db8::1"),
            (3, "192.0.2.2"),
            (4, "2001:db8::ffff:1"),
        ] {
            table.insert(of(peer), key);
        }
        // One /64 is one source.
        assert_eq!(table.oldest_of_largest(), Some(2));
        table.remove(of("2001:db8::1"), 2);
        assert_eq!((table.oldest_of_largest(), table.len()), (Some(1), 3));
        for (key, peer) in [(1, "192.0.2.1"), (3, "192.0.2.2"), (4, "2001:db8::1")] {
            table.remove(of(peer), key);
        }
        assert_eq!((table.oldest_of_largest(), table.len()), (None, 0));
        assert!(table.sources.is_empty());
    }
}
