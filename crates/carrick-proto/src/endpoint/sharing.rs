//! Which association the packets of a set-up mean, where several peers have one address: hosts
//! behind a translator share its address, and may have the same SCTP port as well. An association is
//! meant if packets to it go the way that the INIT came: in UDP to the same port, or on plain IP
//! (RFC 9260 section 5.1.2 D, RFC 6951).

use core::net::IpAddr;

use super::cookie_echo::CookieMatch;
use super::{Cookie, Endpoint};
use crate::association::{AssociationId, PeerParameters};
use crate::route::Route;

impl Endpoint {
    /// The association that an INIT is about, if there is one: any of its addresses identifies it.
    pub(super) fn find_by_init(
        &self,
        route: &Route,
        port: u16,
        peer: &PeerParameters<'_>,
    ) -> Option<AssociationId> {
        let way = route.encapsulation;
        let source = self.registry.find_way(route.remote, port, way);
        source.or_else(|| {
            let listed = peer.addresses.iter();
            listed.copied().find_map(|a| self.find_listed(a, port, way))
        })
    }

    /// The association with an address that an INIT only tells.
    fn find_listed(&self, address: IpAddr, port: u16, way: Option<u16>) -> Option<AssociationId> {
        let mut sharing = self.registry.sharing(address, port);
        let found = sharing.find(|(id, known)| *known == way && self.is_theirs(*id, address, way));
        found.map(|(id, _)| id)
    }

    /// Whether an address that is only told says who the peer is. In UDP it may be one of the
    /// private addresses that many networks have, unless it was verified.
    fn is_theirs(&self, id: AssociationId, address: IpAddr, way: Option<u16>) -> bool {
        let mut paths = self
            .registry
            .get(id)
            .into_iter()
            .flat_map(|a| a.paths.iter());
        way.is_none() || paths.any(|p| p.remote == address && p.confirmed)
    }

    /// The association that a valid cookie is for. One that its tags name goes before others; where
    /// they name none, the way that the INIT came decides.
    pub(super) fn find_by_cookie(
        &self,
        route: &Route,
        port: u16,
        cookie: &Cookie,
    ) -> Option<AssociationId> {
        let mut best = None;
        for at in [&route.remote, &cookie.remote]
            .into_iter()
            .chain(&cookie.addresses)
        {
            for (id, way) in self.registry.sharing(*at, port) {
                let Some(association) = self.registry.get(id) else {
                    continue;
                };
                let same_way = way == cookie.encapsulation && self.is_theirs(id, *at, way);
                match CookieMatch::of(cookie, association) {
                    CookieMatch::Restart | CookieMatch::Collision | CookieMatch::Duplicate => {
                        return Some(id);
                    }
                    // Both sides set up at the same time, and the peer's INIT came another way than
                    // this side's went. Peers of which each set up their own choose their tags
                    // independently of each other.
                    CookieMatch::Late if same_way || !association.was_accepted() => {
                        best = best.or(Some(id));
                    }
                    _ => {}
                }
            }
        }
        if best.is_some() || cookie.another {
            return best;
        }
        let way = cookie.encapsulation;
        let from = [route.remote, cookie.remote];
        let mut from = from.into_iter();
        let source = from.find_map(|a| self.registry.find_way(a, port, way));
        source.or_else(|| {
            let listed = cookie.addresses.iter();
            listed.copied().find_map(|a| self.find_listed(a, port, way))
        })
    }
}
