//! Endpoints on real sockets, over loopback.

mod addresses;
mod back_pressure;
mod cancellation;
mod ending;
mod plain_ip;
mod support;
mod transfer;
