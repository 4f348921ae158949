//! M2UA.

mod codec;
mod malformed;
pub(crate) mod samples;
