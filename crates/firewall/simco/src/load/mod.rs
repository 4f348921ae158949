//! Workload of Kiesel and Scharf (2006), section 4.1: pinholes are opened at random times, refreshed,
//! and closed after a random lifetime.
//!
//! A [`LoadGenerator`] is a state machine like the [`Agent`](crate::agent::Agent) that it uses, so the
//! same load runs in virtual and in real time. It is an open loop: a slow reply delays only requests
//! about the same pinhole.

mod generator;
mod measure;
mod pinhole;
mod workload;

pub use generator::{LoadFailure, LoadGenerator};
pub use measure::{Latency, LoadMeasurements};
pub use workload::Workload;
