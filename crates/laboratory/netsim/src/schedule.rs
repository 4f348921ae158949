//! Scheduled changes of a running network: link failures, other loss, address changes.

use core::net::IpAddr;
use core::time::Duration;

use crate::error::ConfigError;
use crate::ids::{Direction, InterfaceId, LinkId, NodeId};
use crate::link::{LinkConfig, Loss};
use crate::network::Prefix;

/// State of the neighbour at the other end of an interface's link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Neighbor {
    /// Packets reach it.
    #[default]
    Reachable,
    /// Its link-layer address is wrong: packets that leave by the interface are lost silently.
    Wrong,
    /// It does not answer: packets that leave by the interface wait, and after this time all that
    /// wait are dropped and reported to their senders by ICMP as "host unreachable".
    Unresolved {
        /// Time of a resolution, from its first packet; 3 s on Linux.
        after: Duration,
    },
}

/// Rule for packets that arrive at an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputRule {
    /// They are accepted.
    #[default]
    Accept,
    /// They are dropped silently.
    Drop,
    /// They are dropped and reported to their senders by ICMP.
    Reject(Unreachable),
}

/// Reason of an ICMP "destination unreachable".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No route to the network.
    Net,
    /// The host does not answer.
    Host,
    /// The host does not have the protocol. For IPv6 a Parameter Problem: unrecognized Next Header.
    Protocol,
    /// The host has no program at the port.
    Port,
}

/// A change of the network, made at once by [`Network::apply`](crate::Network::apply) or at a given
/// time by [`Network::at`](crate::Network::at).
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Replaces the configuration of one direction. Queued packets stay; packets in transmission or
    /// on the wire keep the old rate and delay. A loss model that differs from the current one
    /// starts in its initial state.
    SetLink {
        /// The link.
        link: LinkId,
        /// Direction of the link.
        direction: Direction,
        /// The new configuration.
        config: LinkConfig,
    },
    /// Replaces the loss of one direction; packet numbers start again at 1.
    SetLoss {
        /// The link.
        link: LinkId,
        /// Direction of the link.
        direction: Direction,
        /// The new loss.
        loss: Loss,
    },
    /// Takes a link down: all its packets are lost, and the programs at both ends are notified.
    /// Routes do not change by themselves. For a silent failure, set a loss of 1 instead.
    LinkDown(LinkId),
    /// Takes a link up; the programs at both ends are notified.
    LinkUp(LinkId),
    /// Adds an address to an interface; it is reachable at once from every node.
    AddAddress {
        /// The interface.
        interface: InterfaceId,
        /// The new address.
        address: IpAddr,
    },
    /// Removes an address: packets to it are dropped from now on, including those in transit.
    RemoveAddress {
        /// The interface.
        interface: InterfaceId,
        /// The address to remove.
        address: IpAddr,
    },
    /// Adds a route to a node, with precedence over the automatic ones: see
    /// [`NetworkBuilder::add_route`](crate::NetworkBuilder::add_route).
    AddRoute {
        /// The node.
        node: NodeId,
        /// Destinations of the route.
        prefix: Prefix,
        /// Only source address to which the route applies, if any.
        source: Option<IpAddr>,
        /// Outgoing interface, one of the node's own.
        via: InterfaceId,
    },
    /// Removes all added routes of a node to exactly this prefix.
    RemoveRoutes {
        /// The node.
        node: NodeId,
        /// Destinations of the route.
        prefix: Prefix,
    },
    /// Takes an interface down, at its own end only: it neither sends nor receives, its node has no
    /// routes over it, and the program of its node is notified. Its addresses stay: packets to them
    /// are accepted at the other interfaces. The other end of its link keeps its routes.
    InterfaceDown(InterfaceId),
    /// Takes an interface up, with its routes; the program of its node is notified.
    InterfaceUp(InterfaceId),
    /// Sets the state of the neighbour of an interface. Packets in a resolution are sent, or wait
    /// again.
    SetNeighbor {
        /// The interface by which packets leave.
        interface: InterfaceId,
        /// The new state.
        neighbor: Neighbor,
    },
    /// Sets the rule for packets that arrive at an interface, of whatever destination.
    SetInput {
        /// The interface.
        interface: InterfaceId,
        /// The new rule.
        input: InputRule,
    },
    /// Recomputes the automatic routes over the links that are up now, as routers do once they have
    /// detected a change.
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
