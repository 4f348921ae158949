//! I-DATA: messages of several streams interleave (RFC 8260 sections 2 and 3).

#[path = "../common/mod.rs"]
mod common;

mod agreement;
mod messages;
mod schedulers;
mod support;
mod violations;
