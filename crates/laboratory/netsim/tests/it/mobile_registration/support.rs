//! Helpers shared by the registration tests.

use std::time::Duration;

use carrick_netsim::mobile::{
    Identification, MobilityEvent, PORT, RegistrationRequest, RequestFlags, SecurityAssociation,
};
use carrick_netsim::{Packet, Protocol, Random};

use crate::mobile_world::{HOME, HOME_AGENT, World};

pub(crate) fn is_registered(event: &MobilityEvent) -> bool {
    matches!(event, MobilityEvent::Registered { .. })
}

pub(crate) fn is_denied(event: &MobilityEvent) -> bool {
    matches!(event, MobilityEvent::Denied(_))
}

pub(crate) fn association() -> SecurityAssociation {
    SecurityAssociation::new(1000, &[7; 16]).expect("a valid key")
}

/// Returns a valid request for a test to modify.
pub(crate) fn request(world: &World, care_of: std::net::Ipv4Addr) -> RegistrationRequest {
    let mut random = Random::new(1, 9);
    RegistrationRequest {
        flags: RequestFlags::default(),
        lifetime: 100,
        home_address: HOME,
        home_agent: HOME_AGENT,
        care_of,
        identification: Identification::at(world.net.now(), 0, &mut random),
    }
}

/// Sends a registration message from the mobile node's host to an agent, out of its interface
/// there.
pub(crate) fn inject_bytes(
    world: &mut World,
    payload: impl Into<bytes::Bytes>,
    to: std::net::Ipv4Addr,
) {
    let ports = Protocol::Udp {
        source_port: 4000,
        destination_port: PORT,
    };
    let (source, interface) = (HOME.into(), world.interfaces[1]);
    let packet = Packet::new(source, to.into(), ports, payload);
    world.net.with_node(
        world.mobile,
        |mobile: &mut crate::mobile_world::Mobile, _, out| {
            mobile.with_program(out, |_, out| out.send_on(interface, packet));
        },
    );
    world.run(Duration::from_millis(200));
}

pub(crate) fn inject(
    world: &mut World,
    request: &RegistrationRequest,
    association: &SecurityAssociation,
    to: std::net::Ipv4Addr,
) {
    inject_bytes(world, request.to_bytes(association), to);
}
