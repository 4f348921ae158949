//! Agent discovery and registration (RFC 5944 sections 2 and 3).

mod course;
mod denials;
mod failures;
mod support;
