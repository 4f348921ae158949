//! Configuration of an ASP.

use std::num::NonZero;
use std::time::Duration;

use crate::m3ua::{AspIdentifier, InfoString, NetworkAppearance, RoutingContext, TrafficMode};

/// Configuration of an [`Asp`](super::Asp).
#[derive(Clone, Debug)]
pub struct AspConfig {
    /// ASP Identifier of ASP Up messages.
    pub identifier: Option<AspIdentifier>,
    /// INFO String of ASP Up messages.
    pub info: Option<InfoString>,
    /// Application servers that the ASP serves from the start; registration adds more.
    pub application_servers: Vec<AspApplicationServer>,
    /// T(ack): time until a request without acknowledgement is sent again, 2 s by default (RFC 4666,
    /// section 4.3.4).
    pub t_ack: Duration,
    /// Transmissions of a request before it fails, 5 by default.
    pub attempts: NonZero<u32>,
    /// T(beat): interval of BEATs, none by default, because SCTP has heartbeats.
    pub t_beat: Option<Duration>,
    /// Maximum number of application servers, and of registrations that wait for their result, 1,024 by default.
    pub max_application_servers: usize,
}

impl Default for AspConfig {
    fn default() -> Self {
        Self {
            identifier: None,
            info: None,
            application_servers: Vec::new(),
            t_ack: Duration::from_secs(2),
            attempts: const { NonZero::new(5).unwrap() },
            t_beat: None,
            max_application_servers: 1024,
        }
    }
}

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

/// Configuration that is contradictory. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AspConfigError {
    /// Several application servers, and one without a routing context.
    #[error(
        "an application server has no routing context, but is not the only one: add its context"
    )]
    RoutingContextMissing,
    /// Two application servers with the same routing context.
    #[error("routing context {} occurs twice: remove one", .0.0)]
    RoutingContextRepeated(RoutingContext),
    /// More application servers than the limit.
    #[error("{count} application servers exceed the limit max_application_servers = {limit}")]
    TooMany {
        /// Number of application servers.
        count: usize,
        /// The limit.
        limit: usize,
    },
}

impl AspConfig {
    pub(super) fn check(&self) -> Result<(), AspConfigError> {
        let (count, limit) = (self.application_servers.len(), self.max_application_servers);
        if count > limit {
            return Err(AspConfigError::TooMany { count, limit });
        }
        let mut contexts = Vec::with_capacity(count);
        for server in &self.application_servers {
            match server.routing_context {
                None if count > 1 => return Err(AspConfigError::RoutingContextMissing),
                None => {}
                Some(context) => contexts.push(context),
            }
        }
        contexts.sort_unstable();
        match contexts.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(AspConfigError::RoutingContextRepeated(pair[0])),
            None => Ok(()),
        }
    }
}
