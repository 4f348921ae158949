//! Agent discovery and registration (RFC 5944 sections 2 and 3).

#[path = "../common/mod.rs"]
mod common;
#[path = "../mobile_world/mod.rs"]
mod mobile_world;

mod course;
mod denials;
mod failures;
mod support;
