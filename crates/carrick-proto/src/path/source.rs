//! Local address of a path, the source of its packets (RFC 9260 section 6.4, RFC 5061 section 5.3).

use core::net::IpAddr;

use super::Path;
use crate::config::AssociationConfig;
use crate::route::{SourceSelection, in_scope};

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
    /// address: it may be the one that works. Returns `None` if the path keeps its source.
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

    /// Moves the path, which is inactive, to another local address, from which it may work. Returns whether
    /// it moved.
    pub(crate) fn try_other_source(
        &mut self,
        locals: &[IpAddr],
        selection: &dyn SourceSelection,
        config: &AssociationConfig,
    ) -> bool {
        let other = selection.select(locals, self.remote, self.local);
        if other.is_none() || other == self.local {
            return false;
        }
        self.change_local(other, config.timers.rto_initial);
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
        _ => selection.select(locals, remote, None),
    }
}
