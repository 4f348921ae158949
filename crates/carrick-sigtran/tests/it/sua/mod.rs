//! SUA.

mod codec;
mod layout;
mod malformed;
pub(crate) mod samples;
