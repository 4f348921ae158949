//! Tests of the crate through its public interface.

mod asp;
mod corpus;
mod layout;
mod m2pa_messages;
mod malformed;
mod peers;
mod round_trip;
mod samples;
mod sgp;
mod tshark;
