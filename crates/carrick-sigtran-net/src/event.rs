//! Events of a session.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use carrick_sigtran::m3ua::asp::AspIndication;
use carrick_sigtran::m3ua::route::Availability;
use carrick_sigtran::m3ua::sgp::SgpIndication;
use carrick_sigtran::m3ua::{ErrorMessage, RoutingContext};

/// Event of a session: a change of a peer's association or of an M3UA state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Name of the peer; empty for an unknown peer or an application server.
    pub peer: Arc<str>,
    /// Event.
    pub kind: EventKind,
}

/// Kind of an [`Event`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// The association is established, with these addresses of the peer.
    Connected(Vec<IpAddr>),
    /// The association could not be set up; the next attempt is after this time.
    ConnectFailed(String, Duration),
    /// The association has ended.
    Disconnected(String),
    /// An association of an unknown peer was refused.
    Refused(Vec<IpAddr>, String),
    /// Primitive of the ASP at its association with the gateway.
    Asp(AspIndication),
    /// Primitive of the SGP.
    Sgp(SgpIndication),
    /// A link of MTP3 over M2PA is in service or not.
    Link(bool),
    /// Congestion of a link set over M2PA began or ended.
    Congestion(bool),
    /// Availability of a destination of a signal transfer point.
    Destination(String, Availability),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.peer.is_empty() {
            write!(f, "{}: ", self.peer)?;
        }
        match &self.kind {
            EventKind::Connected(addresses) => write!(f, "connected with {}", list(addresses)),
            EventKind::ConnectFailed(reason, wait) => {
                write!(f, "{reason}; next attempt in {} s", wait.as_secs())
            }
            EventKind::Disconnected(reason) => write!(f, "disconnected: {reason}"),
            EventKind::Refused(addresses, reason) => {
                write!(f, "refused {}: {reason}", list(addresses))
            }
            EventKind::Asp(indication) => show_asp(f, indication),
            EventKind::Sgp(indication) => show_sgp(f, indication),
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
        }
    }
}

fn list(addresses: &[IpAddr]) -> String {
    let texts: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
    texts.join(",")
}

/// Text of a routing context.
struct Context(Option<RoutingContext>);

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(context) => write!(f, "routing context {}", context.0),
            None => f.write_str("the application server"),
        }
    }
}

fn show_error(f: &mut fmt::Formatter<'_>, from: &str, error: &ErrorMessage) -> fmt::Result {
    let name = error.code.name().unwrap_or("undefined");
    write!(f, "{from} {:#04x}, {name}", error.code.0)
}

fn show_asp(f: &mut fmt::Formatter<'_>, indication: &AspIndication) -> fmt::Result {
    match indication {
        AspIndication::AspUp(Ok(())) => f.write_str("ASP is up"),
        AspIndication::AspUp(Err(failure)) => write!(f, "ASP Up failed: {failure}"),
        AspIndication::AspDown(Ok(())) => f.write_str("ASP is down"),
        AspIndication::AspDown(Err(failure)) => write!(f, "ASP Down failed: {failure}"),
        AspIndication::AspActive(context, Err(failure)) => {
            write!(f, "ASP Active failed in {}: {failure}", Context(*context))
        }
        AspIndication::AspInactive(context, Err(failure)) => {
            write!(f, "ASP Inactive failed in {}: {failure}", Context(*context))
        }
        AspIndication::AspStatus(context, state) => {
            write!(f, "ASP is {state:?} in {}", Context(*context))
        }
        AspIndication::Registered(key, Ok(context)) => {
            write!(
                f,
                "routing key {} is registered, {}",
                key.0,
                Context(Some(*context))
            )
        }
        AspIndication::Registered(key, Err(status)) => {
            let status = status.map_or(Some("no response"), |status| status.name());
            let status = status.unwrap_or("undefined status");
            write!(f, "routing key {} is not registered: {status}", key.0)
        }
        AspIndication::Error(error) => show_error(f, "received error", error),
        AspIndication::PeerError(error) => show_error(f, "sent error", error),
        AspIndication::Notify(notify) => write!(f, "notified of {:?}", notify.status),
        AspIndication::PeerUnresponsive => f.write_str("does not answer heartbeats"),
        other => write!(f, "{other:?}"),
    }
}

fn show_sgp(f: &mut fmt::Formatter<'_>, indication: &SgpIndication) -> fmt::Result {
    match indication {
        SgpIndication::AspUp(_) => f.write_str("ASP is up"),
        SgpIndication::AspDown(_) => f.write_str("ASP is down"),
        SgpIndication::AspActive(_, context) => {
            write!(f, "ASP is active in {}", Context(Some(*context)))
        }
        SgpIndication::AspInactive(_, context) => {
            write!(f, "ASP is inactive in {}", Context(Some(*context)))
        }
        SgpIndication::AsStatus(context, state) => {
            write!(
                f,
                "application server is {state:?}, {}",
                Context(Some(*context))
            )
        }
        SgpIndication::Discarded(context, count) => write!(
            f,
            "{count} buffered messages discarded, {}: T(r) expired",
            Context(Some(*context))
        ),
        SgpIndication::Registered(_, context) => {
            write!(f, "ASP has registered for {}", Context(Some(*context)))
        }
        SgpIndication::Deregistered(_, context) => {
            write!(f, "registration has ended for {}", Context(Some(*context)))
        }
        SgpIndication::Error(_, error) => show_error(f, "received error", error),
        SgpIndication::PeerError(_, error) => show_error(f, "sent error", error),
        SgpIndication::Notify(_, notify) => write!(f, "notified of {:?}", notify.status),
        SgpIndication::PeerUnresponsive(_) => f.write_str("does not answer heartbeats"),
        other => write!(f, "{other:?}"),
    }
}
