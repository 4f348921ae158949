//! Sessions and the signal transfer point over loopback sockets.

mod session;
mod stp;
mod support;
