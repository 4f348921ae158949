//! What passes between the kernels of the hosts and the network, for whoever wants to see it.

use carrick_netsim::{Packet, Time};

/// A packet that leaves or enters a host.
#[derive(Clone, Copy, Debug)]
pub struct Tapped<'a> {
    /// When the kernel's packet was taken, or when the kernel was given it, in the network's time.
    pub time: Time,
    /// The host by its place in the plan.
    pub host: usize,
    /// The host's interface by its place.
    pub interface: usize,
    /// Which way.
    pub way: Way,
    /// The packet.
    pub packet: &'a Packet,
}

/// The way of a packet, as its host sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the kernel into the network.
    Out,
    /// From the network to the kernel.
    In {
        /// When it had arrived by the simulator's reckoning; what has passed since is this host's doing.
        due: Time,
    },
}

/// Is shown every packet.
pub(crate) type Tap = Box<dyn FnMut(&Tapped<'_>)>;
