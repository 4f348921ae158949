//! SIMCO: agents that open and close pinholes in firewalls and NATs (RFC 4540, with the semantics
//! of RFC 5189), over SCTP with several stream pairs or over TCP.
//!
//! All of it is state machines without sockets, clocks or threads: messages and the time go in,
//! messages and events come out.
//!
//! - [`message`]: bytes and values.
//! - [`agent`], [`middlebox`]: the two sides of a session.
//! - [`model`]: how long a transaction takes over SCTP with so many streams, by equation.
//!
//! With the feature `net` the same state machines run on sockets: [`transport`] carries their
//! messages, [`daemon`] is the middlebox as a program, [`client`] the agent as a library.

pub mod agent;
pub mod backend;
#[cfg(feature = "net")]
pub mod client;
#[cfg(feature = "net")]
pub mod daemon;
#[cfg(feature = "net")]
pub mod describe;
#[cfg(feature = "net")]
pub mod exposition;
pub mod load;
pub mod message;
pub mod middlebox;
pub mod model;
mod private;
pub mod rules;
pub mod session;
pub mod state;
#[cfg(feature = "net")]
pub mod transport;

pub use carrick_proto::{PeerText, Time};

/// The port of middleboxes, for TCP and for SCTP.
pub const PORT: u16 = 7626;

/// The payload protocol identifier of SIMCO in SCTP.
pub const PPID: u32 = 15;
