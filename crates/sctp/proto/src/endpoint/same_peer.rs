//! One association between two endpoints (RFC 9260, section 1.3), where a set-up of this side and another
//! association turn out to have one peer: two set-ups to two of its addresses that overlap in time, or a set-up to
//! an address that the peer has advertised and that is not confirmed yet. The set-up that this shows of ends with
//! [`CloseReason::AlreadyConnected`]:
//!
//! 1. on its INIT ACK, whose addresses identify the peer (section 5.1.2 D): [`Endpoint::has_same_peer`]. No COOKIE
//!    ECHO leaves, so that the peer keeps no state of it;
//! 2. when another association confirms the address of its INIT: [`Endpoint::on_address_confirmed`];
//! 3. when its INIT or COOKIE ECHO is due again, and another association has confirmed the address since:
//!    [`Endpoint::end_repeated_set_up`].
//!
//! If the peer accepts a set-up all the same, it has replaced the other association by a restart (section 5.2.4.1) or
//! by taking over the tag of the set-up (section 5.2.4, action B), and that association ends here, too:
//! [`Endpoint::end_replaced`]. Of two associations that set-ups of both sides have made, both sides end the one with
//! the higher pair of tags: [`duplicate_of_crossing`]. Behind translators, set-ups of both sides may make two
//! associations with hosts that differ; an association that the peer initiated is left alone.
//!
//! An address that is not confirmed is a claim: it ends no set-up unless both peers claim each other's address.
//! `docs/decisions/one-association.md` has the reasons.

use alloc::vec::Vec;
use core::net::IpAddr;

use carrick_wire::{Init, VerificationTag};

use super::Endpoint;
use super::input::MAX_LOOKUPS;
use crate::association::state::AssociationState;
use crate::association::{Association, ip_addresses};
use crate::cookie::Cookie;
use crate::event::{AbortCause, CloseReason, Event};
use crate::ids::AssociationId;
use crate::path::{Path, PathId};
use crate::route::{PeerAddress, Route, in_scope, is_own_address};
use crate::time::Time;

impl Endpoint {
    /// Returns whether the sender of an INIT ACK to the set-up `id` has another association with this endpoint that
    /// it has answered: one in which the source or a listed address of the INIT ACK is confirmed, with the
    /// encapsulation that this set-up has for it, and whose peer
    ///
    /// - lists the source of the INIT ACK, or can't list it because of its scope;
    /// - or lists at least two addresses, all of them listed in the INIT ACK. The source may be missing among them
    ///   if its INIT ACK had no room for all.
    pub(super) fn has_same_peer(&self, id: AssociationId, route: &Route, init: &Init<'_>) -> bool {
        let Some(set_up) = self.registry.get(id) else {
            return false;
        };
        if !is_waiting(set_up) {
            return false;
        }
        let source = route.remote;
        let mut listed = Vec::from([source]);
        if !set_up.config().paths.ignore_peer_addresses {
            let all = ip_addresses(init.parameters()).take(MAX_LOOKUPS);
            listed.extend(all.filter(|a| is_own_address(*a, source)));
        }
        let port = set_up.peer_port();
        let peer = |address: &IpAddr| PeerAddress {
            address: *address,
            encapsulation: set_up.path_set().like(*address, route).encapsulation,
        };
        let shows = |peer: PeerAddress, other: &Association| {
            let remotes = || other.path_set().remotes();
            let has_several = remotes().any(|a| a != peer.address);
            other.path_set().has_address(source)
                || !in_scope(source, peer.address)
                || has_several && remotes().all(|a| listed.contains(&a))
        };
        listed.iter().map(peer).any(|peer| {
            let mut others = self.answered_at(peer, port, id);
            others.any(|other| shows(peer, other))
        }) || self
            .registry
            .has_same_peer_in_shard(id, source, port, listed.iter().map(peer))
    }

    /// Returns the other associations in which this address is confirmed and has this encapsulation, and that are
    /// not waiting for an INIT ACK.
    fn answered_at(
        &self,
        peer: PeerAddress,
        port: u16,
        id: AssociationId,
    ) -> impl Iterator<Item = &Association> {
        let all = self.registry.at_address(peer.address, port);
        let others = all.filter(move |found| {
            found.id != id && found.confirmed && found.encapsulation == peer.encapsulation
        });
        let others = others.filter_map(|found| self.registry.get(found.id));
        others.filter(|other| !is_waiting(other))
    }

    /// Applies a change of an association to the other ones with the same peer.
    pub(super) fn on_peer_change(&mut self, now: Time, id: AssociationId, change: PeerChange) {
        match change {
            PeerChange::Confirmed(path) => self.on_address_confirmed(now, id, path),
            PeerChange::Initiated => self.end_replaced(now, id),
        }
    }

    /// Ends the set-ups that wait for an INIT ACK from an address that an association has confirmed, and of two
    /// crossing associations one.
    fn on_address_confirmed(&mut self, now: Time, id: AssociationId, path: PathId) {
        let Some(association) = self.registry.get(id) else {
            return;
        };
        let Some(path) = association.path_set().iter().find(|p| p.id() == path) else {
            return;
        };
        let port = association.peer_port();
        let (remote, encapsulation) = (path.remote(), path.encapsulation());
        let all = self.registry.at_address(remote, port);
        let others = all.filter(|found| found.id != id && found.encapsulation == encapsulation);
        let others = others.filter_map(|found| self.registry.get(found.id));
        let ended = others.filter_map(|other| {
            if is_waiting(other) {
                return Some(other.id());
            }
            duplicate_of_crossing(association, other).map(Association::id)
        });
        let ended: Vec<AssociationId> = ended.collect();
        for duplicate in ended {
            self.end_duplicate(now, duplicate);
        }
    }

    /// Ends a set-up whose INIT or COOKIE ECHO was not answered in time, if another association has confirmed its
    /// address meanwhile: the peer discards a COOKIE ECHO from the time before that association (RFC 9260, section
    /// 5.2.4).
    pub(super) fn end_repeated_set_up(&mut self, now: Time, id: AssociationId) {
        let association = self.registry.get(id);
        let Some(set_up) = association.filter(|a| a.state().repeats_set_up()) else {
            return;
        };
        let is_known = |other: &Association| {
            is_waiting(set_up) || !other.was_accepted() && other.peer_tag() != set_up.peer_tag()
        };
        if self.others_with_peer(id).any(is_known) {
            self.end_duplicate(now, id);
        }
    }

    /// Ends the associations of this side that a set-up of this side has replaced: in which one of its confirmed
    /// addresses is confirmed, too, or in which the peer has the same tag. The peer has restarted them, or has taken
    /// over the tag of the set-up (action B of table 12), so that nothing is delivered in them any more. If they have
    /// several addresses in common, the INIT ACK would have ended the set-up: the two have crossed set-ups of the
    /// peer, and one of them ends as soon as both sides know which.
    fn end_replaced(&mut self, now: Time, id: AssociationId) {
        let Some(association) = self.registry.get(id) else {
            return;
        };
        let with_peer = self.others_with_peer(id).filter_map(|other| {
            let common = common_addresses(association.path_set().iter(), other.path_set().iter());
            if are_several(common) {
                duplicate_of_crossing(association, other)
            } else {
                Some(other)
            }
        });
        let same_tag = self.others_with_peer_tag(association, association.peer_tag());
        let replaced = with_peer.chain(same_tag);
        let replaced = replaced.filter(|a| !a.state().is_setup() && !a.was_accepted());
        let replaced: Vec<AssociationId> = replaced.map(Association::id).collect();
        for other in replaced {
            self.end_duplicate(now, other);
        }
    }

    /// Returns whether the peer's part of a set-up belongs to another association of this side: one whose COOKIE ECHO
    /// has left with the peer's tag in this cookie. The peer takes over the tag in it.
    pub(super) fn is_replaced(&self, set_up: &Association, cookie: &Cookie) -> bool {
        let mut others = self.others_with_peer_tag(set_up, cookie.peer_tag);
        set_up.state().is_setup() && others.any(|a| !a.was_accepted())
    }

    /// Returns the other associations at the addresses of this one in which the peer has this tag.
    fn others_with_peer_tag(
        &self,
        association: &Association,
        tag: VerificationTag,
    ) -> impl Iterator<Item = &Association> {
        let (id, port) = (association.id(), association.peer_port());
        let remotes = association.path_set().remotes();
        let all = remotes.flat_map(move |remote| self.registry.at_address(remote, port));
        let others = all.filter(move |found| found.id != id);
        let others = others.filter_map(|found| self.registry.get(found.id));
        others.filter(move |other| other.peer_tag() == tag)
    }

    /// Returns the other associations that have confirmed one of the addresses that this one has confirmed.
    fn others_with_peer(&self, id: AssociationId) -> impl Iterator<Item = &Association> {
        let association = self.registry.get(id).into_iter();
        association.flat_map(move |association| {
            let port = association.peer_port();
            let confirmed = association.path_set().iter().filter(|p| p.is_confirmed());
            confirmed.flat_map(move |path: &Path| {
                let peer = PeerAddress {
                    address: path.remote(),
                    encapsulation: path.encapsulation(),
                };
                self.answered_at(peer, port, id)
            })
        })
    }

    /// Ends a set-up with the peer of another association, or an association that the set-up has replaced. An ABORT
    /// leaves if the peer may have state of it: not before its INIT ACK, and not if the peer's tag is that of
    /// another association, which the ABORT would end.
    pub(super) fn end_duplicate(&mut self, now: Time, id: AssociationId) {
        let Some(association) = self.registry.get(id) else {
            return;
        };
        let tag = association.peer_tag();
        let is_shared = self.others_with_peer_tag(association, tag).next().is_some();
        self.update_association(now, id, |association, cx| {
            if is_shared {
                association.close(CloseReason::AlreadyConnected, cx);
            } else {
                association.abort(CloseReason::AlreadyConnected, &AbortCause::NONE, cx);
            }
        });
    }
}

/// Change of an association that concerns the other ones with its peer.
#[derive(Clone, Copy, Debug)]
pub(super) enum PeerChange {
    /// An address of the peer was confirmed.
    Confirmed(PathId),
    /// A set-up of this side has established the association.
    Initiated,
}

impl PeerChange {
    pub(super) fn of(event: &Event) -> Option<Self> {
        match event {
            Event::PathConfirmed(path) => Some(Self::Confirmed(*path)),
            Event::Established {
                accepted: false, ..
            } => Some(Self::Initiated),
            _ => None,
        }
    }
}

/// Returns whether an association waits for an INIT ACK.
fn is_waiting(association: &Association) -> bool {
    matches!(association.state(), AssociationState::CookieWait(_))
}

/// Returns the one of two associations that ends if set-ups of both sides to the same peer have crossed: the one with
/// the higher pair of tags. Both sides know the two pairs, and compare the lower tag of each pair first. `None` as long
/// as they do not have a confirmed address in common, or the peer has not acknowledged a HEARTBEAT in the one that
/// remains.
fn duplicate_of_crossing<'a>(
    one: &'a Association,
    other: &'a Association,
) -> Option<&'a Association> {
    let is_established = |a: &Association| matches!(a.state(), AssociationState::Established);
    let is_own = |a: &Association| is_established(a) && !a.was_accepted();
    if !is_own(one) || !is_own(other) {
        return None;
    }
    let pair = |a: &Association| {
        let (local, peer) = (a.local_tag().0, a.peer_tag().0);
        (local.min(peer), local.max(peer))
    };
    let (kept, ended) = if pair(one) < pair(other) {
        (one, other)
    } else {
        (other, one)
    };
    let all = |a: &'a Association| a.path_set().iter();
    let confirmed = |a: &'a Association| all(a).filter(|p| p.is_confirmed());
    let is_common = common_addresses(confirmed(kept), confirmed(ended)).next();
    let is_proven = are_several(common_addresses(confirmed(kept), all(ended)));
    (is_common.is_some() && is_proven).then_some(ended)
}

/// Returns the addresses of the first paths that the second ones have, too, with the same encapsulation.
fn common_addresses<'a>(
    one: impl Iterator<Item = &'a Path>,
    other: impl Iterator<Item = &'a Path> + Clone,
) -> impl Iterator<Item = IpAddr> {
    let peer = |path: &Path| (path.remote(), path.encapsulation());
    let is_common = move |path: &&Path| other.clone().any(|p| peer(p) == peer(path));
    one.filter(is_common).map(Path::remote)
}

/// Returns whether there are several addresses; one may have several paths.
fn are_several(mut addresses: impl Iterator<Item = IpAddr>) -> bool {
    let first = addresses.next();
    addresses.any(|a| Some(a) != first)
}
