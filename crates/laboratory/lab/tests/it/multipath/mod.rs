//! Concurrent multipath transfer in virtual time: combined throughput, recovery and fairness.
//! `--nocapture` prints the tables.

mod buffers;
pub(crate) mod fairness;
mod gain;
mod recovery;
pub(crate) mod support;
