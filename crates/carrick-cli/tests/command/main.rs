//! The built program: `carrick perf` and `carrick cat` over loopback, `carrick lab`, `reproduce` and
//! `simco`.

mod cat;
mod lab;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod live_network;
#[cfg(target_os = "linux")]
mod paths;
mod perf;
mod signals;
mod simco;
#[cfg(target_os = "linux")]
mod simco_host;
mod support;
