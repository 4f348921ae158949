//! Configuration of an SGP.

use std::time::Duration;

use super::AspKey;
use crate::m3ua::{
    AspIdentifier, NetworkAppearance, RoutingContext, RoutingKeyDestination, TrafficMode,
};

/// Configuration of a [`SignallingGatewayProcess`](super::SignallingGatewayProcess).
#[derive(Clone, Debug)]
pub struct SgpConfig {
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
    /// Demands routing contexts in ASP Active messages.
    pub require_routing_context: bool,
    /// Traffic mode of application servers whose mode neither the configuration nor an ASP Active determines,
    /// override by default.
    pub default_traffic_mode: TrafficMode,
    /// Registration of routing keys.
    pub registration: RegistrationPolicy,
    /// Application server of messages that match no routing key, none by default (RFC 4666, section 1.4.2.4). If it has
    /// a network appearance, it gets those of its network.
    pub default_application_server: Option<RoutingContext>,
    /// Maximum number of destinations and ranges in the route state of each network. 0, the default, keeps none: audits
    /// are indicated, for the nodal interworking function to answer.
    pub max_route_ranges: usize,
}

impl Default for SgpConfig {
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

/// Application server of an SGP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApplicationServerConfig {
    /// Routing context, unique at the SGP.
    pub routing_context: RoutingContext,
    /// Network appearance.
    pub network_appearance: Option<NetworkAppearance>,
    /// Traffic mode; that of the first ASP Active applies if absent.
    pub traffic_mode: Option<TrafficMode>,
    /// Number n of active ASPs at which the application server becomes active, at least 1. In override mode 1
    /// applies (RFC 4666, section 4.3.2).
    pub minimum_asps: usize,
    /// Routing key: traffic of the application server.
    pub destinations: Vec<RoutingKeyDestination>,
}

impl ApplicationServerConfig {
    /// Application server with n = 1, in the traffic mode of its first ASP Active.
    pub const fn new(
        routing_context: RoutingContext,
        destinations: Vec<RoutingKeyDestination>,
    ) -> Self {
        Self {
            routing_context,
            network_appearance: None,
            traffic_mode: None,
            minimum_asps: 1,
            destinations,
        }
    }
}

/// ASP that may connect to an SGP.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SgpAspConfig {
    /// ASP Identifier, if it is configured. An ASP Up with another one is refused.
    pub identifier: Option<AspIdentifier>,
    /// Application servers of which the ASP is a member.
    pub application_servers: Vec<RoutingContext>,
}

/// Change of the configuration that is not possible. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SgpConfigError {
    /// The limit of ASPs is reached.
    #[error("{0} ASPs are the limit: raise max_asps")]
    TooManyAsps(usize),
    /// The limit of application servers is reached.
    #[error("{0} application servers are the limit: raise max_application_servers")]
    TooManyApplicationServers(usize),
    /// Another application server has the routing context.
    #[error("routing context {} is in use", .0.0)]
    RoutingContextInUse(RoutingContext),
    /// A message could match the routing keys of two application servers.
    #[error("the routing key overlaps that of routing context {}: make both unique", .0.0)]
    OverlappingRoutingKey(RoutingContext),
    /// No application server has the routing context.
    #[error("no application server has routing context {}: add it first", .0.0)]
    UnknownRoutingContext(RoutingContext),
    /// No ASP has the key.
    #[error("{0:?} does not exist: it was removed or belongs to another SGP")]
    UnknownAsp(AspKey),
    /// The traffic mode is not defined.
    #[error("traffic mode {} is not defined", .0.0)]
    UndefinedTrafficMode(TrafficMode),
}
