//! Scenarios, statistics, figures and the report of the laboratory.
//!
//! A [`Scenario`] is a published experiment, repeated with this stack in virtual time. The same
//! seed gives the same numbers with any number of cores and on every machine of a platform (the
//! last bits of logarithms and powers may differ between platforms). Its [`ScenarioResult`]
//! contains a table of published and measured values, figures, and the settings needed to repeat
//! the run; [`output::write`] writes it to files and [`report`] renders an HTML page.

mod capture;
mod compare;
mod drawing;
mod error;
pub mod figure;
pub mod file;
pub mod format;
pub mod live;
mod markup;
mod numbered;
pub mod output;
pub mod parallel;
mod publication;
pub mod report;
mod result;
pub mod scenario;
pub mod sctp_host;
pub mod seed;
pub mod stats;
mod switch;
pub mod tcp_host;
mod trace;

pub use capture::{Capture, capture_interfaces};
pub use compare::{ComparedRow, Comparison, EarlierResults};
pub use drawing::{Drawing, DrawnLink, DrawnNode};
pub use error::LabError;
pub use publication::{FittedSetting, Publication};
pub use result::{
    Agreement, BoundKind, COLUMNS, LiveResult, LiveRow, Row, ScenarioResult, Setting, Split,
    SplitLine, Tally, Verdict, live_to_csv, live_to_table, to_csv, to_plain_table, to_table, wrap,
};
pub use scenario::{Progress, RunOptions, Scenario};
pub use trace::TraceOptions;
