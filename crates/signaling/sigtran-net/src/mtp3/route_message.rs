//! Messages of signalling route management and of MTP restart (Q.704, sections 13 and 15).
//!
//! ```text
//! heading   H0 (4 bits)   H1 (4 bits)
//! TFP       4             1             destination prohibited
//! TFR       4             3             destination restricted
//! TFA       4             5             destination allowed
//! RST       5             1             test of a prohibited destination
//! RSR       5             2             test of a restricted destination
//! TRA       7             1             traffic restart allowed
//! ```
//!
//! All but TRA have the destination behind the heading: two octets, three in networks with 24 bits.

use carrick_sigtran::m3ua::route::Availability;
use carrick_sigtran::m3ua::{PointCode, ProtocolData};

use super::label::{LabelFormat, NETWORK_MANAGEMENT};

/// Heading codes: H0 in the low 4 bits, H1 in the high ones.
const TFP: u8 = 0x14;
const TFR: u8 = 0x34;
const TFA: u8 = 0x54;
const RST: u8 = 0x15;
const RSR: u8 = 0x25;
const TRA: u8 = 0x17;

/// Message to or from the adjacent signalling point about routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RouteMessage {
    /// TFP, TFR or TFA: availability of a destination over the sender.
    Transfer(PointCode, Availability),
    /// RST or RSR: test of a destination with this availability, prohibited or restricted.
    Test(PointCode, Availability),
    /// TRA.
    RestartAllowed,
}

impl LabelFormat {
    /// Octets of a destination.
    const fn destination_len(self) -> usize {
        if self.bits == 24 { 3 } else { 2 }
    }

    /// Returns a message about routes.
    pub(super) fn route_message(
        self,
        [opc, dpc]: [PointCode; 2],
        ni: u8,
        message: RouteMessage,
    ) -> ProtocolData {
        let (heading, destination) = match message {
            RouteMessage::Transfer(code, Availability::Unavailable) => (TFP, Some(code)),
            RouteMessage::Transfer(code, Availability::Restricted) => (TFR, Some(code)),
            RouteMessage::Transfer(code, Availability::Available) => (TFA, Some(code)),
            RouteMessage::Test(code, Availability::Restricted) => (RSR, Some(code)),
            RouteMessage::Test(code, _) => (RST, Some(code)),
            RouteMessage::RestartAllowed => (TRA, None),
        };
        let mut user_data = vec![heading];
        if let Some(destination) = destination {
            let octets = destination.value().to_le_bytes();
            user_data.extend_from_slice(&octets[..self.destination_len()]);
        }
        self.management(opc, dpc, ni, 0, user_data)
    }

    /// Returns a message about routes, `None` for all other messages.
    pub(super) fn parse_route_message(self, data: &ProtocolData) -> Option<RouteMessage> {
        let (heading, rest) = data.user_data.split_first()?;
        if data.si != NETWORK_MANAGEMENT {
            return None;
        }
        if *heading == TRA {
            return Some(RouteMessage::RestartAllowed);
        }
        let mut octets = [0; 4];
        let length = self.destination_len();
        octets[..length].copy_from_slice(rest.get(..length)?);
        // The bits beyond a point code are spare.
        let destination = u32::from_le_bytes(octets) & ((1 << self.bits) - 1);
        let destination = PointCode::new(destination)?;
        let transfer = |availability| Some(RouteMessage::Transfer(destination, availability));
        match *heading {
            TFP => transfer(Availability::Unavailable),
            TFR => transfer(Availability::Restricted),
            TFA => transfer(Availability::Available),
            RST => Some(RouteMessage::Test(destination, Availability::Unavailable)),
            RSR => Some(RouteMessage::Test(destination, Availability::Restricted)),
            _ => None,
        }
    }
}
