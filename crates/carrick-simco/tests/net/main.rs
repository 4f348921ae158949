//! Middlebox and agents on loopback sockets, over each transport.

mod agent;
mod counting;
mod fake;
mod gone;
mod held;
mod hostile;
mod journal;
mod operation;
mod scrape;
mod session;
mod support;
mod waiting;
