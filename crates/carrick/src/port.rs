//! SCTP port of an endpoint, and the claims that prevent other endpoints from using it.
//!
//! Peers know an association by address and SCTP port, also in UDP, so two endpoints of a host must
//! not have the same one. A UDP port that the system chose is unique already, and its number serves
//! as the SCTP port. Otherwise endpoints claim ports with names that only one socket of a network
//! namespace can have, also across processes:
//!
//! - the port alone: an endpoint that asks for no port does not choose this one;
//! - the port with an address, on plain IP: a second endpoint is refused, because both would get and
//!   answer all packets.
//!
//! Any program of the network namespace can take such a name, as it can take a UDP port. The ports of
//! other SCTP implementations on plain IP are not seen.

use std::io;
use std::net::IpAddr;

use crate::config::Config;
use crate::error::BindError;

/// Ports from which an endpoint chooses (RFC 6335).
const DYNAMIC_PORTS: std::ops::RangeInclusive<u16> = 49_152..=65_535;

/// Maximum number of claimed ports tried before one is used regardless.
const TRIES: usize = 256;

/// Prefix of the names of all claims.
pub(crate) const NAMES: &str = "carrick/sctp/";

/// Socket that has a name; `Infallible` where the system has no such names.
#[cfg(target_os = "linux")]
type Name = std::os::unix::net::UnixDatagram;
#[cfg(not(target_os = "linux"))]
type Name = std::convert::Infallible;

/// Claimed port: while the claim exists, other endpoints cannot choose it, or bind it on plain IP.
#[derive(Debug)]
pub(crate) struct Claim {
    port: u16,
    /// Held, not used; `None` if another endpoint holds it or the system has no such names.
    _name: Option<Name>,
    /// Claimed addresses on plain IP.
    addresses: Vec<(IpAddr, Name)>,
}

impl Claim {
    /// Claims the configured port, that of UDP if the system chose it, or a free one; on plain IP with
    /// these addresses.
    pub(crate) fn new(
        config: &Config,
        encapsulation: Option<u16>,
        bound: &[IpAddr],
    ) -> Result<Self, BindError> {
        let plain = if config.transport.has_plain_ip() {
            bound
        } else {
            &[]
        };
        let chosen = config.transport.encapsulation_port() == Some(0);
        match (config.port, encapsulation) {
            (0, Some(port)) if chosen => match Self::fixed(port, plain) {
                Err(BindError::SctpPortTaken { .. }) => Self::choose(plain, random),
                claim => claim,
            },
            (0, _) => Self::choose(plain, random),
            (port, _) => Self::fixed(port, plain),
        }
    }

    /// In UDP another endpoint may have the port, at another UDP port: that is the caller's choice.
    fn fixed(port: u16, plain: &[IpAddr]) -> Result<Self, BindError> {
        Self::with_addresses(port, bind_name(&port_name(port)).ok(), plain)
    }

    fn choose(
        plain: &[IpAddr],
        mut next: impl FnMut() -> Result<u16, BindError>,
    ) -> Result<Self, BindError> {
        for _ in 0..TRIES {
            let port = next()?;
            let name = match bind_name(&port_name(port)) {
                Err(e) if e.kind() == io::ErrorKind::AddrInUse => continue,
                name => name.ok(),
            };
            match Self::with_addresses(port, name, plain) {
                Err(BindError::SctpPortTaken { .. }) => {}
                claim => return claim,
            }
        }
        Self::fixed(next()?, plain)
    }

    fn with_addresses(port: u16, name: Option<Name>, plain: &[IpAddr]) -> Result<Self, BindError> {
        let mut claim = Self {
            port,
            _name: name,
            addresses: Vec::with_capacity(plain.len()),
        };
        plain.iter().try_for_each(|address| claim.add(*address))?;
        Ok(claim)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Claims the port with an address on plain IP.
    pub(crate) fn add(&mut self, address: IpAddr) -> Result<(), BindError> {
        let port = self.port;
        if self.addresses.iter().any(|(held, _)| *held == address) {
            return Ok(());
        }
        match bind_name(&address_name(port, address)) {
            Ok(name) => self.addresses.push((address, name)),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                return Err(BindError::SctpPortTaken { address, port });
            }
            Err(e) if e.kind() == io::ErrorKind::Unsupported => {}
            Err(source) => return Err(BindError::Socket { address, source }),
        }
        Ok(())
    }

    /// Releases an address.
    pub(crate) fn remove(&mut self, address: IpAddr) {
        self.addresses.retain(|(held, _)| *held != address);
    }
}

fn port_name(port: u16) -> String {
    format!("{NAMES}{port}")
}

/// Returns the name of a port with an address.
pub(crate) fn address_name(port: u16, address: IpAddr) -> String {
    format!("{NAMES}{port}/{address}")
}

#[cfg(target_os = "linux")]
fn bind_name(name: &str) -> io::Result<Name> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    Name::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Other systems have no such names.
#[cfg(not(target_os = "linux"))]
fn bind_name(_: &str) -> io::Result<Name> {
    Err(io::ErrorKind::Unsupported.into())
}

fn random() -> Result<u16, BindError> {
    let random = getrandom::u32().map_err(BindError::Random)?;
    let span = u32::from(DYNAMIC_PORTS.end() - DYNAMIC_PORTS.start()) + 1;
    // The span is a power of two, so that all ports are equally likely.
    Ok(DYNAMIC_PORTS.start() + (random % span) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_port_that_another_endpoint_has_is_not_chosen() {
        let first = Claim::choose(&[], random).unwrap();
        let taken = first.port;
        let mut numbers = [taken, taken, taken ^ 1].into_iter();
        let second = Claim::choose(&[], || Ok(numbers.next().unwrap())).unwrap();
        assert_eq!(second.port, taken ^ 1);
        drop(first);
        assert_eq!(Claim::choose(&[], || Ok(taken)).unwrap().port, taken);
        assert!(DYNAMIC_PORTS.contains(&taken));
    }

    /// On plain IP a port is taken if it is taken with any of the addresses; removing an address releases
    /// it.
    #[cfg(target_os = "linux")]
    #[test]
    fn port_is_bound_with_each_address() {
        // Documentation addresses, which are only part of names here.
        let [a, b, c] = [1, 2, 3].map(|n| IpAddr::from([192, 0, 2, n]));
        let mut first = Claim::choose(&[a, b], random).unwrap();
        let port = first.port;
        let taken = |plain: &[IpAddr]| match Claim::fixed(port, plain) {
            Ok(_) => None,
            Err(BindError::SctpPortTaken { address, port: p }) if p == port => Some(address),
            Err(e) => panic!("{e}"),
        };
        assert_eq!(taken(&[c, b]), Some(b));
        assert_eq!(taken(&[a]), Some(a));
        assert_eq!(taken(&[c]), None);
        assert_eq!(taken(&[]), None, "in UDP it is the caller's choice");
        first.remove(b);
        assert_eq!(taken(&[c, b]), None);
        first.add(b).unwrap();
        assert_eq!(taken(&[b]), Some(b));
        // A chosen port avoids one that is only claimed with the address.
        let other = Claim::fixed(port ^ 1, &[c]).unwrap();
        let mut numbers = [port ^ 1, port, port ^ 2].into_iter();
        let chosen = Claim::choose(&[c], || Ok(numbers.next().unwrap())).unwrap();
        assert_eq!(chosen.port, port ^ 2);
        drop((first, other));
        assert_eq!(taken(&[a, b, c]), None);
    }
}
