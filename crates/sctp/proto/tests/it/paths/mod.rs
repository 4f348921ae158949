//! Several paths: verification, heartbeats, failure, source addresses (RFC 9260 sections 5.4,
//! 6.3, 6.4, 8; RFC 6951 section 5.4).

mod addresses;
mod choice;
mod encapsulation;
mod failover;
mod heartbeats;
mod measures;
mod sources;
mod support;
mod timers;
mod verification;
