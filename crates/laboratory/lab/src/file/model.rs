//! Validated contents of a scenario file.

use std::net::IpAddr;
use std::time::Duration;

use carrick_netsim::{HostRouting, LinkConfig, Loss};
use carrick_proto::{AssociationConfig, Reliability};
use carrick_simco::load::Workload;

use super::live::Carrier;
use super::measure::Measure;
use crate::options::RunOptions;
use carrick_hosts::tcp::TcpConfig;

/// One cell of a sweep, ready to run.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) duration: Duration,
    pub(super) warmup: Duration,
    /// Duration and warm-up of a full run.
    pub(super) full: [Duration; 2],
    pub(super) nodes: Vec<Node>,
    pub(super) links: Vec<Link>,
    /// Scheduled changes in the order of their times.
    pub(super) schedule: Vec<Change>,
    pub(super) flows: Vec<Flow>,
    pub(super) measures: Vec<Measure>,
    /// Ends the counting of timeouts and failovers with the last SEND of a flow.
    pub(super) until_last_send: bool,
    /// Time without a delivery from which on it counts as a pause.
    pub(super) pause: Duration,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) kind: NodeStack,
    /// Further arguments of the program of the stack.
    pub(super) arguments: Vec<String>,
    /// Selection of the interface of a packet.
    pub(super) routing: HostRouting,
    /// The host requests its peers to set an address that it gains as primary (RFC 5061).
    pub(super) set_peer_primary: bool,
    /// Role in Mobile IP (RFC 5944).
    pub(super) mobility: Option<Mobility>,
    /// Addresses with the index of their link.
    pub(super) addresses: Vec<(usize, IpAddr)>,
}

/// Role of a node in Mobile IP.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mobility {
    HomeAgent,
    ForeignAgent,
    /// A host whose address on the link of index `home` is its home address.
    MobileNode {
        home: usize,
        /// Links to the foreign agents with which it registers; `None` for all.
        visits: Option<Vec<usize>>,
        reverse_tunnel: bool,
    },
}

#[derive(Clone, Debug, Default)]
pub(super) enum NodeStack {
    #[default]
    Router,
    Sctp(Box<AssociationConfig>),
    /// SCTP over DTLS, in real time only.
    Dtls(Box<AssociationConfig>),
    /// Settings whose address and seed a run sets.
    Tcp(TcpConfig),
    Udp,
    /// Stack of live hosts that has no simulation.
    Live(Carrier),
}

impl NodeStack {
    /// Returns the stack of live runs if it has no simulation.
    pub(super) fn real_time_only(&self) -> Option<Carrier> {
        match self {
            Self::Live(carrier) => Some(*carrier),
            Self::Dtls(_) => Some(Carrier::Dtls),
            Self::Router | Self::Sctp(_) | Self::Tcp(_) | Self::Udp => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) ends: [usize; 2],
    /// Configuration of the forward, then of the backward direction.
    pub(super) config: [LinkConfig; 2],
    /// The link is down at the start.
    pub(super) down: bool,
}

impl Node {
    /// Returns whether the node is a mobile node that registers over a link.
    pub(super) fn registers_over(&self, link: usize) -> bool {
        match &self.mobility {
            Some(Mobility::MobileNode { home, visits, .. }) => {
                let visited = visits.as_ref().is_none_or(|links| links.contains(&link));
                *home == link || visited
            }
            _ => false,
        }
    }

    /// Returns the link of a mobile node to its home agent.
    pub(super) fn home(&self) -> Option<usize> {
        match self.mobility {
            Some(Mobility::MobileNode { home, .. }) => Some(home),
            _ => None,
        }
    }
}

impl Link {
    /// Returns the other end of the link.
    pub(super) fn other_end(&self, end: usize) -> Option<usize> {
        let place = self.ends.iter().position(|own| *own == end)?;
        Some(self.ends[1 - place])
    }
}

/// A scheduled change of the network.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) at: Duration,
    /// Interval over which the repetitions spread the change evenly.
    pub(super) spread: Duration,
    pub(super) link: usize,
    pub(super) what: ChangeAction,
}

#[derive(Clone, Debug)]
pub(super) enum ChangeAction {
    Down,
    Up,
    /// New configuration of a direction: 0 is forward, 1 backward.
    Config(usize, Box<LinkConfig>),
    /// New loss of a direction only.
    Loss(usize, Loss),
    /// Addition or removal of a node's address on the link.
    Address {
        node: usize,
        address: IpAddr,
        present: bool,
    },
}

impl ChangeAction {
    /// Returns whether a link is up with the change.
    pub(super) fn is_up(&self) -> bool {
        matches!(self, Self::Up)
    }
}

/// Flow of messages from one host to another.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    pub(super) name: String,
    /// The flow sends messages; one that does not exists for the sake of a sweep.
    pub(super) active: bool,
    /// Indices of sender and receiver.
    pub(super) ends: [usize; 2],
    pub(super) pattern: Pattern,
    /// User data of a message in bytes.
    pub(super) size: usize,
    /// Maximum number of messages.
    pub(super) messages: Option<u64>,
    /// Size of the response to each message, if messages are requests.
    pub(super) response: Option<usize>,
    /// Time that the receiver takes for a response.
    pub(super) processing: Duration,
    /// Number of streams, used in turn from the first.
    pub(super) streams: u16,
    pub(super) first_stream: u16,
    pub(super) unordered: bool,
    /// SEND waits for room in the send buffer; the next message follows an interval after its return.
    pub(super) blocking: bool,
    pub(super) reliability: Reliability,
    /// Time of the set-up of the association, and its maximum random delay.
    pub(super) setup: Duration,
    pub(super) setup_spread: Duration,
    /// Set-up by the receiver.
    pub(super) setup_by_receiver: bool,
    /// The association is set up with the first address of the peer only.
    pub(super) first_address_only: bool,
    /// Delays the flow until all addresses of the peer are confirmed.
    pub(super) wait_for_paths: bool,
    /// Earliest time of the first message, and its minimum delay after the association is ready.
    pub(super) start: Duration,
    pub(super) settle: Duration,
    /// Time from which no message is sent.
    pub(super) stop: Option<Duration>,
    /// Index of the link that leads to the primary address.
    pub(super) primary: Option<usize>,
    /// Speed at which the receiver reads.
    pub(super) reader: ReceiverSpeed,
    /// Layer between the messages and SCTP.
    pub(super) layer: Layer,
}

/// Adaptation layer of signaling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Layer {
    /// None: messages of SCTP.
    #[default]
    Sctp,
    /// M3UA: the sender is an ASP, the receiver a signaling gateway process.
    M3ua,
    /// M2PA, with a link over all paths.
    M2pa,
    /// M2PA, with a link over each of two paths, and the changeover of MTP3.
    M2paLinks,
}

impl Flow {
    /// Returns whether the flow has as many messages as the stack accepts.
    pub(super) fn is_bulk(&self) -> bool {
        self.pattern == Pattern::Bulk
    }

    /// Returns the size of the messages whose deliveries are measured: the responses, if there are any.
    pub(super) fn measured_size(&self) -> usize {
        self.response.unwrap_or(self.size)
    }

    /// Returns whether the messages are those of SIMCO.
    pub(super) fn is_simco(&self) -> bool {
        matches!(self.pattern, Pattern::Simco(_))
    }
}

/// Speed at which a receiver reads messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ReceiverSpeed {
    /// At once.
    #[default]
    Fast,
    /// One message after each exponential interval with this mean.
    Slow(Duration),
    /// Never.
    Never,
}

/// Pattern of the messages of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Pattern {
    /// As many messages as the association accepts.
    #[default]
    Bulk,
    /// `burst` messages at a time, repeated after the interval.
    Constant { interval: Duration, burst: u32 },
    /// Exponentially distributed intervals with this mean.
    Poisson { interval: Duration },
    /// Transactions of SIMCO, by a load generator.
    Simco(Workload),
    /// A constant interval during bursts, no messages between them.
    OnOff {
        interval: Duration,
        on: carrick_netsim::traffic::DurationDistribution,
        off: carrick_netsim::traffic::DurationDistribution,
    },
}

impl Model {
    /// Returns the model with the duration of a run with these options.
    pub(super) fn of(&self, options: &RunOptions) -> Self {
        let mut model = self.clone();
        if options.full {
            [model.duration, model.warmup] = model.full;
        }
        model
    }

    /// Returns the address of a node on a link.
    pub(super) fn address(&self, node: usize, link: usize) -> Option<IpAddr> {
        let addresses = &self.nodes[node].addresses;
        addresses.iter().find(|(l, _)| *l == link).map(|(_, a)| *a)
    }

    /// Returns all addresses of a node, in the order of its links.
    pub(super) fn addresses(&self, node: usize) -> Vec<IpAddr> {
        self.nodes[node].addresses.iter().map(|(_, a)| *a).collect()
    }
}
