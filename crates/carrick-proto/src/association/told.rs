//! Which of its addresses this side tells in INIT and INIT ACK (RFC 9260 sections 3.3.2 and 5.1.2),
//! and what the peer says there that is only advice (RFC 5061 sections 4.2.4, 4.2.6 and 5.4).
//!
//! There may be more than a packet has room for. Those that are left out are told by ASCONF where
//! both sides have dynamic addresses; until then nothing leaves from them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use carrick_wire::ParameterWriter;

use super::{Association, Context};
use crate::endpoint::Cookie;
use crate::route::Route;

/// Addresses in an INIT or INIT ACK at most: INIT ACK may be larger than a packet, and goes to whoever
/// sent an INIT.
const MAX_TOLD: usize = 100;

/// Tells the peer the local addresses it can use: none if there is only one, which the packet
/// shows by itself (RFC 9260 section 3.3.2.1.2 and RFC 6951 section 5.7). Returns those that were
/// told, if not all were.
pub(crate) fn write_addresses(
    parameters: &mut ParameterWriter<'_>,
    local: &[IpAddr],
    route: &Route,
    supported: impl Fn(IpAddr) -> bool,
) -> Option<Vec<IpAddr>> {
    if local.len() < 2 {
        return None;
    }
    let to_this_host = route.remote.is_loopback();
    let fit = |a: &&IpAddr| (to_this_host || !a.is_loopback()) && supported(**a);
    let mut told = 0;
    for &address in local.iter().filter(fit).take(MAX_TOLD) {
        let len = if address.is_ipv4() { 4 } else { 16 };
        if !parameters.fits(len) {
            break;
        }
        parameters.ip_address(address);
        told += 1;
    }
    let all = local.iter().filter(fit);
    (told < all.clone().count()).then(|| all.take(told).copied().collect())
}

impl Association {
    /// An INIT ACK came to this address, from which the INIT had left: the peer knows it.
    pub(super) fn note_told(&mut self, route: &Route) {
        let Some(source) = route.local else { return };
        if self.config.wildcard_addresses {
            self.only_told = Some([source].into());
        } else if let Some(only) = self.only_told.take() {
            self.only_told = Some(with_source(only.into_vec(), Some(source)));
        }
    }

    /// INIT or INIT ACK says where the peer would rather be sent to: there new data goes as soon as
    /// the address is verified. And it says what is above SCTP, which is for the user alone.
    pub(super) fn take_advice(&mut self, preferred: Option<IpAddr>, above: Option<u32>) {
        self.peer_adaptation_layer = above;
        let path = self.paths.iter().find(|p| Some(p.remote) == preferred);
        if let Some(id) = path
            .map(|p| p.id)
            .filter(|_| self.extensions.dynamic_addresses)
        {
            self.paths.set_primary(id);
        }
    }

    /// What the INIT ACK with this cookie told, if that was not everything.
    pub(super) fn told_in_init_ack(
        &self,
        cookie: &Cookie,
        cx: &Context<'_>,
    ) -> Option<Box<[IpAddr]>> {
        if self.config.wildcard_addresses {
            return cookie.local.map(|source| [source].into());
        }
        let to_this_host = cookie.remote.is_loopback();
        let told = cx.local_addresses.told(cookie.told);
        let listed = told.iter().filter(|a| to_this_host || !a.is_loopback());
        let more = listed.clone().nth(MAX_TOLD).is_some();
        more.then(|| with_source(listed.take(MAX_TOLD).copied().collect(), cookie.local))
    }
}

/// The addresses in a packet, and the one that it came from.
pub(super) fn with_source(mut told: Vec<IpAddr>, source: Option<IpAddr>) -> Box<[IpAddr]> {
    told.extend(source.filter(|s| !told.contains(s)));
    told.into()
}
