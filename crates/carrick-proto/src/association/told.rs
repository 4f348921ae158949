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
use crate::route::{Route, in_scope};

/// Addresses in an INIT or INIT ACK at most.
const MAX_TOLD: usize = 100;

/// The local addresses to advertise in a packet on this route: those that the peer can use. None if
/// that is only the source, which the packet shows as it arrives, whatever a translator makes of it
/// (RFC 9260 section 3.3.2.1.2 and RFC 6951 section 5.7).
fn usable(
    local: &[IpAddr],
    route: &Route,
    supported: impl Fn(IpAddr) -> bool,
) -> impl Iterator<Item = IpAddr> {
    let fit = |a: &IpAddr| in_scope(*a, route.remote) && supported(*a);
    let mut all: Vec<IpAddr> = local.iter().copied().filter(fit).collect();
    let shown = match route.local {
        Some(source) if local.len() > 1 => all.iter().all(|a| *a == source),
        _ => all.len() < 2,
    };
    if shown {
        all.clear();
    }
    all.into_iter()
}

/// Tells the peer in an INIT the local addresses it can use. Returns those that were told, if not all
/// were.
pub(super) fn write_addresses(
    parameters: &mut ParameterWriter<'_>,
    local: &[IpAddr],
    route: &Route,
) -> Option<Vec<IpAddr>> {
    let all: Vec<IpAddr> = usable(local, route, |_| true).collect();
    let mut told = 0;
    for &address in all.iter().take(MAX_TOLD) {
        let len = if address.is_ipv4() { 4 } else { 16 };
        if !parameters.fits(len) {
            break;
        }
        parameters.ip_address(address);
        told += 1;
    }
    (told < all.len()).then(|| all[..told].to_vec())
}

/// Addresses that an INIT ACK may list whatever the length of the INIT.
const LEAST_LISTED: usize = 4;

/// The addresses in an INIT ACK. It may be larger than a packet, but goes to a source that is not
/// verified: the addresses take no more bytes than the packet with the INIT, or are four at most. The
/// peer learns the rest by ASCONF, see `docs/decisions/amplification.md`.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) addresses: Vec<IpAddr>,
    /// The last of them, if not all are.
    pub(crate) cut: Option<IpAddr>,
}

impl Listed {
    pub(crate) fn in_init_ack(
        local: &[IpAddr],
        route: &Route,
        init_len: usize,
        supported: impl Fn(IpAddr) -> bool,
    ) -> Self {
        let mut all = usable(local, route, supported).peekable();
        let mut addresses = Vec::new();
        let mut room = init_len;
        while addresses.len() < MAX_TOLD
            && let Some(address) = all.peek()
        {
            let len = if address.is_ipv4() { 8 } else { 20 };
            if len > room && addresses.len() >= LEAST_LISTED {
                break;
            }
            room = room.saturating_sub(len);
            addresses.extend(all.next());
        }
        let cut = all.next().and(addresses.last().copied());
        Self { addresses, cut }
    }
}

impl Association {
    /// An INIT ACK came to this address, from which the INIT had left: the peer knows it.
    pub(super) fn note_told(&mut self, route: &Route, cx: &Context<'_>) {
        if self.config.wildcard_addresses {
            self.only_told = Some(shown(route.local, cx));
        } else if let Some(only) = self.only_told.take() {
            self.only_told = Some(with_source(only.into_vec(), route.local));
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
            return Some(shown(cookie.local, cx));
        }
        let last = cookie.last_told?;
        let mut told = cx
            .local_addresses
            .known_up_to(cookie.told, last)
            .into_owned();
        told.extend(cx.local_addresses.gone(cookie.told, last));
        told.retain(|a| in_scope(*a, cookie.remote));
        Some(with_source(told, cookie.local))
    }
}

/// What a peer knows that was told no address: the one that packets came from. Where it is not known
/// which that was, it can only be the one that there is, or has to be found out.
fn shown(source: Option<IpAddr>, cx: &Context<'_>) -> Box<[IpAddr]> {
    match (source, cx.local_addresses.all()) {
        (Some(source), _) => [source].into(),
        (None, &[only]) => [only].into(),
        (None, _) => [].into(),
    }
}

/// The addresses in a packet, and the one that it came from.
pub(super) fn with_source(mut told: Vec<IpAddr>, source: Option<IpAddr>) -> Box<[IpAddr]> {
    told.extend(source.filter(|s| !told.contains(s)));
    told.into()
}
