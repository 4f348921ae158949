//! Configuration of an ASP.

use std::fmt::{Debug, Display};
use std::num::NonZero;
use std::time::Duration;

use crate::aspm::Layer;
use crate::message::{AspIdentifier, InfoString, TrafficMode};

/// Configuration of an [`Asp`](super::Asp).
#[derive(Clone, Debug)]
pub struct AspConfig<L: Layer> {
    /// ASP Identifier of ASP Up messages.
    pub identifier: Option<AspIdentifier>,
    /// INFO String of ASP Up messages.
    pub info: Option<InfoString>,
    /// Application servers that the ASP serves from the start; registration adds more.
    pub application_servers: Vec<L::Served>,
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

impl<L: Layer> Default for AspConfig<L> {
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

/// Configuration that is contradictory. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AspConfigError<I: Debug + Display> {
    /// Several application servers, and one without an identifier.
    #[error(
        "an application server has no identifier, but is not the only one: add its routing context"
    )]
    IdentifierMissing,
    /// Two application servers with the same identifier.
    #[error("{0} occurs twice: remove one")]
    IdentifierRepeated(I),
    /// The layer does not have the traffic mode.
    #[error("traffic mode {} is not defined in the layer", .0.0)]
    UndefinedTrafficMode(TrafficMode),
    /// More application servers than the limit.
    #[error("{count} application servers exceed the limit max_application_servers = {limit}")]
    TooMany {
        /// Number of application servers.
        count: usize,
        /// The limit.
        limit: usize,
    },
}

impl<L: Layer> AspConfig<L> {
    pub(super) fn check(&self) -> Result<(), AspConfigError<L::AsId>> {
        let (count, limit) = (self.application_servers.len(), self.max_application_servers);
        if count > limit {
            return Err(AspConfigError::TooMany { count, limit });
        }
        let mut ids = Vec::with_capacity(count);
        for server in &self.application_servers {
            if let Some(mode) = L::activation(server).traffic_mode
                && !L::TRAFFIC_MODES.contains(&mode)
            {
                return Err(AspConfigError::UndefinedTrafficMode(mode));
            }
            match L::served_id(server) {
                None if count > 1 => return Err(AspConfigError::IdentifierMissing),
                None => {}
                Some(id) => ids.push(id),
            }
        }
        ids.sort_unstable();
        match ids.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(AspConfigError::IdentifierRepeated(pair[0].clone())),
            None => Ok(()),
        }
    }
}
