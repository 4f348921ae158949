//! Protocol version and middlebox capabilities (RFC 4540, sections 4.3.1 and 4.3.3).
//!
//! ```text
//! +-------------------------------+-------------------------------+
//! |            0x0001             |            0x0004             |
//! +---------------+---------------+-------------------------------+
//! | major version | minor version |           reserved            |
//! +---------------+---------------+-------------------------------+
//!
//! +-------------------------------+-------------------------------+
//! |            0x0004             |            0x0008             |
//! +---------------+-+-+-+-+---+---+-------------------------------+
//! |    MB type    |I|E|P|S|IIV|EIV|           reserved            |
//! +---------------+-+-+-+-+---+---+-------------------------------+
//! |                  max policy rule lifetime                     |
//! +---------------------------------------------------------------+
//! ```

use super::{IpVersion, Lifetime};

/// Version of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtocolVersion {
    /// Major version number.
    pub major: u8,
    /// Minor version number.
    pub minor: u8,
}

/// Version of RFC 4540: 3.0.
pub const VERSION: ProtocolVersion = ProtocolVersion { major: 3, minor: 0 };

impl ProtocolVersion {
    pub(super) fn from_value(value: &[u8]) -> Option<Self> {
        let [major, minor, _, _] = *value else {
            return None;
        };
        Some(Self { major, minor })
    }

    pub(super) fn write(self) -> [u8; 4] {
        [self.major, self.minor, 0, 0]
    }
}

/// Capabilities of a middlebox.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capabilities {
    /// It filters packets.
    pub packet_filter: bool,
    /// It translates network addresses.
    pub address_translator: bool,
    /// It supports PDR.
    pub disable_rules: bool,
    /// It translates ports; only with `address_translator`.
    pub port_translation: bool,
    /// It translates between IP versions; only with `address_translator`.
    pub protocol_translation: bool,
    /// It translates inside and outside; only with `address_translator`.
    pub twice_nat: bool,
    /// Internal IP addresses may be wildcards.
    pub internal_address_wildcards: bool,
    /// External IP addresses may be wildcards.
    pub external_address_wildcards: bool,
    /// Ports may be wildcards.
    pub port_wildcards: bool,
    /// Policy rules survive a restart.
    pub persistent: bool,
    /// IPv4 on the internal side.
    pub internal_v4: bool,
    /// IPv6 on the internal side.
    pub internal_v6: bool,
    /// IPv4 on the external side.
    pub external_v4: bool,
    /// IPv6 on the external side.
    pub external_v6: bool,
    /// Maximum lifetime of a policy rule.
    pub max_lifetime: Lifetime,
}

impl Capabilities {
    pub(super) fn from_value(value: &[u8]) -> Option<Self> {
        let [kind, flags, _, _, l0, l1, l2, l3] = *value else {
            return None;
        };
        let capabilities = Self {
            packet_filter: kind & 0x80 != 0,
            address_translator: kind & 0x40 != 0,
            disable_rules: kind & 0x10 != 0,
            port_translation: kind & 0x01 != 0,
            protocol_translation: kind & 0x02 != 0,
            twice_nat: kind & 0x04 != 0,
            internal_address_wildcards: flags & 0x80 != 0,
            external_address_wildcards: flags & 0x40 != 0,
            port_wildcards: flags & 0x20 != 0,
            persistent: flags & 0x10 != 0,
            internal_v4: flags & 0x04 != 0,
            internal_v6: flags & 0x08 != 0,
            external_v4: flags & 0x01 != 0,
            external_v6: flags & 0x02 != 0,
            max_lifetime: Lifetime(u32::from_be_bytes([l0, l1, l2, l3])),
        };
        let translations = capabilities.port_translation
            || capabilities.protocol_translation
            || capabilities.twice_nat;
        let versions = (capabilities.internal_v4 || capabilities.internal_v6)
            && (capabilities.external_v4 || capabilities.external_v6);
        (versions && (capabilities.address_translator || !translations)).then_some(capabilities)
    }

    pub(super) fn write(&self) -> [u8; 8] {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let kind = bit(self.packet_filter, 0x80)
            | bit(self.address_translator, 0x40)
            | bit(self.disable_rules, 0x10)
            | bit(self.port_translation, 0x01)
            | bit(self.protocol_translation, 0x02)
            | bit(self.twice_nat, 0x04);
        let flags = bit(self.internal_address_wildcards, 0x80)
            | bit(self.external_address_wildcards, 0x40)
            | bit(self.port_wildcards, 0x20)
            | bit(self.persistent, 0x10)
            | bit(self.internal_v6, 0x08)
            | bit(self.internal_v4, 0x04)
            | bit(self.external_v6, 0x02)
            | bit(self.external_v4, 0x01);
        let [l0, l1, l2, l3] = self.max_lifetime.0.to_be_bytes();
        [kind, flags, 0, 0, l0, l1, l2, l3]
    }

    /// Returns whether this IP version is supported on the internal side.
    pub fn internal(&self, version: IpVersion) -> bool {
        match version {
            IpVersion::V4 => self.internal_v4,
            IpVersion::V6 => self.internal_v6,
        }
    }

    /// Returns whether this IP version is supported on the external side.
    pub fn external(&self, version: IpVersion) -> bool {
        match version {
            IpVersion::V4 => self.external_v4,
            IpVersion::V6 => self.external_v6,
        }
    }
}
