//! Events of a session.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use carrick_sigtran::aspm::asp::AspEvent;
use carrick_sigtran::aspm::sgp::GatewayEvent;
use carrick_sigtran::m3ua::route::{Availability, DestinationEvent};
use carrick_sigtran::m3ua::{AffectedPointCode, M3ua, PointCodeFormat, Status, UserCause};
use carrick_sigtran::sua::SourceReferenceNumber;
use carrick_sigtran::sua::connection::ConnectionTableIndication;
use carrick_sigtran::sua::sgp::RelayError;

use crate::layer::SocketLayer;

/// Event of a session: a change of a peer's association or of a state of the layer. In SUA, M2UA and IUA also an indication
/// to the user.
#[derive(Clone, PartialEq, Debug)]
pub struct Event<L: SocketLayer = M3ua> {
    /// Name of the peer; empty for an unknown peer or an application server.
    pub peer: Arc<str>,
    /// Event.
    pub kind: EventKind<L>,
}

/// Kind of an [`Event`].
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum EventKind<L: SocketLayer = M3ua> {
    /// The association is established, with these addresses of the peer.
    Connected(Vec<IpAddr>),
    /// The association could not be set up; the next attempt is after this time.
    ConnectFailed(String, Duration),
    /// The association has ended.
    Disconnected(String),
    /// An association of an unknown peer was refused.
    Refused(Vec<IpAddr>, String),
    /// The peer has restarted the association.
    Restarted,
    /// The path to this address of the peer has failed, or recovered if it is active; the association remains.
    Path(IpAddr, bool),
    /// Primitive of the ASP at its association with the gateway.
    Asp(L::AspIndication),
    /// Primitive of the SGP, the SG in IUA.
    Sgp(L::SgpIndication),
    /// Indication of a connection of SUA, with its local reference number.
    Connection(SourceReferenceNumber, Box<ConnectionTableIndication>),
    /// A message of an ASP of SUA was not relayed; it was answered, if it was a CORE or a CLDT with the return option.
    NotRelayed(RelayError),
    /// A link of MTP3 over M2PA is in service or not.
    Link(bool),
    /// Congestion of a link set over M2PA began or ended.
    Congestion(bool),
    /// Availability of a destination of a signal transfer point.
    Destination(String, Availability),
    /// Number of events of a source, or of all sources that are not named, that a signal transfer point left out.
    Suppressed(u64, Option<String>),
}

impl<L: SocketLayer> Event<L> {
    /// Returns the event as text, with point codes such as `2-117-3` in the format of their network.
    pub const fn display(&self, format: PointCodeFormat) -> impl fmt::Display + use<'_, L> {
        Text {
            event: self,
            format,
        }
    }
}

impl<L: SocketLayer> fmt::Display for Event<L> {
    /// Writes the event with point codes as decimal numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.display(PointCodeFormat::NUMBER).fmt(f)
    }
}

/// Text of an event.
struct Text<'a, L: SocketLayer> {
    event: &'a Event<L>,
    format: PointCodeFormat,
}

impl<L: SocketLayer> fmt::Display for Text<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { peer, kind } = self.event;
        if !peer.is_empty() {
            write!(f, "{peer}: ")?;
        }
        match kind {
            EventKind::Connected(addresses) => write!(f, "connected with {}", list(addresses)),
            EventKind::ConnectFailed(reason, wait) => {
                write!(f, "{reason}; next attempt in {:.1} s", wait.as_secs_f64())
            }
            EventKind::Disconnected(reason) => write!(f, "disconnected: {reason}"),
            EventKind::Refused(addresses, reason) => {
                write!(f, "refused {}: {reason}", list(addresses))
            }
            EventKind::Restarted => f.write_str("restarted the association"),
            EventKind::Path(address, true) => write!(f, "path to {address} is active"),
            EventKind::Path(address, false) => write!(f, "path to {address} has failed"),
            EventKind::Asp(indication) => {
                if let Some(event) = L::asp_event(indication) {
                    show_asp(f, &event)
                } else if let Some(event) = L::destination_event(indication) {
                    show_destination(f, &event, self.format)
                } else {
                    write!(f, "{indication:?}")
                }
            }
            EventKind::Sgp(indication) => match L::gateway_event(indication) {
                Some(event) => show_gateway(f, &event),
                None => write!(f, "{indication:?}"),
            },
            EventKind::Connection(reference, indication) => {
                write!(f, "connection {}: {indication:?}", reference.0)
            }
            EventKind::NotRelayed(error) => write!(f, "message not relayed: {error}"),
            EventKind::Link(true) => f.write_str("link is in service"),
            EventKind::Link(false) => f.write_str("link is out of service"),
            EventKind::Congestion(true) => f.write_str("link set is congested"),
            EventKind::Congestion(false) => f.write_str("congestion of the link set has ended"),
            EventKind::Destination(destination, availability) => {
                let availability = match availability {
                    Availability::Available => "available",
                    Availability::Restricted => "restricted",
                    Availability::Unavailable => "unavailable",
                };
                write!(f, "destination {destination} is {availability}")
            }
            EventKind::Suppressed(count, source) => {
                let source = source.as_deref().unwrap_or("further sources");
                write!(f, "{count} events of {source} not logged")
            }
        }
    }
}

fn list(addresses: &[IpAddr]) -> String {
    let texts: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
    texts.join(",")
}

/// Text of an application server.
struct Server<'a, I>(Option<&'a I>);

impl<I: fmt::Display> fmt::Display for Server<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(id) => write!(f, "{id}"),
            None => f.write_str("the application server"),
        }
    }
}

fn show_error<L: SocketLayer>(
    f: &mut fmt::Formatter<'_>,
    from: &str,
    error: &L::ErrorMessage,
) -> fmt::Result {
    let (code, ..) = L::read_error(error);
    let name = code.name().unwrap_or("undefined");
    write!(f, "{from} {:#04x}, {name}", code.0)
}

fn show_notify(f: &mut fmt::Formatter<'_>, status: Status) -> fmt::Result {
    f.write_str(match status {
        Status::AsInactive => "notified that the application server is inactive",
        Status::AsActive => "notified that the application server is active",
        Status::AsPending => "notified that the application server is pending",
        Status::InsufficientAspResources => {
            "notified that too few ASPs are active in the application server"
        }
        Status::AlternateAspActive => "notified that another ASP is active",
        Status::AspFailure => "notified that an ASP has failed",
    })
}

/// Writes the MTP primitive of a report of destinations (RFC 4666, section 1.6.1).
fn show_destination(
    f: &mut fmt::Formatter<'_>,
    event: &DestinationEvent,
    format: PointCodeFormat,
) -> fmt::Result {
    let codes = |affected: &[AffectedPointCode]| {
        let one = |own: &AffectedPointCode| match (own.point_code.display(format), own.mask) {
            (code, 0) => code.to_string(),
            (code, bits) => format!("{code} (mask of {bits} bits)"),
        };
        affected.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    match event {
        DestinationEvent::Unavailable(affected) => write!(f, "MTP-PAUSE, {}", codes(affected)),
        DestinationEvent::Available(affected) => write!(f, "MTP-RESUME, {}", codes(affected)),
        DestinationEvent::Restricted(affected) => {
            write!(f, "routes are restricted, {}", codes(affected))
        }
        DestinationEvent::Congested(affected, level) => {
            write!(f, "MTP-STATUS, congestion, {}", codes(affected))?;
            match level {
                Some(level) => write!(f, ", level {}", level.level()),
                None => Ok(()),
            }
        }
        DestinationEvent::UserPartUnavailable(point_code, UserCause { cause, user }) => write!(
            f,
            "MTP-STATUS, user part {} unavailable, {}: {}",
            user.name()
                .map_or_else(|| user.0.to_string(), str::to_owned),
            point_code.display(format),
            cause.name().unwrap_or("undefined cause"),
        ),
    }
}

fn show_asp<L: SocketLayer>(f: &mut fmt::Formatter<'_>, event: &AspEvent<L>) -> fmt::Result {
    match event {
        AspEvent::AspUp(Ok(())) => f.write_str("ASP is up"),
        AspEvent::AspUp(Err(failure)) => write!(f, "ASP Up failed: {failure}"),
        AspEvent::AspDown(Ok(())) => f.write_str("ASP is down"),
        AspEvent::AspDown(Err(failure)) => write!(f, "ASP Down failed: {failure}"),
        AspEvent::AspActive(id, Err(failure)) => {
            write!(f, "ASP Active failed in {}: {failure}", Server(id.as_ref()))
        }
        AspEvent::AspInactive(id, Err(failure)) => {
            write!(
                f,
                "ASP Inactive failed in {}: {failure}",
                Server(id.as_ref())
            )
        }
        AspEvent::AspActive(id, Ok(())) => {
            write!(f, "ASP Active is confirmed in {}", Server(id.as_ref()))
        }
        AspEvent::AspInactive(id, Ok(())) => {
            write!(f, "ASP Inactive is confirmed in {}", Server(id.as_ref()))
        }
        AspEvent::AspStatus(id, state) => write!(f, "ASP is {state:?} in {}", Server(id.as_ref())),
        AspEvent::Registered(key, Ok(id)) => {
            write!(f, "routing key {key} is registered, {id}")
        }
        AspEvent::Registered(key, Err(None)) => {
            write!(f, "routing key {key} is not registered: no response")
        }
        AspEvent::Registered(key, Err(Some(status))) => {
            let name = L::registration_status(*status).unwrap_or("undefined status");
            write!(f, "routing key {key} is not registered: {name}")
        }
        AspEvent::Deregistered(id, 0) => write!(f, "registration has ended for {id}"),
        AspEvent::Deregistered(id, status) => {
            write!(f, "registration has not ended for {id}: status {status}")
        }
        AspEvent::Error(error) => show_error::<L>(f, "received error", error),
        AspEvent::PeerError(error) => show_error::<L>(f, "sent error", error),
        AspEvent::Notify(notify) => show_notify(f, L::read_notify(notify).0),
        AspEvent::PeerUnresponsive => f.write_str("does not answer heartbeats"),
        AspEvent::SctpStatus(status) => write!(f, "SCTP status {status:?}"),
    }
}

fn show_gateway<L: SocketLayer>(
    f: &mut fmt::Formatter<'_>,
    event: &GatewayEvent<L>,
) -> fmt::Result {
    match event {
        GatewayEvent::AspUp(_) => f.write_str("ASP is up"),
        GatewayEvent::AspDown(_) => f.write_str("ASP is down"),
        GatewayEvent::AspActive(_, id) => write!(f, "ASP is active in {id}"),
        GatewayEvent::AspInactive(_, id) => write!(f, "ASP is inactive in {id}"),
        GatewayEvent::AsStatus(id, state) => write!(f, "application server is {state:?}, {id}"),
        GatewayEvent::Discarded(id, count) => {
            write!(f, "{count} buffered messages discarded, {id}: T(r) expired")
        }
        GatewayEvent::Registered(_, id) => write!(f, "ASP has registered for {id}"),
        GatewayEvent::Deregistered(_, id) => write!(f, "registration has ended for {id}"),
        GatewayEvent::Error(_, error) => show_error::<L>(f, "received error", error),
        GatewayEvent::PeerError(_, error) => show_error::<L>(f, "sent error", error),
        GatewayEvent::Notify(_, notify) => show_notify(f, L::read_notify(notify).0),
        GatewayEvent::PeerUnresponsive(_) => f.write_str("does not answer heartbeats"),
        GatewayEvent::SctpStatus(_, status) => write!(f, "SCTP status {status:?}"),
    }
}

#[cfg(test)]
mod tests {
    use carrick_sigtran::m3ua::asp::AspIndication;
    use carrick_sigtran::m3ua::{
        AffectedPointCodes, DestinationState, RoutingContext, UnavailabilityCause,
        UnavailableUserPart, UserIdentity, UserPartUnavailable,
    };

    use super::*;

    #[test]
    fn indications_have_the_names_of_the_rfc() {
        let code = PointCodeFormat::ITU.parse("2-117-0").unwrap();
        let affected = |mask| {
            let own = AffectedPointCode {
                mask,
                point_code: code,
            };
            AffectedPointCodes::new(vec![own]).unwrap()
        };
        let state = |mask| DestinationState {
            network_appearance: None,
            routing_contexts: None,
            affected: affected(mask),
            info: None,
        };
        for (indication, text) in [
            (
                AspIndication::AspActive(Some(RoutingContext(7)), Ok(())),
                "a: ASP Active is confirmed in routing context 7",
            ),
            (AspIndication::MtpPause(state(0)), "a: MTP-PAUSE, 2-117-0"),
            (
                AspIndication::UserPartUnavailable(UserPartUnavailable {
                    network_appearance: None,
                    routing_contexts: None,
                    affected: UnavailableUserPart(code),
                    user_cause: UserCause {
                        cause: UnavailabilityCause::UNEQUIPPED,
                        user: UserIdentity::ISUP,
                    },
                    info: None,
                }),
                "a: MTP-STATUS, user part ISUP unavailable, 2-117-0: Unequipped Remote User",
            ),
            (
                AspIndication::MtpResume(state(3)),
                "a: MTP-RESUME, 2-117-0 (mask of 3 bits)",
            ),
        ] {
            let event: Event = Event {
                peer: "a".into(),
                kind: EventKind::Asp(indication),
            };
            assert_eq!(event.display(PointCodeFormat::ITU).to_string(), text);
            assert_eq!(event.to_string(), text.replace("2-117-0", "5032"));
        }
    }
}
