//! IUA.

mod codec;
mod link;
mod malformed;
pub(crate) mod samples;
mod sg;
