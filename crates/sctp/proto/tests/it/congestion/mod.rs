//! Congestion control and the retransmission timer (RFC 9260 sections 6.1 B to D, 6.3, 7.2).
//!
//! Most scenarios let an endpoint send to a puppet, whose SACKs exercise exactly one rule.

mod fast_retransmit;
mod pacing;
mod paths;
mod support;
mod timer;
mod window;
