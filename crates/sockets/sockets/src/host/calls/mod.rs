//! Calls of the sockets API. Options have their own folder.

pub(super) mod bind;
pub(super) mod close;
pub(super) mod connect;
pub(super) mod listen;
pub(super) mod peeloff;
pub(super) mod receive;
pub(super) mod send;
pub(super) mod shutdown;
pub(super) mod stop;
