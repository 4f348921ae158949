//! Address tuples (RFC 4540, section 4.3.8).
//!
//! ```text
//! +-------------------------------+-------------------------------+
//! |            0x0009             | 0x0004, 0x000C (v4), 0x0018   |
//! +-------+-------+---------------+---------------+---------------+
//! | kind  |IP ver.| prefix length |   protocol    |   location    |
//! +-------+-------+---------------+---------------+---------------+
//! |   port number, 0 for any      |   number of ports             |  kind 0 only
//! +-------------------------------+-------------------------------+
//! |   IPv4 address, or IPv6 address in four words                 |  kind 0 only
//! +---------------------------------------------------------------+
//! ```

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Version of IP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpVersion {
    /// Returns the version of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() {
            Self::V4
        } else {
            Self::V6
        }
    }

    /// Returns the number of bits of an address.
    pub const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    const fn number(self) -> u8 {
        match self {
            Self::V4 => 1,
            Self::V6 => 2,
        }
    }
}

/// Location at which an address is valid: A0 to A3 of RFC 5189.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Location {
    /// A0: address of the internal host.
    Internal,
    /// A1: address of the external host as seen from inside.
    Inside,
    /// A2: address of the internal host as seen from outside.
    Outside,
    /// A3: address of the external host.
    External,
}

impl Location {
    const fn from_u8(value: u8) -> Option<Self> {
        Some(match value {
            0 => Self::Internal,
            1 => Self::Inside,
            2 => Self::Outside,
            3 => Self::External,
            _ => return None,
        })
    }
}

/// Address tuple: one end of a data stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressTuple {
    /// Location of the addresses.
    pub location: Location,
    /// Transport protocol number of the IP header, 0 for any.
    pub protocol: u8,
    /// Addresses and ports.
    pub scope: Scope,
}

/// Addresses and ports of a tuple.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Any address and port of this IP version.
    ProtocolsOnly(IpVersion),
    /// These addresses and ports.
    Full {
        /// Address, of which the first `prefix` bits are significant.
        address: IpAddr,
        /// Number of significant bits: 32 or 128 for one address. Up to 255 on the wire.
        prefix: u8,
        /// First port, 0 for any.
        port: u16,
        /// Number of ports. Zero is illegal but can be encoded.
        ports: u16,
    },
}

/// Formats as `10.0.0.1:5000`, `192.0.2.0/24`, `[2001:db8::1]:5000+2` for two ports, or `any`.
impl fmt::Display for AddressTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scope::Full {
            address,
            prefix,
            port,
            ports,
        } = self.scope
        else {
            return f.write_str("any");
        };
        match address {
            IpAddr::V6(_) if port != 0 => write!(f, "[{address}]")?,
            _ => write!(f, "{address}")?,
        }
        if prefix != IpVersion::of(address).bits() {
            write!(f, "/{prefix}")?;
        }
        match (port, ports) {
            (0, _) => Ok(()),
            (port, 1) => write!(f, ":{port}"),
            (port, ports) => write!(f, ":{port}+{ports}"),
        }
    }
}

impl AddressTuple {
    /// Returns a tuple for one port of one host.
    pub fn single(location: Location, protocol: u8, address: IpAddr, port: u16) -> Self {
        Self::range(location, protocol, address, port, 1)
    }

    /// Returns a tuple for consecutive ports of one host.
    pub fn range(location: Location, protocol: u8, address: IpAddr, port: u16, ports: u16) -> Self {
        let prefix = IpVersion::of(address).bits();
        Self {
            location,
            protocol,
            scope: Scope::Full {
                address,
                prefix,
                port,
                ports,
            },
        }
    }

    /// Returns the tuple at another location.
    #[must_use]
    pub fn at(self, location: Location) -> Self {
        Self { location, ..self }
    }

    /// Returns its IP version.
    pub fn version(&self) -> IpVersion {
        match self.scope {
            Scope::ProtocolsOnly(version) => version,
            Scope::Full { address, .. } => IpVersion::of(address),
        }
    }

    pub(crate) fn from_value(value: &[u8]) -> Option<Self> {
        let [first, prefix, protocol, location] = *value.first_chunk::<4>()?;
        let (kind, version) = (first >> 4, first & 0x0f);
        let rest = &value[4..];
        let ports = |rest: &[u8]| -> Option<[u16; 2]> {
            let [p0, p1, r0, r1] = *rest.first_chunk::<4>()?;
            Some([u16::from_be_bytes([p0, p1]), u16::from_be_bytes([r0, r1])])
        };
        let full = |address: IpAddr| -> Option<Scope> {
            let [port, ports] = ports(rest)?;
            Some(Scope::Full {
                address,
                prefix,
                port,
                ports,
            })
        };
        let scope = match (kind, version, rest.len()) {
            (1, 1, 0) => Scope::ProtocolsOnly(IpVersion::V4),
            (1, 2, 0) => Scope::ProtocolsOnly(IpVersion::V6),
            (0, 1, 8) => full(Ipv4Addr::from(*rest.last_chunk::<4>()?).into())?,
            (0, 2, 20) => full(Ipv6Addr::from(*rest.last_chunk::<16>()?).into())?,
            _ => return None,
        };
        Some(Self {
            location: Location::from_u8(location)?,
            protocol,
            scope,
        })
    }

    /// Returns the encoded value and its length.
    pub(crate) fn write(&self) -> ([u8; 24], usize) {
        let mut out = [0; 24];
        out[2] = self.protocol;
        out[3] = self.location as u8;
        let len = match self.scope {
            Scope::ProtocolsOnly(version) => {
                out[0] = 0x10 | version.number();
                4
            }
            Scope::Full {
                address,
                prefix,
                port,
                ports,
            } => {
                out[0] = IpVersion::of(address).number();
                out[1] = prefix;
                out[4..6].copy_from_slice(&port.to_be_bytes());
                out[6..8].copy_from_slice(&ports.to_be_bytes());
                match address {
                    IpAddr::V4(v4) => {
                        out[8..12].copy_from_slice(&v4.octets());
                        12
                    }
                    IpAddr::V6(v6) => {
                        out[8..24].copy_from_slice(&v6.octets());
                        24
                    }
                }
            }
        };
        (out, len)
    }
}
