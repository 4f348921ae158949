//! Which association the packets of a set-up mean, where several peers have one address: hosts
//! behind a translator share its address, and may have the same SCTP port as well. An association is
//! meant if packets to it go the way that the INIT came: in UDP to the same port, or on plain IP
//! (RFC 9260 section 5.1.2 D, RFC 6951).
//!
//! Only an address that is confirmed identifies an association here. A peer may list addresses that
//! are not its own: private ones that many networks have, or those of another host, to keep its INIT
//! out (address camping, RFC 5062 section 2). Later packets are found by their tag, at unconfirmed
//! addresses too.

use super::cookie_echo::CookieMatch;
use super::{Cookie, Endpoint};
use crate::association::{AssociationId, PeerParameters};
use crate::route::Route;

impl Endpoint {
    /// The association that an INIT is about, if there is one: its source or any address in it
    /// identifies the peer, if it is confirmed.
    pub(super) fn find_by_init(
        &self,
        route: &Route,
        port: u16,
        peer: &PeerParameters<'_>,
    ) -> Option<AssociationId> {
        let mut all = core::iter::once(&route.remote).chain(&peer.addresses);
        all.find_map(|a| self.registry.find_confirmed(*a, port, route.encapsulation))
    }

    /// The association that a valid cookie is for. One that its tags name goes before others; where
    /// they name none, the way that the INIT came decides.
    pub(super) fn find_by_cookie(
        &self,
        route: &Route,
        port: u16,
        cookie: &Cookie,
    ) -> Option<AssociationId> {
        let way = cookie.encapsulation;
        let addresses = || {
            let from = [&route.remote, &cookie.remote].into_iter();
            from.chain(&cookie.addresses)
        };
        let mut best = None;
        for known in addresses().flat_map(|at| self.registry.sharing(*at, port)) {
            let Some(association) = self.registry.get(known.id) else {
                continue;
            };
            let is_theirs = known.way == way && known.confirmed;
            match CookieMatch::of(cookie, association) {
                CookieMatch::Restart | CookieMatch::Collision | CookieMatch::Duplicate => {
                    return Some(known.id);
                }
                // Both sides set up at the same time, and the peer's INIT came another way than
                // this side's went. Peers of which each set up their own choose their tags
                // independently of each other.
                CookieMatch::Late if is_theirs || !association.was_accepted() => {
                    best = best.or(Some(known.id));
                }
                _ => {}
            }
        }
        if best.is_some() || cookie.another {
            return best;
        }
        addresses().find_map(|a| self.registry.find_confirmed(*a, port, way))
    }
}
