//! Source addresses of the paths (`path::source`): selected when the association is established, and again
//! when a local address is confirmed or removed or the routes of the host change (RFC 9260 section 6.4,
//! RFC 5061 section 5.3).

use core::net::IpAddr;

use super::{Association, Context};
use crate::event::Event;
use crate::path::{PathId, SourceCandidates};
use crate::time::Time;

impl Association {
    /// Records what source selection chooses for each path, so that a later selection shows whether
    /// the choice has changed.
    pub(super) fn note_selected_sources(&mut self, cx: &Context<'_>) {
        self.sources_seen = cx.local_addresses.source_version();
        for id in self.paths.ids() {
            self.note_selected_source(id, cx);
        }
    }

    /// Records what source selection chooses for one path.
    pub(super) fn note_selected_source(&mut self, id: PathId, cx: &Context<'_>) {
        let locals = self.locals(cx);
        self.paths[id].note_selected_source(&locals, cx.selection, &self.config);
    }

    /// Selects again if a local address came or went or a route changed since the last selection, with which a
    /// path that failed may have returned. An address may have returned before the peer had to know that it was
    /// gone.
    pub(super) fn follow_local_addresses(&mut self, cx: &mut Context<'_>) {
        let version = cx.local_addresses.source_version();
        if self.sources_seen == version || self.state.is_closed() {
            return;
        }
        if self.state.is_setup() {
            return self.select_sources_of_setup(cx);
        }
        self.select_sources(None, cx);
        for id in self.paths.ids() {
            self.paths[id].request_heartbeat_on_return(cx.now, &self.config);
        }
    }

    /// Selects the source of every path again during set-up, for the INITs and COOKIE ECHOs that follow.
    fn select_sources_of_setup(&mut self, cx: &Context<'_>) {
        self.sources_seen = cx.local_addresses.source_version();
        let locals = self.locals(cx);
        let candidates = SourceCandidates {
            locals: &locals,
            gone: None,
            had_none: false,
            selection: cx.selection,
        };
        for id in self.paths.ids() {
            self.paths[id].select_source(&candidates, &self.config);
        }
    }

    /// Selects the source of every path again, out of the addresses that the peer has confirmed;
    /// `gone` has just been removed.
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
        let candidates = SourceCandidates {
            locals: &locals,
            gone,
            had_none,
            selection: cx.selection,
        };
        for id in self.paths.ids() {
            let change = self.paths[id].select_source(&candidates, &self.config);
            let Some(change) = change else { continue };
            if change.was_lost {
                self.move_data(id, id, cx);
            }
            self.paths[id].restart_mtu_discovery();
            self.events.push(Event::PathLocalAddressChanged(id));
        }
    }

    /// Starts trials of other sources beside the heartbeat that a path has just sent.
    pub(super) fn try_sources(&mut self, id: PathId, cx: &Context<'_>) {
        let all = !self.paths[id].is_active() || !self.paths.any_usable();
        if all || self.paths[id].uses_expedient() {
            let locals = self.locals(cx);
            self.paths[id].try_sources(&locals, all, &self.config);
        }
    }

    /// HEARTBEAT ACK of a trial: returns whether the path moves to its source.
    pub(super) fn on_trial_acknowledged(
        &mut self,
        id: PathId,
        (source, sent): (IpAddr, Time),
        cx: &mut Context<'_>,
    ) -> bool {
        if !self.locals(cx).contains(&source)
            || !self.paths[id].move_to_source(source, &self.config)
        {
            return false;
        }
        self.paths[id].on_trial_measured(sent, cx.now, &self.config);
        self.events.push(Event::PathLocalAddressChanged(id));
        true
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
