//! Socket addresses: `sockaddr_in`, `sockaddr_in6` and `sockaddr_storage`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use super::layout::Field;
use super::{AF_INET, AF_INET6, AF_UNSPEC};
use crate::errno::Errno;

/// Size of `sockaddr_in` in bytes.
pub const SOCKADDR_IN: usize = 16;
/// Size of `sockaddr_in6` in bytes.
pub const SOCKADDR_IN6: usize = 28;
/// Size of `sockaddr_storage` in bytes.
pub const SOCKADDR_STORAGE: usize = 128;

/// Reads the first address of `bytes` and returns it with its size.
///
/// # Errors
/// `EINVAL` if the bytes are too few, `EAFNOSUPPORT` for another family than IPv4 and IPv6.
pub fn read_address(bytes: &[u8]) -> Result<(SocketAddr, usize), Errno> {
    let family = i32::from(u16::from_ne_bytes(array(bytes, 0)?));
    let port = u16::from_be_bytes(array(bytes, 2).unwrap_or_default());
    match family {
        AF_INET => {
            let octets: [u8; 4] = array(bytes, 4)?;
            if bytes.len() < SOCKADDR_IN {
                return Err(Errno::EINVAL);
            }
            Ok(((Ipv4Addr::from(octets), port).into(), SOCKADDR_IN))
        }
        AF_INET6 => {
            let flow = u32::from_be_bytes(array(bytes, 4)?);
            let octets: [u8; 16] = array(bytes, 8)?;
            let scope = u32::from_ne_bytes(array(bytes, 24)?);
            let address = SocketAddrV6::new(Ipv6Addr::from(octets), port, flow, scope);
            Ok((SocketAddr::V6(address), SOCKADDR_IN6))
        }
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

/// Reads a packed list of addresses, as `sctp_bindx` and `sctp_connectx` pass them.
///
/// # Errors
/// `EINVAL` for an empty list, too few bytes and another family than IPv4 and IPv6.
pub fn read_addresses(mut bytes: &[u8]) -> Result<Vec<SocketAddr>, Errno> {
    let mut addresses = Vec::new();
    while !bytes.is_empty() {
        let (address, size) = read_address(bytes).map_err(|_| Errno::EINVAL)?;
        addresses.push(address);
        bytes = bytes.get(size..).ok_or(Errno::EINVAL)?;
    }
    if addresses.is_empty() {
        return Err(Errno::EINVAL);
    }
    Ok(addresses)
}

/// Returns an address as `sockaddr_in` or `sockaddr_in6`.
pub fn write_address(address: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SOCKADDR_IN6);
    let family = if address.is_ipv4() { AF_INET } else { AF_INET6 };
    bytes.extend((family as u16).to_ne_bytes());
    bytes.extend(address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            bytes.extend(v4.ip().octets());
            bytes.resize(SOCKADDR_IN, 0);
        }
        SocketAddr::V6(v6) => {
            bytes.extend(v6.flowinfo().to_be_bytes());
            bytes.extend(v6.ip().octets());
            bytes.extend(v6.scope_id().to_ne_bytes());
        }
    }
    bytes
}

/// Returns the IPv4 address of an IPv4-mapped IPv6 address, and other addresses unchanged.
pub(crate) fn unmapped(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Errno> {
    let part = bytes.get(at..at + N).ok_or(Errno::EINVAL)?;
    part.try_into().map_err(|_| Errno::EINVAL)
}

/// Content of a `sockaddr_storage`; `None` is an address of family `AF_UNSPEC`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Storage(pub Option<SocketAddr>);

impl Storage {
    /// Returns the address, with an IPv4-mapped one as IPv4 address. An unspecified address with port 0
    /// counts as none, as Linux has it for options of all addresses.
    pub fn ip(self) -> Option<IpAddr> {
        let ip = unmapped(self.0?.ip());
        (!ip.is_unspecified()).then_some(ip)
    }
}

impl From<SocketAddr> for Storage {
    fn from(address: SocketAddr) -> Self {
        Self(Some(address))
    }
}

impl Field for Storage {
    const SIZE: usize = SOCKADDR_STORAGE;

    fn read(bytes: &[u8]) -> Result<Self, Errno> {
        let family = i32::from(u16::from_ne_bytes(array(bytes, 0)?));
        if family == AF_UNSPEC {
            return Ok(Self(None));
        }
        Ok(Self(Some(read_address(bytes)?.0)))
    }

    fn write(&self, bytes: &mut [u8]) {
        if let Some(address) = self.0 {
            let written = write_address(address);
            if let Some(part) = bytes.get_mut(..written.len()) {
                part.copy_from_slice(&written);
            }
        }
    }
}
