//! Sessions and the signal transfer point over loopback sockets.

mod ipsp;
mod session;
mod stp;
mod support;
