//! What a scenario file says, once it has been read and found right.

use std::net::IpAddr;
use std::time::Duration;

use carrick_netsim::{LinkConfig, Loss};
use carrick_proto::{AssociationConfig, Reliability};

use super::measure::Measure;
use crate::tcp_host::TcpCongestion;

/// One cell of a sweep, ready to run.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) duration: Duration,
    pub(super) warmup: Duration,
    pub(super) nodes: Vec<Node>,
    pub(super) links: Vec<Link>,
    /// In the order of their times.
    pub(super) schedule: Vec<Change>,
    pub(super) flows: Vec<Flow>,
    pub(super) measures: Vec<Measure>,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Whether a packet leaves by the interface that has its source address.
    pub(super) source_routing: bool,
    /// The address on each link, by the link's number.
    pub(super) addresses: Vec<(usize, IpAddr)>,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Router,
    Sctp(Box<AssociationConfig>),
    Tcp(TcpSettings),
    Udp,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TcpSettings {
    pub(super) receive_buffer: usize,
    pub(super) send_buffer: usize,
    pub(super) congestion: TcpCongestion,
    pub(super) ack_delay: Option<Duration>,
    pub(super) nagle: bool,
    pub(super) mtu: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) ends: [usize; 2],
    /// Forward, then backward.
    pub(super) config: [LinkConfig; 2],
}

/// Something that happens to the network.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) at: Duration,
    /// Repetitions have it later, evenly spread over this time.
    pub(super) spread: Duration,
    pub(super) link: usize,
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    Down,
    Up,
    /// New settings of a direction: 0 forward, 1 backward.
    Config(usize, Box<LinkConfig>),
    /// New loss of a direction, and nothing else.
    Loss(usize, Loss),
    /// A node's address on the link comes or goes.
    Address {
        node: usize,
        address: IpAddr,
        present: bool,
    },
}

/// A flow of messages from one host to another.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) name: String,
    /// Sender and receiver.
    pub(super) ends: [usize; 2],
    pub(super) pattern: Pattern,
    /// Bytes of user data in a message.
    pub(super) size: usize,
    /// Messages at most.
    pub(super) messages: Option<u64>,
    /// Size of the answer to each message, if it is a request.
    pub(super) response: Option<usize>,
    /// How long the receiver takes for an answer.
    pub(super) processing: Duration,
    /// Streams in turn, from the first.
    pub(super) streams: u16,
    pub(super) first_stream: u16,
    pub(super) unordered: bool,
    pub(super) reliability: Reliability,
    /// When the association is set up, and how much later at random.
    pub(super) setup: Duration,
    pub(super) setup_spread: Duration,
    /// The receiver sets it up.
    pub(super) setup_by_receiver: bool,
    /// The flow waits until all addresses of the peer are verified.
    pub(super) wait_for_paths: bool,
    /// Earliest first message, and how long after the association is ready.
    pub(super) start: Duration,
    pub(super) settle: Duration,
    /// No message at this time or later.
    pub(super) stop: Option<Duration>,
    /// The link that leads to the primary address.
    pub(super) primary: Option<usize>,
    /// Mean interval at which the receiver takes a message; `None` for at once.
    pub(super) reader: Option<Duration>,
}

/// When messages are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pattern {
    /// As many as the association takes.
    Bulk,
    /// So many at a time, and again after the interval.
    Constant { interval: Duration, burst: u32 },
    /// With exponentially distributed intervals of this mean.
    Poisson { interval: Duration },
    /// With this interval during bursts, nothing between them.
    OnOff {
        interval: Duration,
        on: carrick_netsim::traffic::Spread,
        off: carrick_netsim::traffic::Spread,
    },
}

impl Model {
    /// Address of a node on a link.
    pub(super) fn address(&self, node: usize, link: usize) -> Option<IpAddr> {
        let addresses = &self.nodes[node].addresses;
        addresses.iter().find(|(l, _)| *l == link).map(|(_, a)| *a)
    }

    /// All addresses of a node, in the order of its links.
    pub(super) fn addresses(&self, node: usize) -> Vec<IpAddr> {
        self.nodes[node].addresses.iter().map(|(_, a)| *a).collect()
    }
}
