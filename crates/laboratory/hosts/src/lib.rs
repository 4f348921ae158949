//! Hosts of a simulated network, in virtual time: SCTP ([`sctp`]) and TCP ([`tcp`]).
//!
//! A host is a [`carrick_netsim::Node`] with a protocol and a program that uses it. It reads no clock,
//! and its randomness is seeded.

pub mod sctp;
pub mod tcp;

/// Converts a simulation time to the core's time; both count nanoseconds from the start.
pub fn core_time(time: carrick_netsim::Time) -> carrick_proto::Time {
    carrick_proto::Time::from_nanos(time.as_nanos())
}
