//! Packets that pass between the kernels of the hosts and the network.

use carrick_netsim::{Packet, Time};

/// Packet that leaves or enters a host.
#[derive(Clone, Copy, Debug)]
pub struct CapturedPacket<'a> {
    /// Network time at which the packet was read from the kernel or written to it.
    pub time: Time,
    /// Index of the host in the plan.
    pub host: usize,
    /// Index of the host's interface.
    pub interface: usize,
    /// Direction, as seen by the host.
    pub direction: Direction,
    /// The packet itself.
    pub packet: &'a Packet,
}

/// Direction of a packet, as seen by its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the kernel to the network.
    Outbound,
    /// From the network to the kernel.
    Inbound {
        /// Time of the packet's arrival in the simulated network; the difference to
        /// [`CapturedPacket::time`] is the delay added by this machine.
        due: Time,
    },
}

/// Callback that receives each packet.
pub(crate) type PacketObserver = Box<dyn FnMut(&CapturedPacket<'_>)>;
