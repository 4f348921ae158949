//! What a caller can get wrong.

use core::net::IpAddr;

use thiserror::Error;

/// A network or a change to it that cannot be; always the caller's fault.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A link or a stream with a rate of 0 would never send.
    #[error("a rate is 0 bit/s: give a positive rate, or none for an unlimited link")]
    ZeroRate,
    /// A probability outside 0 to 1, or not a number.
    #[error("{name} is {value}: give a probability from 0 to 1")]
    Probability {
        /// Which value.
        name: &'static str,
        /// What it was.
        value: f64,
    },
    /// RED thresholds that don't rise.
    #[error("RED thresholds are {minimum} and {maximum}: the second must be above the first")]
    RedThresholds {
        /// The lower threshold in packets.
        minimum: f64,
        /// The upper threshold in packets.
        maximum: f64,
    },
    /// A Pareto shape whose mean is infinite.
    #[error("a Pareto shape of {0} has no mean: give one above 1")]
    ParetoShape(f64),
    /// `Loss::Every(0)`.
    #[error("a loss of every 0th packet means nothing: give 1 or more, or no loss")]
    LossEveryZero,
    /// Two interfaces with one address.
    #[error("address {0} is already in use: give every interface addresses of its own")]
    DuplicateAddress(IpAddr),
    /// An address to be removed that isn't there.
    #[error("interface has no address {0}: remove only addresses that it has")]
    NoSuchAddress(IpAddr),
    /// An interface with a second link.
    #[error("interface {0} already has a link: add an interface for each link")]
    AlreadyConnected(String),
    /// A link from an interface to itself.
    #[error("interface {0} cannot be connected to itself")]
    SelfLink(String),
    /// A route out of another node's interface.
    #[error("interface {interface} is not one of {node}: route over the node's own interfaces")]
    ForeignInterface {
        /// The node that was to have the route.
        node: String,
        /// The interface named.
        interface: String,
    },
    /// A prefix longer than its addresses.
    #[error("prefix length {length} is too long for {address}: at most 32 for IPv4, 128 for IPv6")]
    PrefixLength {
        /// The address of the prefix.
        address: IpAddr,
        /// The length given.
        length: u8,
    },
    /// A key of Mobile IP that is too short, or a reserved index for it.
    #[error(
        "security association {spi} with a key of {key_len} bytes: give an index above 255 and a \
         key of at least 16 bytes"
    )]
    SecurityAssociation {
        /// The Security Parameter Index.
        spi: u32,
        /// Length of the key.
        key_len: usize,
    },
    /// A change set for a moment that has passed.
    #[error("a change for {at} s was scheduled at {now} s: schedule changes ahead of time")]
    InThePast {
        /// The moment asked for.
        at: crate::Time,
        /// The moment of asking.
        now: crate::Time,
    },
}
