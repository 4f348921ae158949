//! Registration messages (RFC 5944, sections 3.3 to 3.5), carried in UDP.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | Type = 1 or 3 |flags or code  |           Lifetime            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          Home Address                         |
//! |                           Home Agent                          |
//! |                 Care-of Address (requests only)               |
//! |                         Identification                        |
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | Extensions: type, length, data
//! ```

use core::net::Ipv4Addr;

use bytes::Bytes;

use super::MessageError;
use super::authentication::{AuthenticationKind, SecurityAssociation};
use super::flags::{self, Field};
use super::identification::Identification;

const REQUEST: u8 = 1;
const REPLY: u8 = 3;
const REQUEST_LEN: usize = 24;
const REPLY_LEN: usize = 20;
/// Maximum number of extensions; no reasonable message has more.
const MAX_EXTENSIONS: usize = 16;

/// Result code of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyCode(pub u8);

impl ReplyCode {
    /// Registration accepted.
    pub const ACCEPTED: Self = Self(0);
    /// Registration accepted, but simultaneous bindings are not supported.
    pub const ACCEPTED_ONE_BINDING: Self = Self(1);
    /// Foreign agent: insufficient resources.
    pub const FA_RESOURCES: Self = Self(66);
    /// Foreign agent: requested lifetime too long; the reply contains the longest.
    pub const FA_LIFETIME: Self = Self(69);
    /// Foreign agent: poorly formed request.
    pub const FA_POOR_REQUEST: Self = Self(70);
    /// Foreign agent: requested encapsulation unavailable.
    pub const FA_ENCAPSULATION: Self = Self(72);
    /// Foreign agent: requested reverse tunnel unavailable (RFC 3024).
    pub const FA_REVERSE_TUNNEL: Self = Self(74);
    /// Foreign agent: invalid care-of address.
    pub const FA_CARE_OF: Self = Self(77);
    /// Foreign agent: registration timeout; the home agent did not reply.
    pub const FA_TIMEOUT: Self = Self(78);
    /// Foreign agent: home network unreachable (ICMP error received).
    pub const FA_NETWORK_UNREACHABLE: Self = Self(80);
    /// Foreign agent: home agent host unreachable (ICMP error received).
    pub const FA_HOST_UNREACHABLE: Self = Self(81);
    /// Foreign agent: home agent port unreachable (ICMP error received).
    pub const FA_PORT_UNREACHABLE: Self = Self(82);
    /// Foreign agent: home agent unreachable (other ICMP error received).
    pub const FA_UNREACHABLE: Self = Self(88);
    /// Foreign agent: invalid home agent address, the foreign agent's own.
    pub const FA_HOME_AGENT: Self = Self(194);
    /// Home agent: administratively prohibited.
    pub const HA_PROHIBITED: Self = Self(129);
    /// Home agent: mobile node failed authentication.
    pub const HA_AUTHENTICATION: Self = Self(131);
    /// Home agent: registration identification mismatch; the reply contains the home agent's time.
    pub const HA_IDENTIFICATION: Self = Self(133);
    /// Home agent: poorly formed request.
    pub const HA_POOR_REQUEST: Self = Self(134);
    /// Home agent: too many simultaneous mobility bindings.
    pub const HA_BINDINGS: Self = Self(135);
    /// Home agent: unknown home agent address.
    pub const HA_UNKNOWN_ADDRESS: Self = Self(136);
    /// Home agent: requested reverse tunnel unavailable (RFC 3024).
    pub const HA_REVERSE_TUNNEL: Self = Self(137);
    /// Home agent: requested encapsulation unavailable (RFC 3024).
    pub const HA_ENCAPSULATION: Self = Self(139);

    /// Returns whether the registration was accepted.
    pub fn is_accepted(self) -> bool {
        self.0 <= 8
    }

    /// Returns whether the code is one of a home agent, not of a foreign agent.
    pub fn is_from_home_agent(self) -> bool {
        self.is_accepted() || (128..=192).contains(&self.0)
    }
}

/// Flags of a request, and the reserved bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFlags {
    /// S: simultaneous bindings; earlier bindings are retained.
    pub simultaneous: bool,
    /// B: broadcast datagrams of the home network are requested.
    pub broadcasts: bool,
    /// D: the mobile node decapsulates (co-located care-of address).
    pub decapsulation: bool,
    /// M: minimal encapsulation is requested.
    pub minimal: bool,
    /// G: GRE is requested.
    pub gre: bool,
    /// T: reverse tunneling is requested (RFC 3024).
    pub reverse_tunnel: bool,
    /// x: sent as zero. RFC 5944 ignores it in section 3.3 and rejects it in sections 3.7.2.1 and
    /// 3.8.2.3; the agents of this crate reject it. The bit r is ignored.
    pub reserved: bool,
}

impl RequestFlags {
    const BITS: [(u8, Field<Self>); 7] = [
        (0x80, |f| &mut f.simultaneous),
        (0x40, |f| &mut f.broadcasts),
        (0x20, |f| &mut f.decapsulation),
        (0x10, |f| &mut f.minimal),
        (0x08, |f| &mut f.gre),
        (0x02, |f| &mut f.reverse_tunnel),
        (0x01, |f| &mut f.reserved),
    ];

    pub(super) fn from_bits(bits: u8) -> Self {
        flags::read(&Self::BITS, bits)
    }

    pub(super) fn bits(self) -> u8 {
        flags::write(&Self::BITS, self)
    }
}

/// A Registration Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistrationRequest {
    /// Flags.
    pub flags: RequestFlags,
    /// Lifetime in seconds; 0 is a deregistration, [`INFINITE`](super::INFINITE) never expires.
    pub lifetime: u16,
    /// Home address.
    pub home_address: Ipv4Addr,
    /// The home agent.
    pub home_agent: Ipv4Addr,
    /// Care-of address; the home address to deregister all.
    pub care_of: Ipv4Addr,
    /// Identification: matches the reply, and protects against replays.
    pub identification: Identification,
}

/// A Registration Reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistrationReply {
    /// Result code.
    pub code: ReplyCode,
    /// Granted lifetime in seconds; undefined in most denials.
    pub lifetime: u16,
    /// Home address.
    pub home_address: Ipv4Addr,
    /// The home agent.
    pub home_agent: Ipv4Addr,
    /// Identification of the request, except for denials with code 133.
    pub identification: Identification,
}

impl RegistrationRequest {
    /// Encodes the message with a Mobile-Home Authentication Extension.
    pub fn to_bytes(&self, association: &SecurityAssociation) -> Bytes {
        let mut out = Vec::with_capacity(REQUEST_LEN + 22);
        out.extend_from_slice(&[REQUEST, self.flags.bits()]);
        out.extend_from_slice(&self.lifetime.to_be_bytes());
        for address in [self.home_address, self.home_agent, self.care_of] {
            out.extend_from_slice(&address.octets());
        }
        out.extend_from_slice(&self.identification.0.to_be_bytes());
        association.sign(AuthenticationKind::MobileHome, &mut out);
        out.into()
    }
}

impl RegistrationReply {
    /// Encodes the message, with a Mobile-Home Authentication Extension if `association` is given.
    /// Denials of foreign agents have none.
    pub fn to_bytes(&self, association: Option<&SecurityAssociation>) -> Bytes {
        let mut out = Vec::with_capacity(REPLY_LEN + 22);
        out.extend_from_slice(&[REPLY, self.code.0]);
        out.extend_from_slice(&self.lifetime.to_be_bytes());
        for address in [self.home_address, self.home_agent] {
            out.extend_from_slice(&address.octets());
        }
        out.extend_from_slice(&self.identification.0.to_be_bytes());
        if let Some(association) = association {
            association.sign(AuthenticationKind::MobileHome, &mut out);
        }
        out.into()
    }
}

/// Position of an extension in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtensionPosition {
    /// Extension type.
    pub kind: u8,
    /// Offset of the start of the data in the message.
    pub start: usize,
    /// Offset of the end of the data.
    pub end: usize,
}

/// A received message with its bytes and extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedMessage<T> {
    /// Parsed message.
    pub message: T,
    bytes: Bytes,
    extensions: Vec<ExtensionPosition>,
}

impl<T> SignedMessage<T> {
    /// Returns the extensions in order.
    pub fn extensions(&self) -> &[ExtensionPosition] {
        &self.extensions
    }

    fn of_kind(&self, kind: AuthenticationKind) -> impl Iterator<Item = &ExtensionPosition> {
        let of_kind = move |e: &&ExtensionPosition| e.kind == kind as u8;
        self.extensions.iter().filter(of_kind)
    }

    /// Returns whether there is an extension of this kind.
    pub fn has(&self, kind: AuthenticationKind) -> bool {
        self.of_kind(kind).next().is_some()
    }

    /// Returns whether there is exactly one extension of this kind, and its authenticator is
    /// correct.
    pub fn is_authentic(
        &self,
        kind: AuthenticationKind,
        association: &SecurityAssociation,
    ) -> bool {
        let mut found = self.of_kind(kind);
        let (Some(only), None) = (found.next(), found.next()) else {
            return false;
        };
        association.verify(&self.bytes, only.start, &self.bytes[only.start..only.end])
    }

    /// Returns the message up to and including the Mobile-Home Authentication Extension, which a
    /// foreign agent relays unchanged. Returns `None` if there is no such extension.
    pub fn for_relay(&self) -> Option<Bytes> {
        let last = self.of_kind(AuthenticationKind::MobileHome).last()?;
        Some(self.bytes.slice(..last.end))
    }
}

impl SignedMessage<RegistrationRequest> {
    /// Parses a request.
    ///
    /// # Errors
    /// If the bytes are not a request.
    pub fn parse(bytes: &Bytes) -> Result<Self, MessageError> {
        let fixed: &[u8; REQUEST_LEN] = fixed(bytes, REQUEST)?;
        let message = RegistrationRequest {
            flags: RequestFlags::from_bits(fixed[1]),
            lifetime: u16::from_be_bytes([fixed[2], fixed[3]]),
            home_address: address(fixed, 4),
            home_agent: address(fixed, 8),
            care_of: address(fixed, 12),
            identification: identification(fixed, 16),
        };
        Ok(Self {
            message,
            extensions: extensions(bytes, REQUEST_LEN)?,
            bytes: bytes.clone(),
        })
    }
}

impl SignedMessage<RegistrationReply> {
    /// Parses a reply.
    ///
    /// # Errors
    /// If the bytes are not a reply.
    pub fn parse(bytes: &Bytes) -> Result<Self, MessageError> {
        let fixed: &[u8; REPLY_LEN] = fixed(bytes, REPLY)?;
        let message = RegistrationReply {
            code: ReplyCode(fixed[1]),
            lifetime: u16::from_be_bytes([fixed[2], fixed[3]]),
            home_address: address(fixed, 4),
            home_agent: address(fixed, 8),
            identification: identification(fixed, 12),
        };
        Ok(Self {
            message,
            extensions: extensions(bytes, REPLY_LEN)?,
            bytes: bytes.clone(),
        })
    }
}

/// Returns whether the bytes begin as a reply does, to select the parser.
pub(super) fn is_reply(bytes: &[u8]) -> bool {
    bytes.first() == Some(&REPLY)
}

fn fixed<const N: usize>(bytes: &[u8], kind: u8) -> Result<&[u8; N], MessageError> {
    match bytes.first() {
        None => Err(MessageError::Truncated),
        Some(other) if *other != kind => Err(MessageError::Type(*other)),
        Some(_) => bytes.first_chunk().ok_or(MessageError::Truncated),
    }
}

fn address(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3])
}

fn identification(bytes: &[u8], at: usize) -> Identification {
    let octets = bytes[at..at + 8].iter();
    Identification(octets.fold(0, |id, octet| id << 8 | u64::from(*octet)))
}

/// Parses the extensions from `start` on. Only authentication extensions are known; unknown ones
/// are skipped from type 128 on.
fn extensions(bytes: &[u8], start: usize) -> Result<Vec<ExtensionPosition>, MessageError> {
    let mut found = Vec::new();
    let mut at = start;
    while at < bytes.len() {
        let &[kind, len, ..] = &bytes[at..] else {
            return Err(MessageError::Truncated);
        };
        let start = at + 2;
        let end = start + usize::from(len);
        if end > bytes.len() {
            return Err(MessageError::Truncated);
        }
        match kind {
            // SPI and at least one byte of authenticator.
            32..=34 if len <= 4 => return Err(MessageError::Length),
            32..=34 | 128.. => found.push(ExtensionPosition { kind, start, end }),
            _ => return Err(MessageError::Extension(kind)),
        }
        if found.len() > MAX_EXTENSIONS {
            return Err(MessageError::TooManyExtensions);
        }
        at = end;
    }
    Ok(found)
}
