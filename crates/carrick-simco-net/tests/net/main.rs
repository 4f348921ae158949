//! Middlebox and agents on loopback sockets, over each transport.

mod agent;
mod audit;
mod blocked_backend;
mod counting;
mod fake;
mod gone;
mod hostile;
mod journal;
mod metrics;
mod reload;
mod scrape;
mod session;
mod support;
mod waiting;
