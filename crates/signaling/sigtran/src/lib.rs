//! SIGTRAN adaptation layers above SCTP.
//!
//! - [`message`]: the format that M3UA, M2UA, IUA and SUA share: common header and parameters.
//! - [`aspm`]: the states of application server processes and application servers, which M3UA, SUA, M2UA and IUA share.
//! - [`m3ua`]: MTP3-User Adaptation (RFC 4666): messages, point codes, and the state machines of an application
//!   server process and of a signalling gateway process.
//! - [`sua`]: SCCP-User Adaptation (RFC 3868): messages, the state machine of a connection, and the
//!   connectionless service.
//! - [`m2ua`]: MTP2-User Adaptation (RFC 3331): messages, and the state machines of a link at an ASP and at an SGP.
//! - [`iua`]: ISDN Q.921-User Adaptation (RFC 4233): messages, and the state machines of a data link at an ASP and at an SG.
//! - [`m2pa`]: MTP2 User Peer-to-Peer Adaptation (RFC 4165): messages, and the state machine of a link.
//!
//! Nothing here does I/O, reads a clock or starts a thread: messages, SCTP notifications, requests and the time go
//! in; messages with their stream, indications and the next timeout come out.

#![forbid(unsafe_code)]

/// The example of the README, to be compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod aspm;
mod decode_error;
pub mod iua;
pub mod m2pa;
pub mod m2ua;
pub mod m3ua;
pub mod message;
mod point_code;
mod sctp;
pub mod sua;

pub use decode_error::DecodeError;
pub use point_code::{ParsePointCodeError, PointCode, PointCodeFormat};
pub use sctp::SctpNotification;
