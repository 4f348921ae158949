//! Elements of the kernel's sets, and the flows that need them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use carrick_simco::Time;
use carrick_simco::backend::Flow;
use carrick_simco::message::Direction;

use crate::entry::Key;

/// Flow that needs an element. Several flows may need one: a bidirectional one, and one in one of the
/// directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowClaim {
    /// Data of a map; for a set, the address and port to which the flow is bound.
    end: Option<SocketAddr>,
    direction: Direction,
}

impl FlowClaim {
    pub(crate) fn new(flow: &Flow, data: Option<SocketAddr>) -> Self {
        Self {
            end: data.or(flow.outside),
            direction: flow.direction,
        }
    }

    /// Returns the data of the element for this flow.
    fn data(&self, key: &Key) -> Option<SocketAddr> {
        self.end.filter(|_| key.set.is_map())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Claim {
    who: FlowClaim,
    until: Time,
}

/// Required state of an element in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) data: Option<SocketAddr>,
    pub(crate) until: Time,
}

/// Flows that need an element. If they need different data, the first one determines it; flows with
/// the same data are adjacent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Claims(Vec<Claim>);

impl Claims {
    fn wanted(&self, key: &Key) -> Option<Wanted> {
        let data = self.0.first()?.who.data(key);
        let same = self.0.iter().filter(|c| c.who.data(key) == data);
        let until = same.map(|claim| claim.until).max()?;
        Some(Wanted { data, until })
    }
}

/// Elements of flows.
#[derive(Debug, Default)]
pub(crate) struct FlowElements {
    claims: BTreeMap<Key, Claims>,
}

/// Change of an element in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Difference {
    pub(crate) key: Key,
    pub(crate) before: Option<Wanted>,
    pub(crate) after: Option<Wanted>,
}

/// Changes that are not committed yet.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    claims: BTreeMap<Key, Claims>,
}

impl Changes {
    fn claims(&mut self, held: &FlowElements, key: Key) -> &mut Vec<Claim> {
        let now = || held.claims.get(&key).cloned().unwrap_or_default();
        &mut self.claims.entry(key).or_insert_with(now).0
    }

    /// Adds a flow.
    pub(crate) fn add(&mut self, held: &FlowElements, key: Key, who: FlowClaim, until: Time) {
        let claims = self.claims(held, key);
        let data = who.data(&key);
        let last = claims.iter().rposition(|c| c.who.data(&key) == data);
        claims.reserve_exact(1);
        claims.insert(last.map_or(claims.len(), |at| at + 1), Claim { who, until });
    }

    /// Changes the expiry of a flow.
    pub(crate) fn extend(&mut self, held: &FlowElements, key: Key, who: FlowClaim, until: Time) {
        let claims = self.claims(held, key);
        if let Some(claim) = claims.iter_mut().find(|claim| claim.who == who) {
            claim.until = until;
        }
    }

    /// Removes a flow.
    pub(crate) fn remove(&mut self, held: &FlowElements, key: Key, who: FlowClaim) {
        let claims = self.claims(held, key);
        if let Some(at) = claims.iter().position(|claim| claim.who == who) {
            claims.remove(at);
        }
    }

    /// Returns the resulting changes in the kernel.
    pub(crate) fn differences(&self, held: &FlowElements) -> Vec<Difference> {
        let difference = |(key, claims): (&Key, &Claims)| {
            let before = held.claims.get(key).and_then(|c| c.wanted(key));
            let after = claims.wanted(key);
            (before != after).then_some(Difference {
                key: *key,
                before,
                after,
            })
        };
        self.claims.iter().filter_map(difference).collect()
    }

    /// Applies committed changes.
    pub(crate) fn apply(self, held: &mut FlowElements) {
        for (key, claims) in self.claims {
            if claims.0.is_empty() {
                held.claims.remove(&key);
            } else {
                held.claims.insert(key, claims);
            }
        }
    }
}

impl FlowElements {
    /// Returns all elements.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = (Key, Wanted)> + '_ {
        let wanted = |(key, claims): (&Key, &Claims)| Some((*key, claims.wanted(key)?));
        self.claims.iter().filter_map(wanted)
    }

    /// Returns the required state of an element, if it exists.
    pub(crate) fn wanted_of(&self, key: &Key) -> Option<Wanted> {
        self.claims.get(key)?.wanted(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.claims.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::entries_of;

    fn snat() -> Key {
        let flow = Flow {
            protocol: 17,
            internal: "10.0.0.1:5".parse().unwrap(),
            external: "192.0.2.1:5".parse().unwrap(),
            outside: Some("198.51.100.1:1".parse().unwrap()),
            direction: Direction::Outbound,
        };
        entries_of(&flow)[1].0
    }

    fn change(
        held: &mut FlowElements,
        make: impl FnOnce(&mut Changes, &FlowElements),
    ) -> Vec<Difference> {
        let mut changes = Changes::default();
        make(&mut changes, held);
        let differences = changes.differences(held);
        changes.apply(held);
        differences
    }

    /// Returns a bidirectional flow and one in the outward direction only.
    fn who(port: u16) -> [FlowClaim; 2] {
        let end = Some(([198, 51, 100, 1], port).into());
        [Direction::Both, Direction::Outbound].map(|direction| FlowClaim { end, direction })
    }

    #[test]
    fn shared_element_is_added_and_removed_once() {
        let (mut held, key, [both, out]) = (FlowElements::default(), snat(), who(1));
        let at = Time::from_millis;
        let added = change(&mut held, |c, h| c.add(h, key, both, at(5)));
        assert_eq!((added.len(), added[0].before), (1, None));
        assert_eq!(change(&mut held, |c, h| c.add(h, key, out, at(5))), []);
        let longer = change(&mut held, |c, h| c.extend(h, key, out, at(9)));
        assert_eq!(longer[0].after.unwrap().until, at(9));
        let shorter = change(&mut held, |c, h| c.extend(h, key, both, at(4)));
        assert_eq!(shorter, [], "the other lives longer");
        let sooner = change(&mut held, |c, h| c.remove(h, key, out));
        assert_eq!(sooner[0].after.unwrap().until, at(4));
        let gone = change(&mut held, |c, h| c.remove(h, key, both));
        assert_eq!((gone[0].after, held.len()), (None, 0));
    }

    #[test]
    fn second_data_takes_over_a_shared_element() {
        let (mut held, key) = (FlowElements::default(), snat());
        let [[first, third], [second, _]] = [1, 2].map(who);
        let until = Time::from_millis(5);
        change(&mut held, |c, h| c.add(h, key, first, until));
        assert_eq!(change(&mut held, |c, h| c.add(h, key, second, until)), []);
        assert_eq!(change(&mut held, |c, h| c.add(h, key, third, until)), []);
        assert_eq!(change(&mut held, |c, h| c.remove(h, key, first)), []);
        let next = change(&mut held, |c, h| c.remove(h, key, third));
        assert_eq!(next[0].before.unwrap().data, third.end);
        assert_eq!(next[0].after.unwrap().data, second.end);
    }
}
