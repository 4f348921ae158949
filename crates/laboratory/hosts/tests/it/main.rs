//! Tests of the public interface, in one binary.

mod routes;
mod sctp;
mod tcp;
