//! Streams are reset and added, numbers begin anew (RFC 6525).

mod both_sides;
mod course;
mod ends;
mod interleaving;
mod loss;
mod misuse;
mod misuse_numbers;
mod support;
