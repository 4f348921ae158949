//! Source addresses of the paths: selected when the association is established, and again when a
//! local address is confirmed or removed or the routes of the host change (RFC 9260 section 6.4, RFC
//! 5061 section 5.3).

use core::net::IpAddr;

use super::{Association, Context};
use crate::event::Event;
use crate::path::{Path, PathId};
use crate::route::in_scope;

impl Association {
    /// Records what source selection chooses for each path, so that a later selection shows whether
    /// the choice has changed.
    pub(super) fn note_selected_sources(&mut self, cx: &Context<'_>) {
        self.sources_seen = cx.local_addresses.source_version();
        for id in self.paths.ids() {
            self.note_selected_source(id, cx);
        }
    }

    /// Records what source selection chooses for one path. With `monitor_pairs` a path is a pair of
    /// addresses, and its source is no matter of choice.
    pub(super) fn note_selected_source(&mut self, id: PathId, cx: &Context<'_>) {
        let path = &self.paths[id];
        self.paths[id].selected = if self.config.paths.monitor_pairs {
            path.local
        } else {
            select(&self.locals(cx), path, cx)
        };
    }

    /// Selects again if a local address came or went or a route changed since the last selection. An
    /// address may have returned before the peer had to know that it was gone.
    pub(super) fn follow_local_addresses(&mut self, cx: &mut Context<'_>) {
        let version = cx.local_addresses.source_version();
        if self.sources_seen == version || self.state.is_setup() || self.state.is_closed() {
            return;
        }
        self.select_sources(None, cx);
    }

    /// Selects the source of every path again, out of the addresses that the peer has confirmed;
    /// `gone` has just been removed.
    ///
    /// A path moves if its source is no longer usable, or if the choice differs from the last one. If
    /// the choice is the same, the path keeps its source also where that is another address: it may
    /// be the one that works.
    pub(super) fn select_sources(&mut self, gone: Option<IpAddr>, cx: &mut Context<'_>) {
        self.sources_seen = cx.local_addresses.source_version();
        let locals = self.locals(cx);
        let mut had_none = false;
        if let Some(dynamic) = &mut self.dynamic {
            had_none = dynamic.set_no_confirmed_local(locals.is_empty());
            if locals.is_empty() {
                // ASCONF adds an address; until then nothing can leave.
                return;
            }
        }
        let (pairs, rto_initial) = (
            self.config.paths.monitor_pairs,
            self.config.timers.rto_initial,
        );
        for id in self.paths.ids() {
            let path = &mut self.paths[id];
            let own = path.selected.filter(|a| pairs && locals.contains(a));
            let choice = own.or_else(|| select(&locals, path, cx));
            let before = path.selected;
            if !pairs {
                path.selected = choice;
            }
            let lost = had_none || path.local.is_some_and(|local| !locals.contains(&local));
            let keeps = if lost {
                choice.is_none() && (gone.is_none() || path.local != gone)
            } else {
                // The selection before may be unknown, which is no change.
                let unknown = before.is_none() && path.local.is_some();
                choice == path.local || unknown || before == choice && !pairs
            };
            if keeps {
                continue;
            }
            path.change_local(choice, rto_initial);
            // An inactive path may work from this source.
            path.request_heartbeat_if_inactive();
            if lost {
                // Acknowledgements of what is in flight would come to the old address.
                self.move_data(id, id, cx);
            }
            self.paths[id].restart_mtu_discovery();
            self.events.push(Event::PathLocalAddressChanged(id));
        }
    }

    /// Moves an inactive path to another local address, from which it may work.
    pub(super) fn try_other_local_address(&mut self, id: PathId, cx: &mut Context<'_>) {
        if self.config.paths.monitor_pairs {
            return;
        }
        let locals = self.locals(cx);
        let path = &mut self.paths[id];
        let other = cx.selection.select(&locals, path.remote, path.local);
        if other.is_some() && other != path.local {
            path.change_local(other, self.config.timers.rto_initial);
            path.restart_mtu_discovery();
            self.events.push(Event::PathLocalAddressChanged(id));
        }
    }

    /// Moves the paths from a removed local address to another one.
    pub(crate) fn on_local_address_removed(&mut self, address: IpAddr, cx: &mut Context<'_>) {
        // Queued replies from it are dropped; a SACK takes the route of data.
        self.receiver
            .keep_data_route_if(|r| r.local != Some(address));
        self.replies.forget_local(address);
        self.state.keep_answer_if(|r| r.local != Some(address));
        if self.state.is_closed() {
            return;
        }
        self.forget_local_address(address);
        self.select_sources(Some(address), cx);
    }
}

/// Selects the source for a path. Without a choice, the host is not asked.
fn select(locals: &[IpAddr], path: &Path, cx: &Context<'_>) -> Option<IpAddr> {
    let remote = path.remote;
    let same_family = |a: &&IpAddr| a.is_ipv4() == remote.is_ipv4();
    let mut fit = locals
        .iter()
        .filter(|a| same_family(a) && in_scope(**a, remote));
    match (fit.next(), fit.next()) {
        (Some(only), None) => Some(*only),
        _ => cx.selection.select(locals, remote, None),
    }
}
