//! Restoring the rules of an earlier run.

use std::time::Duration;

use super::Middlebox;
use crate::backend::{Backend, BackendError, Reservation, elements_of, pattern_of};
use crate::message::{Lifetime, Location, PolicyRuleId};
use crate::rules::{Rule, RuleKind};
use crate::state::{ClockReadings, RecoveredState, RuleChange, StoredKind, StoredRule};

/// Result of restoring rules.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RestoredRules {
    /// Number of restored rules.
    pub rules: usize,
    /// Rules that were not restored; their end is to be recorded in the journal.
    pub ended: Vec<(PolicyRuleId, NotRestored)>,
    /// Restored rules whose end was computed from the wall clock, which may have been wrong; their new
    /// end is to be recorded in the journal.
    pub recomputed: Vec<PolicyRuleId>,
}

/// Reason for which a rule was not restored.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotRestored {
    /// Its lifetime ended while the middlebox was stopped.
    #[error("lifetime expired")]
    Expired,
    /// It was granted on a translator and the packet filter does not translate, or vice versa.
    #[error("granted with another address translation")]
    OtherTranslation,
    /// Its addresses and ports can't be reserved.
    #[error("its addresses and ports can no longer be reserved: {0}")]
    Reservation(BackendError),
}

impl<B: Backend> Middlebox<B> {
    /// Restores the rules of an earlier run before the first session, and makes the packet filter
    /// match them. Must be called at the start, even without rules.
    ///
    /// While the middlebox is stopped, lifetimes are counted by the host's clock, or by the wall clock
    /// after a reboot. A restored lifetime never exceeds what was left when it was last granted, nor
    /// the maximum of this middlebox.
    ///
    /// # Errors
    /// When the packet filter could not be changed. The middlebox must not run then.
    pub fn restore(
        &mut self,
        at: &ClockReadings,
        recovered: &RecoveredState,
    ) -> Result<RestoredRules, BackendError> {
        let mut outcome = RestoredRules::default();
        let mut lives = Vec::new();
        for stored in &recovered.rules {
            let left = at.left(&stored.expires);
            match self.restored_rule(at, stored, left) {
                Ok(rule) => {
                    lives.push((rule.elements(), rule.expires));
                    if !at.same_boot(&stored.expires) {
                        outcome.recomputed.push(rule.id);
                    }
                    self.rules.insert(rule);
                    outcome.rules += 1;
                }
                Err(why) => outcome.ended.push((stored.id, why)),
            }
        }
        self.rules.resume(recovered.last_rule, recovered.last_group);
        self.references.restore(at.time, &mut self.backend, lives)?;
        Ok(outcome)
    }

    /// Returns the changes for the journal after [`restore`](Self::restore).
    pub fn changes_of<'a>(
        &'a self,
        restored: &'a RestoredRules,
    ) -> impl Iterator<Item = RuleChange<'a>> + 'a {
        let ended = restored.ended.iter().map(|(rule, _)| *rule);
        let recomputed = restored.recomputed.iter().copied();
        let expires = |rule| self.rules.get(rule).map(|rule| rule.expires);
        let moved = move |rule| {
            let expires = expires(rule)?;
            Some(RuleChange::LifetimeChanged { rule, expires })
        };
        ended
            .map(RuleChange::Ended)
            .chain(recomputed.filter_map(moved))
    }

    fn restored_rule(
        &mut self,
        at: &ClockReadings,
        stored: &StoredRule,
        left: Duration,
    ) -> Result<Rule, NotRestored> {
        if left.is_zero() {
            return Err(NotRestored::Expired);
        }
        let Lifetime(longest) = self.config.capabilities.max_lifetime;
        let left = left.min(Duration::from_secs(u64::from(longest)));
        Ok(Rule {
            id: stored.id,
            group: stored.group,
            // Agents without a configuration have no rights, as after a reload.
            owner: self.agents.find_or_add_without_rights(&stored.owner),
            expires: at.time + left,
            kind: self.restored_kind(&stored.kind)?,
        })
    }

    fn restored_kind(&mut self, stored: &StoredKind) -> Result<RuleKind, NotRestored> {
        Ok(match *stored {
            StoredKind::Reserved { reservation } => {
                if self.backend.translates() {
                    self.restore_reservation(&reservation)?;
                }
                RuleKind::Reserved { reservation }
            }
            StoredKind::Enabled {
                parameters,
                internal,
                external,
                reservation,
            } => {
                if reservation.is_some() != self.backend.translates() {
                    return Err(NotRestored::OtherTranslation);
                }
                if let Some(reservation) = &reservation {
                    self.restore_reservation(reservation)?;
                }
                let outside = reservation.as_ref().map(|r| &r.outside);
                RuleKind::Enabled {
                    parameters,
                    internal,
                    external,
                    reported: reservation.unwrap_or(Reservation {
                        outside: internal.at(Location::Outside),
                        inside: Some(external.at(Location::Inside)),
                    }),
                    reservation,
                    elements: elements_of(&internal, &external, outside, parameters.direction),
                    pattern: pattern_of(&internal, &external),
                }
            }
            StoredKind::Disabled { internal, external } => RuleKind::Disabled {
                internal,
                external,
                pattern: pattern_of(&internal, &external),
            },
        })
    }

    fn restore_reservation(&mut self, reservation: &Reservation) -> Result<(), NotRestored> {
        self.backend
            .restore_reservation(reservation)
            .map_err(NotRestored::Reservation)
    }
}
