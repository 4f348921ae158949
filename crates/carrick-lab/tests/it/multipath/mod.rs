//! Concurrent multipath transfer in virtual time: what several paths carry together, and what they
//! leave to others. `--nocapture` prints the tables.

mod buffers;
mod fairness;
mod gain;
mod recovery;
pub(crate) mod support;
