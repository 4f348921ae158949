//! Live networks and experiments on this host. They need root and run with `--ignored`.
#![cfg(target_os = "linux")]

mod experiments;
mod networks;
