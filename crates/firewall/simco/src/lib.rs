//! SIMCO: agents open and close pinholes in firewalls and NATs (RFC 4540, with the semantics of RFC
//! 5189), over SCTP with several stream pairs or over TCP.
//!
//! The core consists of state machines without sockets, clocks or threads: messages and the time are
//! inputs, messages and events are outputs.
//!
//! - [`message`]: encoding and decoding.
//! - [`agent`], [`middlebox`]: the two sides of a session.
//! - [`model`]: response times over SCTP by number of streams, after Kiesel and Scharf (2006).
//!
//! Crate `carrick-simco-net` runs them on sockets.

pub mod agent;
pub mod backend;
pub mod load;
pub mod message;
pub mod middlebox;
pub mod model;
pub mod private_files;
pub mod rules;
pub mod session;
pub mod state;

pub use carrick_proto::{PeerText, Time};

/// Port of middleboxes for TCP and SCTP.
pub const PORT: u16 = 7626;

/// SCTP payload protocol identifier of SIMCO.
pub const PPID: u32 = 15;
