//! Local addresses in INIT and INIT ACK (RFC 9260 sections 3.3.2 and 5.1.2), and which of them the peer of
//! an association knows from there.
//!
//! There may be more addresses than a packet has room for. ASCONF adds the rest where both sides have
//! dynamic addresses (RFC 5061); until then nothing is sent from them.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use carrick_wire::ParameterWriter;

use super::{AddressVersion, LocalAddresses};
use crate::route::{Route, in_scope};

/// Addresses in an INIT or INIT ACK at most.
pub(crate) const MAX_ADVERTISED: usize = 100;

/// Returns the local addresses to advertise in a packet on this route: those that the peer can use. Empty
/// if that is only the source, which the peer learns from the packet, also behind a NAT (RFC 9260
/// section 3.3.2.1.2 and RFC 6951 section 5.7).
fn usable(
    local: &[IpAddr],
    route: &Route,
    supported: impl Fn(IpAddr) -> bool,
) -> impl Iterator<Item = IpAddr> {
    let fit = move |a: &IpAddr| in_scope(*a, route.remote) && supported(*a);
    let mut all = local.iter().copied().filter(&fit);
    let shown = match route.local {
        Some(source) if local.len() > 1 => all.all(|a| a == source),
        _ => all.nth(1).is_none(),
    };
    let local = if shown { &[] } else { local };
    local.iter().copied().filter(fit)
}

/// Advertises in an INIT the local addresses that the peer can use. Returns those that fit, if not all
/// did.
pub(crate) fn write_addresses(
    parameters: &mut ParameterWriter<'_>,
    local: &[IpAddr],
    route: &Route,
) -> Option<Vec<IpAddr>> {
    let all = || usable(local, route, |_| true);
    let mut written = 0;
    for address in all().take(MAX_ADVERTISED) {
        let len = if address.is_ipv4() { 4 } else { 16 };
        if !parameters.fits(len) {
            break;
        }
        parameters.ip_address(address);
        written += 1;
    }
    let cut = all().nth(written).is_some();
    cut.then(|| all().take(written).collect())
}

/// Addresses that an INIT ACK may contain whatever the length of the INIT: as many as redundancy needs.
const MIN_ADVERTISED: usize = 2;

/// The addresses in an INIT ACK. It may be larger than a packet, but is sent to a source that is not
/// verified: without an INIT of this side, the addresses take no more bytes than the SCTP packet with the
/// peer's INIT, or are at most two.
/// ASCONF adds the rest, see `docs/decisions/amplification.md`.
#[derive(Debug, Default)]
pub(crate) struct InitAckAddresses {
    pub(crate) addresses: Vec<IpAddr>,
    /// The last of them, if some were left out.
    pub(crate) cut: Option<IpAddr>,
}

impl InitAckAddresses {
    pub(crate) fn new(
        local: &[IpAddr],
        route: &Route,
        mut room: usize,
        supported: impl Fn(IpAddr) -> bool,
    ) -> Self {
        let mut all = usable(local, route, supported).peekable();
        let mut addresses = Vec::new();
        while addresses.len() < MAX_ADVERTISED
            && let Some(address) = all.peek()
        {
            let len = if address.is_ipv4() { 8 } else { 20 };
            if len > room && addresses.len() >= MIN_ADVERTISED {
                break;
            }
            room = room.saturating_sub(len);
            addresses.extend(all.next());
        }
        let cut = all.next().and(addresses.last().copied());
        Self { addresses, cut }
    }
}

/// The version of the endpoint's addresses that was advertised, without those that were left out.
#[derive(Debug)]
pub(crate) struct AdvertisedAddresses {
    version: AddressVersion,
    /// The addresses that each INIT or INIT ACK contained; `None` for all of the version.
    subset: Option<Box<[IpAddr]>>,
}

portable_struct! { AdvertisedAddresses { version, subset } }

impl AdvertisedAddresses {
    pub(crate) fn new(version: AddressVersion) -> Self {
        Self {
            version,
            subset: None,
        }
    }

    pub(crate) fn version(&self) -> AddressVersion {
        self.version
    }

    /// Returns the advertised addresses that are present.
    pub(crate) fn present<'l>(&self, local: &'l LocalAddresses) -> Cow<'l, [IpAddr]> {
        retain(local.advertised(self.version), |a| self.contains(a))
    }

    /// Returns the advertised addresses that have been removed.
    pub(crate) fn removed(&self, local: &LocalAddresses) -> impl Iterator<Item = IpAddr> {
        let removed = local.removed_since(self.version, self.version);
        removed.filter(|a| self.contains(*a))
    }

    fn contains(&self, address: IpAddr) -> bool {
        let subset = self.subset.as_deref();
        subset.is_none_or(|subset| subset.contains(&address))
    }

    /// Leaves these addresses out of each INIT and INIT ACK that follows in this set-up. Returns whether others
    /// remain.
    pub(crate) fn leave_out(&mut self, addresses: &[IpAddr], local: &LocalAddresses) -> bool {
        let mut rest = self.present(local).into_owned();
        rest.retain(|a| !addresses.contains(a));
        let remain = !rest.is_empty();
        self.subset = Some(rest.into());
        remain
    }

    /// Leaves removed addresses out of each INIT and INIT ACK that follows in this set-up. Should an
    /// address return, the peer may have processed a packet without it.
    pub(crate) fn leave_out_removed(&mut self, local: &LocalAddresses) {
        let mut removed = local.removed_since(self.version, self.version);
        if removed.next().is_some() {
            self.subset = Some(self.present(local).into());
        }
    }

    /// Records the addresses that an INIT contained, which had no room for all, and its source.
    pub(crate) fn record_init(&mut self, written: Vec<IpAddr>, source: Option<IpAddr>) {
        self.subset = Some(with_source(written, source));
    }

    /// Records that the peer knows the source of the INIT, which its INIT ACK was sent to. Without
    /// addresses in the INIT it knows only that.
    pub(crate) fn record_source(
        &mut self,
        source: Option<IpAddr>,
        wildcards: bool,
        local: &LocalAddresses,
    ) {
        if wildcards {
            self.record_source_only(source, local);
        } else if let Some(subset) = self.subset.take() {
            self.subset = Some(with_source(subset.into_vec(), source));
        }
    }

    /// Records that no address was advertised: the peer knows the source of the packets to it. If that is
    /// not recorded, it can only be the single local address, or is not known yet.
    pub(crate) fn record_source_only(&mut self, source: Option<IpAddr>, local: &LocalAddresses) {
        self.subset = Some(match (source, local.all()) {
            (Some(source), _) => [source].into(),
            (None, &[only]) => [only].into(),
            (None, _) => [].into(),
        });
    }

    /// Records the addresses up to `last` in an INIT ACK that had no room for all, and its source.
    pub(crate) fn record_init_ack(
        &mut self,
        last: AddressVersion,
        source: Option<IpAddr>,
        in_scope: impl Fn(IpAddr) -> bool,
        local: &LocalAddresses,
    ) {
        let mut advertised = local.advertised_up_to(self.version, last).into_owned();
        advertised.extend(local.removed_since(self.version, last));
        advertised.retain(|a| in_scope(*a));
        self.subset = Some(with_source(advertised, source));
    }
}

/// Returns the addresses that pass, which are copied only if some do not.
pub(crate) fn retain(
    mut addresses: Cow<'_, [IpAddr]>,
    passes: impl Fn(IpAddr) -> bool,
) -> Cow<'_, [IpAddr]> {
    if !addresses.iter().all(|a| passes(*a)) {
        addresses.to_mut().retain(|a| passes(*a));
    }
    addresses
}

/// Adds the source of a packet to the addresses in it.
fn with_source(mut advertised: Vec<IpAddr>, source: Option<IpAddr>) -> Box<[IpAddr]> {
    advertised.extend(source.filter(|s| !advertised.contains(s)));
    advertised.into()
}
