//! SUA.

mod codec;
mod connection;
mod connection_peers;
mod connection_table;
mod connectionless;
mod coupling;
mod layout;
mod malformed;
mod relay;
pub(crate) mod samples;
mod sgp;
