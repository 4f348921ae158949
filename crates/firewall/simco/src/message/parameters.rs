//! The parameter sets of PRR and PER requests (RFC 4540, sections 4.3.9 and 4.3.10).
//!
//! ```text
//! +-------------------------------+-------------------------------+
//! |            0x000A             |            0x0004             |
//! +---+---+---+---+---------------+-------------------------------+
//! |NM |PP |IPi|IPo|   protocol    |   number of ports             |
//! +---+---+---+---+---------------+-------------------------------+
//!
//! +-------------------------------+-------------------------------+
//! |            0x000B             |            0x0004             |
//! +---------------+---------------+-------------------------------+
//! |  port parity  |   direction   |           reserved            |
//! +---------------+---------------+-------------------------------+
//! ```

use super::IpVersion;

/// Kind of translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NatMode {
    /// Outside address only.
    Traditional,
    /// Outside and inside addresses.
    Twice,
}

/// Parity of the first reserved port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parity {
    /// Any.
    Any,
    /// Odd.
    Odd,
    /// Even.
    Even,
}

/// Parity of a translated port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortParity {
    /// Any parity.
    Any,
    /// Parity of the original port.
    Same,
}

/// Direction of an enabled data stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Direction {
    /// From the external to the internal host.
    Inbound,
    /// From the internal to the external host.
    Outbound,
    /// Both directions.
    Both,
}

/// Parameters of a PRR request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrrParameters {
    /// Kind of translation.
    pub nat_mode: NatMode,
    /// Parity of the first port.
    pub parity: Parity,
    /// Inside IP version; `None` for any.
    pub inside: Option<IpVersion>,
    /// Outside IP version; `None` for any.
    pub outside: Option<IpVersion>,
    /// Transport protocol, 0 for an address without protocol and port.
    pub protocol: u8,
    /// Number of consecutive ports, 0xFFFF for all. Zero is illegal but can be encoded.
    pub ports: u16,
}

impl PrrParameters {
    pub(super) fn from_value(value: &[u8]) -> Option<Self> {
        let [bits, protocol, p0, p1] = *value else {
            return None;
        };
        let version = |bits: u8| {
            Some(match bits & 3 {
                0 => None,
                1 => Some(IpVersion::V4),
                2 => Some(IpVersion::V6),
                _ => return None,
            })
        };
        Some(Self {
            nat_mode: match bits >> 6 {
                1 => NatMode::Traditional,
                2 => NatMode::Twice,
                _ => return None,
            },
            parity: match bits >> 4 & 3 {
                0 => Parity::Any,
                1 => Parity::Odd,
                2 => Parity::Even,
                _ => return None,
            },
            inside: version(bits >> 2)?,
            outside: version(bits)?,
            protocol,
            ports: u16::from_be_bytes([p0, p1]),
        })
    }

    pub(super) fn write(self) -> [u8; 4] {
        let version = |version| match version {
            None => 0,
            Some(IpVersion::V4) => 1,
            Some(IpVersion::V6) => 2,
        };
        let mode = match self.nat_mode {
            NatMode::Traditional => 1,
            NatMode::Twice => 2,
        };
        let parity = match self.parity {
            Parity::Any => 0,
            Parity::Odd => 1,
            Parity::Even => 2,
        };
        let bits = mode << 6 | parity << 4 | version(self.inside) << 2 | version(self.outside);
        let [p0, p1] = self.ports.to_be_bytes();
        [bits, self.protocol, p0, p1]
    }
}

/// Parameters of a PER or PEA request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PerParameters {
    /// Parity of translated ports.
    pub parity: PortParity,
    /// Direction of the stream.
    pub direction: Direction,
}

impl PerParameters {
    pub(crate) fn from_value(value: &[u8]) -> Option<Self> {
        let [parity, direction, _, _] = *value else {
            return None;
        };
        Some(Self {
            parity: match parity {
                0 => PortParity::Any,
                3 => PortParity::Same,
                _ => return None,
            },
            direction: match direction {
                1 => Direction::Inbound,
                2 => Direction::Outbound,
                3 => Direction::Both,
                _ => return None,
            },
        })
    }

    pub(crate) fn write(self) -> [u8; 4] {
        let parity = match self.parity {
            PortParity::Any => 0,
            PortParity::Same => 3,
        };
        let direction = match self.direction {
            Direction::Inbound => 1,
            Direction::Outbound => 2,
            Direction::Both => 3,
        };
        [parity, direction, 0, 0]
    }
}
