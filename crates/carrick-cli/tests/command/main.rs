//! The built program: `carrick perf` and `carrick cat` over loopback, `carrick lab` and `reproduce`.

mod cat;
mod lab;
#[cfg(target_os = "linux")]
mod live;
mod perf;
mod support;
