//! Packet filter that fails: during a request, at the end of a rule, temporarily.

use std::cell::Cell;
use std::rc::Rc;

use carrick_simco::Time;
use carrick_simco::backend::{
    Backend, BackendError, Element, MemoryBackend, PortPool, Reservation,
};
use carrick_simco::message::{
    Direction, Lifetime, NegativeReply, PolicyRuleId, PrrParameters, Reply, Request,
};
use carrick_simco::middlebox::{MiddleboxConfig, MiddleboxEvent, Requester, Rights};

use crate::network::{Net, UDP, agent_config, block, change, config, ends, name, pinhole, range};

/// Operations that fail now.
#[derive(Debug, Default)]
struct Faults {
    add: Cell<bool>,
    extend: Cell<bool>,
    remove: Cell<bool>,
    /// Element whose removal fails, with all others of the same call.
    stuck: Cell<Option<Element>>,
}

#[derive(Debug, Default)]
/// Packet filter in memory with faults.
struct FailingBackend {
    inner: MemoryBackend,
    faults: Rc<Faults>,
}

fn broken() -> BackendError {
    BackendError::System("broken".into())
}

impl Backend for FailingBackend {
    fn add(&mut self, now: Time, what: &[Element], life: Lifetime) -> Result<(), BackendError> {
        if self.faults.add.get() {
            return Err(broken());
        }
        self.inner.add(now, what, life)
    }

    fn extend(&mut self, now: Time, what: &[Element], life: Lifetime) -> Result<(), BackendError> {
        if self.faults.extend.get() {
            return Err(broken());
        }
        self.inner.extend(now, what, life)
    }

    fn remove(&mut self, now: Time, what: &[Element]) -> Result<(), BackendError> {
        let stuck = self.faults.stuck.get().is_some_and(|e| what.contains(&e));
        if self.faults.remove.get() || stuck {
            return Err(broken());
        }
        self.inner.remove(now, what)
    }

    fn translates(&self) -> bool {
        self.inner.translates()
    }

    fn reserve(&mut self, wanted: &PrrParameters) -> Result<Reservation, BackendError> {
        self.inner.reserve(wanted)
    }

    fn release(&mut self, reservation: &Reservation) {
        self.inner.release(reservation);
    }
}

fn net() -> (Net<FailingBackend>, Rc<Faults>) {
    net_with(MemoryBackend::default())
}

fn net_with(inner: MemoryBackend) -> (Net<FailingBackend>, Rc<Faults>) {
    let backend = FailingBackend {
        inner,
        ..FailingBackend::default()
    };
    let faults = Rc::clone(&backend.faults);
    let mut police = agent_config("police");
    police.rights = Rights::ALL;
    let config = MiddleboxConfig {
        agents: vec![agent_config("alice"), agent_config("bob"), police],
        ..config()
    };
    (Net::with_backend(config, backend), faults)
}

impl Net<FailingBackend> {
    fn element_count(&self) -> usize {
        self.middlebox.backend().inner.live(self.now).count()
    }

    fn passes_port(&self, port: u16) -> bool {
        let (a0, a3) = ends(port);
        let backend = &self.middlebox.backend().inner;
        backend.passes(self.now, UDP, a0.into(), a3.into(), Direction::Inbound)
    }
}

/// RFC 5189, section 2.1.4
#[test]
fn partly_failed_request_changes_nothing() {
    let (mut net, faults) = net();
    let [alice, bob] = ["alice", "bob"].map(|name| net.open(name));
    let first = net.enable(alice, pinhole(5)).rule;
    // One flow is shared and its extension fails; the other is new.
    faults.extend.set(true);
    let mut wanted = range(5, 2);
    wanted.lifetime = Lifetime(600);
    let refusal = net.refusal(bob, &Request::Enable(wanted));
    assert_eq!(refusal, NegativeReply::ConfigurationFailed);
    assert_eq!((net.middlebox.rules().len(), net.element_count()), (1, 1));
    faults.extend.set(false);
    net.ask(alice, &change(first, 0));
    assert_eq!(net.element_count(), 0, "no rule uses the element");
    net.enable(bob, wanted);
    assert!(net.passes_port(5) && net.passes_port(6));
}

/// RFC 4540, section 8.9
#[test]
fn failed_removal_is_retried() {
    let (mut net, faults) = net();
    let alice = net.open("alice");
    let rule = net.enable(alice, pinhole(5)).rule;
    faults.remove.set(true);
    assert_eq!(net.ask(alice, &change(rule, 0)), Reply::Deleted);
    assert_eq!(
        net.refusal(alice, &Request::Status(rule)),
        NegativeReply::NoSuchRule
    );
    net.wait(20);
    assert!(net.passes_port(5), "the removal keeps failing");
    assert!(net.middlebox.poll_timeout().is_some());
    faults.remove.set(false);
    net.wait(40);
    assert_eq!(net.element_count(), 0, "long before its timeout");
    assert_eq!(net.middlebox.poll_timeout(), None);
    assert_eq!(net.middlebox.stats().backend_failures, 1, "reported once");
}

/// RFC 4540, section 8.3.2
#[test]
fn new_rule_takes_over_unremoved_elements() {
    let (mut net, faults) = net();
    let alice = net.open("alice");
    let rule = net.enable(alice, pinhole(5)).rule;
    faults.remove.set(true);
    net.ask(alice, &change(rule, 0));
    let mut again = pinhole(5);
    again.lifetime = Lifetime(1000);
    let rule = net.enable(alice, again).rule;
    faults.remove.set(false);
    net.wait(999);
    assert!(net.passes_port(5), "until the new rule ends");
    net.ask(alice, &change(rule, 0));
    assert_eq!(net.element_count(), 0);
}

/// RFC 4540, section 8.9
#[test]
fn stuck_element_does_not_keep_others_open() {
    let (mut net, faults) = net();
    let alice = net.open("alice");
    let rule = net.enable(alice, range(5, 2)).rule;
    let first = *net.middlebox.backend().inner.live(net.now).next().unwrap();
    faults.stuck.set(Some(first));
    net.ask(alice, &change(rule, 0));
    net.wait(10);
    let left: Vec<Element> = net
        .middlebox
        .backend()
        .inner
        .live(net.now)
        .copied()
        .collect();
    assert_eq!(left, [first]);
}

/// RFC 4540, section 8.5
#[test]
fn failed_extension_keeps_the_lifetime() {
    let (mut net, faults) = net();
    let [alice, other] = ["alice", "alice"].map(|name| net.open(name));
    let rule = net.enable(alice, pinhole(5)).rule;
    net.received(other);
    faults.extend.set(true);
    let refusal = net.refusal(alice, &change(rule, 600));
    assert_eq!(refusal, NegativeReply::LifetimeNotExtendable);
    assert_eq!(
        net.rule_events(other),
        [],
        "a failed change is not reported"
    );
    assert_eq!(
        net.ask(alice, &change(rule, 30)),
        Reply::LifetimeChanged(Lifetime(30)),
        "a shorter lifetime is granted"
    );
    net.wait(30);
    assert_eq!((net.middlebox.rules().len(), net.element_count()), (0, 0));
}

/// RFC 5189, section 2.1.4
#[test]
fn backend_refusal_is_reported_with_its_reason() {
    let (mut net, faults) = net();
    let [alice, police] = ["alice", "police"].map(|name| net.open(name));
    let rule = net.enable(alice, pinhole(5)).rule;
    let block = block(pinhole(5));
    while net.middlebox.poll_event().is_some() {}
    faults.add.set(true);
    faults.extend.set(true);
    let failed = NegativeReply::ConfigurationFailed;
    let not_longer = NegativeReply::LifetimeNotExtendable;
    for (who, agent, request, reply) in [
        (alice, "alice", Request::Enable(pinhole(6)), failed),
        (police, "police", block, failed),
        (alice, "alice", change(rule, 600), not_longer),
    ] {
        assert_eq!(net.refusal(who, &request), reply);
        let reported = MiddleboxEvent::Refused {
            by: Requester {
                session: who,
                agent: name(agent),
            },
            request,
            reply,
            failure: Some(broken()),
        };
        assert_eq!(net.middlebox.poll_event(), Some(reported));
        assert_eq!(net.middlebox.poll_event(), None);
    }
    // Refusals by the middlebox itself are not backend failures.
    net.refusal(alice, &Request::Status(PolicyRuleId(99)));
    let reported = net.middlebox.poll_event();
    let none = matches!(
        reported,
        Some(MiddleboxEvent::Refused { failure: None, .. })
    );
    assert!(none, "{reported:?}");
    assert_eq!(net.middlebox.stats().backend_refusals, 3);
}

/// RFC 4540, section 8.8.3
#[test]
fn failed_block_ends_no_rule() {
    let (mut net, faults) = net();
    let [alice, police] = ["alice", "police"].map(|name| net.open(name));
    let rule = net.enable(alice, pinhole(5)).rule;
    let block = block(pinhole(5));
    faults.add.set(true);
    assert_eq!(
        net.refusal(police, &block),
        NegativeReply::ConfigurationFailed
    );
    assert!(net.passes_port(5));
    assert_eq!(net.rule_events(alice), []);
    faults.add.set(false);
    // The block applies, even if the elements of the ended rule can't be removed.
    faults.remove.set(true);
    assert!(matches!(net.ask(police, &block), Reply::Disabled { .. }));
    assert_eq!(net.rule_events(alice), [(rule, Lifetime(0))]);
    assert!(!net.passes_port(5));
    assert_eq!(
        net.refusal(police, &Request::Status(PolicyRuleId(1))),
        NegativeReply::NoSuchRule
    );
}

/// RFC 4540, section 8.2.3
#[test]
fn outside_port_is_free_after_its_binding_is_gone() {
    let pool = PortPool::new([198, 51, 100, 1].into(), 4000..=4000);
    let (mut net, faults) = net_with(MemoryBackend::default().with_translation(pool));
    let [alice, bob] = ["alice", "bob"].map(|name| net.open(name));
    let rule = net.enable(alice, pinhole(5)).rule;
    faults.remove.set(true);
    net.ask(alice, &change(rule, 0));
    let refusal = net.refusal(bob, &Request::Enable(pinhole(6)));
    assert_eq!(
        refusal,
        NegativeReply::LackOfPorts,
        "the port is still bound to alice"
    );
    faults.remove.set(false);
    net.wait(10);
    net.enable(bob, pinhole(6));
    assert_eq!(net.element_count(), 1);
}
