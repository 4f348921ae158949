//! Tests of the crate through its public interface.

mod asp;
#[path = "../support/capture.rs"]
mod capture;
mod corpus;
mod ipsp;
mod iua;
mod layer;
mod layout;
mod m2pa_link;
mod m2pa_messages;
mod m2pa_peers;
mod m2ua;
mod malformed;
mod peers;
mod round_trip;
mod routes;
mod samples;
mod sgp;
mod states;
mod sua;
mod tshark;
mod world;
