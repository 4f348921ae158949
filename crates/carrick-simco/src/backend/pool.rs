//! Ports of a translator's outside address.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::{BackendError, Reservation};
use crate::message::{AddressTuple, IpVersion, Location, NatMode, Parity, PrrParameters, Scope};

/// Consecutive free ports of one address, for traditional NAT.
#[derive(Clone, Debug)]
pub struct PortPool {
    address: IpAddr,
    ports: RangeInclusive<u16>,
    used: BTreeSet<(u8, u16)>,
    /// Where the search begins, so that a port rests after use.
    next: u16,
}

impl PortPool {
    /// A pool of these ports of an address, for each protocol.
    pub fn new(address: IpAddr, ports: RangeInclusive<u16>) -> Self {
        Self {
            address,
            next: *ports.start(),
            ports,
            used: BTreeSet::new(),
        }
    }

    /// Takes as many consecutive ports as wanted, of the parity wanted.
    ///
    /// # Errors
    /// When there are none; when an address is wanted and not ports of it, or another IP version, or
    /// an address inside.
    pub fn take(&mut self, wanted: &PrrParameters) -> Result<Reservation, BackendError> {
        let version = IpVersion::of(self.address);
        if wanted.outside.is_some_and(|v| v != version)
            || wanted.protocol == 0
            || wanted.nat_mode == NatMode::Twice
        {
            return Err(BackendError::NoAddresses);
        }
        let base = self.find(*wanted).ok_or(BackendError::NoPorts)?;
        let ports = wanted.ports;
        self.used.extend(
            (base..)
                .take(usize::from(ports))
                .map(|p| (wanted.protocol, p)),
        );
        self.next = base.saturating_add(ports);
        let outside = AddressTuple::range(
            Location::Outside,
            wanted.protocol,
            self.address,
            base,
            ports,
        );
        Ok(Reservation {
            outside,
            inside: None,
        })
    }

    fn find(&self, wanted: PrrParameters) -> Option<u16> {
        if self.ports.is_empty() {
            return None;
        }
        let last = self.ports.end().checked_sub(wanted.ports.checked_sub(1)?)?;
        let start = self.next.clamp(*self.ports.start(), *self.ports.end());
        let fits = |base: &u16| {
            let parity = match wanted.parity {
                Parity::Any => true,
                Parity::Odd => !base.is_multiple_of(2),
                Parity::Even => base.is_multiple_of(2),
            };
            let range = (wanted.protocol, *base)..=(wanted.protocol, base + (wanted.ports - 1));
            parity && self.used.range(range).next().is_none()
        };
        (start..=last)
            .chain(*self.ports.start()..=last.min(start))
            .find(fits)
    }

    /// Takes the ports of a reservation that an earlier pool gave.
    ///
    /// # Errors
    /// When the pool has another address, not all of the ports, or has given some of them.
    pub fn readopt(&mut self, reservation: &Reservation) -> Result<(), BackendError> {
        let AddressTuple {
            protocol, scope, ..
        } = reservation.outside;
        let Scope::Full {
            address,
            port,
            ports,
            ..
        } = scope
        else {
            return Err(BackendError::NoAddresses);
        };
        if address != self.address {
            return Err(BackendError::NoAddresses);
        }
        let last = ports.checked_sub(1).and_then(|more| port.checked_add(more));
        let last = last.filter(|last| self.ports.contains(last) && self.ports.contains(&port));
        let wanted = port..=last.ok_or(BackendError::NoPorts)?;
        let range = (protocol, *wanted.start())..=(protocol, *wanted.end());
        if self.used.range(range).next().is_some() {
            return Err(BackendError::NoPorts);
        }
        self.used.extend(wanted.map(|port| (protocol, port)));
        Ok(())
    }

    /// Gives the ports back.
    pub fn give(&mut self, reservation: &Reservation) {
        let AddressTuple {
            protocol, scope, ..
        } = reservation.outside;
        if let Scope::Full { port, ports, .. } = scope {
            for port in (port..=u16::MAX).take(usize::from(ports)) {
                self.used.remove(&(protocol, port));
            }
        }
    }

    /// Ports that are taken.
    pub fn used(&self) -> usize {
        self.used.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn ports_are_consecutive_of_the_parity_and_come_back() {
        let mut pool = PortPool::new([192, 0, 2, 9].into(), 1001..=1010);
        let a = pool.take(&wanted(2, Parity::Even)).unwrap();
        let b = pool.take(&wanted(2, Parity::Even)).unwrap();
        let c = pool.take(&wanted(1, Parity::Odd)).unwrap();
        assert_eq!([&a, &b, &c].map(port), [1002, 1004, 1007]);
        assert_eq!(
            pool.take(&wanted(4, Parity::Any)),
            Err(BackendError::NoPorts)
        );
        assert_eq!(pool.used(), 5);
        pool.give(&b);
        pool.give(&c);
        let again = pool.take(&wanted(7, Parity::Any)).unwrap();
        assert_eq!(port(&again), 1004);
        assert_eq!(
            pool.take(&wanted(u16::MAX, Parity::Any)),
            Err(BackendError::NoPorts)
        );
        let v6 = PrrParameters {
            outside: Some(IpVersion::V6),
            ..wanted(1, Parity::Any)
        };
        assert_eq!(pool.take(&v6), Err(BackendError::NoAddresses));
    }
}
