//! SIMCO on sockets: the state machines of [`carrick_simco`] with transports and a clock.
//!
//! - [`transport`]: messages over SCTP, TCP and TLS.
//! - [`daemon`]: the middlebox as a program.
//! - [`client`]: the agent as a library.
//! - [`describe`]: the text form of rules.

pub mod client;
pub mod daemon;
pub mod describe;
pub mod transport;
