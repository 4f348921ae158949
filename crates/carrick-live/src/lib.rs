//! Scenarios of the laboratory in real time.
//!
//! A scenario says in a [`carrick_lab::live::LivePlan`] what is to be run. Here each run gets its network
//! (`carrick-livenet`), its programs speak through crate `carrick`, in UDP or on plain IP, or through
//! the kernel's TCP, and whatever passes between hosts and network is noted, so that the scenario
//! measures it as it measures its simulations.
//!
//! All runs of a plan run at the same time, each in a network of its own; meanwhile probes on a network
//! beside them measure how exactly this host keeps delays and rates. A network is found by others as
//! `SCENARIO-PID.RUN`. A [`Standing`] is the network of a run without its programs, for any others. Needs Linux and root; nothing
//! outlives the process.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod alarm;
mod error;
mod host;
mod machine;
mod recorder;
mod run;
mod sctp;
mod spool;
mod standing;
mod tcp;

pub use error::Error;
pub use machine::check;
pub use run::{Progress, run};
pub use standing::{Coming, Standing};
