//! Configuration errors.

use core::net::IpAddr;

use thiserror::Error;

/// Invalid network, or invalid change of one; always an error of the caller.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A link or a stream has a rate of 0.
    #[error("a rate is 0 bit/s: give a positive rate, or none for an unlimited link")]
    ZeroRate,
    /// A probability is outside 0 to 1, or not a number.
    #[error("{name} is {value}: give a probability from 0 to 1")]
    Probability {
        /// Name of the parameter.
        name: &'static str,
        /// Value given.
        value: f64,
    },
    /// The RED thresholds are not in ascending order.
    #[error("RED thresholds are {minimum} and {maximum}: the second must be above the first")]
    RedThresholds {
        /// Lower threshold in packets.
        minimum: f64,
        /// Upper threshold in packets.
        maximum: f64,
    },
    /// A Pareto shape has an infinite mean.
    #[error("a Pareto shape of {0} has no mean: give one above 1")]
    ParetoShape(f64),
    /// `Loss::Every(0)`.
    #[error("a loss of every 0th packet is not defined: give 1 or more, or no loss")]
    LossEveryZero,
    /// Two interfaces have the same address.
    #[error("address {0} is already in use: give every interface its own addresses")]
    DuplicateAddress(IpAddr),
    /// The address to be removed does not exist.
    #[error("interface has no address {0}: remove only addresses that it has")]
    NoSuchAddress(IpAddr),
    /// An interface has a second link.
    #[error("interface {0} already has a link: add an interface for each link")]
    AlreadyConnected(String),
    /// A link connects an interface to itself.
    #[error("interface {0} cannot be connected to itself")]
    SelfLink(String),
    /// A route uses the interface of another node.
    #[error("interface {interface} is not one of {node}: route over the node's own interfaces")]
    ForeignInterface {
        /// Node that the route was given to.
        node: String,
        /// Interface that the route names.
        interface: String,
    },
    /// A prefix is longer than an address.
    #[error("prefix length {length} is too long for {address}: at most 32 for IPv4, 128 for IPv6")]
    PrefixLength {
        /// Address of the prefix.
        address: IpAddr,
        /// Prefix length given.
        length: u8,
    },
    /// A key of Mobile IP is too short, or its index is reserved.
    #[error(
        "security association {spi} with a key of {key_len} bytes: give an index above 255 and a \
         key of at least 16 bytes"
    )]
    SecurityAssociation {
        /// Security Parameter Index.
        spi: u32,
        /// Length of the key in bytes.
        key_len: usize,
    },
    /// A change is scheduled for a time that has passed.
    #[error("a change for {at} s was scheduled at {now} s: schedule changes ahead of time")]
    InThePast {
        /// Time of the change.
        at: crate::Time,
        /// Time of the call.
        now: crate::Time,
    },
}
