//! Path MTU discovery with probes (RFC 8899, for SCTP section 6.2.1).

mod afterwards;
mod black_hole;
mod cost;
mod oversized;
mod probes;
mod search;
mod support;
mod too_big;
