//! SCTP port of an endpoint, and the claims that prevent other endpoints from using it.
//!
//! Peers know an association by address and SCTP port, also in UDP, so two endpoints of a host must
//! not have the same one. A UDP port that the system chose is unique already, and its number serves
//! as the SCTP port. Otherwise endpoints claim ports with names that only one socket of a network
//! namespace can have, also across processes:
//!
//! - the port alone: an endpoint without a configured port does not choose this one;
//! - the port with an address, on plain IP: a second endpoint is refused, because both would get and
//!   answer all packets;
//! - port 0 with an address, on plain IP: a program that has all ports, which endpoints and such
//!   programs cannot share.
//!
//! Any program of the network namespace can take such a name, as it can take a UDP port; the error names its process. The
//! ports of other SCTP implementations on plain IP are not seen.

use std::io;
use std::net::IpAddr;

use crate::config::Config;
use crate::error::BindError;

/// Ports from which an endpoint chooses (RFC 6335).
const DYNAMIC_PORTS: std::ops::RangeInclusive<u16> = 49_152..=65_535;

/// Maximum number of claimed ports tried before one is used regardless.
const TRIES: usize = 256;

/// Stands for all ports in a claim.
pub(crate) const ALL_PORTS: u16 = 0;

/// Prefix of the names of all claims.
const NAMES: &str = "carrick/sctp/";

/// Socket that has a name; `Infallible` where the system has no such names.
#[cfg(target_os = "linux")]
type Name = std::os::unix::net::UnixDatagram;
#[cfg(not(target_os = "linux"))]
type Name = std::convert::Infallible;

/// Claimed port: while the claim exists, other endpoints cannot choose it, or bind it on plain IP.
#[derive(Debug)]
pub(crate) struct PortClaim {
    port: u16,
    /// `None` if another endpoint holds it or the system has no such names.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "it is held alone")
    )]
    name: Option<Name>,
    /// Claimed addresses on plain IP.
    addresses: Vec<(IpAddr, Name)>,
}

impl PortClaim {
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

    /// Claims all ports of these addresses on plain IP.
    pub(crate) fn all_ports(plain: &[IpAddr]) -> Result<Self, BindError> {
        Self::with_addresses(ALL_PORTS, None, plain)
    }

    /// Continues a claim that another process has made: the port, its name and those of the addresses.
    #[cfg(target_os = "linux")]
    pub(crate) fn adopt(port: u16, name: Option<Name>, addresses: Vec<(IpAddr, Name)>) -> Self {
        Self {
            port,
            name,
            addresses,
        }
    }

    /// Returns another descriptor of the name of the port; `None` if another endpoint holds it.
    #[cfg(target_os = "linux")]
    pub(crate) fn duplicate_name(&self) -> io::Result<Option<std::os::fd::OwnedFd>> {
        let name = self.name.as_ref().map(Name::try_clone).transpose()?;
        Ok(name.map(Into::into))
    }

    /// Returns further descriptors of the names of the addresses.
    #[cfg(target_os = "linux")]
    pub(crate) fn duplicate(
        &self,
    ) -> impl Iterator<Item = (IpAddr, io::Result<std::os::fd::OwnedFd>)> + '_ {
        let names = self.addresses.iter();
        names.map(|(address, name)| (*address, name.try_clone().map(Into::into)))
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
            name,
            addresses: Vec::with_capacity(plain.len()),
        };
        plain.iter().try_for_each(|address| claim.add(*address))?;
        Ok(claim)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Claims the port with an address on plain IP.
    ///
    /// The claim is made before the search for others, so that of two claims made at the same time at
    /// least one is refused.
    pub(crate) fn add(&mut self, address: IpAddr) -> Result<(), BindError> {
        let port = self.port;
        if self.addresses.iter().any(|(held, _)| *held == address) {
            return Ok(());
        }
        let name = match bind_name(&address_name(port, address)) {
            Ok(name) => name,
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => return Err(taken(address, port)),
            Err(e) if e.kind() == io::ErrorKind::Unsupported => return Ok(()),
            Err(error) => return Err(BindError::Socket { address, error }),
        };
        let other = if port == ALL_PORTS {
            let claimed = claimed_ports(address).unwrap_or_default();
            claimed.into_iter().find(|other| *other != ALL_PORTS)
        } else {
            name_exists(&address_name(ALL_PORTS, address)).then_some(ALL_PORTS)
        };
        if let Some(other) = other {
            return Err(taken(address, other));
        }
        self.addresses.push((address, name));
        Ok(())
    }

    /// Releases an address.
    pub(crate) fn remove(&mut self, address: IpAddr) {
        self.addresses.retain(|(held, _)| *held != address);
    }
}

/// Error of a claim that exists.
fn taken(address: IpAddr, port: u16) -> BindError {
    let holder = holder(&address_name(port, address));
    if port == ALL_PORTS {
        BindError::SctpTaken { address, holder }
    } else {
        BindError::SctpPortTaken {
            address,
            port,
            holder,
        }
    }
}

/// Returns the process that has a socket with this name, or the name.
fn holder(name: &str) -> String {
    let process = process_with(name).map(|(id, command)| format!("process {id} ({command})"));
    process.unwrap_or_else(|| format!("a program with the Unix socket @{name} (ss -xap)"))
}

/// Returns the first process with a socket of this name, and its command, as far as this process may see them.
#[cfg(target_os = "linux")]
fn process_with(name: &str) -> Option<(u32, String)> {
    let table = std::fs::read_to_string("/proc/thread-self/net/unix").ok()?;
    let line = table.lines().find(|line| {
        line.rsplit_once(" @")
            .is_some_and(|(_, found)| found == name)
    })?;
    let socket = format!("socket:[{}]", line.split_whitespace().nth(6)?);
    let has_socket = |directory: &std::path::Path| {
        let files = std::fs::read_dir(directory.join("fd"))
            .into_iter()
            .flatten();
        let mut targets = files.flatten().map(|file| std::fs::read_link(file.path()));
        targets.any(|target| target.is_ok_and(|target| target.as_os_str() == socket.as_str()))
    };
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    processes.map(|entry| entry.path()).find_map(|directory| {
        let id = directory.file_name()?.to_str()?.parse().ok()?;
        let command = has_socket(&directory)
            .then(|| std::fs::read_to_string(directory.join("comm")).unwrap_or_default())?;
        Some((id, command.trim_end().escape_default().to_string()))
    })
}

/// Other systems have no such names.
#[cfg(not(target_os = "linux"))]
fn process_with(_: &str) -> Option<(u32, String)> {
    None
}

/// Returns the ports that are claimed with an address in the thread's network namespace, [`ALL_PORTS`]
/// included; `None` if the system has no such table.
#[cfg(target_os = "linux")]
pub(crate) fn claimed_ports(address: IpAddr) -> Option<Vec<u16>> {
    let table = std::fs::read_to_string("/proc/thread-self/net/unix").ok()?;
    Some(ports_in(&table, address).collect())
}

/// Other systems have no such names.
#[cfg(not(target_os = "linux"))]
pub(crate) fn claimed_ports(_: IpAddr) -> Option<Vec<u16>> {
    None
}

/// Returns the ports with an address in a table of `AF_UNIX` sockets.
#[cfg(any(target_os = "linux", test))]
fn ports_in(table: &str, address: IpAddr) -> impl Iterator<Item = u16> {
    table.lines().filter_map(move |line| {
        let name = line.rsplit_once(" @")?.1;
        let port = name.strip_prefix(NAMES)?.split('/').next()?;
        let port = port.parse().ok()?;
        (name == address_name(port, address)).then_some(port)
    })
}

fn port_name(port: u16) -> String {
    format!("{NAMES}{port}")
}

/// Returns the name of a port with an address.
fn address_name(port: u16, address: IpAddr) -> String {
    format!("{NAMES}{port}/{address}")
}

#[cfg(target_os = "linux")]
fn bind_name(name: &str) -> io::Result<Name> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    Name::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Returns whether a socket with this abstract name exists.
#[cfg(target_os = "linux")]
fn name_exists(name: &str) -> bool {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    let connect = || Name::unbound()?.connect_addr(&SocketAddr::from_abstract_name(name)?);
    connect().is_ok()
}

#[cfg(not(target_os = "linux"))]
fn name_exists(_: &str) -> bool {
    false
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

    const UNIX: &str = "Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00000000 0002 01 103 @carrick/sctp/5000
0000000000000000: 00000002 00000000 00000000 0002 01 104 @carrick/sctp/5000/127.0.0.1
0000000000000000: 00000002 00000000 00000000 0002 01 105 @carrick/sctp/4000/127.0.0.1
0000000000000000: 00000002 00000000 00000000 0002 01 106 @carrick/sctp/80/::1
0000000000000000: 00000002 00000000 00000000 0002 01 107 /run/carrick/sctp/70/127.0.0.1
0000000000000000: 00000002 00000000 00000000 0002 01 108
";

    #[test]
    fn the_claims_of_an_address_are_read() {
        let of = |address: &str| -> Vec<u16> { ports_in(UNIX, address.parse().unwrap()).collect() };
        assert_eq!(of("127.0.0.1"), [5000, 4000]);
        assert_eq!(of("::1"), [80]);
        assert!(of("127.0.0.2").is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn ports_in_use_are_not_chosen() {
        let first = PortClaim::choose(&[], random).unwrap();
        let taken = first.port;
        let mut numbers = [taken, taken, taken ^ 1].into_iter();
        let second = PortClaim::choose(&[], || Ok(numbers.next().unwrap())).unwrap();
        assert_eq!(second.port, taken ^ 1);
        drop(first);
        assert_eq!(PortClaim::choose(&[], || Ok(taken)).unwrap().port, taken);
        assert!(DYNAMIC_PORTS.contains(&taken));
    }

    /// On plain IP a port is taken if it is taken with any of the addresses; removing an address releases
    /// it.
    #[cfg(target_os = "linux")]
    #[test]
    fn port_is_bound_with_each_address() {
        // Documentation addresses, which are only part of names here.
        let [a, b, c] = [1, 2, 3].map(|n| IpAddr::from([192, 0, 2, n]));
        let mut first = PortClaim::choose(&[a, b], random).unwrap();
        let port = first.port;
        let taken = |plain: &[IpAddr]| match PortClaim::fixed(port, plain) {
            Ok(_) => None,
            Err(BindError::SctpPortTaken {
                address,
                port: p,
                holder,
            }) if p == port => {
                let own = format!("process {} (", std::process::id());
                assert!(holder.starts_with(&own), "{holder}");
                Some(address)
            }
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
        let other = PortClaim::fixed(port ^ 1, &[c]).unwrap();
        let mut numbers = [port ^ 1, port, port ^ 2].into_iter();
        let chosen = PortClaim::choose(&[c], || Ok(numbers.next().unwrap())).unwrap();
        assert_eq!(chosen.port, port ^ 2);
        drop((first, other));
        assert_eq!(taken(&[a, b, c]), None);
    }

    /// A claim of all ports and one of a port exclude each other, in whichever order they are made.
    #[cfg(target_os = "linux")]
    #[test]
    fn all_ports_of_an_address_are_claimed_by_one() {
        let [a, b] = [4, 5].map(|n| IpAddr::from([192, 0, 2, n]));
        let endpoint = PortClaim::choose(&[a], random).unwrap();
        let port = endpoint.port;
        let refused = PortClaim::all_ports(&[b, a]).unwrap_err();
        let is_port = matches!(refused, BindError::SctpPortTaken { address, port: p, .. } if (address, p) == (a, port));
        assert!(is_port, "{refused}");
        drop(endpoint);
        let mut all = PortClaim::all_ports(&[b, a]).unwrap();
        let is_all = |error: BindError| matches!(error, BindError::SctpTaken { address, .. } if address == a);
        assert!(is_all(PortClaim::all_ports(&[a]).unwrap_err()));
        assert!(is_all(PortClaim::fixed(port, &[a]).unwrap_err()));
        assert!(is_all(PortClaim::choose(&[a], random).unwrap_err()));
        PortClaim::fixed(port, &[]).unwrap();
        all.remove(a);
        PortClaim::fixed(port, &[a]).unwrap();
        all.add(a).unwrap();
    }
}
