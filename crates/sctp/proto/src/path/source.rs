//! Local address of a path, the source of its packets (RFC 9260 section 6.4, RFC 5061 section 5.3).
//!
//! The *selected* source is what source selection returns, usually by the routes of the host. The *present* source
//! differs from it only while the selected one does not work:
//!
//! 1. Beside each heartbeat of a path that is inactive, and of each path while none is usable, trials leave from the
//!    other local addresses. The first that is acknowledged becomes the present source, unless the path has
//!    become usable before.
//! 2. While the present source is not the selected one, a trial of the selected one leaves beside each heartbeat.
//!    The first that is acknowledged moves the path back.
//!
//! Otherwise a path whose packets leave by one network and whose answers return by another would be kept after an
//! outage, and would fail with either.

use alloc::collections::VecDeque;
use core::net::IpAddr;

use super::Path;
use super::heartbeat::{self, INFO_LEN};
use crate::config::AssociationConfig;
use crate::random::Random;
use crate::route::{SourceSelection, in_scope};
use crate::time::Time;

/// Addresses for a new selection of sources.
#[derive(Clone, Copy)]
pub(crate) struct SourceCandidates<'a> {
    /// Local addresses that the peer has confirmed.
    pub(crate) locals: &'a [IpAddr],
    /// Address that has just been removed.
    pub(crate) gone: Option<IpAddr>,
    /// There was no confirmed address before.
    pub(crate) had_none: bool,
    pub(crate) selection: &'a dyn SourceSelection,
}

/// Limit of the sources that are tried beside a heartbeat, and of the trials that are remembered.
const MAX_TRIALS: usize = 16;

/// Trials of sources (RFC 9260, sections 6.4 and 8.3): HEARTBEATs of which each has its own source and nonce.
/// They are of other sources than the present one, or leave while a heartbeat from the present one is waited for.
#[derive(Debug, Default)]
pub(super) struct SourceTrials {
    /// Sources of trials to be sent.
    waiting: VecDeque<IpAddr>,
    /// Trials that are not acknowledged, the oldest first.
    sent: VecDeque<Trial>,
}

portable_struct! { SourceTrials { waiting, sent } }

impl SourceTrials {
    fn record(&mut self, trial: Trial) {
        if self.sent.len() == MAX_TRIALS {
            self.sent.pop_front();
        }
        self.sent.push_back(trial);
    }

    /// Returns when the last trial was sent of those that are not acknowledged.
    pub(super) fn last(&self) -> Option<Time> {
        self.sent.back().map(|trial| trial.sent)
    }
}

/// HEARTBEAT beside the outstanding one of the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trial {
    nonce: u64,
    /// `None`: the choice of the operating system.
    pub(super) source: Option<IpAddr>,
    pub(super) sent: Time,
}

portable_struct! { Trial { nonce, source, sent } }

/// Change of the source of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SourceChange {
    /// The source before is not usable: acknowledgements of what is in flight would come to it.
    pub(crate) was_lost: bool,
}

impl Path {
    /// Records what source selection chooses, so that a later selection shows whether the choice has
    /// changed. With `monitor_pairs` a path is a pair of addresses, and its source is no matter of choice.
    pub(crate) fn note_selected_source(
        &mut self,
        locals: &[IpAddr],
        selection: &dyn SourceSelection,
        config: &AssociationConfig,
    ) {
        self.selected = if config.paths.monitor_pairs {
            self.local
        } else {
            select(locals, self.remote, selection)
        };
    }

    /// Selects the source again. The path moves if its source is no longer usable, or if the choice differs
    /// from the last one. If the choice is the same, the path keeps its source also where that is another
    /// address, until a trial shows that the selected one works. Returns `None` if the path keeps its source.
    pub(crate) fn select_source(
        &mut self,
        candidates: &SourceCandidates<'_>,
        config: &AssociationConfig,
    ) -> Option<SourceChange> {
        let SourceCandidates { locals, gone, .. } = *candidates;
        let pairs = config.paths.monitor_pairs;
        let own = self.selected.filter(|a| pairs && locals.contains(a));
        let choice = own.or_else(|| select(locals, self.remote, candidates.selection));
        let before = self.selected;
        if !pairs {
            self.selected = choice;
        }
        let is_gone = self.local.is_some_and(|local| !locals.contains(&local));
        let was_lost = candidates.had_none || is_gone;
        let keeps = if was_lost {
            choice.is_none() && (gone.is_none() || self.local != gone)
        } else {
            // The selection before may be unknown, which is no change.
            let unknown = before.is_none() && self.local.is_some();
            choice == self.local || unknown || before == choice && !pairs
        };
        if keeps {
            return None;
        }
        self.change_local(choice, config.timers.rto_initial);
        // An inactive path may work from this source.
        self.request_heartbeat_if_inactive();
        Some(SourceChange { was_lost })
    }

    /// Returns whether the source is not the one that source selection returns: an expedient, while the
    /// selected one does not work.
    pub(crate) fn uses_expedient(&self) -> bool {
        self.selected.is_some() && self.local != self.selected
    }

    /// Starts trials of other sources beside the heartbeat that has just been sent: of the selected one, while
    /// the path uses another, and with `all` of each local address that fits.
    pub(crate) fn try_sources(&mut self, locals: &[IpAddr], all: bool, config: &AssociationConfig) {
        if config.paths.monitor_pairs || self.local.is_none() {
            return;
        }
        let selected = self.selected.filter(|a| locals.contains(a));
        let others = locals.iter().copied().filter(|a| {
            all && Some(*a) != selected
                && a.is_ipv4() == self.remote.is_ipv4()
                && in_scope(*a, self.remote)
        });
        let present = self.local;
        let waiting: VecDeque<IpAddr> = selected
            .into_iter()
            .chain(others)
            .filter(|a| Some(*a) != present)
            .take(MAX_TRIALS)
            .collect();
        if !waiting.is_empty() {
            self.trials.get_or_insert_default().waiting = waiting;
        }
    }

    /// Returns whether a trial of another source is to be sent.
    pub(crate) fn wants_trial(&self) -> bool {
        self.trials.as_ref().is_some_and(|t| !t.waiting.is_empty())
    }

    /// Records a trial that is sent. Returns its source and its Heartbeat Info.
    pub(crate) fn trial_sent(
        &mut self,
        now: Time,
        random: &mut Random,
    ) -> Option<(IpAddr, [u8; INFO_LEN])> {
        let trials = self.trials.as_mut()?;
        let source = trials.waiting.pop_front()?;
        let nonce = random.u64();
        trials.record(Trial {
            nonce,
            source: Some(source),
            sent: now,
        });
        self.counters.heartbeats_sent += 1;
        Some((source, heartbeat::info(nonce, self.id)))
    }

    /// Records a heartbeat from the present source that is sent while another one is waited for.
    pub(super) fn present_source_tried(&mut self, nonce: u64, now: Time) {
        let trial = Trial {
            nonce,
            source: self.local,
            sent: now,
        };
        self.trials.get_or_insert_default().record(trial);
    }

    /// Takes the trial with the nonce of a HEARTBEAT ACK.
    pub(super) fn take_trial(&mut self, nonce: u64) -> Option<Trial> {
        let trials = self.trials.as_mut()?;
        let at = trials.sent.iter().position(|t| t.nonce == nonce)?;
        trials.sent.remove(at)
    }

    /// Moves the path to a source from which a heartbeat was acknowledged, if that is the selected one, or if
    /// the path does not work with its present one. A heartbeat that is outstanding becomes a trial of the
    /// present source.
    pub(crate) fn move_to_source(&mut self, source: IpAddr, config: &AssociationConfig) -> bool {
        let is_selected = Some(source) == self.selected;
        if Some(source) == self.local || !is_selected && self.is_usable() {
            return false;
        }
        if let Some((nonce, sent)) = self.heartbeat.take_outstanding() {
            self.present_source_tried(nonce, sent);
        }
        if is_selected {
            self.trials = None;
        }
        self.change_local(Some(source), config.timers.rto_initial);
        self.restart_mtu_discovery();
        true
    }
}

/// Selects the source of packets to an address. Without a choice, the host is not asked.
fn select(locals: &[IpAddr], remote: IpAddr, selection: &dyn SourceSelection) -> Option<IpAddr> {
    let same_family = |a: &&IpAddr| a.is_ipv4() == remote.is_ipv4();
    let mut fit = locals
        .iter()
        .filter(|a| same_family(a) && in_scope(**a, remote));
    match (fit.next(), fit.next()) {
        (Some(only), None) => Some(*only),
        _ => selection.select(locals, remote),
    }
}
