//! Addresses that come and go in the course of an association (RFC 5061).

mod course;
mod families;
mod handover;
mod lacking;
mod loss;
mod misuse;
mod partial;
mod refusals;
mod returning;
mod spent;
mod support;
mod told;
mod wildcards;
