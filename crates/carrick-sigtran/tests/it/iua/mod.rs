//! IUA.

mod codec;
mod malformed;
pub(crate) mod samples;
