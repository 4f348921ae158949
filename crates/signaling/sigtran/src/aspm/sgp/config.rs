//! Configuration of a gateway.

use std::fmt::{Debug, Display};
use std::time::Duration;

use super::AspKey;
use crate::aspm::Layer;
use crate::message::{AspIdentifier, TrafficMode};

/// Configuration of a [`Gateway`](super::Gateway).
#[derive(Clone, Debug)]
pub struct GatewayConfig<L: Layer> {
    /// T(r): time in AS-PENDING until buffered messages are discarded, 2 s by default (RFC 4666, section 4.3.2).
    pub t_recovery: Duration,
    /// T(beat): interval of BEATs, none by default, because SCTP has heartbeats.
    pub t_beat: Option<Duration>,
    /// Maximum number of ASPs, 1,024 by default.
    pub max_asps: usize,
    /// Maximum number of application servers, those of registrations included, 1,024 by default.
    pub max_application_servers: usize,
    /// Maximum number of destinations of a registered routing key, 256 by default.
    pub max_destinations: usize,
    /// Maximum number of messages that an application server buffers in AS-PENDING, 10,000 by default.
    pub max_buffered_messages: usize,
    /// Maximum octets of user data that an application server buffers in AS-PENDING, 4 MiB by default.
    pub max_buffered_octets: usize,
    /// Maximum octets of user data that all application servers buffer, 64 MiB by default.
    pub max_buffered_octets_total: usize,
    /// Demands an ASP Identifier in ASP Up messages.
    pub require_asp_identifier: bool,
    /// Demands a list of application servers in ASP Active messages.
    pub require_routing_context: bool,
    /// Traffic mode of application servers whose mode neither the configuration nor an ASP Active determines,
    /// override by default.
    pub default_traffic_mode: TrafficMode,
    /// Registration of routing keys.
    pub registration: RegistrationPolicy,
    /// Application server of messages that match no routing key, none by default (RFC 4666, section 1.4.2.4). If it has
    /// a network appearance, it gets those of its network.
    pub default_application_server: Option<L::AsId>,
    /// Maximum number of destinations and ranges in the route state of each network. 0, the default, keeps none: audits
    /// are indicated, for the nodal interworking function to answer.
    pub max_route_ranges: usize,
}

impl<L: Layer> Default for GatewayConfig<L> {
    fn default() -> Self {
        Self {
            t_recovery: Duration::from_secs(2),
            t_beat: None,
            max_asps: 1024,
            max_application_servers: 1024,
            max_destinations: 256,
            max_buffered_messages: 10_000,
            max_buffered_octets: 4 << 20,
            max_buffered_octets_total: 64 << 20,
            require_asp_identifier: false,
            require_routing_context: false,
            default_traffic_mode: TrafficMode::OVERRIDE,
            registration: RegistrationPolicy::Unsupported,
            default_application_server: None,
            max_route_ranges: 0,
        }
    }
}

/// Support of routing key management (RFC 4666, section 4.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegistrationPolicy {
    /// RKM messages are answered with Unsupported Message Class.
    Unsupported,
    /// ASPs register for configured routing keys.
    ConfiguredKeys,
    /// ASPs register for configured and for new routing keys.
    NewKeys,
}

/// ASP that may connect to a gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SgpAspConfig<I> {
    /// ASP Identifier, if it is configured. An ASP Up with another one is refused.
    pub identifier: Option<AspIdentifier>,
    /// Application servers of which the ASP is a member.
    pub application_servers: Vec<I>,
}

impl<I> Default for SgpAspConfig<I> {
    fn default() -> Self {
        Self {
            identifier: None,
            application_servers: Vec::new(),
        }
    }
}

/// Change of the configuration that is not possible. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GatewayConfigError<I: Debug + Display> {
    /// The limit of ASPs is reached.
    #[error("{0} ASPs are the limit: raise max_asps")]
    TooManyAsps(usize),
    /// The limit of application servers is reached.
    #[error("{0} application servers are the limit: raise max_application_servers")]
    TooManyApplicationServers(usize),
    /// Another application server has the identifier.
    #[error("{0} is in use")]
    IdentifierInUse(I),
    /// A message could match the keys of two application servers.
    #[error("the key overlaps that of {0}: make both unique")]
    OverlappingKey(I),
    /// No application server has the identifier.
    #[error("no application server has {0}: add it first")]
    UnknownApplicationServer(I),
    /// No ASP has the key.
    #[error("{0:?} does not exist: it was removed or belongs to another gateway")]
    UnknownAsp(AspKey),
    /// The layer does not have the traffic mode.
    #[error("traffic mode {} is not defined in the layer", .0.0)]
    UndefinedTrafficMode(TrafficMode),
}
