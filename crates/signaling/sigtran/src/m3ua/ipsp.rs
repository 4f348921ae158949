//! IP server process: M3UA between two processes without a gateway (RFC 4666, sections 1.4.3.4 and 4.3).
//!
//! The states and the exchange of messages are those of [`aspm::ipsp`](crate::aspm::ipsp).

use super::sgp::SgpIndication;
use super::{M3ua, RoutingContext};
use crate::aspm::ipsp::{self, IpspLayer};
use crate::aspm::sgp::AspKey;

pub use crate::aspm::ipsp::IpspExchange;

/// IP server process with all its peers.
pub type Ipsp = ipsp::Ipsp<M3ua>;
/// Primitive of an IPSP to layer management or the MTP3-User.
pub type IpspIndication = ipsp::IpspIndication<M3ua>;
/// Configuration of a peer that is not possible. The fault is the caller's.
pub type IpspConfigError = ipsp::IpspConfigError<RoutingContext>;

impl IpspLayer for M3ua {
    fn changed_asp(indication: &SgpIndication) -> Option<AspKey> {
        match indication {
            SgpIndication::AspUp(asp)
            | SgpIndication::AspDown(asp)
            | SgpIndication::AspActive(asp, _)
            | SgpIndication::AspInactive(asp, _) => Some(*asp),
            _ => None,
        }
    }
}
