//! Calls of the sockets API. Options have their own folder.

mod bind;
pub(super) mod close;
mod connect;
mod listen;
mod peeloff;
pub(super) mod receive;
pub(super) mod send;
mod shutdown;
pub(super) mod stop;
