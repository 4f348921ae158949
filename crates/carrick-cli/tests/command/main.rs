//! The built program over loopback: `carrick perf` and `carrick cat`.

mod cat;
#[cfg(target_os = "linux")]
mod live;
mod perf;
mod support;
