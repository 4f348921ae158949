//! What is in the kernel's sets on whose behalf, and what a change makes of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use carrick_simco::Time;
use carrick_simco::backend::Flow;
use carrick_simco::message::Direction;

use crate::entry::Key;

/// A flow, to the element that it needs. Different rules can be one flow in the kernel: one both
/// ways, and one of these ways alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Who {
    /// What a map shall hold; of a set, the address and port that the flow is bound to.
    end: Option<SocketAddr>,
    direction: Direction,
}

impl Who {
    pub(crate) fn new(flow: &Flow, data: Option<SocketAddr>) -> Self {
        Self {
            end: data.or(flow.outside),
            direction: flow.direction,
        }
    }

    /// What the element holds for it.
    fn data(&self, key: &Key) -> Option<SocketAddr> {
        self.end.filter(|_| key.set.is_map())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Claim {
    who: Who,
    until: Time,
}

/// What the kernel shall have for an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) data: Option<SocketAddr>,
    pub(crate) until: Time,
}

/// All who claim an element. Where they want different data, the first has it, and those who want the
/// same stand together.
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

/// All elements of flows.
#[derive(Debug, Default)]
pub(crate) struct Held {
    claims: BTreeMap<Key, Claims>,
}

/// What the kernel has to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Difference {
    pub(crate) key: Key,
    pub(crate) before: Option<Wanted>,
    pub(crate) after: Option<Wanted>,
}

/// Changes that are not in force yet.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    claims: BTreeMap<Key, Claims>,
}

impl Changes {
    fn claims(&mut self, held: &Held, key: Key) -> &mut Vec<Claim> {
        let now = || held.claims.get(&key).cloned().unwrap_or_default();
        &mut self.claims.entry(key).or_insert_with(now).0
    }

    /// One more flow.
    pub(crate) fn add(&mut self, held: &Held, key: Key, who: Who, until: Time) {
        let claims = self.claims(held, key);
        let data = who.data(&key);
        let last = claims.iter().rposition(|c| c.who.data(&key) == data);
        claims.reserve_exact(1);
        claims.insert(last.map_or(claims.len(), |at| at + 1), Claim { who, until });
    }

    /// A flow lives until then.
    pub(crate) fn extend(&mut self, held: &Held, key: Key, who: Who, until: Time) {
        let claims = self.claims(held, key);
        if let Some(claim) = claims.iter_mut().find(|claim| claim.who == who) {
            claim.until = until;
        }
    }

    /// One flow less.
    pub(crate) fn remove(&mut self, held: &Held, key: Key, who: Who) {
        let claims = self.claims(held, key);
        if let Some(at) = claims.iter().position(|claim| claim.who == who) {
            claims.remove(at);
        }
    }

    /// What that means for the kernel.
    pub(crate) fn differences(&self, held: &Held) -> Vec<Difference> {
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

    /// They are in force.
    pub(crate) fn apply(self, held: &mut Held) {
        for (key, claims) in self.claims {
            if claims.0.is_empty() {
                held.claims.remove(&key);
            } else {
                held.claims.insert(key, claims);
            }
        }
    }
}

impl Held {
    /// All elements.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = (Key, Wanted)> + '_ {
        let wanted = |(key, claims): (&Key, &Claims)| Some((*key, claims.wanted(key)?));
        self.claims.iter().filter_map(wanted)
    }

    /// Whether an element is there.
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

    fn change(held: &mut Held, make: impl FnOnce(&mut Changes, &Held)) -> Vec<Difference> {
        let mut changes = Changes::default();
        make(&mut changes, held);
        let differences = changes.differences(held);
        changes.apply(held);
        differences
    }

    /// Both ways, and out only.
    fn who(port: u16) -> [Who; 2] {
        let end = Some(([198, 51, 100, 1], port).into());
        [Direction::Both, Direction::Outbound].map(|direction| Who { end, direction })
    }

    #[test]
    fn an_element_is_told_to_the_kernel_with_the_first_and_the_last_flow_only() {
        let (mut held, key, [both, out]) = (Held::default(), snat(), who(1));
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
    fn who_comes_second_with_other_data_has_the_element_when_all_of_the_first_are_gone() {
        let (mut held, key) = (Held::default(), snat());
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
