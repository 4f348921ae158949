//! SIGTRAN adaptation layers above SCTP.
//!
//! - [`message`]: the format that M3UA, M2UA, IUA and SUA share: common header and parameters.
//! - [`m3ua`]: MTP3-User Adaptation (RFC 4666): messages, point codes, and the state machines of an application
//!   server process and of a signalling gateway process.
//! - [`m2pa`]: MTP2 User Peer-to-Peer Adaptation (RFC 4165): messages, and the state machine of a link.
//!
//! Nothing here does I/O, reads a clock or starts a thread: messages, SCTP notifications, requests and the time go
//! in; messages with their stream, indications and the next timeout come out.

#![forbid(unsafe_code)]

/// The example of the README, to be compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod decode_error;
pub mod m2pa;
pub mod m3ua;
pub mod message;
mod sctp;

pub use decode_error::DecodeError;
pub use sctp::SctpNotification;
