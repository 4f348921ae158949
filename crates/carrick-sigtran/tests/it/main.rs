//! Tests of the crate through its public interface.

mod layout;
mod malformed;
mod round_trip;
mod samples;
mod tshark;
