//! Sessions and the signal transfer point over loopback sockets.

mod ipsp;
mod m2pa;
mod reports;
mod session;
mod stp;
mod support;
