//! All paths of one association, and which of them is for new data.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::{Index, IndexMut};
use core::time::Duration;

use super::{Path, PathId, PathView};
use crate::config::AssociationConfig;
use crate::route::{Route, SourceSelection, in_scope};

/// The paths of an association, in the order of their [`PathId`].
#[derive(Debug)]
pub(crate) struct Paths {
    list: Vec<Path>,
    /// The user's choice, or the first address.
    primary: PathId,
    /// The path that new data goes to now; the primary while that is usable.
    current: PathId,
    /// Path for retransmissions that rotate; `None` stands for the first active path after
    /// the primary.
    retransmission: Option<PathId>,
    /// Addresses of the peer beyond the limit, or of a family that this side lacks: the peer may
    /// send from them, nothing is sent there.
    without_path: Vec<IpAddr>,
    /// The number of the next path: a number comes again only after all others.
    next: u8,
    /// Bytes of an AUTH chunk that each packet with DATA has in front.
    reserved: u16,
    /// Bytes of each packet that its protection takes; `None` for the value of the configuration.
    overhead: Option<u16>,
}

portable_struct! {
    Paths {
        list, primary, current, retransmission, without_path, next, reserved, overhead,
    }
}

impl Paths {
    pub(crate) fn new() -> Self {
        Self {
            list: Vec::new(),
            primary: PathId(0),
            current: PathId(0),
            retransmission: None,
            without_path: Vec::new(),
            next: 0,
            reserved: 0,
            overhead: None,
        }
    }

    /// Adds a path for a route unless there is one already or the limit is reached.
    pub(crate) fn add(
        &mut self,
        route: Route,
        confirmed: bool,
        config: &AssociationConfig,
    ) -> Option<PathId> {
        let known = self.list.iter_mut().find(|p| {
            p.remote == route.remote && (!config.paths.monitor_pairs || p.local == route.local)
        });
        if let Some(path) = known {
            path.confirmed |= confirmed;
            return Some(path.id);
        }
        if self.list.len() >= config.paths.max_paths {
            if !config.paths.ignore_peer_addresses {
                self.record_address(route.remote);
            }
            return None;
        }
        let id = self.unused_id()?;
        // Paths are few, and an idle association should not pay for those that it could have.
        self.list.reserve_exact(1);
        self.list.push(Path::new(id, route, confirmed, config));
        if let (Some(overhead), Some(path)) = (self.overhead, self.list.last_mut()) {
            path.set_overhead(overhead);
        }
        Some(id)
    }

    fn unused_id(&mut self) -> Option<PathId> {
        let mut ids = (0..=u8::MAX).map(|n| PathId(self.next.wrapping_add(n)));
        let id = ids.find(|id| !self.contains(*id))?;
        self.next = id.0.wrapping_add(1);
        Some(id)
    }

    /// Returns the path that takes over the data of `removed`: the path in use, or the best of the
    /// remaining paths.
    pub(crate) fn replacement_for(&self, removed: PathId) -> PathId {
        if self.current != removed {
            return self.current;
        }
        let others = self.list.iter().filter(|p| p.id != removed);
        let best = others.min_by_key(|p| (!p.is_usable(), !p.confirmed, p.error_count, p.id));
        best.map_or(removed, |p| p.id)
    }

    /// Removes a path, never the last one. Nothing may refer to it any more.
    pub(crate) fn remove(&mut self, id: PathId, replacement: PathId) {
        if self.list.len() < 2 || id == replacement {
            return;
        }
        self.list.retain(|p| p.id != id);
        if self.primary == id {
            self.primary = replacement;
        }
        if self.current == id {
            self.current = replacement;
        }
    }

    /// Removes an address of the peer that has no path.
    pub(crate) fn remove_address_without_path(&mut self, remote: IpAddr) {
        self.without_path.retain(|a| *a != remote);
    }

    /// Returns whether the paths of an import are possible: one at least, each number once.
    pub(crate) fn is_consistent(&self) -> bool {
        !self.list.is_empty() && self.ids().count() == self.list.len()
    }

    /// Index of a path in the list, which equals its number as long as no path was removed.
    fn position(&self, id: PathId) -> Option<usize> {
        let guess = usize::from(id.0);
        if self.list.get(guess).is_some_and(|p| p.id == id) {
            return Some(guess);
        }
        self.list.iter().position(|p| p.id == id)
    }

    fn get(&self, id: PathId) -> Option<&Path> {
        self.position(id).map(|at| &self.list[at])
    }

    /// Records an address of the peer; without a path unless there is one.
    pub(crate) fn record_address(&mut self, remote: IpAddr) {
        if !self.has_address(remote) {
            self.without_path.push(remote);
        }
    }

    /// Adds the path, or with `monitor_pairs` all paths, to a peer address.
    pub(crate) fn add_address(
        &mut self,
        remote: IpAddr,
        like: &Route,
        confirmed: bool,
        local: &[IpAddr],
        selection: &dyn SourceSelection,
        config: &AssociationConfig,
    ) -> Option<PathId> {
        let chosen = selection.select(local, remote);
        let route = Route {
            local: chosen,
            remote,
            encapsulation: like.encapsulation,
            ecn: like.ecn,
        };
        let id = self.add(route, confirmed, config);
        if let Some(id) = id {
            self[id].selected = chosen;
        }
        if config.paths.monitor_pairs {
            for &address in local
                .iter()
                .filter(|a| a.is_ipv4() == remote.is_ipv4() && Some(**a) != chosen)
                .filter(|a| in_scope(**a, remote))
            {
                self.add(
                    Route {
                        local: Some(address),
                        ..route
                    },
                    false,
                    config,
                );
            }
        }
        id
    }

    /// Confirms the addresses that the user gave (section 5.4, rule 1).
    pub(crate) fn confirm_given(&mut self, given: &[IpAddr]) {
        for address in given {
            let path = self.list.iter_mut().find(|p| p.remote == *address);
            if let Some(path) = path {
                path.confirmed = true;
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn iter(&self) -> core::slice::Iter<'_, Path> {
        self.list.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> core::slice::IterMut<'_, Path> {
        self.list.iter_mut()
    }

    /// The number of the path at this place of the list.
    pub(crate) fn nth(&self, at: usize) -> Option<PathId> {
        self.list.get(at).map(|p| p.id)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = PathId> + use<> {
        let mut set = [0_u64; 4];
        for path in &self.list {
            set[usize::from(path.id.0 >> 6)] |= 1 << (path.id.0 & 63);
        }
        // From one number that is there to the next: most associations have one or two of 256.
        core::iter::from_fn(move || {
            let word = set.iter().position(|bits| *bits != 0)?;
            let bit = set[word].trailing_zeros();
            set[word] &= set[word] - 1;
            Some(PathId((word as u32 * 64 + bit) as u8))
        })
    }

    pub(crate) fn contains(&self, id: PathId) -> bool {
        self.position(id).is_some()
    }

    /// The path that a packet on this route belongs to.
    pub(crate) fn find(&self, route: &Route) -> Option<PathId> {
        let mut of_remote = self.list.iter().filter(|p| p.remote == route.remote);
        let first = of_remote.next()?;
        if first.local == route.local {
            return Some(first.id);
        }
        Some(
            of_remote
                .find(|p| p.local == route.local)
                .unwrap_or(first)
                .id,
        )
    }

    /// The path that sends on just this route.
    pub(crate) fn find_exactly(&self, route: &Route) -> Option<PathId> {
        self.find(route).filter(|id| self[*id].local == route.local)
    }

    /// How packets to this address are carried (RFC 6951 section 5.1); `None` without a path to it.
    #[expect(clippy::option_option, reason = "no path, or one on plain IP")]
    pub(crate) fn encapsulation(&self, remote: IpAddr) -> Option<Option<u16>> {
        let path = self.list.iter().find(|p| p.remote == remote);
        path.map(|p| p.encapsulation)
    }

    /// Packets to this address go to another UDP port, or to one no longer. Returns whether that is
    /// a change. The path MTU is that of IP packets, so what is left of it for SCTP follows (RFC 6951
    /// section 5.6).
    pub(crate) fn set_encapsulation(&mut self, remote: IpAddr, encapsulation: Option<u16>) -> bool {
        let mut changed = false;
        for path in self.list.iter_mut().filter(|p| p.remote == remote) {
            changed |= path.encapsulation != encapsulation;
            path.set_encapsulation(encapsulation);
        }
        changed
    }

    /// A route like this one to another address: carried as before, where the address is known.
    pub(crate) fn like(&self, remote: IpAddr, route: &Route) -> Route {
        let known = self.encapsulation(remote);
        Route {
            encapsulation: known.unwrap_or(route.encapsulation),
            ..*route
        }
    }

    /// Returns whether a path to this address is confirmed (section 5.4).
    pub(crate) fn is_confirmed(&self, remote: IpAddr) -> bool {
        let mut paths = self.list.iter();
        paths.any(|p| p.remote == remote && p.confirmed)
    }

    /// Returns whether the peer has this address, with or without a path to it.
    pub(crate) fn has_address(&self, remote: IpAddr) -> bool {
        self.remotes().any(|known| known == remote)
    }

    /// Returns whether a local address is in scope on the route of a path.
    pub(crate) fn have_in_scope(&self, local: IpAddr) -> bool {
        self.iter().any(|p| p.route().has_in_scope(local))
    }

    /// All addresses of the peer, those without a path included.
    pub(crate) fn remotes(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let paths = self.list.iter().map(|p| p.remote);
        paths.chain(self.without_path.iter().copied())
    }

    pub(crate) fn current(&self) -> PathId {
        self.current
    }

    pub(crate) fn primary(&self) -> PathId {
        self.primary
    }

    pub(crate) fn set_primary(&mut self, id: PathId) {
        self.primary = id;
    }

    /// Chooses the path for new data again (section 6.4.1); returns it if it changed.
    ///
    /// With no usable path, see [`Self::last_resort`]; what was chosen once stays until
    /// [`Self::leave_failed`].
    pub(crate) fn choose(&mut self) -> Option<PathId> {
        let best = if self.get(self.primary).is_some_and(Path::is_usable) {
            Some(self.primary)
        } else if self.get(self.current).is_some_and(Path::is_usable) {
            // One alternate is kept as long as it works.
            Some(self.current)
        } else {
            self.list
                .iter()
                .filter(|p| p.is_usable())
                .min_by_key(|p| (p.error_count, p.rto.srtt().unwrap_or(Duration::MAX), p.id))
                .map(|p| p.id)
                .or_else(|| self.without_usable())
        }?;
        let changed = best != self.current;
        self.current = best;
        changed.then_some(best)
    }

    /// The current path stays unless it is worse off than another: inactive, where that is only
    /// potentially failed, or with more errors (RFC 7829 section 3.2, rule 4).
    fn without_usable(&self) -> Option<PathId> {
        let current = self.get(self.current);
        let current = current.filter(|p| p.confirmed);
        let any_active = !self.all_inactive();
        let best = match current {
            // Dormant: `leave_failed` moves on.
            Some(current) if !any_active => Some(current.id),
            _ => self.last_resort(self.current),
        }?;
        let stays = |p: &&Path| p.active == any_active && p.error_count <= self[best].error_count;
        Some(current.filter(stays).map_or(best, |p| p.id))
    }

    /// The next address, while the association is set up or shut down and the one before did not
    /// answer. Only confirmed addresses are tried, and those that failed only when all have.
    pub(crate) fn rotate(&mut self) {
        self.current = self
            .after(self.current, Path::is_usable)
            .or_else(|| self.last_resort(self.current))
            .unwrap_or(self.current);
        self.primary = self.current;
    }

    /// The confirmed path after `last`, in turn: where to try when no path is active.
    pub(crate) fn next_in_turn(&self, last: PathId) -> PathId {
        self.after(last, |p| p.confirmed).unwrap_or(last)
    }

    /// The next path of this kind behind `last`, which comes last itself.
    fn after(&self, last: PathId, is_fit: impl Fn(&Path) -> bool) -> Option<PathId> {
        let paths = self.list.iter().cycle();
        let at = self.position(last).map_or(0, |at| at + 1);
        let mut behind = paths.skip(at).take(self.list.len());
        behind.find(|p| is_fit(p)).map(|p| p.id)
    }

    /// Selects another path for new data than the one that just failed, although none is usable.
    pub(crate) fn leave_failed(&mut self, failed: PathId) {
        if failed == self.current {
            self.current = self.last_resort(failed).unwrap_or(failed);
        }
    }

    pub(crate) fn all_inactive(&self) -> bool {
        !self.list.iter().any(|p| p.active && p.confirmed)
    }

    pub(crate) fn views(&self) -> impl Iterator<Item = PathView> + '_ {
        let in_turn = self.retransmission_turn();
        self.list.iter().map(move |p| p.view(self.current, in_turn))
    }

    /// The path for retransmissions that take turns.
    fn retransmission_turn(&self) -> PathId {
        let kept = self.retransmission.filter(|id| self.contains(*id));
        kept.or_else(|| self.after(self.primary, |p| p.confirmed && p.active))
            .unwrap_or(self.primary)
    }

    /// Selects the next active path for retransmissions, if T3-rtx has expired on the selected one.
    pub(crate) fn pass_retransmission_turn(&mut self, expired: PathId) {
        if self.retransmission_turn() == expired {
            self.retransmission = self.after(expired, |p| p.confirmed && p.active);
        }
    }

    /// Returns the round-trip time of the path for data. With concurrent transfer it is the longest of all
    /// paths, since the peer presumably uses several, too.
    pub(crate) fn data_round_trip(&self, concurrent: bool) -> Option<Duration> {
        if concurrent {
            let usable = self.list.iter().filter(|p| p.is_usable());
            return usable.filter_map(|p| p.rto.srtt()).max();
        }
        self[self.current].rto.srtt()
    }

    /// Bytes that something in front of DATA takes from each packet.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.reserved = bytes as u16;
    }

    /// Bytes that something below the chunks takes from each packet, of these paths and of those to
    /// come.
    pub(crate) fn set_overhead(&mut self, bytes: usize) {
        let bytes = bytes as u16;
        self.overhead = Some(bytes);
        self.list.iter_mut().for_each(|p| p.set_overhead(bytes));
    }

    pub(crate) fn reserved(&self) -> usize {
        usize::from(self.reserved)
    }

    /// Association Maximum DATA Chunk Size (section 7.3): the smallest PMDCS.
    pub(crate) fn amdcs(&self) -> usize {
        let smallest = self.list.iter().map(Path::pmdcs).min().unwrap_or(0);
        smallest.saturating_sub(self.reserved()) & !3
    }
}

impl Index<PathId> for Paths {
    type Output = Path;

    fn index(&self, id: PathId) -> &Path {
        // All references to a path are replaced when it is removed; a stale number selects the first path.
        &self.list[self.position(id).unwrap_or(0)]
    }
}

impl IndexMut<PathId> for Paths {
    fn index_mut(&mut self, id: PathId) -> &mut Path {
        let at = self.position(id).unwrap_or(0);
        &mut self.list[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::MatchingAddress;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn paths(config: &AssociationConfig) -> Paths {
        let local = [ip("10.1.0.1"), ip("10.2.0.1")];
        let mut paths = Paths::new();
        for remote in ["10.1.0.2", "10.2.0.2"] {
            let like = Route {
                local: None,
                remote: ip(remote),
                encapsulation: None,
                ecn: crate::Ecn::NotCapable,
            };
            paths.add_address(ip(remote), &like, true, &local, &MatchingAddress, config);
        }
        paths
    }

    #[test]
    fn data_leaves_a_failed_primary_and_returns_to_it() {
        let mut paths = paths(&AssociationConfig::rfc9260());
        assert_eq!((paths.len(), paths.choose()), (2, None));
        paths[PathId(0)].active = false;
        assert_eq!(paths.choose(), Some(PathId(1)));
        paths[PathId(1)].active = false;
        assert_eq!(paths.choose(), None, "dormant");
        paths.leave_failed(PathId(1));
        assert_eq!(paths.current(), PathId(0), "the paths are tried in turn");
        assert!(paths.all_inactive());
        paths[PathId(0)].active = true;
        assert_eq!(paths.choose(), None);
        assert_eq!(paths.current(), PathId(0));
    }

    #[test]
    fn only_its_expiry_rotates_the_retransmission_path() {
        let mut paths = paths(&AssociationConfig::rfc9260());
        paths.iter_mut().for_each(|p| p.confirmed = true);
        let turn = |paths: &Paths| {
            let mut views = paths.views();
            views.find(|view| view.in_turn).map(|view| view.id)
        };
        assert_eq!(turn(&paths), Some(PathId(1)), "not the primary");
        paths.pass_retransmission_turn(PathId(0));
        assert_eq!(turn(&paths), Some(PathId(1)), "the timer of another path");
        paths.pass_retransmission_turn(PathId(1));
        assert_eq!(
            turn(&paths),
            Some(PathId(0)),
            "the primary path is the next active one"
        );
        paths[PathId(0)].active = false;
        paths.pass_retransmission_turn(PathId(0));
        paths.pass_retransmission_turn(PathId(1));
        assert_eq!(turn(&paths), Some(PathId(1)), "the only active one");
    }

    #[test]
    fn pairs_are_paths_of_their_own_when_asked_for() {
        let config = AssociationConfig::rfc9260().with(|c| c.paths.monitor_pairs = true);
        let paths = paths(&config);
        assert_eq!(paths.len(), 4);
        let found = paths
            .find(&Route::plain(ip("10.1.0.1"), ip("10.2.0.2")))
            .unwrap();
        assert_eq!(
            (paths[found].local, paths[found].remote),
            (Some(ip("10.1.0.1")), ip("10.2.0.2"))
        );
        assert!(!paths[found].confirmed, "each pair is verified by itself");
    }

    #[test]
    fn path_ids_ascend_with_gaps_between_them() {
        let mut paths = paths(&AssociationConfig::rfc9260());
        for (path, number) in paths.list.iter_mut().zip([255, 64]) {
            path.id = PathId(number);
        }
        assert!(paths.ids().eq([PathId(64), PathId(255)]));
        paths.list.clear();
        assert_eq!(paths.ids().count(), 0);
    }

    #[test]
    fn addresses_beyond_the_limit_are_ignored() {
        let config = AssociationConfig::rfc9260().with(|c| c.paths.max_paths = 1);
        assert_eq!(paths(&config).len(), 1);
    }
}
