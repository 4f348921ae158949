//! Middlebox and agents on loopback sockets, over each transport.

mod agent;
mod fake;
mod hostile;
mod journal;
mod operation;
mod session;
mod support;
