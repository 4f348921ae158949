//! What two hosts noted of a flow of numbered messages, whichever clock they ran by.

use carrick_proto::{PathId, Time, Tsn};

/// One transmission of a message's only chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Transmission {
    /// Number of the message.
    pub(crate) message: u64,
    /// Its TSN.
    pub(crate) tsn: Tsn,
    /// When it left the stack.
    pub(crate) time: Time,
    /// The path it took.
    pub(crate) path: PathId,
}

/// The notes of both hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log<'a> {
    /// SEND of each message.
    pub(crate) sends: &'a [Time],
    /// What left the sender, in order.
    pub(crate) transmissions: &'a [Transmission],
    /// First arrival of each chunk.
    pub(crate) arrivals: &'a [(Tsn, Time)],
    /// Delivery of each message, by number.
    pub(crate) deliveries: &'a [(u64, Time)],
}
