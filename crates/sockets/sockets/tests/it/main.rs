//! Sockets of two hosts on the simulated network, in virtual time.

#![allow(clippy::wildcard_imports)]

mod ancillary;
mod backlog;
mod binding;
mod ending;
mod errors;
mod handover;
mod layouts;
mod linux_answers;
mod listeners;
mod notifications;
mod one_to_many;
mod options;
mod random;
mod readiness;
mod reports;
mod send_memory;
mod statistics;
mod traffic_class;
mod turns;
mod world;
