//! Port pools of a translator's outside addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::ports::Ports;
use super::{BackendError, Reservation};
use crate::message::{AddressTuple, IpVersion, Location, NatMode, PrrParameters, Scope};

/// Ports of one outside address, for traditional NAT.
///
/// Allocation and release take the same time whether the pool is empty or nearly full. Freed ports are
/// reused as late as possible.
#[derive(Clone, Debug)]
pub struct PortPool {
    address: IpAddr,
    ports: RangeInclusive<u16>,
    /// Pools by protocol, created on demand.
    protocols: BTreeMap<u8, Ports>,
}

impl PortPool {
    /// Creates a pool of these ports of an address, for each protocol.
    pub fn new(address: IpAddr, ports: RangeInclusive<u16>) -> Self {
        Self {
            address,
            ports,
            protocols: BTreeMap::new(),
        }
    }

    /// Allocates consecutive ports of the requested parity.
    ///
    /// # Errors
    /// When there are none, or the request is for an address without ports, another IP version or an
    /// inside address.
    pub fn allocate(&mut self, wanted: &PrrParameters) -> Result<Reservation, BackendError> {
        let version = IpVersion::of(self.address);
        if wanted.outside.is_some_and(|v| v != version)
            || wanted.protocol == 0
            || wanted.nat_mode == NatMode::Twice
        {
            return Err(BackendError::NoAddresses);
        }
        let ports = self.protocol(wanted.protocol);
        let base = ports.allocate(wanted.ports, wanted.parity);
        let outside = AddressTuple::range(
            Location::Outside,
            wanted.protocol,
            self.address,
            base.ok_or(BackendError::NoPorts)?,
            wanted.ports,
        );
        Ok(Reservation {
            outside,
            inside: None,
        })
    }

    /// Allocates the ports of a restored reservation.
    ///
    /// # Errors
    /// When the pool has another address or not all of the ports, or some are allocated.
    pub fn restore(&mut self, reservation: &Reservation) -> Result<(), BackendError> {
        let (protocol, port, count) = self.own(reservation).ok_or(BackendError::NoAddresses)?;
        if self.protocol(protocol).allocate_at(port, count) {
            Ok(())
        } else {
            Err(BackendError::NoPorts)
        }
    }

    /// Frees the ports of a reservation, unless they were not allocated by this pool.
    pub fn free(&mut self, reservation: &Reservation) {
        if let Some((protocol, port, count)) = self.own(reservation)
            && let Some(ports) = self.protocols.get_mut(&protocol)
        {
            ports.free(port, count);
        }
    }

    /// Returns the number of allocated ports.
    pub fn used(&self) -> usize {
        self.protocols.values().map(Ports::used).sum()
    }

    fn protocol(&mut self, protocol: u8) -> &mut Ports {
        let all = || Ports::new(&self.ports);
        self.protocols.entry(protocol).or_insert_with(all)
    }

    /// Returns protocol, first port and number of ports of a reservation of this pool's address.
    fn own(&self, reservation: &Reservation) -> Option<(u8, u16, u16)> {
        match reservation.outside.scope {
            Scope::Full {
                address,
                port,
                ports,
                ..
            } if address == self.address => Some((reservation.outside.protocol, port, ports)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Parity;

    fn wanted(ports: u16, parity: Parity) -> PrrParameters {
        PrrParameters {
            nat_mode: NatMode::Traditional,
            parity,
            inside: None,
            outside: None,
            protocol: 17,
            ports,
        }
    }

    fn port(reservation: &Reservation) -> u16 {
        match reservation.outside.scope {
            Scope::Full { port, .. } => port,
            Scope::ProtocolsOnly(_) => panic!("no port"),
        }
    }

    #[test]
    fn ports_are_consecutive_and_of_the_parity() {
        let mut pool = PortPool::new([192, 0, 2, 9].into(), 1001..=1010);
        let a = pool.allocate(&wanted(2, Parity::Even)).unwrap();
        let b = pool.allocate(&wanted(2, Parity::Even)).unwrap();
        let c = pool.allocate(&wanted(1, Parity::Odd)).unwrap();
        assert_eq!([&a, &b, &c].map(port), [1002, 1004, 1001]);
        assert_eq!(
            pool.allocate(&wanted(6, Parity::Any)),
            Err(BackendError::NoPorts)
        );
        assert_eq!(pool.used(), 5);
        pool.free(&b);
        pool.free(&c);
        let again = pool.allocate(&wanted(7, Parity::Any)).unwrap();
        assert_eq!(port(&again), 1004);
        assert_eq!(
            pool.allocate(&wanted(u16::MAX, Parity::Any)),
            Err(BackendError::NoPorts)
        );
        let v6 = PrrParameters {
            outside: Some(IpVersion::V6),
            ..wanted(1, Parity::Any)
        };
        assert_eq!(pool.allocate(&v6), Err(BackendError::NoAddresses));
    }

    #[test]
    fn pool_frees_only_its_own_ports() {
        let ports = 4000..=4001;
        let mut pools = [9, 10].map(|last| PortPool::new([192, 0, 2, last].into(), ports.clone()));
        let [a, b] = pools
            .each_mut()
            .map(|pool| pool.allocate(&wanted(2, Parity::Even)).unwrap());
        for pool in &mut pools {
            pool.free(&a);
        }
        assert_eq!(pools.each_ref().map(PortPool::used), [0, 2]);
        assert_eq!(
            pools[1].restore(&b),
            Err(BackendError::NoPorts),
            "it has it"
        );
        assert_eq!(pools[0].restore(&b), Err(BackendError::NoAddresses));
    }
}
