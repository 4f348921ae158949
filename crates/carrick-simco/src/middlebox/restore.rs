//! What an earlier life of the middlebox granted, taken up again.

use std::time::Duration;

use super::Middlebox;
use crate::backend::{Backend, BackendError, Reservation, elements_of, pattern_of};
use crate::message::{Lifetime, Location, PolicyRuleId};
use crate::rules::{Rule, RuleKind};
use crate::state::{Moment, Recovered, RuleChange, StoredKind, StoredRule};

/// What became of the rules of an earlier life.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Restored {
    /// Rules that go on.
    pub rules: usize,
    /// Rules that don't; the journal must be told of their end.
    pub ended: Vec<(PolicyRuleId, NotRestored)>,
    /// Rules that go on and whose end was counted by the wall clock, which may have been wrong; the
    /// journal must be told when they end now.
    pub counted_anew: Vec<PolicyRuleId>,
}

/// Why a rule does not go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotRestored {
    /// Its lifetime ended while the middlebox was away.
    #[error("its lifetime is over")]
    Expired,
    /// It was granted on a translator, and the packet filter doesn't translate, or the other way.
    #[error("it was granted by a middlebox that translates differently")]
    OtherTranslation,
    /// What it had reserved can't be reserved any more.
    #[error("its reservation is not possible any more: {0}")]
    Reservation(BackendError),
}

impl<B: Backend> Middlebox<B> {
    /// Takes up the rules of an earlier life, before the first session, and makes the packet filter
    /// hold what they say and nothing else. Must be called at the start even if there is none.
    ///
    /// While no middlebox runs a lifetime is counted by the host's clock, and by the wall's if the
    /// host was started anew. It is never longer than what was left of it when it was granted or
    /// refreshed, and than this middlebox grants.
    ///
    /// # Errors
    /// When the packet filter could not be brought to what they say. The middlebox must not run then.
    pub fn restore(
        &mut self,
        at: &Moment,
        recovered: &Recovered,
    ) -> Result<Restored, BackendError> {
        let mut outcome = Restored::default();
        let mut lives = Vec::new();
        for stored in &recovered.rules {
            let left = at.left(&stored.expires);
            match self.restored_rule(at, stored, left) {
                Ok(rule) => {
                    lives.push((rule.elements(), rule.expires));
                    if !at.same_boot(&stored.expires) {
                        outcome.counted_anew.push(rule.id);
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

    /// What the journal must be told after [`restore`](Self::restore).
    pub fn changes_of<'a>(
        &'a self,
        restored: &'a Restored,
    ) -> impl Iterator<Item = RuleChange<'a>> + 'a {
        let ended = restored.ended.iter().map(|(rule, _)| *rule);
        let anew = restored.counted_anew.iter().copied();
        let expires = |rule| self.rules.get(rule).map(|rule| rule.expires);
        let moved = move |rule| {
            let expires = expires(rule)?;
            Some(RuleChange::LifetimeChanged { rule, expires })
        };
        ended.map(RuleChange::Ended).chain(anew.filter_map(moved))
    }

    fn restored_rule(
        &mut self,
        at: &Moment,
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
            // Who is no longer in the configuration may do nothing, as after a reload.
            owner: self.agents.find_or_dismiss(&stored.owner),
            expires: at.time + left,
            kind: self.restored_kind(&stored.kind)?,
        })
    }

    fn restored_kind(&mut self, stored: &StoredKind) -> Result<RuleKind, NotRestored> {
        Ok(match *stored {
            StoredKind::Reserved { reservation } => {
                if self.backend.translates() {
                    self.readopt(&reservation)?;
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
                    self.readopt(reservation)?;
                }
                let outside = reservation.as_ref().map(|r| &r.outside);
                RuleKind::Enabled {
                    parameters,
                    internal,
                    external,
                    told: reservation.unwrap_or(Reservation {
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

    fn readopt(&mut self, reservation: &Reservation) -> Result<(), NotRestored> {
        self.backend
            .readopt(reservation)
            .map_err(NotRestored::Reservation)
    }
}
