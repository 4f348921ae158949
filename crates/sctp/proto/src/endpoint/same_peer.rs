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
//! If the peer accepts a set-up all the same, it has replaced the other association by a restart (section 5.2.4.1),
//! and that association ends here, too: [`Endpoint::end_replaced`]. Behind translators, set-ups of both sides may make
//! two associations; so that the two sides do not end both, an association that the peer initiated is left alone.
//!
//! An address that is not confirmed is a claim: it ends no set-up unless both peers claim each other's address.
//! `docs/decisions/one-association.md` has the reasons.

use alloc::vec::Vec;
use core::net::IpAddr;

use carrick_wire::Init;

use super::Endpoint;
use super::input::MAX_LOOKUPS;
use crate::association::state::AssociationState;
use crate::association::{Association, AssociationId, ip_addresses};
use crate::error::AbortCause;
use crate::event::{CloseReason, Event};
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
            encapsulation: set_up.paths().like(*address, route).encapsulation,
        };
        let shows = |peer: PeerAddress, other: &Association| {
            let remotes = || other.paths().remotes();
            let has_several = remotes().any(|a| a != peer.address);
            other.paths().has_address(source)
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

    /// Applies an event to the other associations with the same peer.
    pub(super) fn on_event(&mut self, now: Time, id: AssociationId, event: &Event) {
        match event {
            Event::PathConfirmed(path) => self.on_address_confirmed(now, id, *path),
            Event::Established {
                accepted: false, ..
            } => self.end_replaced(now, id),
            _ => {}
        }
    }

    /// Ends the set-ups that wait for an INIT ACK from an address that an association has confirmed.
    fn on_address_confirmed(&mut self, now: Time, id: AssociationId, path: PathId) {
        let Some(association) = self.registry.get(id) else {
            return;
        };
        let Some(path) = association.paths().iter().find(|p| p.id() == path) else {
            return;
        };
        let port = association.peer_port();
        let (remote, encapsulation) = (path.remote(), path.encapsulation());
        let all = self.registry.at_address(remote, port);
        let others = all.filter(|found| found.id != id && found.encapsulation == encapsulation);
        let others = others.map(|found| found.id);
        let waits = |other: &AssociationId| self.registry.get(*other).is_some_and(is_waiting);
        let waiting: Vec<AssociationId> = others.filter(waits).collect();
        for set_up in waiting {
            self.end_duplicate(now, set_up);
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
        let is_known = |other: &Association| is_waiting(set_up) || !other.was_accepted();
        if self.others_with_peer(id).any(is_known) {
            self.end_duplicate(now, id);
        }
    }

    /// Ends the associations of this side that a set-up of this side has replaced: in which one of its confirmed
    /// addresses is confirmed, too. The peer has restarted them, so that nothing is delivered in them any more.
    fn end_replaced(&mut self, now: Time, id: AssociationId) {
        let others = self.others_with_peer(id);
        let replaced = others.filter(|a| !a.state().is_setup() && !a.was_accepted());
        let replaced: Vec<AssociationId> = replaced.map(Association::id).collect();
        for other in replaced {
            self.end_duplicate(now, other);
        }
    }

    /// Returns the other associations that have confirmed one of the addresses that this one has confirmed.
    fn others_with_peer(&self, id: AssociationId) -> impl Iterator<Item = &Association> {
        let association = self.registry.get(id).into_iter();
        association.flat_map(move |association| {
            let port = association.peer_port();
            let confirmed = association.paths().iter().filter(|p| p.is_confirmed());
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
    /// leaves if the peer may have state of it: not before its INIT ACK. An association with other tags discards it.
    pub(super) fn end_duplicate(&mut self, now: Time, id: AssociationId) {
        self.update_association(now, id, |association, cx| {
            association.abort(CloseReason::AlreadyConnected, &AbortCause::NONE, cx)
        });
    }
}

/// Returns whether an association waits for an INIT ACK.
fn is_waiting(association: &Association) -> bool {
    matches!(association.state(), AssociationState::CookieWait(_))
}
