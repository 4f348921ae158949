//! Records of a flow of numbered messages at two hosts, independent of the clock.

use carrick_proto::{PathId, Time, Tsn};

/// One transmission of the only chunk of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Transmission {
    /// Number of the message.
    pub(crate) message: u64,
    /// TSN of the chunk.
    pub(crate) tsn: Tsn,
    /// Time of the transmission.
    pub(crate) time: Time,
    /// Path of the transmission.
    pub(crate) path: PathId,
}

/// Records of both hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log<'a> {
    /// Time of the SEND of each message.
    pub(crate) sends: &'a [Time],
    /// Transmissions of the sender, in order.
    pub(crate) transmissions: &'a [Transmission],
    /// First arrival of each chunk.
    pub(crate) arrivals: &'a [(Tsn, Time)],
    /// Number and time of each delivery.
    pub(crate) deliveries: &'a [(u64, Time)],
}
