//! Local addresses of a port.

use std::net::IpAddr;

use carrick_proto::{portable_enum, portable_struct};

/// Address families that a wildcard bind covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wildcard {
    v4: bool,
    v6: bool,
}

portable_struct! { Wildcard { v4, v6 } }

impl Wildcard {
    fn covers(self, address: IpAddr) -> bool {
        if address.is_ipv4() { self.v4 } else { self.v6 }
    }
}

/// Local addresses of a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// All addresses of the host, of these families.
    Any(Wildcard),
    /// These addresses.
    Only(Vec<IpAddr>),
}

portable_enum! { Scope { 0: Any(families), 1: Only(addresses) } }

impl Scope {
    /// Returns the scope of the wildcard address for these families.
    pub(crate) fn any(v4: bool, v6: bool) -> Self {
        Self::Any(Wildcard { v4, v6 })
    }

    /// Returns the wildcard address, that of IPv6 for both families; `None` if single addresses are bound.
    pub(crate) fn wildcard(&self) -> Option<IpAddr> {
        match self {
            Self::Any(any) if any.v6 => Some([0; 16].into()),
            Self::Any(_) => Some([0; 4].into()),
            Self::Only(_) => None,
        }
    }

    /// Returns the single addresses that are bound; none for a wildcard address.
    pub(crate) fn single(&self) -> &[IpAddr] {
        match self {
            Self::Any(_) => &[],
            Self::Only(list) => list,
        }
    }

    /// Returns the addresses on a host with these addresses.
    pub(crate) fn addresses(&self, host: &[IpAddr]) -> Vec<IpAddr> {
        match self {
            Self::Any(any) => {
                let host = host.iter().copied();
                host.filter(|address| any.covers(*address)).collect()
            }
            Self::Only(list) => list.clone(),
        }
    }

    /// Returns whether a wildcard address covers an address.
    pub(super) fn covers(&self, address: IpAddr) -> bool {
        matches!(self, Self::Any(any) if any.covers(address))
    }

    /// Returns whether an address belongs to both scopes.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any(a), Self::Any(b)) => a.v4 && b.v4 || a.v6 && b.v6,
            (Self::Any(any), Self::Only(list)) | (Self::Only(list), Self::Any(any)) => {
                list.iter().any(|address| any.covers(*address))
            }
            (Self::Only(a), Self::Only(b)) => a.iter().any(|address| b.contains(address)),
        }
    }

    /// Returns whether all addresses of another scope belong to this one.
    pub(super) fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any(any), Self::Only(list)) => list.iter().all(|ip| any.covers(*ip)),
            (Self::Only(a), Self::Only(b)) => b.iter().all(|ip| a.contains(ip)),
            _ => self == other,
        }
    }
}

/// Returns whether an address is of 127.0.0.0/8.
pub(crate) fn is_loopback_v4(ip: IpAddr) -> bool {
    ip.is_ipv4() && ip.is_loopback()
}

/// Returns whether an address needs a scope, which paths do not have.
pub(crate) fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local())
}
