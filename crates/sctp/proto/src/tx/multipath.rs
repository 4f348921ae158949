//! Concurrent multipath transfer: several paths carry new data at once. The path of the next packet, loss
//! recovery for each path, and coupled congestion windows.

use alloc::vec::Vec;

use super::Sender;
use super::outstanding::Ranges;
use super::packet_plan::{DataPacketPlan, TransmitContext};
use super::sack_processing::SackContext;
use crate::cc::Member;
use crate::path::{Path, PathId, Paths};
use crate::research::{BufferSplitting, Policies, Shares, Usage};

/// State of concurrent multipath transfer and of coupled congestion windows.
#[derive(Debug)]
pub(super) struct Multipath {
    /// Several paths carry new data at once.
    concurrent: bool,
    /// Path of the last new data.
    last_path: PathId,
    /// Path on which the last SACK arrived.
    sack_from: Option<PathId>,
    /// Windows of the paths depend on each other.
    coupled: bool,
    /// Windows last passed to a coupled congestion control.
    members: Vec<Member>,
}

portable_struct! { Multipath { concurrent, last_path, sack_from, coupled, members } }

impl Multipath {
    pub(super) fn new(policies: &Policies) -> Self {
        Self {
            concurrent: policies.multipath.data_route.concurrent(),
            last_path: PathId(0),
            sack_from: None,
            coupled: policies.congestion.couples(),
            members: Vec::new(),
        }
    }

    /// Returns whether several paths carry new data at once.
    pub(super) fn is_concurrent(&self) -> bool {
        self.concurrent
    }

    /// Records that new data left on a path.
    pub(super) fn new_data_sent(&mut self, path: PathId) {
        self.last_path = path;
    }
}

impl Sender {
    /// Selects the next packet of DATA that may leave. A retransmission waits only for the window of the path
    /// that it is sent to.
    pub(super) fn plan_concurrently(
        &mut self,
        cx: &mut TransmitContext<'_>,
    ) -> Option<DataPacketPlan> {
        // A peer without room gets one packet at a time.
        let refused = self.window.is_probing() && self.outstanding.in_flight() > 0;
        let mut first = None;
        if self.outstanding.has_marked() {
            for at in 0..cx.paths.len() {
                let Some(origin) = cx.paths.nth(at) else {
                    break;
                };
                let Some(index) = self.outstanding.next_marked_of(Some(origin), 0) else {
                    if let Some(recovery) = cx.paths[origin].used_recovery() {
                        recovery.set_forced(false);
                    }
                    continue;
                };
                let Some(path) = self.retransmission_path(index, cx) else {
                    continue;
                };
                if !cx.paths[path].is_confirmed() {
                    continue;
                }
                let forced = self.forced || cx.paths[origin].recovery().is_forced();
                if !forced && (refused || !cx.paths[path].window_is_open()) {
                    cx.paths[path].note_window_limit();
                } else if !forced && !self.pacing_permits(path, cx) {
                    // It has a departure time.
                } else if first.is_none_or(|(lowest, _)| index < lowest) {
                    let plan = DataPacketPlan {
                        path,
                        forced,
                        new: false,
                        probe: false,
                        origin: Some(origin),
                    };
                    first = Some((index, plan));
                }
            }
        } else {
            self.forced = false;
            for path in cx.paths.iter_mut() {
                if let Some(recovery) = path.used_recovery() {
                    recovery.set_forced(false);
                }
            }
        }
        match first {
            Some((_, plan)) => Some(plan),
            None if refused && self.outstanding.has_marked() => None,
            None => self.plan_new_data(cx),
        }
    }

    /// Selects DATA to be bundled with COOKIE ECHO on its path (RFC 9260, section 5.1, C), whichever path is
    /// next for new data.
    pub(crate) fn plan_beside_cookie(
        &mut self,
        path: PathId,
        cx: &mut TransmitContext<'_>,
    ) -> Option<DataPacketPlan> {
        if !self.multipath.concurrent || self.outstanding.has_marked() {
            return self.plan_packet(cx).filter(|plan| plan.path == path);
        }
        let elsewhere = self.only_path(cx.paths).is_some_and(|only| only != path);
        let leaves = !elsewhere && self.check_window(path, cx) && self.may_send_new(path, cx);
        leaves.then_some(DataPacketPlan {
            path,
            forced: false,
            new: true,
            probe: false,
            origin: None,
        })
    }

    fn plan_new_data(&mut self, cx: &mut TransmitContext<'_>) -> Option<DataPacketPlan> {
        if self.queue.is_empty() {
            let by_user = !self.outstanding.has_marked();
            let paths = cx.paths.iter_mut();
            paths.for_each(|path| path.note_other_limit(by_user));
            return None;
        }
        let path = match self.only_path(cx.paths) {
            Some(path) => self.check_window(path, cx).then_some(path),
            None => self.next_path(cx),
        }?;
        if !self.may_send_new(path, cx) {
            let by_user = self.lacks_data(&cx.paths[path]);
            let paths = cx.paths.iter_mut();
            paths.for_each(|path| path.note_other_limit(by_user));
            return None;
        }
        Some(DataPacketPlan {
            path,
            forced: false,
            new: true,
            probe: false,
            origin: None,
        })
    }

    /// Path that the user directed the next message to, or the only one left if none is usable.
    fn only_path(&self, paths: &Paths) -> Option<PathId> {
        let wanted = self.queue.front()?.options.path;
        let path = self.new_data_path(paths)?;
        (wanted == Some(path) || !paths.any_usable()).then_some(path)
    }

    /// Updates the window of a path for which data waits; returns whether it has room, and pacing lets a
    /// packet leave.
    fn check_window(&mut self, id: PathId, cx: &mut TransmitContext<'_>) -> bool {
        let path = &mut cx.paths[id];
        path.decay_idle_window(cx.now);
        path.limit_idle_burst(cx.now, cx.config.transmission.max_burst);
        let open = path.window_is_open();
        if !open {
            path.note_window_limit();
        }
        let confirmed = path.is_confirmed();
        open && confirmed && self.pacing_permits(id, cx)
    }

    /// Path for the next packet of new data by the association's policy, of those with room.
    fn next_path(&mut self, cx: &mut TransmitContext<'_>) -> Option<PathId> {
        for at in 0..cx.paths.len() {
            match cx.paths.nth(at) {
                Some(id) if cx.paths[id].is_usable() => {
                    self.check_window(id, cx);
                }
                _ => {}
            }
        }
        let multipath = &cx.config.research.policies.multipath;
        let (splitting, basis) = (multipath.buffer_splitting, multipath.split_basis);
        let usable = cx.paths.iter().filter(|p| p.is_usable()).count();
        let shares = (splitting != BufferSplitting::None).then(|| Shares {
            send_buffer: self.send_buffer(cx.paths, cx.config),
            peer_window: self.window.rwnd() + self.outstanding.in_flight(),
            paths: usable,
        });
        let fits = |path: &&Path| {
            let usage = Usage {
                outstanding: path.flight().size(),
                buffered: path.flight().buffered(),
            };
            let within = |shares| splitting.permits(basis, shares, usage);
            path.is_usable()
                && path.window_is_open()
                && !path.waits_for_departure()
                && shares.as_ref().is_none_or(within)
        };
        let current = cx.paths.current();
        let candidates = cx
            .paths
            .iter()
            .filter(fits)
            .map(|p| p.view(current, current));
        let chosen = multipath
            .data_route
            .next(self.multipath.last_path, candidates);
        chosen.filter(|id| cx.paths.contains(*id) && cx.paths[*id].is_usable())
    }

    /// Returns whether the next chunk of new data may be sent on this path.
    pub(super) fn may_carry_new(&self, path: PathId, paths: &Paths) -> bool {
        if !self.multipath.concurrent || self.only_path(paths).is_some() {
            return self.new_data_path(paths) == Some(path);
        }
        !self.queue.is_empty() && paths[path].is_usable()
    }

    /// Lets one packet of the chunks lost on a path leave whatever cwnd is.
    pub(super) fn force(&mut self, id: PathId, paths: &mut Paths) {
        if self.multipath.concurrent {
            paths[id].recovery_mut().set_forced(true);
        } else {
            self.forced = true;
        }
    }

    /// Lets one packet of the chunks that a timeout marked on a path leave whatever cwnd is.
    pub(super) fn force_after_timeout(&mut self, id: PathId, paths: &mut Paths) {
        if self.multipath.concurrent {
            let any = self.outstanding.next_marked_of(Some(id), 0).is_some();
            paths[id].recovery_mut().set_forced(any);
        } else {
            self.forced = self.outstanding.has_marked();
        }
    }

    /// Ends the repair of each path whose exit point is acknowledged: cumulatively, or, if losses are
    /// repaired for each path, as far as chunks of the path are concerned.
    pub(super) fn leave_recoveries(&mut self, cumulative: u64, cx: &mut SackContext<'_>) {
        let per_path = self.multipath.concurrent || self.detector.is_per_path();
        for at in 0..cx.paths.len() {
            let Some(id) = cx.paths.nth(at) else { break };
            let path = &mut cx.paths[id];
            let (oldest, bytes) = (path.newly_acked().oldest, path.newly_acked().bytes);
            let Some(recovery) = path.used_recovery() else {
                continue;
            };
            if !per_path {
                recovery.on_cumulative(cumulative);
                continue;
            }
            let after = recovery.oldest();
            recovery.rack_mut().count_above((oldest, after), bytes);
            self.detector.on_path_report(recovery, oldest != after);
            if !recovery.is_open() {
                let point = self.pseudo_cumulative(path);
                path.recovery_mut().on_cumulative(point);
            }
        }
    }

    /// Index up to which all chunks last sent to the path are acknowledged.
    fn pseudo_cumulative(&self, path: &mut Path) -> u64 {
        self.outstanding.update_earliest(path);
        let lost = self.outstanding.next_marked_of(Some(path.id()), 0);
        let lowest = path.flight().earliest().into_iter().chain(lost).min();
        lowest.map_or(u64::MAX, |index| index - 1)
    }

    /// Returns whether a later SACK has overtaken this one: it arrived on another path than the last one, with
    /// the same Cumulative TSN Ack, reneges on chunks and acknowledges none. A peer that does renege reports
    /// that again with its next acknowledgement.
    pub(super) fn is_overtaken(
        &mut self,
        cumulative: u64,
        reported: &Ranges,
        from: Option<PathId>,
    ) -> bool {
        if !self.multipath.concurrent {
            return false;
        }
        let same = cumulative + 1 == self.outstanding.first_index();
        if same && self.multipath.sack_from != from && self.outstanding.only_reneges(reported) {
            return true;
        }
        self.multipath.sack_from = from;
        false
    }

    /// Passes the windows of all paths to the congestion control of one that is about to change, if they are
    /// coupled.
    pub(super) fn update_coupled_windows(&mut self, id: PathId, paths: &mut Paths) {
        if !self.multipath.coupled {
            return;
        }
        let concurrent = self.multipath.concurrent;
        let members = &mut self.multipath.members;
        members.clear();
        let mut own = 0;
        for path in paths.iter() {
            let carries = path.id() == id || (concurrent && path.is_usable());
            if !carries {
                continue;
            }
            if path.id() == id {
                own = members.len();
            }
            members.push(Member {
                cwnd: path.congestion().window(),
                ssthresh: path.congestion().ssthresh(),
                rtt: path.srtt().unwrap_or(path.rto()),
                between_losses: path.congestion().between_losses(),
            });
        }
        if !members.is_empty() {
            paths[id].set_members(members, own);
        }
    }
}
