//! Congestion controls whose windows depend on each other are told of all paths that carry data.

use super::Sender;
use crate::congestion::Member;
use crate::path::{PathId, Paths};

impl Sender {
    /// The window of a path is about to change: it sees how the others are.
    pub(super) fn couple(&mut self, id: PathId, paths: &mut Paths) {
        if !self.coupled {
            return;
        }
        self.members.clear();
        let mut own = 0;
        for path in paths.iter() {
            let carries = path.id == id || (self.concurrent && path.usable());
            if !carries {
                continue;
            }
            if path.id == id {
                own = self.members.len();
            }
            self.members.push(Member {
                cwnd: path.congestion.cwnd(),
                ssthresh: path.congestion.ssthresh(),
                rtt: path.rto.srtt().unwrap_or(path.rto.value()),
                between_losses: path.congestion.between_losses(),
            });
        }
        if !self.members.is_empty() {
            paths[id].congestion.on_members(&self.members, own);
        }
    }
}
