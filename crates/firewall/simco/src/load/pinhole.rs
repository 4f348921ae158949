//! Pinholes of a load.

use std::net::{IpAddr, Ipv4Addr};

use crate::Time;
use crate::message::{
    AddressTuple, Direction, EnableRequest, Lifetime, Location, PerParameters, PolicyRuleId,
    PortParity,
};

/// UDP.
const PROTOCOL: u8 = 17;

/// Pinhole, from the request to open it on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pinhole {
    /// Time at which it is closed.
    pub(super) closes: Time,
    /// Time of its next refresh.
    pub(super) refresh: Time,
    pub(super) state: PinholeState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
/// State of a pinhole of the load.
pub(super) enum PinholeState {
    /// PER was sent.
    Opening,
    /// PER was answered.
    Open(PolicyRuleId),
}

/// Returns the request for a pinhole: one direction, with a separate address and port for each
/// number.
pub(super) fn request(number: u32, lifetime: Lifetime) -> EnableRequest {
    // 16 million internal hosts with one port each, 60,000 ports of one external host.
    let [_, b, c, d] = number.to_be_bytes();
    let internal = IpAddr::V4(Ipv4Addr::new(10, b, c, d));
    let external = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));
    let port = 2 + 2 * (number % 30_000) as u16;
    EnableRequest {
        parameters: PerParameters {
            parity: PortParity::Any,
            direction: Direction::Inbound,
        },
        internal: AddressTuple::single(Location::Internal, PROTOCOL, internal, 16_384),
        external: AddressTuple::single(Location::External, PROTOCOL, external, port),
        lifetime,
        group: None,
    }
}
