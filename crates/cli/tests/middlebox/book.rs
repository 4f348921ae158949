//! Record of the replies to agents, compared with the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use carrick_simco::message::{
    AddressTuple, Direction, DisableRequest, EnableRequest, Lifetime, Location, PerParameters,
    PolicyRuleId, PortParity, Reply, Scope,
};
use serde_json::{Value, json};

use crate::kernel::{FlowNumber, Kernel, element};

const UDP: u8 = 17;
const PORT: u16 = 4000;

/// Time from the end of a rule until the kernel removes its elements, plus rounding.
const FAILSAFE: Duration = Duration::from_secs(5 + 2);

/// Longer than the lifetime of any rule in these tests.
const MAX_LIFETIME: Duration = Duration::from_secs(100_000);

fn end(net: u8, n: FlowNumber) -> SocketAddrV4 {
    let [_, _, high, low] = n.to_be_bytes();
    SocketAddrV4::new(Ipv4Addr::new(10, net, high, low), PORT)
}

fn tuple(location: Location, end: SocketAddrV4) -> AddressTuple {
    AddressTuple::single(location, UDP, (*end.ip()).into(), end.port())
}

fn internal(n: FlowNumber) -> SocketAddrV4 {
    end(64, n)
}

fn external(n: FlowNumber) -> SocketAddrV4 {
    end(65, n)
}

fn direction(n: FlowNumber) -> Direction {
    [Direction::Inbound, Direction::Outbound, Direction::Both][n as usize % 3]
}

/// Returns the request that enables the `n`th flow.
pub(crate) fn enable(n: FlowNumber, lifetime: u32) -> EnableRequest {
    EnableRequest {
        parameters: PerParameters {
            parity: PortParity::Any,
            direction: direction(n),
        },
        internal: tuple(Location::Internal, internal(n)),
        external: tuple(Location::External, external(n)),
        lifetime: Lifetime(lifetime),
        group: None,
    }
}

/// Returns the request that blocks the `n`th flow.
pub(crate) fn disable(n: FlowNumber, lifetime: u32) -> DisableRequest {
    DisableRequest {
        internal: tuple(Location::Internal, internal(n)),
        external: tuple(Location::External, external(n)),
        lifetime: Lifetime(lifetime),
    }
}

/// Kind of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RuleKind {
    /// Lets packets pass, from this outside address if translated.
    Enabled(Option<SocketAddrV4>),
    Reserved,
    Disabled,
}

impl RuleKind {
    /// Returns the kind of an enabling rule.
    pub(crate) fn enabled(n: FlowNumber, outside: &AddressTuple) -> Self {
        let Scope::Full { address, port, .. } = outside.scope else {
            panic!("{outside:?} is not an address");
        };
        let std::net::IpAddr::V4(address) = address else {
            panic!("{outside:?} is not an IPv4 address");
        };
        let outside = SocketAddrV4::new(address, port);
        // A firewall without translation reports the address of the internal host.
        Self::Enabled(Some(outside).filter(|outside| *outside != internal(n)))
    }
}

/// Rule, as far as its agent knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) n: FlowNumber,
    pub(crate) kind: RuleKind,
    /// The rule is in force at least until then.
    must: Instant,
    /// The rule has ended at the latest then.
    may: Instant,
    /// A request about the rule has no reply.
    doubtful: bool,
}

impl Rule {
    /// Returns the elements of the rule's flow.
    fn elements(&self) -> Vec<String> {
        let RuleKind::Enabled(outside) = self.kind else {
            return Vec::new();
        };
        let (near, far) = (internal(self.n), external(self.n));
        let text = |end: SocketAddrV4| (end.ip().to_string(), end.port());
        let key = |from, to| {
            let ((a, p), (b, q)) = (text(from), text(to));
            json!(["udp", a, p, b, q])
        };
        let data = |end| -> Value { json!(text(end)) };
        let mut all = Vec::new();
        if direction(self.n) != Direction::Inbound {
            all.push(element("out4", &key(near, far), None));
            all.extend(outside.map(|o| element("snat4", &key(near, far), Some(&data(o)))));
        }
        if direction(self.n) != Direction::Outbound {
            all.push(element("in4", &key(far, near), None));
            all.extend(outside.map(|o| element("dnat4", &key(far, o), Some(&data(near)))));
        }
        all
    }
}

/// Replies received by the agent.
#[derive(Debug, Default)]
pub(crate) struct ReplyRecord {
    next: FlowNumber,
    pub(crate) rules: BTreeMap<PolicyRuleId, Rule>,
    /// Flows with a request for a rule that has no reply.
    requested: BTreeSet<FlowNumber>,
}

impl ReplyRecord {
    /// Returns a flow without a rule, for which a rule is requested now.
    pub(crate) fn next_flow(&mut self) -> FlowNumber {
        self.next += 1;
        self.requested.insert(self.next);
        self.next
    }

    /// Records a rule granted to a request sent at this time.
    pub(crate) fn granted(
        &mut self,
        rule: PolicyRuleId,
        n: FlowNumber,
        kind: RuleKind,
        sent: Instant,
        lifetime: Lifetime,
    ) {
        let life = Duration::from_secs(u64::from(lifetime.0));
        let rule_of_it = Rule {
            n,
            kind,
            must: sent + life,
            may: Instant::now() + life,
            doubtful: false,
        };
        self.rules.insert(rule, rule_of_it);
        self.requested.remove(&n);
    }

    /// Records a request that changes the lifetime of a rule.
    pub(crate) fn changing(&mut self, rule: PolicyRuleId, lifetime: u32) {
        let now = Instant::now();
        if let Some(rule) = self.rules.get_mut(&rule) {
            rule.doubtful = true;
            let life = Duration::from_secs(u64::from(lifetime));
            rule.must = rule.must.min(now + life);
            if lifetime > 0 {
                // The time of the grant is unknown.
                rule.may = now + MAX_LIFETIME;
            }
        }
    }

    /// Records a changed lifetime, granted to a request sent at this time.
    pub(crate) fn changed(&mut self, id: PolicyRuleId, sent: Instant, lifetime: Lifetime) {
        if let Some(rule) = self.rules.get(&id).copied() {
            self.granted(id, rule.n, rule.kind, sent, lifetime);
        }
    }

    /// Records the end of a rule.
    pub(crate) fn ended(&mut self, rule: PolicyRuleId) {
        self.rules.remove(&rule);
    }

    /// Records a request that enables or blocks a flow.
    pub(crate) fn requesting(&mut self, n: FlowNumber) {
        self.requested.insert(n);
    }

    pub(crate) fn count(&self, kind: impl Fn(&RuleKind) -> bool) -> usize {
        self.rules.values().filter(|rule| kind(&rule.kind)).count()
    }

    /// Replaces unknown state by that of a restarted middlebox, which listed these rules at this time.
    /// Returns the rules whose status has to be requested.
    pub(crate) fn restored(
        &mut self,
        listed: &BTreeSet<PolicyRuleId>,
        requested_at: Instant,
    ) -> Vec<PolicyRuleId> {
        let now = Instant::now();
        let is_lost = |(id, rule): &(&PolicyRuleId, &Rule)| {
            // A rule may have ended by a request to block its flow.
            let doubtful = rule.doubtful || self.requested.contains(&rule.n);
            !listed.contains(id) && !doubtful && rule.must > now
        };
        let lost: Vec<_> = self.rules.iter().filter(is_lost).collect();
        assert!(lost.is_empty(), "granted, but not restored: {lost:?}");
        self.rules.retain(|id, _| listed.contains(id));
        let over: Vec<_> = self
            .rules
            .values()
            .filter(|r| r.may < requested_at)
            .collect();
        assert!(over.is_empty(), "ended, but restored: {over:?}");
        self.requested.clear();
        let known = |id: &PolicyRuleId| self.rules.get(id).is_some_and(|rule| !rule.doubtful);
        listed.iter().filter(|id| !known(id)).copied().collect()
    }

    /// Records the status of a rule, requested at this time.
    pub(crate) fn record_status(
        &mut self,
        id: PolicyRuleId,
        requested_at: Instant,
        status: &Reply,
    ) {
        let n_of = |tuple: &AddressTuple| {
            let Scope::Full { address, .. } = tuple.scope else {
                panic!("{tuple:?} is not an address");
            };
            crate::kernel::flow_of(&address.to_string()).unwrap()
        };
        let (n, kind, lifetime) = match status {
            Reply::EnableStatus(status) => {
                let n = n_of(&status.internal);
                (
                    n,
                    RuleKind::enabled(n, &status.enabled.outside),
                    status.enabled.lifetime,
                )
            }
            Reply::DisableStatus { disable, .. } => (
                n_of(&disable.internal),
                RuleKind::Disabled,
                disable.lifetime,
            ),
            // The reservation was not enabled, and no task continues with it.
            Reply::ReserveStatus { reserved, .. } => (0, RuleKind::Reserved, reserved.lifetime),
            other => panic!("{other:?}"),
        };
        self.granted(
            id,
            n,
            kind,
            requested_at,
            Lifetime(lifetime.0.saturating_sub(1)),
        );
        if let Some(rule) = self.rules.get_mut(&id) {
            // The remaining lifetime is rounded.
            rule.may += Duration::from_secs(2);
        }
    }

    /// Asserts that the granted flows pass and no others; likewise for blocks. With `whole` unset, another
    /// program has removed the table, so that elements may be missing.
    pub(crate) fn check(&self, kernel: &Kernel, listing: [Instant; 2], whole: bool, when: &str) {
        let [begun, over] = listing;
        let (mut must, mut may) = (BTreeSet::new(), BTreeMap::new());
        let (mut must_block, mut may_block) = (BTreeSet::new(), BTreeSet::new());
        for rule in self.rules.values() {
            // A rule may have ended by a pending block.
            let surely = whole && rule.must > over && !self.requested.contains(&rule.n);
            if rule.kind == RuleKind::Disabled {
                may_block.insert(rule.n);
                must_block.extend(Some(rule.n).filter(|_| surely));
                continue;
            }
            for element in rule.elements() {
                must.extend(Some(element.clone()).filter(|_| surely));
                may.insert(element, rule.may + FAILSAFE);
            }
        }
        let lost: Vec<_> = must
            .iter()
            .filter(|e| !kernel.elements.contains_key(*e))
            .collect();
        assert!(lost.is_empty(), "{when}: of {} lost {lost:?}", must.len());
        for (element, (n, left)) in &kernel.elements {
            if self.requested.contains(n) {
                continue;
            }
            let until = may.get(element);
            let until = until.unwrap_or_else(|| panic!("{when}: {element} is open"));
            let ends = begun + Duration::from_secs(*left);
            assert!(
                ends <= *until,
                "{when}: {element} is open too long, by {:?}",
                ends - *until
            );
        }
        let unblocked: Vec<_> = must_block.difference(&kernel.blocks).collect();
        assert!(unblocked.is_empty(), "{when}: not blocked {unblocked:?}");
        may_block.extend(&self.requested);
        let blocked: Vec<_> = kernel.blocks.difference(&may_block).collect();
        assert!(blocked.is_empty(), "{when}: blocked {blocked:?}");
        assert_eq!(
            kernel.active_blocks,
            kernel.blocks.len(),
            "{when}: blocks that live"
        );
    }
}
