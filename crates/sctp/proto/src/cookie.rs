//! State Cookie: all state needed to establish the association, authenticated with a MAC, so that no
//! state is kept before COOKIE ECHO arrives (RFC 9260, sections 5.1.3 and 5.1.5).
//!
//! The secret key rotates; the previous one is kept for the cookies that were made with it.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use carrick_wire::{Tsn, VerificationTag};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::addresses::AddressVersion;
use crate::auth::KeyVector;
use crate::export::{ExportReader, ExportWriter, ImportError, Portable};
use crate::extensions::Extensions;
use crate::random::Random;
use crate::time::Time;

/// Length of the MAC in bytes: half of the output of HMAC-SHA-256, the least that RFC 2104, section 5,
/// recommends. INIT ACK goes to an unverified source and should be short.
const MAC_LEN: usize = 16;

/// Marks the value of the protection parameter, in place of an address family.
const PROTECTION: u8 = 9;

/// Tie-Tags, by which the cookie of a restarted peer is recognized (RFC 9260, section 5.2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TieTags {
    pub(crate) local: u32,
    pub(crate) peer: u32,
}

portable_struct! { TieTags { local, peer } }

/// Content of a State Cookie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cookie {
    pub(crate) created: Time,
    pub(crate) lifespan: Duration,
    pub(crate) local_tag: VerificationTag,
    pub(crate) peer_tag: VerificationTag,
    pub(crate) local_initial_tsn: Tsn,
    pub(crate) peer_initial_tsn: Tsn,
    pub(crate) peer_a_rwnd: u32,
    /// OS of the peer's INIT.
    pub(crate) peer_outbound_streams: u16,
    /// MIS of the peer's INIT.
    pub(crate) peer_inbound_streams: u16,
    /// Extensions that both sides offer.
    pub(crate) extensions: Extensions,
    /// Tie-tags; zero unless an association existed (RFC 9260, section 5.2.2).
    pub(crate) tie_tags: TieTags,
    /// Local addresses known when the INIT ACK was made.
    pub(crate) address_version: AddressVersion,
    /// The last of them in the INIT ACK, if they did not all fit.
    pub(crate) last_advertised: Option<AddressVersion>,
    pub(crate) local_port: u16,
    pub(crate) peer_port: u16,
    /// Source address of the INIT and destination of the INIT ACK.
    pub(crate) remote: IpAddr,
    pub(crate) encapsulation: Option<u16>,
    /// The INIT referred to none of the associations at its source address and port (see
    /// `setup_lookup`).
    pub(crate) is_additional: bool,
    /// Destination address of the INIT.
    pub(crate) local: Option<IpAddr>,
    /// Key vector of this side; a cookie never contains a shared key (RFC 4895, section 6.3).
    pub(crate) ours: KeyVector,
    /// Key vector of the peer.
    pub(crate) theirs: KeyVector,
    /// Value of the peer's protection parameter, if acceptable.
    pub(crate) protection: Option<Vec<u8>>,
    /// Address of the peer's Set Primary Address parameter (RFC 5061, section 4.2.4).
    pub(crate) preferred: Option<IpAddr>,
    /// The peer's Adaptation Layer Indication (RFC 5061, section 4.2.6).
    pub(crate) adaptation_layer: Option<u32>,
    /// Addresses in the INIT.
    pub(crate) addresses: Vec<IpAddr>,
}

/// Secret keys of the MAC of cookies.
pub(crate) struct CookieSecrets {
    current: Secret,
    previous: Option<Secret>,
    /// Time at which the current secret is replaced.
    rotates: Time,
    lifetime: Duration,
    clock: CookieClock,
}

portable_struct! { CookieSecrets { current, previous, rotates, lifetime, clock } }

/// Secret key with the MAC that it initializes.
struct Secret {
    key: [u8; 32],
    mac: Hmac<Sha256>,
}

impl Secret {
    fn new(key: [u8; 32]) -> Self {
        let mac = keyed(&key);
        Self { key, mac }
    }
}

impl Portable for Secret {
    fn write(&self, out: &mut ExportWriter) {
        self.key.write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        Portable::read(input).map(Self::new)
    }
}

/// Clock of the moments in cookies. Cookies that a predecessor of the endpoint made remain valid, so it is the
/// clock of the first endpoint: in nanoseconds, its time minus that of this endpoint.
#[derive(Clone, Copy, Default)]
struct CookieClock(i128);

impl CookieClock {
    fn encode(self, time: Time) -> u64 {
        let nanos = i128::from(time.as_nanos()).saturating_add(self.0);
        nanos.clamp(0, i128::from(u64::MAX)) as u64
    }

    fn decode(self, nanos: u64) -> Time {
        let nanos = i128::from(nanos).saturating_sub(self.0);
        Time::from_nanos(nanos.clamp(0, i128::from(u64::MAX)) as u64)
    }
}

impl Portable for CookieClock {
    fn write(&self, out: &mut ExportWriter) {
        let now = i128::from(out.now().as_nanos());
        self.0.saturating_add(now).write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let now = i128::from(input.now().as_nanos());
        Ok(Self(i128::read(input)?.saturating_sub(now)))
    }
}

impl core::fmt::Debug for CookieSecrets {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CookieSecrets")
            .field("rotates", &self.rotates)
            .finish_non_exhaustive()
    }
}

fn keyed(key: &[u8; 32]) -> Hmac<Sha256> {
    // HMAC pads a key that is shorter than a block.
    let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
    block[..key.len()].copy_from_slice(key);
    Hmac::new(&block)
}

impl CookieSecrets {
    pub(crate) fn new(random: &mut Random, now: Time, lifetime: Duration) -> Self {
        Self {
            current: Secret::new(random.key()),
            previous: None,
            rotates: now + lifetime,
            lifetime,
            clock: CookieClock::default(),
        }
    }

    /// Replaces the secret if its lifetime is over. The previous one is kept until the next rotation;
    /// the lifespan of each cookie limits its use.
    pub(crate) fn rotate(&mut self, now: Time, random: &mut Random) {
        if now < self.rotates {
            return;
        }
        let old = core::mem::replace(&mut self.current, Secret::new(random.key()));
        // If no INIT arrived for a whole lifetime, the old secret has expired, too.
        self.previous = (now < self.rotates + self.lifetime).then_some(old);
        self.rotates = now + self.lifetime;
    }

    /// Appends the cookie and its MAC to `out`.
    pub(crate) fn seal(&self, cookie: &Cookie, out: &mut Vec<u8>) {
        let start = out.len();
        cookie.encode(self.clock, out);
        let mut mac = self.current.mac.clone();
        mac.update(&out[start..]);
        out.extend_from_slice(&mac.finalize().into_bytes()[..MAC_LEN]);
    }

    /// Verifies the MAC and decodes a cookie; `None` if this endpoint did not make it, or made it with a
    /// secret that is no longer kept. The lifespan is checked by [`Cookie::staleness`].
    pub(crate) fn open(&self, bytes: &[u8]) -> Option<Cookie> {
        let split = bytes.len().checked_sub(MAC_LEN)?;
        let (body, mac) = bytes.split_at(split);
        let genuine = core::iter::once(&self.current)
            .chain(&self.previous)
            .any(|secret| {
                let mut computed = secret.mac.clone();
                computed.update(body);
                computed.verify_truncated_left(mac).is_ok()
            });
        if !genuine {
            return None;
        }
        Cookie::decode(self.clock, body)
    }
}

impl Cookie {
    /// Appends the fields of the State Cookie, whose format is this side's alone (section 5.1.3):
    ///
    /// 1. the fields that each cookie has: times, tags, TSNs, window, streams, ports, extensions;
    /// 2. a byte of flags for the optional fields, and the optional fields;
    /// 3. the addresses of the packet;
    /// 4. the parameters of RFC 4895 of both sides, if authentication was negotiated;
    /// 5. the addresses that the peer advertises, and the state of the chunk protection, up to the end.
    fn encode(&self, clock: CookieClock, out: &mut Vec<u8>) {
        out.extend_from_slice(&clock.encode(self.created).to_be_bytes());
        let lifespan = u32::try_from(self.lifespan.as_millis()).unwrap_or(u32::MAX);
        for word in [
            lifespan,
            self.local_tag.0,
            self.peer_tag.0,
            self.local_initial_tsn.value(),
            self.peer_initial_tsn.value(),
            self.peer_a_rwnd,
            self.tie_tags.local,
            self.tie_tags.peer,
            self.address_version.0,
        ] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        let encapsulation = self.encapsulation.unwrap_or(0);
        for half in [
            self.peer_outbound_streams,
            self.peer_inbound_streams,
            self.local_port,
            self.peer_port,
            encapsulation,
            self.extensions.bits(),
        ] {
            out.extend_from_slice(&half.to_be_bytes());
        }
        // Optional fields, absent from most cookies.
        let adapted = self.adaptation_layer.is_some();
        let advised = self.preferred.is_some();
        let cut = self.last_advertised.is_some();
        let flags = [self.is_additional, adapted, advised, cut];
        out.push(
            (0..)
                .zip(flags)
                .map(|(bit, set)| u8::from(set) << bit)
                .sum(),
        );
        if let Some(last) = self.last_advertised {
            out.extend_from_slice(&last.0.to_be_bytes());
        }
        if let Some(code) = self.adaptation_layer {
            out.extend_from_slice(&code.to_be_bytes());
        }
        encode_address(Some(self.remote), out);
        encode_address(self.local, out);
        if advised {
            encode_address(self.preferred, out);
        }
        if self.extensions.authentication {
            encode_vector(&self.ours, out);
            encode_vector(&self.theirs, out);
        }
        self.addresses
            .iter()
            .for_each(|a| encode_address(Some(*a), out));
        if let Some(protection) = &self.protection {
            // Last, behind a value that is no address family.
            out.push(PROTECTION);
            out.extend_from_slice(protection);
        }
    }

    fn decode(clock: CookieClock, body: &[u8]) -> Option<Self> {
        let mut reader = CookieReader(body);
        let created = clock.decode(u64::from_be_bytes(reader.array()?));
        let lifespan = Duration::from_millis(u64::from(reader.u32()?));
        let local_tag = VerificationTag(reader.u32()?);
        let peer_tag = VerificationTag(reader.u32()?);
        let local_initial_tsn = Tsn::new(reader.u32()?);
        let peer_initial_tsn = Tsn::new(reader.u32()?);
        let peer_a_rwnd = reader.u32()?;
        let tie_tags = TieTags {
            local: reader.u32()?,
            peer: reader.u32()?,
        };
        let address_version = AddressVersion(reader.u32()?);
        let peer_outbound_streams = reader.u16()?;
        let peer_inbound_streams = reader.u16()?;
        let (local_port, peer_port) = (reader.u16()?, reader.u16()?);
        let encapsulation = Some(reader.u16()?).filter(|p| *p != 0);
        let extensions = Extensions::from_bits(reader.u16()?);
        let [flags]: [u8; 1] = reader.array()?;
        let is_additional = flags & 1 != 0;
        let last_advertised = match flags & 8 {
            0 => None,
            _ => Some(AddressVersion(reader.u32()?)),
        };
        let adaptation_layer = match flags & 2 {
            0 => None,
            _ => Some(reader.u32()?),
        };
        let remote = reader.address()??;
        let local = reader.address()?;
        let preferred = match flags & 4 {
            0 => None,
            _ => reader.address()?,
        };
        let (mut ours, mut theirs) = (KeyVector::default(), KeyVector::default());
        if extensions.authentication {
            (ours, theirs) = (reader.vector()?, reader.vector()?);
        }
        let mut addresses = Vec::new();
        let mut protection = None;
        while !reader.0.is_empty() {
            if let [PROTECTION, value @ ..] = reader.0 {
                protection = Some(value.to_vec());
                break;
            }
            addresses.push(reader.address()??);
        }
        Some(Self {
            created,
            lifespan,
            local_tag,
            peer_tag,
            local_initial_tsn,
            peer_initial_tsn,
            peer_a_rwnd,
            peer_outbound_streams,
            peer_inbound_streams,
            extensions,
            tie_tags,
            address_version,
            last_advertised,
            local_port,
            peer_port,
            remote,
            encapsulation,
            is_additional,
            local,
            ours,
            theirs,
            protection,
            preferred,
            adaptation_layer,
            addresses,
        })
    }

    /// Returns the time since the cookie expired; `None` within its lifespan.
    pub(crate) fn staleness(&self, now: Time) -> Option<Duration> {
        let end = self.created + self.lifespan;
        (now > end).then(|| now - end)
    }
}

fn encode_address(address: Option<IpAddr>, out: &mut Vec<u8>) {
    match address {
        None => out.push(0),
        Some(IpAddr::V4(a)) => {
            out.push(4);
            out.extend_from_slice(&a.octets());
        }
        Some(IpAddr::V6(a)) => {
            out.push(6);
            out.extend_from_slice(&a.octets());
        }
    }
}

fn encode_vector(vector: &KeyVector, out: &mut Vec<u8>) {
    out.extend_from_slice(&(vector.bytes().len() as u16).to_be_bytes());
    out.extend_from_slice(vector.bytes());
}

/// Cursor over the bytes of a cookie.
struct CookieReader<'a>(&'a [u8]);

impl CookieReader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(*head)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn vector(&mut self) -> Option<KeyVector> {
        let len = usize::from(self.u16()?);
        let (vector, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(KeyVector::from_bytes(vector))
    }

    /// Reads an optional address; the outer `None` means malformed or truncated bytes.
    #[expect(
        clippy::option_option,
        reason = "absent address and read failure differ"
    )]
    fn address(&mut self) -> Option<Option<IpAddr>> {
        let [family] = self.array()?;
        match family {
            0 => Some(None),
            4 => self
                .array()
                .map(|a: [u8; 4]| Some(IpAddr::V4(Ipv4Addr::from(a)))),
            6 => self
                .array()
                .map(|a: [u8; 16]| Some(IpAddr::V6(Ipv6Addr::from(a)))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookie() -> Cookie {
        Cookie {
            created: Time::from_millis(77),
            lifespan: Duration::from_secs(60),
            local_tag: VerificationTag(1),
            peer_tag: VerificationTag(2),
            local_initial_tsn: Tsn::new(3),
            peer_initial_tsn: Tsn::new(4),
            peer_a_rwnd: 5,
            peer_outbound_streams: 6,
            peer_inbound_streams: 7,
            extensions: Extensions::from_bits(7),
            tie_tags: TieTags { local: 8, peer: 9 },
            address_version: AddressVersion(12),
            last_advertised: Some(AddressVersion(11)),
            local_port: 10,
            peer_port: 11,
            remote: "192.0.2.1".parse().unwrap(),
            encapsulation: Some(9899),
            is_additional: true,
            local: Some("2001:db8::1".parse().unwrap()),
            ours: KeyVector::default(),
            theirs: KeyVector::from_bytes(&[1, 2, 3]),
            protection: Some(alloc::vec![6, 4]),
            preferred: Some("192.0.2.7".parse().unwrap()),
            adaptation_layer: Some(0x0102_0304),
            addresses: alloc::vec!["192.0.2.1".parse().unwrap(), "2001:db8::2".parse().unwrap()],
        }
    }

    fn secrets() -> (CookieSecrets, Random) {
        let mut random = Random::new([3; 32]);
        (
            CookieSecrets::new(&mut random, Time::ZERO, Duration::from_secs(3600)),
            random,
        )
    }

    #[test]
    fn cookie_is_decoded_as_encoded() {
        let (secrets, _) = secrets();
        let mut sealed = Vec::new();
        secrets.seal(&cookie(), &mut sealed);
        assert_eq!(secrets.open(&sealed), Some(cookie()));
        assert!(
            sealed.len() <= 140,
            "as small as possible: {}",
            sealed.len()
        );
    }

    #[test]
    fn changed_bit_invalidates_the_cookie() {
        let (secrets, _) = secrets();
        let mut sealed = Vec::new();
        secrets.seal(&cookie(), &mut sealed);
        for bit in 0..sealed.len() * 8 {
            sealed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(secrets.open(&sealed), None, "bit {bit}");
            sealed[bit / 8] ^= 1 << (bit % 8);
        }
        for len in 0..sealed.len() {
            assert_eq!(secrets.open(&sealed[..len]), None);
        }
    }

    #[test]
    fn previous_secret_is_accepted_once() {
        let (mut secrets, mut random) = secrets();
        let mut sealed = Vec::new();
        secrets.seal(&cookie(), &mut sealed);
        secrets.rotate(Time::from_millis(3_599_999), &mut random);
        assert!(secrets.open(&sealed).is_some());
        secrets.rotate(Time::from_millis(3_600_000), &mut random);
        assert!(secrets.open(&sealed).is_some());
        secrets.rotate(Time::from_millis(7_200_000), &mut random);
        assert_eq!(secrets.open(&sealed), None);
    }

    #[test]
    fn cookie_is_stale_after_its_lifespan() {
        let cookie = cookie();
        assert_eq!(cookie.staleness(Time::from_millis(60_077)), None);
        assert_eq!(
            cookie.staleness(Time::from_millis(60_080)),
            Some(Duration::from_millis(3))
        );
    }
}
