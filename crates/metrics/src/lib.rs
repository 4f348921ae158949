//! Metrics of Carrick's daemons over HTTP, in the text format of `OpenMetrics`.
//!
//! Each daemon owns the names of its metrics, in a [`prometheus_client::registry::Registry`] that it fills for
//! each request; [`serve_metrics`] serves the text. [`LogLimits`] bounds the log lines that others can cause,
//! and [`ConfigText`] locates errors of their configuration files.
#![forbid(unsafe_code)]

mod accept;
mod config_errors;
mod http;
mod log_limits;

pub use accept::AcceptFailures;
pub use config_errors::{ConfigText, LocatedError};
pub use http::{encode_metrics, serve_metrics};
pub use log_limits::{LineRate, LogLimits, SuppressedLines};
