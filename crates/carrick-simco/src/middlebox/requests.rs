//! Requests that change rules: PRR, PER, PEA, PDR, PLC (RFC 4540 sections 8.2 to 8.5 and 8.8).

use std::time::Duration;

use super::checks::{check_protocol, check_tuples};
use super::event::{EndReason, MiddleboxEvent};
use super::{Middlebox, SessionId};
use crate::Time;
use crate::backend::{Backend, Element, Reservation, elements_of, pattern_of, single_flows};
use crate::message::{
    AddressTuple, Direction, DisableRequest, EnableRequest, Enabled, GroupId, IpVersion, Lifetime,
    Location, NatMode, NegativeReply, Parity, PolicyRuleId, PortParity, PrrParameters, Reply,
    Request, RequestKind, ReserveRequest, Reserved, Scope,
};
use crate::rules::{AgentIndex, Rule, RuleKind};

type Outcome = Result<Reply, NegativeReply>;

impl<B: Backend> Middlebox<B> {
    /// Does what an agent with an open session asks for, as if all rules whose life is over had
    /// ended: some may be left, when many end at once.
    pub(super) fn rule_request_now(
        &mut self,
        now: Time,
        session: SessionId,
        agent: AgentIndex,
        request: &Request,
    ) -> Outcome {
        let over = |id: &PolicyRuleId| self.rules.get(*id).is_some_and(|rule| rule.expires <= now);
        if let Some(id) = request.rule().filter(over) {
            self.delete_rule(now, id, EndReason::Expired, None);
        }
        let outcome = self.rule_request(now, session, agent, request);
        let in_the_way = matches!(
            outcome,
            Err(NegativeReply::Conflict | NegativeReply::NoResources | NegativeReply::ReplyTooBig)
        );
        if !in_the_way || self.rules.expired(now).is_none() {
            return outcome;
        }
        while let Some(id) = self.rules.expired(now) {
            self.delete_rule(now, id, EndReason::Expired, None);
        }
        self.rule_request(now, session, agent, request)
    }

    /// Does what an agent with an open session asks for.
    fn rule_request(
        &mut self,
        now: Time,
        session: SessionId,
        agent: AgentIndex,
        request: &Request,
    ) -> Outcome {
        let kind = request.kind();
        if kind == RequestKind::Disable && !self.config.capabilities.disable_rules {
            return Err(NegativeReply::TransactionNotSupported);
        }
        if !self.agents.config(agent).rights.allow(kind) {
            return Err(NegativeReply::AgentNotAuthorized);
        }
        match request {
            Request::Reserve(reserve) => self.reserve(now, session, agent, reserve),
            Request::Enable(enable) => self.enable(now, session, agent, enable),
            Request::EnableReserved { enable, rule } => {
                self.enable_reserved(now, session, agent, enable, *rule)
            }
            Request::Disable(disable) => self.disable(now, session, agent, disable),
            Request::ChangeLifetime { rule, lifetime } => {
                self.change_lifetime(now, session, agent, *rule, *lifetime)
            }
            Request::Status(rule) => self.status(now, agent, *rule),
            Request::List => self.list(now, agent),
            Request::Establish { .. } | Request::Authenticate(_) | Request::Terminate => {
                Err(NegativeReply::NotApplicable)
            }
        }
    }

    /// The group that a request names is the agent's.
    fn check_group(&self, agent: AgentIndex, group: Option<GroupId>) -> Result<(), NegativeReply> {
        let Some(group) = group else { return Ok(()) };
        let owner = self.rules.group_owner(group);
        match owner.ok_or(NegativeReply::NoSuchGroup)? {
            // All rules of a group have one owner (RFC 5189 section 2.1.5).
            owner if owner == agent => Ok(()),
            _ => Err(NegativeReply::GroupNotAuthorized),
        }
    }

    /// There is room for another rule of the agent with so many elements or ports.
    fn check_quota(&self, agent: AgentIndex, elements: usize) -> Result<(), NegativeReply> {
        let own = self.rules.of_owner(agent).len();
        if own < self.agents.config(agent).max_rules && self.rules.len() < self.config.limits.rules
        {
            self.check_elements(agent, 0, elements)
        } else {
            Err(NegativeReply::NoResources)
        }
    }

    /// There is room for so many elements or ports of the agent, in the place of others.
    fn check_elements(
        &self,
        agent: AgentIndex,
        without: usize,
        with: usize,
    ) -> Result<(), NegativeReply> {
        let held = self.rules.elements_of_owner(agent).saturating_sub(without);
        if held.saturating_add(with) <= self.agents.config(agent).max_elements {
            Ok(())
        } else {
            Err(NegativeReply::NoResources)
        }
    }

    /// The lifetime that is granted.
    fn grant(&self, wanted: Lifetime) -> Result<Lifetime, NegativeReply> {
        match wanted.min(self.config.capabilities.max_lifetime) {
            Lifetime(0) => Err(NegativeReply::ConfigurationFailed),
            granted => Ok(granted),
        }
    }

    /// Keeps a new rule, and tells all who may see it.
    fn create(&mut self, session: SessionId, rule: Rule, lifetime: Lifetime) {
        self.events
            .push_back(MiddleboxEvent::RuleCreated(rule.clone()));
        let (owner, id) = (rule.owner, rule.id);
        self.rules.insert(rule);
        self.announce(owner, id, lifetime, Some(session));
    }

    fn new_rule(
        &mut self,
        now: Time,
        owner: AgentIndex,
        group: Option<GroupId>,
        lifetime: Lifetime,
        kind: RuleKind,
    ) -> Rule {
        Rule {
            id: self.rules.unused_rule(),
            group: group.unwrap_or_else(|| self.rules.unused_group()),
            owner,
            expires: end(now, lifetime),
            kind,
        }
    }

    fn reserve(
        &mut self,
        now: Time,
        session: SessionId,
        agent: AgentIndex,
        request: &ReserveRequest,
    ) -> Outcome {
        self.check_group(agent, request.group)?;
        let wanted = &request.parameters;
        let capabilities = self.config.capabilities;
        if wanted
            .inside
            .is_some_and(|version| !capabilities.internal(version))
            || wanted
                .outside
                .is_some_and(|version| !capabilities.external(version))
        {
            return Err(NegativeReply::IpVersionMismatch);
        }
        check_protocol(&self.config, wanted.protocol)?;
        if wanted.ports == 0 {
            return Err(NegativeReply::IllegalPortRange);
        }
        let ports = if self.backend.translates() {
            usize::from(wanted.ports)
        } else {
            0
        };
        self.check_quota(agent, ports)?;
        let lifetime = self.grant(request.lifetime)?;
        let reservation = if self.backend.translates() {
            if wanted.nat_mode == NatMode::Twice && !capabilities.twice_nat {
                return Err(NegativeReply::NatModeNotSupported);
            }
            self.backend.reserve(wanted).map_err(|e| e.reply())?
        } else {
            let known = if capabilities.external_v4 {
                IpVersion::V4
            } else {
                IpVersion::V6
            };
            Reservation {
                outside: AddressTuple {
                    location: Location::Outside,
                    protocol: wanted.protocol,
                    scope: Scope::ProtocolsOnly(wanted.outside.unwrap_or(known)),
                },
                inside: None,
            }
        };
        let kind = RuleKind::Reserved { reservation };
        let rule = self.new_rule(now, agent, request.group, lifetime, kind);
        let reply = Reserved {
            rule: rule.id,
            group: rule.group,
            lifetime,
            outside: reservation.outside,
            inside: reservation.inside,
        };
        self.create(session, rule, lifetime);
        Ok(Reply::Reserved(reply))
    }

    fn enable(
        &mut self,
        now: Time,
        session: SessionId,
        agent: AgentIndex,
        request: &EnableRequest,
    ) -> Outcome {
        self.check_group(agent, request.group)?;
        let elements = self.check_enable(request)?;
        self.check_quota(agent, elements)?;
        let lifetime = self.grant(request.lifetime)?;
        let reservation = if self.backend.translates() {
            let wanted = binding(request)?;
            Some(self.backend.reserve(&wanted).map_err(|e| e.reply())?)
        } else {
            None
        };
        let kind = match self.install(now, request, reservation, lifetime) {
            Ok(kind) => kind,
            Err(refused) => {
                if let Some(reservation) = &reservation {
                    self.backend.release(reservation);
                }
                return Err(refused);
            }
        };
        let rule = self.new_rule(now, agent, request.group, lifetime, kind);
        let reply = enabled(&rule, lifetime);
        self.create(session, rule, lifetime);
        reply
    }

    fn enable_reserved(
        &mut self,
        now: Time,
        session: SessionId,
        agent: AgentIndex,
        request: &EnableRequest,
        id: PolicyRuleId,
    ) -> Outcome {
        let reserved = self.rules.get(id).ok_or(NegativeReply::NoSuchRule)?;
        let RuleKind::Reserved { reservation } = reserved.kind else {
            return Err(NegativeReply::Inconsistent);
        };
        let (owner, group, held) = (reserved.owner, reserved.group, reserved.weight());
        if !self.agents.controls(agent, owner) {
            return Err(NegativeReply::RuleNotAuthorized);
        }
        let elements = self.check_enable(request)?;
        check_reservation(request, &reservation)?;
        self.check_elements(owner, held, elements)?;
        let lifetime = self.grant(request.lifetime)?;
        let held = self.backend.translates().then_some(reservation);
        let kind = self.install(now, request, held, lifetime)?;
        let rule = Rule {
            id,
            group,
            owner,
            expires: end(now, lifetime),
            kind,
        };
        let reply = enabled(&rule, lifetime);
        self.create(session, rule, lifetime);
        reply
    }

    /// The checks of PER and PEA on what is to pass. Returns how many elements that takes.
    fn check_enable(&self, request: &EnableRequest) -> Result<usize, NegativeReply> {
        let EnableRequest {
            internal, external, ..
        } = request;
        let both_ways = request.parameters.direction == Direction::Both;
        check_tuples(&self.config, internal, external, both_ways)?;
        let flows = single_flows(internal, external);
        if flows.is_none() && self.backend.translates() {
            // A binding is of one flow.
            return Err(NegativeReply::WildcardingNotSupported);
        }
        if flows.is_some_and(|flows| flows > self.config.limits.exact_ports) {
            return Err(NegativeReply::IllegalPortRange);
        }
        if self.rules.is_disabled(&pattern_of(internal, external)) {
            return Err(NegativeReply::Conflict);
        }
        Ok(flows.map_or(1, usize::from))
    }

    /// Changes the packet filter for a rule that enables.
    fn install(
        &mut self,
        now: Time,
        request: &EnableRequest,
        reservation: Option<Reservation>,
        lifetime: Lifetime,
    ) -> Result<RuleKind, NegativeReply> {
        let EnableRequest {
            parameters,
            internal,
            external,
            ..
        } = *request;
        let outside = reservation.as_ref().map(|r| &r.outside);
        let elements = elements_of(&internal, &external, outside, parameters.direction);
        if reservation.is_some() && self.references.bound_elsewhere(&elements) {
            return Err(NegativeReply::Conflict);
        }
        self.references
            .add(now, &mut self.backend, &elements, lifetime)
            .map_err(|error| error.reply())?;
        // A pure firewall tells the request's own addresses (section 8.3.2).
        let told = reservation.unwrap_or(Reservation {
            outside: internal.at(Location::Outside),
            inside: Some(external.at(Location::Inside)),
        });
        Ok(RuleKind::Enabled {
            parameters,
            internal,
            external,
            told,
            reservation,
            elements,
            pattern: pattern_of(&internal, &external),
        })
    }

    fn disable(
        &mut self,
        now: Time,
        session: SessionId,
        agent: AgentIndex,
        request: &DisableRequest,
    ) -> Outcome {
        let DisableRequest {
            internal,
            external,
            lifetime,
        } = *request;
        check_tuples(&self.config, &internal, &external, false)?;
        self.check_quota(agent, 1)?;
        if self.rules.disable_rules() >= self.config.limits.disable_rules {
            return Err(NegativeReply::NoResources);
        }
        let lifetime = self.grant(lifetime)?;
        let pattern = pattern_of(&internal, &external);
        self.references
            .add(now, &mut self.backend, &[Element::Block(pattern)], lifetime)
            .map_err(|error| error.reply())?;
        for conflicting in self.rules.enabling(&pattern) {
            self.delete_rule(now, conflicting, EndReason::Disabled, None);
        }
        let kind = RuleKind::Disabled {
            internal,
            external,
            pattern,
        };
        let rule = self.new_rule(now, agent, None, lifetime, kind);
        let reply = Reply::Disabled {
            rule: rule.id,
            lifetime,
        };
        self.create(session, rule, lifetime);
        Ok(reply)
    }

    fn change_lifetime(
        &mut self,
        now: Time,
        session: SessionId,
        agent: AgentIndex,
        id: PolicyRuleId,
        wanted: Lifetime,
    ) -> Outcome {
        let rule = self.rules.get(id).ok_or(NegativeReply::NoSuchRule)?;
        let owner = rule.owner;
        if !self.agents.controls(agent, owner) {
            return Err(NegativeReply::RuleNotAuthorized);
        }
        let lifetime = wanted.min(self.config.capabilities.max_lifetime);
        if lifetime == Lifetime(0) {
            self.delete_rule(now, id, EndReason::Requested, Some(session));
            return Ok(Reply::Deleted);
        }
        let elements = rule.elements();
        self.references
            .extend(now, &mut self.backend, &elements, lifetime)
            .map_err(|_| NegativeReply::LifetimeNotExtendable)?;
        self.rules.set_expiry(id, end(now, lifetime));
        if let Some(rule) = self.rules.get(id) {
            self.events
                .push_back(MiddleboxEvent::LifetimeChanged(rule.clone()));
        }
        self.announce(owner, id, lifetime, Some(session));
        Ok(Reply::LifetimeChanged(lifetime))
    }
}

fn end(now: Time, lifetime: Lifetime) -> Time {
    now + Duration::from_secs(u64::from(lifetime.0))
}

fn enabled(rule: &Rule, lifetime: Lifetime) -> Outcome {
    match &rule.kind {
        RuleKind::Enabled { told, .. } => Ok(Reply::Enabled(Enabled {
            rule: rule.id,
            group: rule.group,
            lifetime,
            outside: told.outside,
            inside: told.inside,
        })),
        _ => Err(NegativeReply::ConfigurationFailed),
    }
}

/// The ports of a tuple, if it has them.
fn ports(tuple: &AddressTuple) -> Option<(u16, u16)> {
    match tuple.scope {
        Scope::Full { port, ports, .. } if port != 0 => Some((port, ports)),
        _ => None,
    }
}

/// What a PER request needs on a translator: as many ports outside as inside.
fn binding(request: &EnableRequest) -> Result<PrrParameters, NegativeReply> {
    let (port, ports) = ports(&request.internal).ok_or(NegativeReply::WildcardingNotSupported)?;
    let parity = match (request.parameters.parity, port % 2) {
        (PortParity::Any, _) => Parity::Any,
        (PortParity::Same, 0) => Parity::Even,
        (PortParity::Same, _) => Parity::Odd,
    };
    Ok(PrrParameters {
        nat_mode: NatMode::Traditional,
        parity,
        inside: None,
        outside: Some(request.external.version()),
        protocol: request.internal.protocol,
        ports,
    })
}

/// A PEA request fits to what was reserved.
fn check_reservation(
    request: &EnableRequest,
    reservation: &Reservation,
) -> Result<(), NegativeReply> {
    let protocol = reservation.outside.protocol;
    if protocol != 0 && protocol != request.internal.protocol {
        return Err(NegativeReply::ProtocolMismatch);
    }
    let Some((reserved_port, reserved)) = ports(&reservation.outside) else {
        return Ok(());
    };
    // A2 and A3 are of one version (RFC 5189 section 2.3.6).
    if request.external.version() != reservation.outside.version() {
        return Err(NegativeReply::IpVersionMismatch);
    }
    let (port, wanted) = ports(&request.internal).ok_or(NegativeReply::WildcardingNotSupported)?;
    if wanted > reserved {
        return Err(NegativeReply::IllegalPortRange);
    }
    if request.parameters.parity == PortParity::Same && port % 2 != reserved_port % 2 {
        return Err(NegativeReply::ParityMismatch);
    }
    Ok(())
}
