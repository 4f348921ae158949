//! Scenarios, statistics, figures and the report of the laboratory.
//!
//! A [`Scenario`] is a published experiment that runs again on this stack in virtual time: the same
//! seed gives the same numbers whatever its number of cores, on every machine of a platform (the last
//! bits of logarithms and powers may differ between platforms). Its [`ScenarioResult`] carries a table
//! of published and measured values, figures, and what is needed to repeat it; [`output::write`] makes
//! files of it and [`report`] one page for people.

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
pub use compare::{ComparedRow, Comparison, Earlier};
pub use drawing::{Drawing, DrawnLink, DrawnNode};
pub use error::LabError;
pub use result::{
    Agreement, COLUMNS, LiveResult, LiveRow, Row, ScenarioResult, Setting, Split, SplitLine,
    live_to_csv, live_to_table, to_csv, to_plain_table, to_table, wrap,
};
pub use scenario::{Progress, RunOptions, Scenario};
pub use trace::TraceOptions;
