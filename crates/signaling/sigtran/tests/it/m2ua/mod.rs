//! M2UA.

mod codec;
mod link;
mod malformed;
pub(crate) mod samples;
mod sgp;
