//! Changes of a network while it runs: broken links, other loss, addresses that come and go.

use core::net::IpAddr;

use crate::error::ConfigError;
use crate::ids::{Direction, InterfaceId, LinkId, NodeId};
use crate::link::{LinkConfig, Loss};
use crate::network::Prefix;

/// Something that changes, at once by [`Network::apply`](crate::Network::apply) or at a given
/// moment by [`Network::at`](crate::Network::at).
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Replaces the configuration of one direction. What waits in the queue stays; what is being
    /// transmitted or on the wire keeps the old rate and delay. A loss model that differs from the
    /// one in force starts anew.
    SetLink {
        /// The link.
        link: LinkId,
        /// Which of its directions.
        direction: Direction,
        /// The new configuration.
        config: LinkConfig,
    },
    /// Replaces the loss of one direction; packet numbers start again at 1.
    SetLoss {
        /// The link.
        link: LinkId,
        /// Which of its directions.
        direction: Direction,
        /// The new loss.
        loss: Loss,
    },
    /// Cuts a link: everything that waits or is on its way is lost, and programs at both ends are
    /// told. Routes don't change by themselves. A silent failure is a loss of 1 instead.
    LinkDown(LinkId),
    /// Repairs a link; programs at both ends are told.
    LinkUp(LinkId),
    /// Gives an interface an address, reachable at once from everywhere.
    AddAddress {
        /// The interface.
        interface: InterfaceId,
        /// The new address.
        address: IpAddr,
    },
    /// Takes an address away: packets for it are dropped from now on, also those on their way.
    RemoveAddress {
        /// The interface.
        interface: InterfaceId,
        /// The address to remove.
        address: IpAddr,
    },
    /// Gives a node a route, which comes before the automatic ones:
    /// see [`NetworkBuilder::add_route`](crate::NetworkBuilder::add_route).
    AddRoute {
        /// The node.
        node: NodeId,
        /// The destinations.
        prefix: Prefix,
        /// The only source address for which the route holds, if any.
        source: Option<IpAddr>,
        /// The way out, one of the node's interfaces.
        via: InterfaceId,
    },
    /// Takes back all routes to exactly this prefix that were given to a node.
    RemoveRoutes {
        /// The node.
        node: NodeId,
        /// The destinations.
        prefix: Prefix,
    },
    /// Computes the automatic routes again over the links that are up now, as routers do once they
    /// have noticed.
    Reroute,
}

impl Change {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::SetLink { config, .. } => config.validate(),
            Self::SetLoss { loss, .. } => loss.validate(),
            _ => Ok(()),
        }
    }
}
