//! Application server with the states of its ASPs, and the distribution of its traffic (RFC 4666,
//! sections 4.3.2 and 4.3.4.3).

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use carrick_proto::Time;

use super::AspKey;
use crate::aspm::{AspState, Layer};
use crate::message::{CorrelationId, TrafficMode};

/// State of an application server (RFC 4666, section 4.3.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AsState {
    /// AS-DOWN: all ASPs are in ASP-DOWN.
    Down,
    /// AS-INACTIVE: ASPs are available, but fewer than n are active.
    Inactive,
    /// AS-ACTIVE: traffic is active.
    Active,
    /// AS-PENDING: the last active ASP left; messages are buffered until T(r) expires.
    Pending,
}

/// ASP of an application server.
#[derive(Clone, Debug)]
pub(super) struct AsMember<D> {
    pub(super) state: AspState,
    /// Member by registration: until deregistration or ASP-DOWN.
    pub(super) registered: bool,
    /// Label of the last ASP Active.
    pub(super) label: D,
}

impl<D: Default> AsMember<D> {
    pub(super) fn new(state: AspState, registered: bool) -> Self {
        Self {
            state,
            registered,
            label: D::default(),
        }
    }
}

/// Recipients of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recipients {
    pub(super) asps: Vec<AspKey>,
    pub(super) correlation_id: Option<CorrelationId>,
}

#[derive(Debug)]
pub(super) struct ApplicationServer<L: Layer> {
    pub(super) config: L::Server,
    pub(super) state: AsState,
    /// Traffic mode in force, by configuration or the first ASP Active.
    pub(super) traffic_mode: Option<TrafficMode>,
    pub(super) members: BTreeMap<AspKey, AsMember<L::Label>>,
    /// Created by registration: removed with its last member.
    pub(super) dynamic: bool,
    /// ASP Active is refused (section 4.7).
    pub(super) blocked: bool,
    /// Expiry of T(r) in AS-PENDING.
    pub(super) recovery: Option<Time>,
    /// Messages that wait in AS-PENDING, each with the ASP that it came from.
    pub(super) buffer: VecDeque<(Option<AspKey>, L::Payload)>,
    pub(super) buffered_octets: usize,
    /// ASP of each flow in loadshare mode, modulo 256.
    shares: Vec<Option<AspKey>>,
    /// Traffic flows, modulo 256, whose next broadcast message gets a Correlation Id.
    untagged: Vec<bool>,
    correlation_id: u32,
}

/// Number of traffic flows that are distinguished; in M3UA those of the SLS values.
const FLOWS: usize = 256;

impl<L: Layer> ApplicationServer<L> {
    pub(super) fn new(config: L::Server, dynamic: bool) -> Self {
        Self {
            state: AsState::Down,
            traffic_mode: L::server_mode(&config),
            members: BTreeMap::new(),
            dynamic,
            blocked: false,
            recovery: None,
            buffer: VecDeque::new(),
            buffered_octets: 0,
            shares: Vec::new(),
            untagged: Vec::new(),
            correlation_id: 0,
            config,
        }
    }

    pub(super) fn asp_state(&self, asp: AspKey) -> Option<AspState> {
        self.members.get(&asp).map(|member| member.state)
    }

    pub(super) fn members_in(&self, state: AspState) -> impl Iterator<Item = AspKey> + '_ {
        let members = self.members.iter();
        members
            .filter(move |(_, member)| member.state == state)
            .map(|(asp, _)| *asp)
    }

    /// Returns the labels of the other active ASPs.
    pub(super) fn labels_beside(&self, asp: AspKey) -> Vec<&L::Label> {
        let others = self.members.iter().filter(|(other, _)| **other != asp);
        let active = others.filter(|(_, member)| member.state == AspState::Active);
        active.map(|(_, member)| &member.label).collect()
    }

    pub(super) fn active(&self) -> usize {
        self.members_in(AspState::Active).count()
    }

    /// Number of active ASPs that AS-ACTIVE needs.
    pub(super) fn required(&self) -> usize {
        match self.traffic_mode {
            Some(TrafficMode::OVERRIDE) => 1,
            _ => L::minimum_asps(&self.config).max(1),
        }
    }

    /// Changes the state of a member; returns the previous one if it was another.
    pub(super) fn set_asp_state(&mut self, asp: AspKey, state: AspState) -> Option<AspState> {
        let member = self.members.get_mut(&asp)?;
        if member.state == state {
            return None;
        }
        let previous = std::mem::replace(&mut member.state, state);
        if state == AspState::Active {
            self.untagged = vec![true; FLOWS];
            self.rebalance();
        }
        Some(previous)
    }

    /// Computes the next state of figure 4; `expired` is that T(r) has expired.
    pub(super) fn next_state(&self, expired: bool) -> AsState {
        let active = self.active();
        let available = self
            .members
            .values()
            .any(|member| member.state != AspState::Down);
        let idle = if available {
            AsState::Inactive
        } else {
            AsState::Down
        };
        match self.state {
            AsState::Down | AsState::Inactive if active >= self.required() => AsState::Active,
            AsState::Active | AsState::Pending if active > 0 => AsState::Active,
            AsState::Active => AsState::Pending,
            AsState::Pending if !expired => AsState::Pending,
            AsState::Down | AsState::Inactive | AsState::Pending => idle,
        }
    }

    /// Returns the active ASPs that get a message.
    pub(super) fn recipients(&mut self, payload: &L::Payload) -> Recipients {
        let flow = L::flow(payload) as usize % FLOWS;
        let mut correlation_id = None;
        let asps = match self.traffic_mode {
            Some(TrafficMode::LOADSHARE) if L::is_shared(payload) => match self.labelled(payload) {
                Some(labelled) => labelled,
                None => self.share(flow).into_iter().collect(),
            },
            Some(TrafficMode::LOADSHARE) => self.members_in(AspState::Active).collect(),
            Some(TrafficMode::BROADCAST) => {
                if let Some(untagged) = self.untagged.get_mut(flow)
                    && std::mem::take(untagged)
                {
                    self.correlation_id = self.correlation_id.wrapping_add(1);
                    correlation_id = Some(CorrelationId(self.correlation_id));
                }
                self.members_in(AspState::Active).collect()
            }
            _ => self.members_in(AspState::Active).take(1).collect(),
        };
        Recipients {
            asps,
            correlation_id,
        }
    }

    /// Returns the active ASP whose label a message has, `None` if the message or the ASPs have no labels.
    fn labelled(&self, payload: &L::Payload) -> Option<Vec<AspKey>> {
        let active = self.members.iter();
        let mut active = active.filter(|(_, member)| member.state == AspState::Active);
        let mut has_labels = false;
        let found = active.find(|(_, member)| {
            let is_labelled = L::is_labelled(payload, &member.label);
            has_labels |= is_labelled.is_some();
            is_labelled == Some(true)
        });
        has_labels.then(|| found.map(|(asp, _)| *asp).into_iter().collect())
    }

    /// Returns the ASP of a flow. A flow keeps its ASP while that is active; otherwise the active ASP with the fewest flows
    /// gets it.
    fn share(&mut self, flow: usize) -> Option<AspKey> {
        if let Some(Some(asp)) = self.shares.get(flow)
            && self.asp_state(*asp) == Some(AspState::Active)
        {
            return Some(*asp);
        }
        let counts = self.share_counts().into_iter();
        let (asp, _) = counts.min_by_key(|(asp, count)| (*count, *asp))?;
        self.shares.resize(FLOWS, None);
        self.shares[flow] = Some(asp);
        Some(asp)
    }

    /// Returns the number of flows of each active ASP.
    fn share_counts(&self) -> BTreeMap<AspKey, usize> {
        let active = self.members_in(AspState::Active);
        let mut counts: BTreeMap<_, _> = active.map(|asp| (asp, 0)).collect();
        for asp in self.shares.iter().flatten() {
            counts.entry(*asp).and_modify(|count| *count += 1);
        }
        counts
    }

    /// Frees flows of ASPs that have more than their part after another ASP became active. Those that have the most keep
    /// what remains of the division.
    fn rebalance(&mut self) {
        let counts = self.share_counts();
        let assigned: usize = counts.values().sum();
        let (part, remainder) = (
            assigned / counts.len().max(1),
            assigned % counts.len().max(1),
        );
        let mut order: Vec<_> = counts.into_iter().collect();
        order.sort_unstable_by_key(|(asp, count)| (Reverse(*count), *asp));
        let excess = order.iter().enumerate().map(|(index, (asp, count))| {
            let part = part + usize::from(index < remainder);
            (*asp, count.saturating_sub(part))
        });
        let mut excess: BTreeMap<_, _> = excess.collect();
        for share in self.shares.iter_mut().rev() {
            if let Some(excess) = share.and_then(|asp| excess.get_mut(&asp))
                && *excess > 0
            {
                *excess -= 1;
                *share = None;
            }
        }
    }

    /// Takes the buffered messages.
    pub(super) fn take_buffer(&mut self) -> VecDeque<(Option<AspKey>, L::Payload)> {
        self.buffered_octets = 0;
        std::mem::take(&mut self.buffer)
    }
}
