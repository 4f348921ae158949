//! Application server process: the ASP's side of an association with an SGP (RFC 4666, section 4.3).
//!
//! States and requests are those of [`aspm::asp`](crate::aspm::asp); here is the service for the MTP3-User.

mod user;

pub(in crate::m3ua) use user::invalid_appearance;

use super::{
    Data, DeregistrationResult, DeregistrationStatus, DestinationState, ErrorMessage,
    LocalRoutingKeyIdentifier, M3ua, NetworkAppearance, Notify, RegistrationStatus, RoutingContext,
    SctpNotification, SignallingCongestion, TrafficMode, UserPartUnavailable,
};
use crate::aspm::asp::{self, AspEvent};

pub use crate::aspm::asp::{AspState, RequestFailure};

/// Application server process on its association with an SGP.
pub type Asp = asp::Asp<M3ua>;
/// Configuration of an [`Asp`].
pub type AspConfig = asp::AspConfig<M3ua>;
/// Configuration that is contradictory. The fault is the caller's.
pub type AspConfigError = asp::AspConfigError<RoutingContext>;
/// Request that is not possible in the current state. The fault is the caller's.
pub type AspRequestError = asp::AspRequestError<RoutingContext>;

/// Application server that an ASP serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AspApplicationServer {
    /// Routing context; `None` if this is the only application server of the association.
    pub routing_context: Option<RoutingContext>,
    /// Traffic mode of ASP Active messages; the SGP's configuration applies if absent.
    pub traffic_mode: Option<TrafficMode>,
    /// Network appearance of DATA and SSNM messages.
    pub network_appearance: Option<NetworkAppearance>,
}

impl AspApplicationServer {
    /// Application server with a routing context.
    pub const fn new(routing_context: RoutingContext) -> Self {
        Self {
            routing_context: Some(routing_context),
            traffic_mode: None,
            network_appearance: None,
        }
    }
}

/// Primitive of an ASP to layer management or the MTP3-User (RFC 4666, sections 1.6.1 and 1.6.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AspIndication {
    /// M-SCTP_STATUS indication.
    SctpStatus(SctpNotification),
    /// M-ASP_UP confirm.
    AspUp(Result<(), RequestFailure>),
    /// M-ASP_DOWN confirm.
    AspDown(Result<(), RequestFailure>),
    /// M-ASP_ACTIVE confirm of an application server.
    AspActive(Option<RoutingContext>, Result<(), RequestFailure>),
    /// M-ASP_INACTIVE confirm of an application server.
    AspInactive(Option<RoutingContext>, Result<(), RequestFailure>),
    /// M-ASP_STATUS indication: the state in an application server changed, by request or not.
    AspStatus(Option<RoutingContext>, AspState),
    /// M-RK_REG confirm; the error is the status of the response, `None` if there was no response.
    Registered(
        LocalRoutingKeyIdentifier,
        Result<RoutingContext, Option<RegistrationStatus>>,
    ),
    /// M-RK_DEREG confirm.
    Deregistered(DeregistrationResult),
    /// M-NOTIFY indication.
    Notify(Notify),
    /// M-ERROR indication: an Error message of the peer.
    Error(ErrorMessage),
    /// M-ERROR indication: a message of the peer was answered with an Error message.
    PeerError(ErrorMessage),
    /// No message was received within 2 × T(beat): the association is to be aborted.
    PeerUnresponsive,
    /// MTP-TRANSFER indication.
    Transfer(Data),
    /// MTP-PAUSE indication.
    MtpPause(DestinationState),
    /// MTP-RESUME indication.
    MtpResume(DestinationState),
    /// DRST: routes to destinations are restricted. The M3UA user resumes traffic, if it was paused.
    Restricted(DestinationState),
    /// MTP-STATUS indication: congestion.
    Congestion(SignallingCongestion),
    /// MTP-STATUS indication: user part unavailable.
    UserPartUnavailable(UserPartUnavailable),
}

impl From<AspEvent<M3ua>> for AspIndication {
    fn from(event: AspEvent<M3ua>) -> Self {
        match event {
            AspEvent::SctpStatus(notification) => Self::SctpStatus(notification),
            AspEvent::AspUp(result) => Self::AspUp(result),
            AspEvent::AspDown(result) => Self::AspDown(result),
            AspEvent::AspActive(context, result) => Self::AspActive(context, result),
            AspEvent::AspInactive(context, result) => Self::AspInactive(context, result),
            AspEvent::AspStatus(context, state) => Self::AspStatus(context, state),
            AspEvent::Registered(local_id, result) => Self::Registered(
                LocalRoutingKeyIdentifier(local_id),
                result.map_err(|status| status.map(RegistrationStatus)),
            ),
            AspEvent::Deregistered(routing_context, status) => {
                Self::Deregistered(DeregistrationResult {
                    routing_context,
                    status: DeregistrationStatus(status),
                })
            }
            AspEvent::Notify(notify) => Self::Notify(notify),
            AspEvent::Error(error) => Self::Error(error),
            AspEvent::PeerError(error) => Self::PeerError(error),
            AspEvent::PeerUnresponsive => Self::PeerUnresponsive,
        }
    }
}
