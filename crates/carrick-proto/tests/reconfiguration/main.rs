//! Streams are reset and added, numbers begin anew (RFC 6525).

#[path = "../common/mod.rs"]
mod common;

mod both_sides;
mod course;
mod ends;
mod interleaving;
mod loss;
mod misuse;
mod misuse_numbers;
mod support;
