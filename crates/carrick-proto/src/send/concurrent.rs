//! Several paths that carry data at once (concurrent multipath transfer): which of them the next
//! packet goes to, and what of loss recovery is then the affair of each path.

use super::Sender;
use super::ranges::{Ranges, subtract};
use super::sack::SackContext;
use super::transmit::{DataPermit, TransmitContext};
use crate::path::{Path, PathId, Paths};
use crate::policy::{BufferSplitting, Shares, Usage};

impl Sender {
    /// The next packet of DATA that may leave. What was lost on one path waits only for the path
    /// that it is to take.
    pub(super) fn permit_concurrently(
        &mut self,
        cx: &mut TransmitContext<'_>,
    ) -> Option<DataPermit> {
        // A peer without room gets one packet at a time.
        let refused = self.window.is_probing() && self.outstanding.in_flight() > 0;
        let mut first = None;
        if self.outstanding.has_marked() {
            for at in 0..cx.paths.len() {
                let Some(origin) = cx.paths.nth(at) else {
                    break;
                };
                let Some(index) = self.outstanding.next_marked_of(Some(origin), 0) else {
                    cx.paths[origin].recovery.forced = false;
                    continue;
                };
                let Some(path) = self.retransmission_path(index, cx) else {
                    continue;
                };
                if !cx.paths[path].confirmed {
                    continue;
                }
                let forced = self.forced || cx.paths[origin].recovery.forced;
                if !forced && (refused || !cx.paths[path].window_is_open()) {
                    cx.paths[path].note_window_limit();
                } else if first.is_none_or(|(lowest, _)| index < lowest) {
                    let permit = DataPermit {
                        path,
                        forced,
                        new: false,
                        probe: false,
                        origin: Some(origin),
                    };
                    first = Some((index, permit));
                }
            }
        } else {
            self.forced = false;
            for path in cx.paths.iter_mut() {
                path.recovery.forced = false;
            }
        }
        match first {
            Some((_, permit)) => Some(permit),
            None if refused && self.outstanding.has_marked() => None,
            None => self.permit_new(cx),
        }
    }

    /// Data that may go beside COOKIE ECHO (RFC 9260 section 5.1 C), which has its path already: the turn
    /// of another one does not matter.
    pub(crate) fn permit_beside_cookie(
        &mut self,
        path: PathId,
        cx: &mut TransmitContext<'_>,
    ) -> Option<DataPermit> {
        if !self.concurrent || self.outstanding.has_marked() {
            return self.permit(cx).filter(|permit| permit.path == path);
        }
        let elsewhere = self.only_path(cx.paths).is_some_and(|only| only != path);
        let leaves = !elsewhere && Self::look_at(path, cx) && self.may_send_new(path, cx);
        leaves.then_some(DataPermit {
            path,
            forced: false,
            new: true,
            probe: false,
            origin: None,
        })
    }

    fn permit_new(&mut self, cx: &mut TransmitContext<'_>) -> Option<DataPermit> {
        if self.queue.is_empty() {
            cx.paths.iter_mut().for_each(|p| p.window_limited = false);
            return None;
        }
        let path = match self.only_path(cx.paths) {
            Some(path) => Self::look_at(path, cx).then_some(path),
            None => self.next_path(cx),
        }?;
        if !self.may_send_new(path, cx) {
            cx.paths.iter_mut().for_each(|p| p.window_limited = false);
            return None;
        }
        Some(DataPermit {
            path,
            forced: false,
            new: true,
            probe: false,
            origin: None,
        })
    }

    /// The path that the next message wants, or the only one left where none is usable.
    fn only_path(&self, paths: &Paths) -> Option<PathId> {
        let wanted = self.queue.front()?.options.path;
        let path = self.new_data_path(paths)?;
        (wanted == Some(path) || !paths.any_usable()).then_some(path)
    }

    /// Data waits for a path: whether its window lets some leave.
    fn look_at(id: PathId, cx: &mut TransmitContext<'_>) -> bool {
        let path = &mut cx.paths[id];
        path.decay_idle_window(cx.now);
        path.limit_idle_burst(cx.now, cx.config.max_burst);
        let open = path.window_is_open();
        if !open {
            path.note_window_limit();
        }
        open && path.confirmed
    }

    /// The path for the next packet of new data by the association's policy, of those with room.
    fn next_path(&self, cx: &mut TransmitContext<'_>) -> Option<PathId> {
        for at in 0..cx.paths.len() {
            match cx.paths.nth(at) {
                Some(id) if cx.paths[id].usable() => {
                    Self::look_at(id, cx);
                }
                _ => {}
            }
        }
        let multipath = &cx.config.policies.multipath;
        let (splitting, basis) = (multipath.buffer_splitting, multipath.split_basis);
        let usable = cx.paths.iter().filter(|p| p.usable()).count();
        let shares = (splitting != BufferSplitting::None).then(|| Shares {
            send_buffer: self.send_buffer(cx.paths, cx.config),
            peer_window: self.window.rwnd() + self.outstanding.in_flight(),
            paths: usable,
        });
        let fits = |path: &&Path| {
            let usage = Usage {
                outstanding: path.flight_size,
                buffered: path.buffered,
            };
            let within = |shares| splitting.permits(basis, shares, usage);
            path.usable() && path.window_is_open() && shares.as_ref().is_none_or(within)
        };
        let current = cx.paths.current();
        let mut candidates = cx
            .paths
            .iter()
            .filter(fits)
            .map(|p| p.view(current, current));
        let chosen = multipath.data_route.next(self.last_path, &mut candidates);
        chosen.filter(|id| cx.paths.contains(*id) && cx.paths[*id].usable())
    }

    /// Whether the next chunk of new data may go in a packet for this path.
    pub(super) fn may_carry_new(&self, path: PathId, paths: &Paths) -> bool {
        if !self.concurrent || self.only_path(paths).is_some() {
            return self.new_data_path(paths) == Some(path);
        }
        !self.queue.is_empty() && paths[path].usable()
    }

    /// A loss was found on a path: one packet of what is to be sent again leaves in any case.
    pub(super) fn force(&mut self, id: PathId, paths: &mut Paths) {
        if self.concurrent {
            paths[id].recovery.forced = true;
        } else {
            self.forced = true;
        }
    }

    /// The same after a timeout, if there is something.
    pub(super) fn force_after_timeout(&mut self, id: PathId, paths: &mut Paths) {
        if self.concurrent {
            let any = self.outstanding.next_marked_of(Some(id), 0).is_some();
            paths[id].recovery.forced = any;
        } else {
            self.forced = self.outstanding.has_marked();
        }
    }

    /// Fast Recovery and what follows a timeout end when what was outstanding then is acknowledged:
    /// cumulatively, or where the paths are apart from each other, all of it on the path.
    pub(super) fn leave_recoveries(&mut self, cumulative: u64, cx: &mut SackContext<'_>) {
        let apart = self.concurrent || self.split;
        for at in 0..cx.paths.len() {
            let Some(id) = cx.paths.nth(at) else { break };
            let path = &mut cx.paths[id];
            if !apart {
                path.recovery.on_cumulative(cumulative);
                continue;
            }
            let (oldest, bytes) = (path.news.oldest, path.news.bytes);
            let after = path.recovery.order.oldest;
            path.recovery.rack.count_above((oldest, after), bytes);
            if self.split {
                let policies = &cx.config.policies;
                let recovering = path.recovery.is_fast();
                let per_sack = policies.multipath.reports_per_sack;
                let threshold = usize::from(policies.missing_reports);
                let reports = &mut path.recovery.split;
                reports.on_sack_end(recovering, oldest != after, per_sack, threshold);
            }
            if !path.recovery.is_open() {
                let point = self.pseudo_cumulative(path);
                path.recovery.on_cumulative(point);
            }
        }
    }

    /// Below this index, all that was last sent to the path is acknowledged.
    fn pseudo_cumulative(&self, path: &mut Path) -> u64 {
        path.earliest = match path.flight_size {
            0 => None,
            _ => self.outstanding.find_earliest(path),
        };
        let lost = self.outstanding.next_marked_of(Some(path.id), 0);
        let lowest = path.earliest.into_iter().chain(lost).min();
        lowest.map_or(u64::MAX, |index| index - 1)
    }

    /// A SACK with the same cumulative TSN as the last one, which came another way, takes something
    /// back and reports nothing new: the later one overtook it. A peer that really takes something
    /// back says so again with the next news.
    pub(super) fn is_overtaken(
        &mut self,
        cumulative: u64,
        reported: &Ranges,
        from: Option<PathId>,
    ) -> bool {
        if !self.concurrent {
            return false;
        }
        let same = cumulative + 1 == self.outstanding.first_index();
        if same && self.sack_from != from {
            // What the peer has promised to keep it need not report again.
            let (known, settled) = (&self.outstanding.acked, &self.outstanding.settled);
            let [mut news, mut taken_back] = [false; 2];
            subtract(reported, known, |first, last| {
                settled.each_outside(first, last, |_, _| news = true);
            });
            subtract(known, reported, |first, last| {
                settled.each_outside(first, last, |_, _| taken_back = true);
            });
            if taken_back && !news {
                return true;
            }
        }
        self.sack_from = from;
        false
    }
}
