//! Middlebox and agents on loopback sockets, over each transport.

mod agent;
mod audit;
mod blocked_backend;
mod counting;
mod hostile;
mod journal;
mod lossy_middlebox;
mod metrics;
mod reload;
mod removed_filter;
mod scrape;
mod session;
mod support;
mod waiting;
