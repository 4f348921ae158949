//! Application server with the states of its ASPs, and the distribution of its traffic (RFC 4666,
//! sections 4.3.2 and 4.3.4.3).

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use carrick_proto::Time;

use super::{ApplicationServerConfig, AspKey};
use crate::m3ua::asp::AspState;
use crate::m3ua::{CorrelationId, ProtocolData, TrafficMode};

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
#[derive(Clone, Copy, Debug)]
pub(super) struct AsMember {
    pub(super) state: AspState,
    /// Member by registration: until deregistration or ASP-DOWN.
    pub(super) registered: bool,
}

/// Recipients of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recipients {
    pub(super) asps: Vec<AspKey>,
    pub(super) correlation_id: Option<CorrelationId>,
}

#[derive(Debug)]
pub(super) struct ApplicationServer {
    pub(super) config: ApplicationServerConfig,
    pub(super) state: AsState,
    /// Traffic mode in force, by configuration or the first ASP Active.
    pub(super) traffic_mode: Option<TrafficMode>,
    pub(super) members: BTreeMap<AspKey, AsMember>,
    /// Created by registration: removed with its last member.
    pub(super) dynamic: bool,
    /// ASP Active is refused (section 4.7).
    pub(super) blocked: bool,
    /// Expiry of T(r) in AS-PENDING.
    pub(super) recovery: Option<Time>,
    pub(super) buffer: VecDeque<ProtocolData>,
    pub(super) buffered_octets: usize,
    /// ASP of each SLS in loadshare mode.
    shares: Vec<Option<AspKey>>,
    /// Traffic flows whose next broadcast message gets a Correlation Id. A flow is an SLS, the unit of order.
    untagged: Vec<bool>,
    correlation_id: u32,
}

/// Number of SLS values.
const SLS_VALUES: usize = 256;

impl ApplicationServer {
    pub(super) fn new(config: ApplicationServerConfig, dynamic: bool) -> Self {
        Self {
            state: AsState::Down,
            traffic_mode: config.traffic_mode,
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

    pub(super) fn active(&self) -> usize {
        self.members_in(AspState::Active).count()
    }

    /// Number of active ASPs that AS-ACTIVE needs.
    pub(super) fn required(&self) -> usize {
        match self.traffic_mode {
            Some(TrafficMode::OVERRIDE) => 1,
            _ => self.config.minimum_asps.max(1),
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
            self.untagged = vec![true; SLS_VALUES];
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

    /// Returns the active ASPs that get a message with this SLS.
    pub(super) fn recipients(&mut self, sls: u8) -> Recipients {
        let mut correlation_id = None;
        let asps = match self.traffic_mode {
            Some(TrafficMode::LOADSHARE) => self.share(sls).into_iter().collect(),
            Some(TrafficMode::BROADCAST) => {
                if let Some(untagged) = self.untagged.get_mut(usize::from(sls))
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

    /// Returns the ASP of an SLS. An SLS keeps its ASP while that is active; otherwise the active ASP with the fewest SLS
    /// values gets it.
    fn share(&mut self, sls: u8) -> Option<AspKey> {
        let sls = usize::from(sls);
        if let Some(Some(asp)) = self.shares.get(sls)
            && self.asp_state(*asp) == Some(AspState::Active)
        {
            return Some(*asp);
        }
        let candidates = self.members_in(AspState::Active);
        let asp = candidates.min_by_key(|asp| (self.share_count(*asp), *asp))?;
        self.shares.resize(SLS_VALUES, None);
        self.shares[sls] = Some(asp);
        Some(asp)
    }

    fn share_count(&self, asp: AspKey) -> usize {
        self.shares
            .iter()
            .filter(|share| **share == Some(asp))
            .count()
    }

    /// Frees SLS values of ASPs that have more than their part after another ASP became active. Those that have the most
    /// keep what remains of the division.
    fn rebalance(&mut self) {
        let active = self.members_in(AspState::Active);
        let mut counts: Vec<_> = active.map(|asp| (self.share_count(asp), asp)).collect();
        counts.sort_unstable_by_key(|(count, asp)| (Reverse(*count), *asp));
        let assigned: usize = counts.iter().map(|(count, _)| count).sum();
        let remainder = assigned % counts.len().max(1);
        for (index, (count, asp)) in counts.iter().enumerate() {
            let part = assigned / counts.len() + usize::from(index < remainder);
            let shares = self.shares.iter_mut().rev();
            let own = shares.filter(|share| **share == Some(*asp));
            own.take(count.saturating_sub(part))
                .for_each(|share| *share = None);
        }
    }

    /// Takes the buffered messages.
    pub(super) fn take_buffer(&mut self) -> VecDeque<ProtocolData> {
        self.buffered_octets = 0;
        std::mem::take(&mut self.buffer)
    }
}
