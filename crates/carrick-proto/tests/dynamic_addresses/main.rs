//! Addresses that come and go in the course of an association (RFC 5061).

#[path = "../common/mod.rs"]
mod common;

mod course;
mod handover;
mod lacking;
mod loss;
mod misuse;
mod refusals;
mod support;
mod told;
mod wildcards;
