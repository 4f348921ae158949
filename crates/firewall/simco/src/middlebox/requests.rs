//! Requests that change rules: PRR, PER, PEA, PDR, PLC (RFC 4540, sections 8.2 to 8.5 and 8.8).

use std::time::Duration;

use super::checks::{PairPurpose, check_protocol, check_tuples};
use super::event::{EndReason, MiddleboxEvent, Requester};
use super::refusal::Refusal;
use super::{Middlebox, SessionId};
use crate::Time;
use crate::backend::{
    Backend, Element, Reservation, elements_of, has_ports, pattern_of, single_flows,
};
use crate::message::{
    AddressTuple, DisableRequest, EnableReply, EnableRequest, GroupId, IpVersion, Lifetime,
    Location, NatMode, NegativeReply, Parity, PolicyRuleId, PortParity, PrrParameters, Reply,
    Request, RequestKind, ReserveReply, ReserveRequest, Scope,
};
use crate::rules::{AgentIndex, Rule, RuleKind, RuleWeight};

type RequestOutcome = Result<Reply, Refusal>;

impl<B: Backend> Middlebox<B> {
    /// Handles a request as if all expired rules had ended; some may be left when many expire at once.
    pub(super) fn rule_request_after_expiry(
        &mut self,
        now: Time,
        session: SessionId,
        agent: AgentIndex,
        request: &Request,
    ) -> RequestOutcome {
        let over = |id: &PolicyRuleId| self.rules.get(*id).is_some_and(|rule| rule.expires <= now);
        if let Some(id) = request.rule().filter(over) {
            self.delete_rule(now, id, EndReason::Expired, None);
        }
        let outcome = self.rule_request(now, session, agent, request);
        let in_the_way = outcome.as_ref().is_err_and(|refusal| {
            matches!(
                refusal.reply,
                NegativeReply::Conflict | NegativeReply::NoResources | NegativeReply::ReplyTooBig
            )
        });
        if !in_the_way || self.rules.expired(now).is_none() {
            return outcome;
        }
        while let Some(id) = self.rules.expired(now) {
            self.delete_rule(now, id, EndReason::Expired, None);
        }
        self.rule_request(now, session, agent, request)
    }

    /// Handles a request of an agent with an open session.
    fn rule_request(
        &mut self,
        now: Time,
        session: SessionId,
        agent: AgentIndex,
        request: &Request,
    ) -> RequestOutcome {
        let kind = request.kind();
        if kind == RequestKind::Disable && !self.config.capabilities.disable_rules {
            return Err(NegativeReply::TransactionNotSupported.into());
        }
        if !self.agents.config(agent).rights.allow(kind) {
            return Err(NegativeReply::AgentNotAuthorized.into());
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
            Request::Status(rule) => Ok(self.status(now, agent, *rule)?),
            Request::List => Ok(self.list(now, agent)?),
            Request::Establish { .. } | Request::Authenticate(_) | Request::Terminate => {
                Err(NegativeReply::NotApplicable.into())
            }
        }
    }

    /// Checks that the group of a request belongs to the agent.
    fn check_group(&self, agent: AgentIndex, group: Option<GroupId>) -> Result<(), NegativeReply> {
        let Some(group) = group else { return Ok(()) };
        let owner = self.rules.group_owner(group);
        match owner.ok_or(NegativeReply::NoSuchGroup)? {
            // All rules of a group have one owner (RFC 5189, section 2.1.5).
            owner if owner == agent => Ok(()),
            _ => Err(NegativeReply::GroupNotAuthorized),
        }
    }

    /// Returns the granted lifetime.
    fn grant(&self, wanted: Lifetime) -> Result<Lifetime, NegativeReply> {
        match wanted.min(self.config.capabilities.max_lifetime) {
            Lifetime(0) => Err(NegativeReply::ConfigurationFailed),
            granted => Ok(granted),
        }
    }

    /// Adds a new rule and notifies all agents that may see it.
    fn create(&mut self, by: Requester, request: RequestKind, rule: Rule, lifetime: Lifetime) {
        let session = by.session;
        self.events.push_back(MiddleboxEvent::RuleCreated {
            rule: rule.clone(),
            lifetime,
            request,
            by,
        });
        let (owner, id) = (rule.owner, rule.id);
        self.rules.insert(rule);
        self.record_rule_event(owner, id, lifetime, Some(session));
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

    /// Reserves ports of the outside for a policy rule (PRR; RFC 4540, section 8.2).
    ///
    /// 1. Check the group, the IP versions, the protocol, the ports, the agent's quota and the lifetime.
    /// 2. Reserve ports on a translator; without translation the reply has the protocol alone.
    /// 3. Add the rule and notify the other sessions.
    fn reserve(
        &mut self,
        now: Time,
        session: SessionId,
        agent: AgentIndex,
        request: &ReserveRequest,
    ) -> RequestOutcome {
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
            return Err(NegativeReply::IpVersionMismatch.into());
        }
        check_protocol(&self.config, wanted.protocol)?;
        if wanted.ports == 0 {
            return Err(NegativeReply::IllegalPortRange.into());
        }
        let translates = self.backend.translates();
        if translates && wanted.protocol != 0 && !has_ports(wanted.protocol) {
            // Reservations are for ports.
            return Err(NegativeReply::ProtocolNotSupported.into());
        }
        let ports = if translates {
            usize::from(wanted.ports)
        } else {
            0
        };
        self.check_quota(agent, RuleWeight::flows(ports))?;
        let lifetime = self.grant(request.lifetime)?;
        let reservation = if translates {
            if wanted.nat_mode == NatMode::Twice && !capabilities.twice_nat {
                return Err(NegativeReply::NatModeNotSupported.into());
            }
            self.backend.reserve(wanted)?
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
        let reply = ReserveReply {
            rule: rule.id,
            group: rule.group,
            lifetime,
            outside: reservation.outside,
            inside: reservation.inside,
        };
        let by = self.actor(session, agent);
        self.create(by, RequestKind::Reserve, rule, lifetime);
        Ok(Reply::Reserved(reply))
    }

    fn enable(
        &mut self,
        now: Time,
        session: SessionId,
        agent: AgentIndex,
        request: &EnableRequest,
    ) -> RequestOutcome {
        self.check_group(agent, request.group)?;
        let weight = self.check_enable(agent, request)?;
        self.check_quota(agent, weight)?;
        let lifetime = self.grant(request.lifetime)?;
        let reservation = if self.backend.translates() {
            let wanted = binding(request)?;
            Some(self.backend.reserve(&wanted)?)
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
        let by = self.actor(session, agent);
        self.create(by, RequestKind::Enable, rule, lifetime);
        reply
    }

    fn enable_reserved(
        &mut self,
        now: Time,
        session: SessionId,
        agent: AgentIndex,
        request: &EnableRequest,
        id: PolicyRuleId,
    ) -> RequestOutcome {
        let reserved = self.rules.get(id).ok_or(NegativeReply::NoSuchRule)?;
        let RuleKind::Reserved { reservation } = reserved.kind else {
            return Err(NegativeReply::Inconsistent.into());
        };
        let (owner, group, held) = (reserved.owner, reserved.group, reserved.weight());
        if !self.agents.controls(agent, owner) {
            return Err(NegativeReply::RuleNotAuthorized.into());
        }
        let weight = self.check_enable(agent, request)?;
        check_reservation(request, &reservation)?;
        self.check_weight(owner, held, weight)?;
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
        let by = self.actor(session, agent);
        self.create(by, RequestKind::EnableReserved, rule, lifetime);
        reply
    }

    /// Performs the checks of PER and PEA. Returns the elements needed.
    fn check_enable(
        &self,
        agent: AgentIndex,
        request: &EnableRequest,
    ) -> Result<RuleWeight, NegativeReply> {
        let EnableRequest {
            internal, external, ..
        } = request;
        let purpose = PairPurpose::Pass(request.parameters.direction);
        let agent = self.agents.config(agent);
        check_tuples(&self.config, agent, internal, external, purpose)?;
        let flows = single_flows(internal, external);
        if flows.is_none() && self.backend.translates() {
            // A binding is for one flow between ports.
            return Err(match internal.protocol {
                0 => NegativeReply::WildcardingNotSupported,
                protocol if has_ports(protocol) => NegativeReply::WildcardingNotSupported,
                _ => NegativeReply::ProtocolNotSupported,
            });
        }
        if flows.is_some_and(|flows| flows > self.config.limits.exact_ports) {
            return Err(NegativeReply::IllegalPortRange);
        }
        if self.rules.is_disabled(&pattern_of(internal, external)) {
            return Err(NegativeReply::Conflict);
        }
        Ok(flows.map_or(RuleWeight::PATTERN, |flows| RuleWeight::flows(flows.into())))
    }

    /// Changes the packet filter for an enable rule.
    fn install(
        &mut self,
        now: Time,
        request: &EnableRequest,
        reservation: Option<Reservation>,
        lifetime: Lifetime,
    ) -> Result<RuleKind, Refusal> {
        let EnableRequest {
            parameters,
            internal,
            external,
            ..
        } = *request;
        let outside = reservation.as_ref().map(|r| &r.outside);
        let elements = elements_of(&internal, &external, outside, parameters.direction);
        if reservation.is_some() && self.references.has_other_binding(&elements) {
            return Err(NegativeReply::Conflict.into());
        }
        self.references
            .add(now, &mut self.backend, &elements, lifetime)?;
        // A packet filter reports the addresses of the request (RFC 4540, section 8.3.2).
        let reported = reservation.unwrap_or(Reservation {
            outside: internal.at(Location::Outside),
            inside: Some(external.at(Location::Inside)),
        });
        Ok(RuleKind::Enabled {
            parameters,
            internal,
            external,
            reported,
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
    ) -> RequestOutcome {
        let DisableRequest {
            internal,
            external,
            lifetime,
        } = *request;
        let config = self.agents.config(agent);
        check_tuples(
            &self.config,
            config,
            &internal,
            &external,
            PairPurpose::Block,
        )?;
        self.check_block_quota(agent)?;
        let lifetime = self.grant(lifetime)?;
        let pattern = pattern_of(&internal, &external);
        self.references
            .add(now, &mut self.backend, &[Element::Block(pattern)], lifetime)?;
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
        let by = self.actor(session, agent);
        for conflicting in self.rules.enabling(&pattern) {
            let reason = EndReason::Disabled(rule.id);
            self.delete_rule(now, conflicting, reason, Some(by.clone()));
        }
        self.create(by, RequestKind::Disable, rule, lifetime);
        Ok(reply)
    }

    fn change_lifetime(
        &mut self,
        now: Time,
        session: SessionId,
        agent: AgentIndex,
        id: PolicyRuleId,
        wanted: Lifetime,
    ) -> RequestOutcome {
        let rule = self.rules.get(id).ok_or(NegativeReply::NoSuchRule)?;
        let owner = rule.owner;
        if !self.agents.controls(agent, owner) {
            return Err(NegativeReply::RuleNotAuthorized.into());
        }
        let lifetime = wanted.min(self.config.capabilities.max_lifetime);
        if lifetime == Lifetime(0) {
            let by = self.actor(session, agent);
            self.delete_rule(now, id, EndReason::Requested, Some(by));
            return Ok(Reply::Deleted);
        }
        let (elements, before) = (rule.elements(), rule.expires);
        if end(now, lifetime) < before {
            let shortened =
                self.references
                    .shorten(now, &mut self.backend, &elements, before, lifetime);
            if let Err(error) = shortened {
                self.backend_failed(id, owner, error);
            }
        } else {
            self.check_extension(rule)?;
            self.references
                .extend(now, &mut self.backend, &elements, before, lifetime)
                .map_err(|failure| Refusal {
                    reply: NegativeReply::LifetimeNotExtendable,
                    failure: Some(failure),
                })?;
        }
        self.rules.set_expiry(id, end(now, lifetime));
        if let Some(rule) = self.rules.get(id) {
            let event = MiddleboxEvent::LifetimeChanged {
                rule: rule.clone(),
                lifetime,
                by: self.actor(session, agent),
            };
            self.events.push_back(event);
        }
        self.record_rule_event(owner, id, lifetime, Some(session));
        Ok(Reply::LifetimeChanged(lifetime))
    }
}

impl<B: Backend> Middlebox<B> {
    /// Checks that the owner may still create this rule: rights, networks and protocols may have been
    /// withdrawn.
    fn check_extension(&self, rule: &Rule) -> Result<(), NegativeReply> {
        let owner = self.agents.config(rule.owner);
        let check = |internal, external, purpose| {
            check_tuples(&self.config, owner, internal, external, purpose).is_ok()
        };
        let may = match &rule.kind {
            RuleKind::Reserved { reservation } => {
                let protocol = reservation.outside.protocol;
                owner.rights.reserve && check_protocol(&self.config, protocol).is_ok()
            }
            RuleKind::Enabled {
                parameters,
                internal,
                external,
                ..
            } => {
                let purpose = PairPurpose::Pass(parameters.direction);
                owner.rights.enable && check(internal, external, purpose)
            }
            RuleKind::Disabled {
                internal, external, ..
            } => owner.rights.disable && check(internal, external, PairPurpose::Block),
        };
        may.then_some(())
            .ok_or(NegativeReply::LifetimeNotAuthorized)
    }
}

fn end(now: Time, lifetime: Lifetime) -> Time {
    now + Duration::from_secs(u64::from(lifetime.0))
}

fn enabled(rule: &Rule, lifetime: Lifetime) -> RequestOutcome {
    match &rule.kind {
        RuleKind::Enabled { reported, .. } => Ok(Reply::Enabled(EnableReply {
            rule: rule.id,
            group: rule.group,
            lifetime,
            outside: reported.outside,
            inside: reported.inside,
        })),
        _ => Err(NegativeReply::ConfigurationFailed.into()),
    }
}

/// Returns the ports of a tuple, if it has ports.
fn ports(tuple: &AddressTuple) -> Option<(u16, u16)> {
    match tuple.scope {
        Scope::Full { port, ports, .. } if port != 0 => Some((port, ports)),
        _ => None,
    }
}

/// Returns the reservation for a PER on a translator: as many outside ports as inside.
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

/// Checks that a PEA matches its reservation.
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
    // A2 and A3 have one IP version (RFC 5189, section 2.3.6).
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
