//! A daemon and its programs, without the preload library.
#![cfg(target_os = "linux")]

mod closing;
mod isolation;
mod lease;
mod limits;
mod monitoring;
mod requests;
mod start;
mod support;
mod traffic_class;
