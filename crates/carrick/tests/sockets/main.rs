//! Endpoints on real sockets, over loopback.

mod addresses;
mod back_pressure;
mod cancellation;
mod ecn;
mod ending;
mod keys;
mod plain_ip;
mod protection;
mod reconfiguration;
mod relay;
mod sealed;
mod streams;
mod support;
mod transfer;
