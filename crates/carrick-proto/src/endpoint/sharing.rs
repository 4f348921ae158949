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

    /// The association with an address that an INIT only tells. In UDP it may be one of the private
    /// addresses that many networks have: only one that was verified says who the peer is.
    fn find_listed(&self, address: IpAddr, port: u16, way: Option<u16>) -> Option<AssociationId> {
        let mut sharing = self.registry.sharing(address, port);
        let verified = |id: AssociationId| {
            let paths = self
                .registry
                .get(id)
                .into_iter()
                .flat_map(|a| a.paths.iter());
            paths
                .into_iter()
                .any(|p| p.remote == address && p.confirmed)
        };
        sharing
            .find(|(id, known)| *known == way && (way.is_none() || verified(*id)))
            .map(|(id, _)| id)
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
                let same_way = way == cookie.encapsulation;
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
        best.or_else(|| {
            let source = self
                .registry
                .find_way(route.remote, port, cookie.encapsulation);
            let from = || {
                self.registry
                    .find_way(cookie.remote, port, cookie.encapsulation)
            };
            source.or_else(from).or_else(|| {
                let listed = cookie.addresses.iter().copied();
                let way = cookie.encapsulation;
                listed
                    .into_iter()
                    .find_map(|a| self.find_listed(a, port, way))
            })
        })
    }
}
