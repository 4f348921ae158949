//! Sessions and the signal transfer point over loopback sockets.

mod identification;
mod ipsp;
mod iua;
mod layers;
mod m2pa;
mod m2ua;
mod relay;
mod reports;
mod session;
mod stp;
mod sua;
mod support;
