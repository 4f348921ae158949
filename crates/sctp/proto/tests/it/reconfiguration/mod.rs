//! Streams are reset and added, SSNs and TSNs are reset (RFC 6525).

mod both_sides;
mod course;
mod ends;
mod interleaving;
mod loss;
mod misuse;
mod misuse_tsn_reset;
mod support;
