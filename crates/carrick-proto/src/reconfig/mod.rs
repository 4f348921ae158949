//! Changes of an association that is in progress: its addresses (RFC 5061) and streams (RFC 6525).
//!
//! - `addresses`: what is remembered of changes of addresses, ours and the peer's
//! - `streams`: what is remembered of requests and answers, ours and the peer's
//! - `streams_request`: a RE-CONFIG of ours that waits, or that the peer has to answer
//! - `stream_set`: some streams, or all of them
//! - `streams_user`: what a user asks for, what is granted to peers, and what comes of it
//!
//! What they do to an association is in `association::reconfig`, to the numbers of the streams in
//! `send::held` and `recv::reset`.

pub(crate) mod addresses;
mod stream_set;
mod streams;
mod streams_request;
mod streams_user;

pub(crate) use stream_set::StreamSet;
pub(crate) use streams::{Deferred, Numbering, Streams};
pub(crate) use streams_request::{Flight, Kind, Operation, Request, response};
pub use streams_user::{Grants, ReconfigError, ReconfigOutcome, StreamDirection};
