//! Tests of the public interface, in one binary.

mod bbr;
#[path = "../../examples/long_links/bulk.rs"]
mod bulk;
mod ecn;
mod experiment_folders;
mod experiments;
mod failover;
mod long_links;
mod multipath;
mod pacing;
mod path_mtu;
mod redundancy;
mod scenario_files;
mod scenario_sweep;
mod scenario_trace;
