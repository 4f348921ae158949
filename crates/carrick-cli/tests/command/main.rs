//! The built program over loopback: `carrick perf` and `carrick cat`.

mod cat;
mod perf;
mod simco;
mod support;
