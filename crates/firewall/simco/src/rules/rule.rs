//! Policy rule.

use std::ops::{Add, Sub};
use std::time::Duration;

use crate::Time;
use crate::backend::{Element, Pattern, Reservation};
use crate::message::{AddressTuple, GroupId, Lifetime, PerParameters, PolicyRuleId, Scope};

/// Index of an agent in the configuration of the middlebox.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AgentIndex(pub u32);

/// Policy rule in state RESERVED or ENABLED.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Policy rule identifier (PID).
    pub id: PolicyRuleId,
    /// Group identifier (GID).
    pub group: GroupId,
    /// Agent that owns it.
    pub owner: AgentIndex,
    /// End of its lifetime.
    pub expires: Time,
    /// Kind of rule.
    pub kind: RuleKind,
}

/// Kind of rule, with its own state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleKind {
    /// RESERVED, by PRR.
    Reserved {
        /// Reserved addresses. On a packet filter, only the protocol.
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
        /// A2 and A1 of the reply.
        reported: Reservation,
        /// Reservation, on a translator.
        reservation: Option<Reservation>,
        /// Elements of the packet filter.
        elements: Vec<Element>,
        /// Packets that it passes, for conflict detection.
        pattern: Pattern,
    },
    /// ENABLED, by PDR.
    Disabled {
        /// A0 as requested.
        internal: AddressTuple,
        /// A3 as requested.
        external: AddressTuple,
        /// Packets that it blocks.
        pattern: Pattern,
    },
}

impl Rule {
    /// Returns the remaining lifetime in whole seconds, rounded up: zero only when it is over.
    pub fn remaining(&self, now: Time) -> Lifetime {
        let nanos = self.expires.since(now).as_nanos();
        let seconds = nanos.div_ceil(Duration::from_secs(1).as_nanos());
        Lifetime(u32::try_from(seconds).unwrap_or(u32::MAX))
    }

    /// Returns whether it is a reservation.
    pub fn is_reserved(&self) -> bool {
        matches!(self.kind, RuleKind::Reserved { .. })
    }

    /// Returns whether it was created by PDR.
    pub fn blocks(&self) -> bool {
        matches!(self.kind, RuleKind::Disabled { .. })
    }

    /// Returns its elements of the packet filter.
    pub fn elements(&self) -> Vec<Element> {
        match &self.kind {
            RuleKind::Reserved { .. } => Vec::new(),
            RuleKind::Enabled { elements, .. } => elements.clone(),
            RuleKind::Disabled { pattern, .. } => vec![Element::Block(*pattern)],
        }
    }

    /// Returns the elements of the packet filter, or the outside ports, that count for quotas. PDR has
    /// separate quotas and counts nothing.
    pub fn weight(&self) -> RuleWeight {
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
        RuleWeight {
            elements: elements.len().max(ports),
            patterns: elements.iter().filter(is_pattern).count(),
        }
    }

    /// Returns its reserved addresses on the translator.
    pub fn reservation(&self) -> Option<&Reservation> {
        match &self.kind {
            RuleKind::Reserved { reservation } => Some(reservation),
            RuleKind::Enabled { reservation, .. } => reservation.as_ref(),
            RuleKind::Disabled { .. } => None,
        }
    }
}

/// Use of a packet filter or translator that counts for quotas.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RuleWeight {
    /// Elements, or outside ports.
    pub elements: usize,
    /// Elements that are patterns.
    pub patterns: usize,
}

impl RuleWeight {
    /// One pattern.
    pub const PATTERN: Self = Self {
        elements: 1,
        patterns: 1,
    };

    /// Returns the weight of this number of flows.
    pub const fn flows(count: usize) -> Self {
        Self {
            elements: count,
            patterns: 0,
        }
    }
}

impl Add for RuleWeight {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            elements: self.elements.saturating_add(other.elements),
            patterns: self.patterns.saturating_add(other.patterns),
        }
    }
}

impl Sub for RuleWeight {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            elements: self.elements.saturating_sub(other.elements),
            patterns: self.patterns.saturating_sub(other.patterns),
        }
    }
}
