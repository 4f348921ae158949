//! Tests of the public interface.

mod association;
mod claims;
mod common;
mod misuse;
