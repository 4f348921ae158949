//! Counters of links and nodes.

/// Reason why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// The queue of the link was full.
    QueueFull,
    /// Early drop by RED.
    Early,
    /// Lost on the wire.
    Loss,
    /// The link or interface was down, or the link went down while the packet was on it.
    Down,
    /// Larger than the link's MTU.
    Mtu,
    /// No route, no such interface, or an interface without a link.
    NoRoute,
    /// The time to live reached zero at a router.
    TtlExceeded,
    /// The host does not have the destination address, or has it no longer.
    NotMine,
    /// The node has the address but runs no program.
    NoProgram,
    /// The neighbour at the other end of the link is not reachable.
    Neighbor,
    /// The input rule of the interface.
    Filtered,
    /// Addresses of different versions, or longer than an IP packet can be.
    Malformed,
}

/// Counters of one direction of a link.
///
/// At any moment `packets_in + duplicated` is `packets_delivered` plus all drops plus
/// `packets_inside`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets offered to the link.
    pub packets_in: u64,
    /// Bytes of whole IP packets offered to the link.
    pub bytes_in: u64,
    /// Packets that reached the far end, copies included.
    pub packets_delivered: u64,
    /// Bytes of whole IP packets that reached the far end.
    pub bytes_delivered: u64,
    /// Packets waiting, being transmitted or on the wire now.
    pub packets_inside: u64,
    /// Drops by a full queue.
    pub dropped_queue: u64,
    /// Early drops by RED.
    pub dropped_early: u64,
    /// Packets lost on the wire.
    pub dropped_loss: u64,
    /// Packets offered to a link that is down, or on it when it went down.
    pub dropped_down: u64,
    /// Packets larger than the MTU.
    pub dropped_mtu: u64,
    /// Packets whose payload was changed.
    pub corrupted: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Packets that arrived after one that was sent later.
    pub reordered: u64,
    /// Packets marked with "congestion experienced".
    pub marked: u64,
    /// Maximum number of packets waiting at once, without the one in transmission.
    pub max_queue_packets: usize,
    /// Maximum number of bytes waiting at once.
    pub max_queue_bytes: usize,
    /// Counters by flow, in the order of the flow tags.
    pub flows: Flows,
}

impl LinkStats {
    /// Returns the number of packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.dropped_queue
            + self.dropped_early
            + self.dropped_loss
            + self.dropped_down
            + self.dropped_mtu
    }

    pub(crate) fn count_in(&mut self, flow: u32, bytes: usize) {
        self.packets_in += 1;
        self.bytes_in += bytes as u64;
        let flow = self.flows.entry(flow);
        flow.packets_in += 1;
        flow.bytes_in += bytes as u64;
    }

    pub(crate) fn count_delivered(&mut self, flow: u32, bytes: usize) {
        self.packets_delivered += 1;
        self.bytes_delivered += bytes as u64;
        let flow = self.flows.entry(flow);
        flow.packets_delivered += 1;
        flow.bytes_delivered += bytes as u64;
    }

    pub(crate) fn count_dropped(&mut self, flow: u32, reason: DropReason) {
        let counter = match reason {
            DropReason::QueueFull => &mut self.dropped_queue,
            DropReason::Early => &mut self.dropped_early,
            DropReason::Down => &mut self.dropped_down,
            DropReason::Mtu => &mut self.dropped_mtu,
            _ => &mut self.dropped_loss,
        };
        *counter += 1;
        self.flows.entry(flow).packets_dropped += 1;
    }
}

/// Counters of one flow on one direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// The tag of the packets.
    pub flow: u32,
    /// Packets offered to the link.
    pub packets_in: u64,
    /// Bytes of whole IP packets offered to the link.
    pub bytes_in: u64,
    /// Packets that reached the far end, copies included.
    pub packets_delivered: u64,
    /// Bytes of whole IP packets that reached the far end.
    pub bytes_delivered: u64,
    /// Packets dropped for any reason.
    pub packets_dropped: u64,
}

/// Counters by flow, in the order of the flow tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flows(Vec<FlowStats>);

impl Flows {
    /// Returns the counters of one flow, if any of its packets was counted.
    pub fn find(&self, flow: u32) -> Option<&FlowStats> {
        let position = self.0.binary_search_by_key(&flow, |entry| entry.flow);
        position.ok().map(|position| &self.0[position])
    }

    /// Returns all flows in the order of their tags.
    pub fn iter(&self) -> impl Iterator<Item = &FlowStats> {
        self.0.iter()
    }

    fn entry(&mut self, flow: u32) -> &mut FlowStats {
        let position = match self.0.binary_search_by_key(&flow, |entry| entry.flow) {
            Ok(position) => position,
            Err(position) => {
                let new = FlowStats {
                    flow,
                    ..FlowStats::default()
                };
                self.0.insert(position, new);
                position
            }
        };
        &mut self.0[position]
    }
}

/// Counters of a host or a router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStats {
    /// Packets passed to the program.
    pub received: u64,
    /// Packets that the program sent.
    pub sent: u64,
    /// Packets forwarded by a router.
    pub forwarded: u64,
    /// Packets that the program of a router consumed in transit.
    pub taken: u64,
    /// Packets without a route.
    pub dropped_no_route: u64,
    /// Packets whose time to live reached zero at this node.
    pub dropped_ttl: u64,
    /// Packets for an address that the host does not have.
    pub dropped_not_mine: u64,
    /// Packets for this node, which runs no program.
    pub dropped_no_program: u64,
    /// Packets that cannot be encoded as IP.
    pub dropped_malformed: u64,
    /// Packets at an interface that is down.
    pub dropped_down: u64,
    /// Packets for a neighbour that is not reachable.
    pub dropped_neighbor: u64,
    /// Packets that the input rule of an interface does not accept.
    pub dropped_filtered: u64,
    /// ICMP errors sent.
    pub icmp_sent: u64,
}

impl NodeStats {
    /// Returns the number of packets dropped at this node.
    pub fn dropped(&self) -> u64 {
        self.dropped_no_route
            + self.dropped_ttl
            + self.dropped_not_mine
            + self.dropped_no_program
            + self.dropped_malformed
            + self.dropped_down
            + self.dropped_neighbor
            + self.dropped_filtered
    }

    pub(crate) fn count_dropped(&mut self, reason: DropReason) {
        let counter = match reason {
            DropReason::TtlExceeded => &mut self.dropped_ttl,
            DropReason::NotMine => &mut self.dropped_not_mine,
            DropReason::NoProgram => &mut self.dropped_no_program,
            DropReason::Malformed => &mut self.dropped_malformed,
            DropReason::Down => &mut self.dropped_down,
            DropReason::Neighbor => &mut self.dropped_neighbor,
            DropReason::Filtered => &mut self.dropped_filtered,
            _ => &mut self.dropped_no_route,
        };
        *counter += 1;
    }
}
