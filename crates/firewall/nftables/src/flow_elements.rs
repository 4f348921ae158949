//! Elements of the kernel's sets, and the flows that need them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use carrick_simco::Time;
use carrick_simco::backend::Flow;
use carrick_simco::message::Direction;

use crate::entry::SetKey;

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
    fn data(&self, key: &SetKey) -> Option<SocketAddr> {
        self.end.filter(|_| key.set.is_map())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Claim {
    flow_claim: FlowClaim,
    until: Time,
}

/// Required state of an element in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RequiredElement {
    pub(crate) data: Option<SocketAddr>,
    pub(crate) until: Time,
}

/// Flows that need an element. If they need different data, the first one determines it; flows with
/// the same data are adjacent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Claims(Vec<Claim>);

impl Claims {
    fn wanted(&self, key: &SetKey) -> Option<RequiredElement> {
        let data = self.0.first()?.flow_claim.data(key);
        let same = self.0.iter().filter(|c| c.flow_claim.data(key) == data);
        let until = same.map(|claim| claim.until).max()?;
        Some(RequiredElement { data, until })
    }
}

/// Elements of flows.
#[derive(Debug, Default)]
pub(crate) struct FlowElements {
    claims: BTreeMap<SetKey, Claims>,
}

/// Change of an element in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ElementChange {
    pub(crate) key: SetKey,
    pub(crate) before: Option<RequiredElement>,
    pub(crate) after: Option<RequiredElement>,
}

/// Changes that are not committed yet.
#[derive(Debug, Default)]
pub(crate) struct PendingChanges {
    claims: BTreeMap<SetKey, Claims>,
}

impl PendingChanges {
    fn claims(&mut self, current: &FlowElements, key: SetKey) -> &mut Vec<Claim> {
        let now = || current.claims.get(&key).cloned().unwrap_or_default();
        &mut self.claims.entry(key).or_insert_with(now).0
    }

    /// Adds a flow.
    pub(crate) fn add(
        &mut self,
        current: &FlowElements,
        key: SetKey,
        flow_claim: FlowClaim,
        until: Time,
    ) {
        let claims = self.claims(current, key);
        let data = flow_claim.data(&key);
        let last = claims.iter().rposition(|c| c.flow_claim.data(&key) == data);
        claims.reserve_exact(1);
        claims.insert(
            last.map_or(claims.len(), |at| at + 1),
            Claim { flow_claim, until },
        );
    }

    /// Changes the expiry of a flow.
    pub(crate) fn extend(
        &mut self,
        current: &FlowElements,
        key: SetKey,
        flow_claim: FlowClaim,
        until: Time,
    ) {
        let claims = self.claims(current, key);
        if let Some(claim) = claims
            .iter_mut()
            .find(|claim| claim.flow_claim == flow_claim)
        {
            claim.until = until;
        }
    }

    /// Removes a flow.
    pub(crate) fn remove(&mut self, current: &FlowElements, key: SetKey, flow_claim: FlowClaim) {
        let claims = self.claims(current, key);
        if let Some(at) = claims
            .iter()
            .position(|claim| claim.flow_claim == flow_claim)
        {
            claims.remove(at);
        }
    }

    /// Returns the resulting changes in the kernel.
    pub(crate) fn differences(&self, current: &FlowElements) -> Vec<ElementChange> {
        let difference = |(key, claims): (&SetKey, &Claims)| {
            let before = current.claims.get(key).and_then(|c| c.wanted(key));
            let after = claims.wanted(key);
            (before != after).then_some(ElementChange {
                key: *key,
                before,
                after,
            })
        };
        self.claims.iter().filter_map(difference).collect()
    }

    /// Applies committed changes.
    pub(crate) fn apply(self, current: &mut FlowElements) {
        for (key, claims) in self.claims {
            if claims.0.is_empty() {
                current.claims.remove(&key);
            } else {
                current.claims.insert(key, claims);
            }
        }
    }
}

impl FlowElements {
    /// Returns all elements.
    pub(crate) fn all_required(&self) -> impl Iterator<Item = (SetKey, RequiredElement)> + '_ {
        let wanted = |(key, claims): (&SetKey, &Claims)| Some((*key, claims.wanted(key)?));
        self.claims.iter().filter_map(wanted)
    }

    /// Returns the required state of an element, if it exists.
    pub(crate) fn required(&self, key: &SetKey) -> Option<RequiredElement> {
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

    fn snat() -> SetKey {
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
        current: &mut FlowElements,
        make: impl FnOnce(&mut PendingChanges, &FlowElements),
    ) -> Vec<ElementChange> {
        let mut changes = PendingChanges::default();
        make(&mut changes, current);
        let differences = changes.differences(current);
        changes.apply(current);
        differences
    }

    /// Returns a bidirectional flow and one in the outward direction only.
    fn flow_claims(port: u16) -> [FlowClaim; 2] {
        let end = Some(([198, 51, 100, 1], port).into());
        [Direction::Both, Direction::Outbound].map(|direction| FlowClaim { end, direction })
    }

    #[test]
    fn shared_element_is_added_and_removed_once() {
        let (mut current, key, [both, out]) = (FlowElements::default(), snat(), flow_claims(1));
        let at = Time::from_millis;
        let added = change(&mut current, |c, h| c.add(h, key, both, at(5)));
        assert_eq!((added.len(), added[0].before), (1, None));
        assert_eq!(change(&mut current, |c, h| c.add(h, key, out, at(5))), []);
        let longer = change(&mut current, |c, h| c.extend(h, key, out, at(9)));
        assert_eq!(longer[0].after.unwrap().until, at(9));
        let shorter = change(&mut current, |c, h| c.extend(h, key, both, at(4)));
        assert_eq!(shorter, [], "the other flow ends later");
        let sooner = change(&mut current, |c, h| c.remove(h, key, out));
        assert_eq!(sooner[0].after.unwrap().until, at(4));
        let removed = change(&mut current, |c, h| c.remove(h, key, both));
        assert_eq!((removed[0].after, current.len()), (None, 0));
    }

    #[test]
    fn second_data_takes_over_a_shared_element() {
        let (mut current, key) = (FlowElements::default(), snat());
        let [[first, third], [second, _]] = [1, 2].map(flow_claims);
        let until = Time::from_millis(5);
        change(&mut current, |c, h| c.add(h, key, first, until));
        assert_eq!(
            change(&mut current, |c, h| c.add(h, key, second, until)),
            []
        );
        assert_eq!(change(&mut current, |c, h| c.add(h, key, third, until)), []);
        assert_eq!(change(&mut current, |c, h| c.remove(h, key, first)), []);
        let next = change(&mut current, |c, h| c.remove(h, key, third));
        assert_eq!(next[0].before.unwrap().data, third.end);
        assert_eq!(next[0].after.unwrap().data, second.end);
    }
}
