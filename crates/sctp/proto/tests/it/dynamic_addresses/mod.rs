//! Addresses that change during an association (RFC 5061).

mod advertised;
mod course;
mod families;
mod handover;
mod loss;
mod misuse;
mod move_limit;
mod partial_reliability;
mod refusals;
mod returning;
mod support;
mod unsupported;
mod wildcards;
