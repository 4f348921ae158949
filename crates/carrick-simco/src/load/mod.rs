//! The workload of the paper (section 4.1): pinholes that are asked for at random moments, live as
//! long as calls do, and are refreshed meanwhile.
//!
//! A [`Generator`] is a state machine like the [`Agent`](crate::agent::Agent) that it uses, so that
//! the same load runs in virtual and in real time. It is an open loop: a slow answer delays no
//! request but those about the same pinhole.

mod generator;
mod measure;
mod pinhole;
mod workload;

pub use generator::{Failure, Generator};
pub use measure::{Latency, Measures};
pub use workload::Workload;
