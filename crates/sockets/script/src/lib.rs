//! Packet scripts for SCTP.
//!
//! A script has packets to the stack, packets that the stack is expected to send, and calls of the sockets API, each
//! with its time, in the syntax that users of packetdrill know. [`Script::parse`] parses it, and [`Script::run`] runs it
//! in virtual time against [`carrick_sockets::Sockets`]: without sockets, privileges or waiting.
//! The manual has the [syntax](https://github.com/carrick-sctp/carrick/blob/main/docs/script.md).
//!
//! ```
//! use carrick_script::Script;
//!
//! let script = Script::parse(
//!     "// RFC 9260, section 8.4: a packet out of the blue is answered with an ABORT.
//!      +0 < sctp(tag=7): SACK[flgs=0, cum_tsn=0, a_rwnd=1500, gaps=[], dups=[]]
//!      +0 > sctp: ABORT[flgs=T]",
//! )?;
//! assert_eq!(script.run().failure, None);
//! # Ok::<(), carrick_script::SyntaxError>(())
//! ```
#![forbid(unsafe_code)]

/// The example of the README, to be compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod calls;
mod codec;
mod commands;
mod compare;
mod conditions;
mod constants;
mod learned;
mod matching;
mod model;
mod parser;
mod peer;
mod run;
mod schema;
mod structs;

pub use compare::Difference;
pub use matching::{Failure, Frame};
pub use model::{Note, Position, Script, System};
pub use parser::SyntaxError;
pub use peer::{PeerAction, PeerRun};
pub use run::ScriptOutcome;
