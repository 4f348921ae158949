//! The pinholes of a load.

use std::net::{IpAddr, Ipv4Addr};

use crate::Time;
use crate::message::{
    AddressTuple, Direction, EnableRequest, Lifetime, Location, PerParameters, PolicyRuleId,
    PortParity,
};

/// UDP.
const PROTOCOL: u8 = 17;

/// One pinhole from the request to open it on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pinhole {
    /// When it is to be closed.
    pub(super) closes: Time,
    /// When it is to be refreshed next.
    pub(super) refresh: Time,
    pub(super) state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// PER is out.
    Opening,
    /// PER was answered.
    Open(PolicyRuleId),
}

/// What to ask for: an address and port of its own for each number, one way.
pub(super) fn request(number: u32, lifetime: Lifetime) -> EnableRequest {
    // 16 million hosts with one port each on the inside, 60,000 ports of one host outside.
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
