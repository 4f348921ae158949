//! IP server process: SUA between two processes without a gateway (RFC 3868, sections 1.3.3 and 4.3).
//!
//! The states and the exchange of messages are those of [`aspm::ipsp`](crate::aspm::ipsp).

use super::sgp::SgpIndication;
use super::{RoutingContext, Sua};
use crate::aspm::ipsp::{self, IpspLayer};
use crate::aspm::sgp::AspKey;

pub use crate::aspm::ipsp::IpspExchange;

/// IP server process with all its peers.
pub type Ipsp = ipsp::Ipsp<Sua>;
/// Primitive of an IPSP to layer management or the SCCP user.
pub type IpspIndication = ipsp::IpspIndication<Sua>;
/// Configuration of a peer that is not possible. The fault is the caller's.
pub type IpspConfigError = ipsp::IpspConfigError<RoutingContext>;

impl IpspLayer for Sua {
    fn changed_asp(indication: &SgpIndication) -> Option<AspKey> {
        match indication {
            SgpIndication::Gateway(event) => event.changed_asp(),
            _ => None,
        }
    }
}
