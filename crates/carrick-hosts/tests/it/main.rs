//! Tests of the public interface, in one binary.

mod sctp;
mod tcp;
