//! Parameters of the peer's INIT or INIT ACK (RFC 9260 sections 3.3.2, 3.3.3, 5.1.2).

use alloc::vec::Vec;
use core::net::IpAddr;

use carrick_wire::{
    CauseCode, Init, Parameter, ParameterType, Parameters, RawParameter, Tsn, VerificationTag,
};

use crate::auth::{KeyVector, PeerAuth};
use crate::config::AssociationConfig;
use crate::extensions::Extensions;
use crate::protection::MAX_OFFER;
use crate::route::{is_own_address, is_usable};

/// Parameters to be reported are kept up to this many bytes: the answer must not grow without
/// bound (section 12.4).
const MAX_UNRECOGNIZED: usize = 512;

/// Addresses taken from one chunk at most, whatever `max_paths` allows.
const MAX_ADDRESSES: usize = 255;

/// The fixed and variable parameters of an INIT or INIT ACK.
#[derive(Debug)]
pub(crate) struct PeerParameters<'a> {
    pub(crate) tag: VerificationTag,
    pub(crate) a_rwnd: u32,
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    pub(crate) initial_tsn: Tsn,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) cookie: Option<&'a [u8]>,
    pub(crate) preserve_ms: Option<u32>,
    /// The address families the peer lists as supported; without the parameter, all are.
    pub(crate) families: Option<Families>,
    /// Set Primary IP Address (RFC 5061 section 5.4).
    pub(crate) preferred: Option<IpAddr>,
    /// Adaptation Layer Indication (RFC 5061 section 4.2.6).
    pub(crate) adaptation_layer: Option<u32>,
    /// Extensions that the peer offers.
    pub(crate) offered: Extensions,
    /// Parameters of RFC 4895.
    pub(crate) auth: PeerAuth<'a>,
    /// The peer's offer of a chunk protection; since [`Self::agree_on_protection`] only if both sides use it.
    pub(crate) protection: Option<&'a [u8]>,
    /// Unrecognized parameters that are to be reported.
    pub(crate) unrecognized: Vec<&'a [u8]>,
}

/// Supported Address Types (section 3.3.2.1.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Families {
    pub(crate) ipv4: bool,
    pub(crate) ipv6: bool,
}

/// Reason for which an INIT or INIT ACK is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InitFault<'a> {
    /// The Initiate Tag is 0.
    ZeroTag,
    /// A number of streams is 0.
    NoStreams,
    /// The window is smaller than 1500 bytes.
    SmallWindow,
    /// A Host Name Address; the whole parameter.
    HostName(&'a [u8]),
    /// A parameter that can't be parsed.
    Malformed,
    /// Dynamic addresses without authentication (RFC 5061 section 6).
    Unauthenticated,
    /// No agreement on a protection of chunks; the cause for the peer.
    Unprotected(CauseCode),
}

impl<'a> PeerParameters<'a> {
    /// Reads and validates the chunk, for a side with this configuration:
    ///
    /// 1. Refuse an Initiate Tag of 0, 0 streams, and a window below 1500 bytes (section 3.3.2).
    /// 2. Read the optional parameters. Those that are unrecognized are reported or end the reading, by the
    ///    upper bits of their type (section 3.2.1); those of an extension that this side does not offer are
    ///    unrecognized. Refuse a Host Name Address (section 5.1.2).
    /// 3. Determine whether the peer supports authentication (RFC 4895, section 6.1).
    ///
    /// [`Self::agree_on_protection`] has to follow.
    ///
    /// # Errors
    /// [`InitFault`], the reason of the refusal.
    pub(crate) fn read(init: &Init<'a>, config: &AssociationConfig) -> Result<Self, InitFault<'a>> {
        let ours = config.offered();
        // 1.
        if init.tag.is_zero() {
            return Err(InitFault::ZeroTag);
        }
        if init.outbound_streams == 0 || init.inbound_streams == 0 {
            return Err(InitFault::NoStreams);
        }
        if init.a_rwnd < 1500 {
            return Err(InitFault::SmallWindow);
        }
        let mut read = Self {
            tag: init.tag,
            a_rwnd: init.a_rwnd,
            outbound_streams: init.outbound_streams,
            inbound_streams: init.inbound_streams,
            initial_tsn: init.initial_tsn,
            addresses: Vec::new(),
            cookie: None,
            preserve_ms: None,
            families: None,
            preferred: None,
            adaptation_layer: None,
            offered: Extensions::NONE,
            auth: PeerAuth::default(),
            protection: None,
            unrecognized: Vec::new(),
        };
        // 2.
        let mut reported = 0;
        for raw in init.parameters() {
            let raw = raw.map_err(|_| InitFault::Malformed)?;
            if let Some(offer) = config.security.protection.as_deref()
                && raw.kind == offer.parameter_type()
            {
                let fits = raw.value.len() <= MAX_OFFER;
                read.protection = read.protection.or(fits.then_some(raw.value));
                continue;
            }
            // Parameters of an extension that is not offered are unknown, well formed or not.
            if !raw.kind.is_base() && !ours.know_parameter(raw.kind) {
                if !read.unknown(raw, &mut reported) {
                    break;
                }
                continue;
            }
            let parameter = Parameter::parse(raw).map_err(|_| InitFault::Malformed)?;
            if ours.authentication && !read.auth.read(raw) {
                return Err(InitFault::Malformed);
            }
            read.offered.read(&parameter);
            match parameter {
                Parameter::Ipv4Address(_) | Parameter::Ipv6Address(_)
                    if config.paths.ignore_peer_addresses => {}
                Parameter::Ipv4Address(a) => read.address(IpAddr::V4(a)),
                Parameter::Ipv6Address(a) => read.address(IpAddr::V6(a)),
                Parameter::CookiePreservative { increment_ms } => {
                    read.preserve_ms = Some(increment_ms)
                }
                Parameter::HostNameAddress(_) => return Err(InitFault::HostName(raw.bytes)),
                Parameter::SupportedAddressTypes(types) => {
                    let families = read.families.get_or_insert_default();
                    for kind in types {
                        families.ipv4 |= kind == ParameterType::IPV4_ADDRESS.0;
                        families.ipv6 |= kind == ParameterType::IPV6_ADDRESS.0;
                    }
                }
                Parameter::StateCookie(cookie) => read.cookie = Some(cookie),
                Parameter::SetPrimaryAddress(advice) => read.preferred = Some(advice.address),
                Parameter::AdaptationLayerIndication(code) => read.adaptation_layer = Some(code),
                // Unrecognized Parameter, and parameters without a meaning here.
                _ => {}
            }
        }
        // 3. Support requires RANDOM, CHUNKS and HMAC-ALGO; listing the chunk type is not enough.
        read.offered.authentication = read.auth.vector().is_some();
        Ok(read)
    }

    /// Agrees on the chunk protection, for a side with this configuration and random number:
    ///
    /// 1. Refuse a peer whose protection is missing although this side requires one, or does not fit.
    /// 2. With a protection, AUTH is not used; without one, dynamic addresses need AUTH. Refuse a peer that
    ///    offers them without (RFC 5061, section 6).
    ///
    /// # Errors
    /// [`InitFault`], the reason of the refusal.
    pub(crate) fn agree_on_protection(
        &mut self,
        config: &AssociationConfig,
        random: u32,
    ) -> Result<(), InitFault<'a>> {
        // 1.
        let theirs = self.protection;
        let agreed = config.security.protection.as_deref().map(|offer| {
            let ours = offer.value(random);
            offer.agree(&ours, theirs).map_err(InitFault::Unprotected)
        });
        self.protection = match agreed.transpose()? {
            Some(true) => theirs,
            Some(false) | None => None,
        };
        // 2.
        if self.protection.is_some() {
            self.offered.authentication = false;
        } else if self.offered.dynamic_addresses
            && !self.offered.authentication
            && config.offered().dynamic_addresses
            && !config.security.dynamic_addresses_without_authentication
        {
            if theirs.is_none() {
                return Err(InitFault::Unauthenticated);
            }
            // It relied on the protection that it offered.
            self.offered.dynamic_addresses = false;
        }
        Ok(())
    }

    /// Returns the key vector of the peer; an empty one if AUTH is not used.
    pub(crate) fn auth_vector(&self) -> KeyVector {
        let vector = self.auth.vector().filter(|_| self.offered.authentication);
        vector.unwrap_or_default()
    }

    /// Records a parameter that is to be reported. Returns whether the parameters behind it are
    /// processed.
    fn unknown(&mut self, raw: RawParameter<'a>, reported: &mut usize) -> bool {
        let action = raw.kind.unknown_action();
        if action.reports() && *reported + raw.bytes.len() <= MAX_UNRECOGNIZED {
            *reported += raw.bytes.len();
            self.unrecognized.push(raw.bytes);
        }
        action.continues()
    }

    fn address(&mut self, address: IpAddr) {
        if is_usable(address)
            && !self.addresses.contains(&address)
            && self.addresses.len() < MAX_ADDRESSES
        {
            self.addresses.push(address);
        }
    }

    /// Returns the address that the peer prefers; the wildcard means the source of the packet (RFC 5061
    /// section 4.2.4).
    pub(crate) fn preferred_by(&self, source: IpAddr) -> Option<IpAddr> {
        let meant = |address: IpAddr| {
            if address.is_unspecified() {
                source
            } else {
                address
            }
        };
        self.preferred.map(meant)
    }

    /// Returns whether the peer can use addresses of this family. A family that it uses itself counts
    /// as supported (section 5.1.2).
    pub(crate) fn supports(&self, family_of: IpAddr, source: IpAddr) -> bool {
        let v4 = family_of.is_ipv4();
        let used = core::iter::once(&source)
            .chain(&self.addresses)
            .any(|a| a.is_ipv4() == v4);
        used || self
            .families
            .is_none_or(|f| if v4 { f.ipv4 } else { f.ipv6 })
    }
}

/// Returns the part of a parameter that an ABORT quotes.
pub(crate) fn shortened(parameter: &[u8]) -> &[u8] {
    &parameter[..parameter.len().min(256)]
}

/// Returns the IP addresses among parameters.
pub(crate) fn ip_addresses(parameters: Parameters<'_>) -> impl Iterator<Item = IpAddr> {
    let parameters = parameters.flatten().map(Parameter::parse);
    parameters.filter_map(|parameter| match parameter {
        Ok(Parameter::Ipv4Address(a)) => Some(IpAddr::V4(a)),
        Ok(Parameter::Ipv6Address(a)) => Some(IpAddr::V6(a)),
        _ => None,
    })
}

/// The usable addresses that are in scope for a peer with this source.
pub(super) fn acceptable(
    addresses: &[IpAddr],
    source: IpAddr,
) -> impl Iterator<Item = IpAddr> + '_ {
    let own = addresses.iter().copied();
    own.filter(move |a| is_own_address(*a, source))
}

/// The usable addresses of a family that this side has.
pub(super) fn listed_addresses(
    addresses: &[IpAddr],
    source: IpAddr,
    local: &[IpAddr],
) -> Vec<IpAddr> {
    let family = |v4: bool| local.is_empty() || local.iter().any(|a| a.is_ipv4() == v4);
    acceptable(addresses, source)
        .filter(|a| family(a.is_ipv4()))
        .collect()
}
