//! The built program over loopback: `carrick perf` and `carrick cat`.

mod cat;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod paths;
mod perf;
mod simco;
mod support;
