//! Validated contents of a scenario file.

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
    /// Scheduled changes in the order of their times.
    pub(super) schedule: Vec<Change>,
    pub(super) flows: Vec<Flow>,
    pub(super) measures: Vec<Measure>,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) kind: NodeStack,
    /// Enables source routing: a packet leaves by the interface that has its source address.
    pub(super) source_routing: bool,
    /// Addresses with the index of their link.
    pub(super) addresses: Vec<(usize, IpAddr)>,
}

#[derive(Clone, Debug)]
pub(super) enum NodeStack {
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
    /// Configuration of the forward, then of the backward direction.
    pub(super) config: [LinkConfig; 2],
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

/// Flow of messages from one host to another.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) name: String,
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
    /// Delays the flow until all addresses of the peer are confirmed.
    pub(super) wait_for_paths: bool,
    /// Earliest time of the first message, and its minimum delay after the association is ready.
    pub(super) start: Duration,
    pub(super) settle: Duration,
    /// Time from which no message is sent.
    pub(super) stop: Option<Duration>,
    /// Index of the link that leads to the primary address.
    pub(super) primary: Option<usize>,
    /// Mean interval at which the receiver reads a message; `None` for immediate reading.
    pub(super) reader: Option<Duration>,
}

/// Pattern of the messages of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pattern {
    /// As many messages as the association accepts.
    Bulk,
    /// `burst` messages at a time, repeated after the interval.
    Constant { interval: Duration, burst: u32 },
    /// Exponentially distributed intervals with this mean.
    Poisson { interval: Duration },
    /// A constant interval during bursts, no messages between them.
    OnOff {
        interval: Duration,
        on: carrick_netsim::traffic::Spread,
        off: carrick_netsim::traffic::Spread,
    },
}

impl Model {
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
