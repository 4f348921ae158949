//! One policy rule.

use std::ops::{Add, Sub};
use std::time::Duration;

use crate::Time;
use crate::backend::{Element, Pattern, Reservation};
use crate::message::{AddressTuple, GroupId, Lifetime, PerParameters, PolicyRuleId, Scope};

/// An agent of the middlebox's configuration, by its place there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AgentIndex(pub u32);

/// A policy rule in state RESERVED or ENABLED.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Its PID.
    pub id: PolicyRuleId,
    /// Its group.
    pub group: GroupId,
    /// Who created it.
    pub owner: AgentIndex,
    /// When its lifetime is over.
    pub expires: Time,
    /// What it does.
    pub kind: RuleKind,
}

/// What a rule does, with what only that has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleKind {
    /// RESERVED, by PRR.
    Reserved {
        /// What is reserved. On a pure firewall, only the protocol.
        reservation: Reservation,
    },
    /// ENABLED, by PER or PEA.
    Enabled {
        /// As requested.
        parameters: PerParameters,
        /// A0 as requested.
        internal: AddressTuple,
        /// A3 as requested.
        external: AddressTuple,
        /// A2 and A1 as the reply told them.
        told: Reservation,
        /// The reservation behind it, on a translator.
        reservation: Option<Reservation>,
        /// What it let pass in the packet filter.
        elements: Vec<Element>,
        /// The packets it lets pass, for conflicts.
        pattern: Pattern,
    },
    /// ENABLED, by PDR.
    Disabled {
        /// A0 as requested.
        internal: AddressTuple,
        /// A3 as requested.
        external: AddressTuple,
        /// What it blocks.
        pattern: Pattern,
    },
}

impl Rule {
    /// What is left of its life, in whole seconds, rounded up: zero only when it is over.
    pub fn remaining(&self, now: Time) -> Lifetime {
        let nanos = self.expires.since(now).as_nanos();
        let seconds = nanos.div_ceil(Duration::from_secs(1).as_nanos());
        Lifetime(u32::try_from(seconds).unwrap_or(u32::MAX))
    }

    /// Whether it is a reservation.
    pub fn is_reserved(&self) -> bool {
        matches!(self.kind, RuleKind::Reserved { .. })
    }

    /// Whether it is one by PDR.
    pub fn blocks(&self) -> bool {
        matches!(self.kind, RuleKind::Disabled { .. })
    }

    /// Its elements in the packet filter.
    pub fn elements(&self) -> Vec<Element> {
        match &self.kind {
            RuleKind::Reserved { .. } => Vec::new(),
            RuleKind::Enabled { elements, .. } => elements.clone(),
            RuleKind::Disabled { pattern, .. } => vec![Element::Block(*pattern)],
        }
    }

    /// What it takes of the packet filter: its elements, or the ports that it holds. Nothing if it
    /// blocks: blocks have places of their own.
    pub fn weight(&self) -> Weight {
        let elements: &[Element] = match &self.kind {
            RuleKind::Enabled { elements, .. } => elements,
            RuleKind::Reserved { .. } | RuleKind::Disabled { .. } => &[],
        };
        let is_pattern = |e: &&Element| matches!(e, Element::Allow(..));
        let ports = match self
            .reservation()
            .map(|reservation| reservation.outside.scope)
        {
            Some(Scope::Full { ports, .. }) => usize::from(ports),
            Some(Scope::ProtocolsOnly(_)) | None => 0,
        };
        Weight {
            elements: elements.len().max(ports),
            patterns: elements.iter().filter(is_pattern).count(),
        }
    }

    /// The addresses on the translator that it holds.
    pub fn reservation(&self) -> Option<&Reservation> {
        match &self.kind {
            RuleKind::Reserved { reservation } => Some(reservation),
            RuleKind::Enabled { reservation, .. } => reservation.as_ref(),
            RuleKind::Disabled { .. } => None,
        }
    }
}

/// What rules that let pass take of a packet filter or a translator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Weight {
    /// Elements, or ports outside.
    pub elements: usize,
    /// Those of the elements that are patterns.
    pub patterns: usize,
}

impl Weight {
    /// A single pattern.
    pub const PATTERN: Self = Self {
        elements: 1,
        patterns: 1,
    };

    /// So many flows.
    pub const fn flows(count: usize) -> Self {
        Self {
            elements: count,
            patterns: 0,
        }
    }
}

impl Add for Weight {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            elements: self.elements.saturating_add(other.elements),
            patterns: self.patterns.saturating_add(other.patterns),
        }
    }
}

impl Sub for Weight {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            elements: self.elements.saturating_sub(other.elements),
            patterns: self.patterns.saturating_sub(other.patterns),
        }
    }
}
