//! Lookup of the association to which an INIT or a COOKIE ECHO refers, where several peers have one
//! address: hosts behind a translator share its address and may use the same SCTP port. A packet refers
//! to an association with the same encapsulation: the same UDP port, or plain IP (RFC 9260,
//! section 5.1.2 D; RFC 6951).
//!
//! Only a confirmed address identifies an association here. A peer may list addresses that are not its
//! own: private addresses that many networks use, or those of another host, to block its INIT (address
//! camping, RFC 5062, section 2). Later packets are found by their tag, also at unconfirmed addresses.

use super::Endpoint;
use super::cookie_echo::CookieMatch;
use crate::association::PeerParameters;
use crate::cookie::Cookie;
use crate::ids::AssociationId;
use crate::route::Route;

impl Endpoint {
    /// Returns the existing association with the sender of an INIT: one in which the source address or
    /// an address in the INIT is confirmed.
    pub(super) fn find_by_init(
        &self,
        route: &Route,
        port: u16,
        peer: &PeerParameters<'_>,
    ) -> Option<AssociationId> {
        let mut all = core::iter::once(&route.remote).chain(&peer.addresses);
        all.find_map(|a| self.registry.find_confirmed(*a, port, route.encapsulation))
    }

    /// Returns the existing association to which a valid cookie refers: one that its tags identify, or
    /// else one in which an address of the cookie is confirmed with the encapsulation of the INIT.
    pub(super) fn find_by_cookie(
        &self,
        route: &Route,
        port: u16,
        cookie: &Cookie,
    ) -> Option<AssociationId> {
        let encapsulation = cookie.encapsulation;
        let other = (cookie.remote != route.remote).then_some(&cookie.remote);
        let from = core::iter::once(&route.remote).chain(other);
        let addresses = from.chain(&cookie.addresses);
        let (mut late, mut confirmed) = (None, None);
        for found in addresses.flat_map(|at| self.registry.at_address(*at, port)) {
            let Some(association) = self.registry.get(found.id) else {
                continue;
            };
            let is_confirmed = found.encapsulation == encapsulation && found.confirmed;
            confirmed = confirmed.or(is_confirmed.then_some(found.id));
            match CookieMatch::of(cookie, association) {
                CookieMatch::Restart | CookieMatch::Collision | CookieMatch::Duplicate => {
                    return Some(found.id);
                }
                // Both sides initiated at the same time with different encapsulations. Unrelated
                // peers at one address choose their tags independently, so only an association that
                // this side initiated matches without a confirmed address.
                CookieMatch::Late if is_confirmed || !association.was_accepted() => {
                    late = late.or(Some(found.id));
                }
                _ => {}
            }
        }
        late.or(confirmed.filter(|_| !cookie.is_additional))
    }
}
