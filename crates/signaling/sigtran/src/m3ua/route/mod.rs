//! State of the routes to SS7 destinations (RFC 4666, sections 3.4, 4.5 and 4.6).
//!
//! [`DestinationTable`] has the status of the destinations of a network. An SGP keeps one for each network and answers
//! DAUD with it. At the ASPs, [`RouteTable`] has one for each gateway and network, and derives what the MTP3-User gets:
//! a destination is paused when the last gateway lost it. SUA has the same state ([`Ss7Layer`]).

mod gateways;
mod ranges;
mod ss7;
mod table;

pub use gateways::{Audit, GatewayKey, RouteTable, RouteTableConfig};
pub use ss7::{GatewayRoutes, SgpRequestError, Ss7Layer};
pub(crate) use ss7::{
    MAX_POINT_CODES, divide_registration, malformed_key_status, routing_key_responses, ss7_layer,
    unavailable_network,
};
pub use table::DestinationTable;

use crate::aspm::AspState;

use super::{
    AffectedPointCode, AffectedPointCodes, CongestionLevel, DestinationState, Message,
    NetworkAppearance, PointCode, RoutingContext, RoutingContexts, SignallingCongestion,
    UnavailableUserPart, UserCause, UserPartUnavailable,
};

/// Availability of a destination, from the worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Availability {
    /// Unavailable, or not known.
    #[default]
    Unavailable,
    /// Restricted: reachable, but another route is preferred.
    Restricted,
    /// Available.
    Available,
}

/// Status of a destination.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct DestinationStatus {
    /// Availability.
    pub availability: Availability,
    /// Congestion level, `None` if it is not known, as in networks without levels.
    pub congestion: Option<CongestionLevel>,
}

impl DestinationStatus {
    /// Returns the congestion level, 0 if it is not known.
    fn level(self) -> CongestionLevel {
        self.congestion.unwrap_or_default()
    }
}

/// Status of SS7 destinations: an MTP-PAUSE, MTP-RESUME or MTP-STATUS indication.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DestinationEvent {
    /// MTP-PAUSE: DUNA.
    Unavailable(AffectedPointCodes),
    /// MTP-RESUME: DAVA.
    Available(AffectedPointCodes),
    /// Routes are restricted: DRST.
    Restricted(AffectedPointCodes),
    /// MTP-STATUS, congestion: SCON.
    Congested(AffectedPointCodes, Option<CongestionLevel>),
    /// MTP-STATUS, user part unavailable: DUPU.
    UserPartUnavailable(PointCode, UserCause),
}

/// Meaning of an ASP's indication for the routes through its gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RouteInput {
    /// The state in an application server changed.
    State(Option<RoutingContext>, AspState),
    /// The gateway reported destinations of a network, for application servers.
    Report(
        Option<NetworkAppearance>,
        Option<RoutingContexts>,
        DestinationEvent,
    ),
}

/// Number of destinations and ranges that a route state holds. What exceeds it is not recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the route state has {0} destinations and ranges, its limit: raise it or report ranges")]
pub struct RouteStateFull(pub usize);

impl DestinationEvent {
    /// Returns the destinations and ranges whose status changed.
    fn affected(&self) -> &[AffectedPointCode] {
        match self {
            Self::Unavailable(affected)
            | Self::Available(affected)
            | Self::Restricted(affected)
            | Self::Congested(affected, _) => affected,
            Self::UserPartUnavailable(..) => &[],
        }
    }

    /// Returns the SSNM message that reports the event.
    pub(in crate::m3ua) fn message(
        &self,
        network_appearance: Option<NetworkAppearance>,
        routing_contexts: Option<RoutingContexts>,
    ) -> Message {
        let info = None;
        let state = |affected: &AffectedPointCodes| DestinationState {
            network_appearance,
            routing_contexts: routing_contexts.clone(),
            affected: affected.clone(),
            info: None,
        };
        match self {
            Self::Unavailable(affected) => Message::DestinationUnavailable(state(affected)),
            Self::Available(affected) => Message::DestinationAvailable(state(affected)),
            Self::Restricted(affected) => Message::DestinationRestricted(state(affected)),
            Self::Congested(affected, level) => {
                Message::SignallingCongestion(SignallingCongestion {
                    network_appearance,
                    routing_contexts,
                    affected: affected.clone(),
                    concerned: None,
                    level: *level,
                    info,
                })
            }
            Self::UserPartUnavailable(point_code, user_cause) => {
                Message::UserPartUnavailable(UserPartUnavailable {
                    network_appearance,
                    routing_contexts,
                    affected: UnavailableUserPart(*point_code),
                    user_cause: *user_cause,
                    info,
                })
            }
        }
    }

    /// Splits the event into events of at most `maximum` destinations or ranges, for messages.
    pub(super) fn split(&self, maximum: usize) -> Vec<Self> {
        let chunks = self.affected().chunks(maximum);
        let chunks = chunks.map(|affected| AffectedPointCodes(affected.to_vec()));
        match self {
            Self::Unavailable(_) => chunks.map(Self::Unavailable).collect(),
            Self::Available(_) => chunks.map(Self::Available).collect(),
            Self::Restricted(_) => chunks.map(Self::Restricted).collect(),
            Self::Congested(_, level) => chunks
                .map(|affected| Self::Congested(affected, *level))
                .collect(),
            Self::UserPartUnavailable(..) => vec![self.clone()],
        }
    }
}
