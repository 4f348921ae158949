//! The built program: `carrick perf`, `carrick cat` and `carrick bench` over loopback, `carrick lab`, `reproduce` and
//! `simco`.

#[cfg(target_os = "linux")]
mod bench;
#[cfg(target_os = "linux")]
mod c_libraries;
#[cfg(target_os = "linux")]
mod capture;
mod cat;
#[cfg(target_os = "linux")]
mod cat_sessions;
#[cfg(target_os = "linux")]
mod containers;
mod demo;
#[cfg(target_os = "linux")]
mod encryption;
mod event_log;
#[cfg(target_os = "linux")]
mod handover;
#[cfg(target_os = "linux")]
mod install;
#[cfg(target_os = "linux")]
mod iperf3;
mod lab;
#[cfg(target_os = "linux")]
mod lease;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod live_network;
#[cfg(target_os = "linux")]
mod operator;
#[cfg(target_os = "linux")]
mod paths;
mod perf;
mod perf_files;
mod perf_flows;
#[cfg(target_os = "linux")]
mod proxy;
#[cfg(target_os = "linux")]
mod restored_listeners;
mod script;
#[cfg(target_os = "linux")]
mod service;
mod signals;
#[cfg(target_os = "linux")]
mod sigtran;
mod simco;
#[cfg(target_os = "linux")]
mod simco_host;
#[cfg(target_os = "linux")]
mod socket_programs;
#[cfg(target_os = "linux")]
mod sockets;
#[cfg(target_os = "linux")]
mod sockets_limits;
#[cfg(target_os = "linux")]
mod static_programs;
mod support;
