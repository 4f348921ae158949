//! SUA.

mod codec;
mod connection;
mod connection_peers;
mod connectionless;
mod layout;
mod malformed;
pub(crate) mod samples;
